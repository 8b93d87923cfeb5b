// A WorkerProcess is one worker process, seen from its loader: started with posix_spawn (never fork: threads
// of OpenMP, CUDA or c10d would be lost in the child), watched and killed through its pidfd, so that a reused
// pid is never taken for it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/owned_fd.h"

namespace hopfeed {

/// Makes a memfd that holds these bytes, for a worker to inherit. Throws kNoSpace or kIo.
OwnedFd memfd_of(const char* name, const void* bytes, std::size_t size);

struct InheritedFd {
  int from = -1;  // here
  int to = -1;    // there; rising from 3 over the list, without gaps
};

class WorkerProcess {
 public:
  /// Starts `program` with these arguments, stdin from /dev/null, stdout going to stderr, and no descriptors
  /// but those; the environment is ours without HOPFEED_TOKEN. Throws kNotFound or kIo naming the program.
  WorkerProcess(const std::string& program, std::vector<std::string> arguments,
                const std::vector<InheritedFd>& inherited);
  /// Kills it where it still lives, and waits for its end.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  int pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }  // readable once it is dead
  void kill();
  /// Waits for the death, and returns how the process ended: "worker process 123 was killed by signal 9
  /// (Killed)".
  std::string reap();

 private:
  int pid_ = -1;
  OwnedFd pidfd_;
  bool reaped_ = false;
};

}  // namespace hopfeed
