// StateServers are two hopfeed-server programs on loopback, each the owner of the state of a partition.
#pragma once
#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/owned_fd.h"
#include "core/dataset/dataset_meta.h"
#include "peers/state_owners.h"

namespace hopfeed::bench {

class StateServers {
 public:
  /// Starts them and waits until they listen. Their checkpoints lie below `folder`; each may take `memory`
  /// bytes for state.
  StateServers(const std::filesystem::path& dataset, const std::filesystem::path& folder, std::size_t memory);

  /// Connects to both; each rank has connections of its own.
  std::shared_ptr<StateOwners> connect(const DatasetMeta& meta) const;
  /// Returns the seconds that they have run on a core, to the nanosecond.
  double cpu_seconds() const;
  /// Returns the bytes of memory of their own, of both.
  std::size_t own_bytes() const;

 private:
  struct Program {
    Program() = default;
    ~Program();  // ends it
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    void start(const std::vector<std::string>& arguments);

    int pid = -1;
    OwnedFd out;  // what it prints
    std::string address;
  };

  std::array<Program, 2> programs_;
};

/// Returns the seconds that this process and those of the servers have run on a core.
double cpu_seconds_with(const StateServers& servers);

}  // namespace hopfeed::bench
