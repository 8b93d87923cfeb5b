// Runs rsync between this machine and a folder that --to names: its arguments, how far it is, and what its
// complaints mean in one line.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/program/child_process.h"
#include "partition_tool/program/push_plan.h"

namespace hopfeed {

struct RsyncOptions {
  std::string ssh = "ssh";      // the command that reaches a host, as rsync's -e takes it
  std::int64_t timeout = 60;    // seconds without a byte, and for a host to answer
  std::uint64_t bandwidth = 0;  // bytes a second; 0: all there is
};

class Rsync {
 public:
  Rsync(RsyncOptions options, const PushTarget& target) : options_(std::move(options)), target_(target) {}

  /// Returns names of what lies in the folder there; nothing where there is no such folder.
  std::vector<std::string> list() const;
  /// Copies files of the folder there, which exist, into a folder here.
  void fetch(const std::vector<std::string>& names, const std::string& into) const;
  /// Returns the files of `list_file` (one path a line) that differ there or are missing: by size and time,
  /// or by the bytes (`by_bytes`). Nothing is written. `largest` is the bytes of the largest file, which is
  /// read without a word.
  std::vector<std::string> different(const std::string& folder, const std::string& list_file, bool by_bytes,
                                     std::uint64_t total, std::uint64_t largest) const;
  /// Copies the files of `list_file`; what an earlier run has begun goes on. `progress` gets the bytes done.
  void send(const std::string& folder, const std::string& list_file, bool by_bytes, std::uint64_t largest,
            const std::function<void(std::uint64_t done)>& progress) const;
  /// Makes the files of these names there be those that `stage` has: whole under their names or not at all,
  /// and those that `stage` lacks are removed behind them.
  void replace(const std::string& stage, const std::vector<std::string>& names) const;

 private:
  struct Call {
    std::vector<std::string> arguments;
    std::uint64_t quiet_bytes = 0;  // bytes that are read without a word to the other side
    std::uint64_t mute_bytes = 0;   // bytes that are read without a word to us
    bool may_be_missing = false;    // the folder there
  };
  ChildResult run(const Call& call, const std::function<void(const std::string&)>& on_line) const;
  [[noreturn]] void complain(const ChildResult& result, std::int64_t waited) const;
  std::string remote() const;  // the folder there, with a slash behind it

  RsyncOptions options_;
  const PushTarget& target_;
};

}  // namespace hopfeed
