// Whether two mechanisms work on this machine: pinning a mapping of a sealed memfd, and CUDA IPC between two
// processes.
#pragma once
#include <sys/types.h>

#include <string>

namespace hopfeed::bench {

/// Empty where cudaHostRegister takes a mapping of a sealed memfd and a kernel reads it; else what failed.
std::string try_pinned_memfd();

/// A second process, forked before this one has touched CUDA, which opens what it is sent.
class IpcPeer {
 public:
  /// Throws kIo where no process can be made.
  IpcPeer();
  /// Ends the peer, by its pid, if it has not ended.
  ~IpcPeer();
  IpcPeer(const IpcPeer&) = delete;
  IpcPeer& operator=(const IpcPeer&) = delete;
  /// Empty where the peer saw the bytes that this process wrote, behind the event that it recorded; else what
  /// failed. Waits for the peer half a minute at most.
  std::string try_handover();

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
};

}  // namespace hopfeed::bench
