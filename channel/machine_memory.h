// MachineMemory is one copy for all processes of a user on this machine: rows that all ranks hold, the row
// cache that the workers of all ranks share. Who asks first makes it; the others get its descriptor over a
// socket that is known by a name which no file has (an abstract one), so nothing stays behind when a process
// is killed. It lives for as long as somebody has it. Where the maker is gone it is made anew: then there are
// two copies until the older one is not used any more.
//
//   const MachineMemory rows("rows of 1f2e...", [&] { return load(); });   // in every rank
//   map(rows.fd());
//
// Processes in other network namespaces (containers) do not see each other's.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "core/base/owned_fd.h"

namespace hopfeed {

class MachineMemory {
 public:
  struct Waiting {
    std::chrono::milliseconds patience = std::chrono::minutes(10);
    /// It is called about once a second while another process makes the memory.
    std::function<void()> meanwhile = nullptr;
  };
  /// `name` tells the content: whoever has the same gets the same bytes. `make` gives a memfd; what it throws
  /// is thrown here, and another process that waits for it makes its own. Waits as long as it has patience
  /// for a process that is making it, then makes one of its own, as it does at once where who has the name is
  /// silent or is another user's process.
  MachineMemory(const std::string& name, const std::function<OwnedFd()>& make);
  MachineMemory(const std::string& name, const std::function<OwnedFd()>& make, const Waiting& waiting);
  /// Nobody else gets it any more; those who have it keep it.
  ~MachineMemory();
  MachineMemory(const MachineMemory&) = delete;
  MachineMemory& operator=(const MachineMemory&) = delete;

  int fd() const { return fd_.get(); }
  const OwnedFd& owned_fd() const { return fd_; }
  /// Returns whether this object, in this process, made it.
  bool made_here() const { return made_here_; }

 private:
  class Offer;
  OwnedFd fd_;
  bool made_here_ = false;
  std::unique_ptr<Offer> offer_;  // null: somebody else offers it
};

}  // namespace hopfeed
