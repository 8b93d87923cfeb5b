// Tries whether the mechanisms that device batches rest on work on this machine: a pinned mapping of a sealed
// memfd, device memory that another process imports by a descriptor, and kernels that end with their process.
#pragma once
#include <sys/types.h>

#include <string>

namespace hopfeed::bench {

/// Returns "" where cudaHostRegister takes a mapping of a sealed memfd and a kernel reads it; else what
/// failed.
std::string try_pinned_memfd();

/// Returns "" where a mapping of a file that may only be read can be pinned for reading; else what failed.
std::string try_pinned_file();

/// ImportingPeer is a second process, forked before this one has touched CUDA, which imports the memory that
/// it is sent.
class ImportingPeer {
 public:
  /// Throws kIo where no process can be made.
  ImportingPeer();
  /// Ends the other process, by its pid, if it has not ended.
  ~ImportingPeer();
  ImportingPeer(const ImportingPeer&) = delete;
  ImportingPeer& operator=(const ImportingPeer&) = delete;
  /// Found holds what went wrong in each try; a text is empty where it works.
  struct Found {
    double own_writes = 0,
           imported_writes = 0;  // bytes/s that it writes to its own memory and to the imported one
    std::string import;          // it sees in its mapping what this process has written
    /// The process is killed while a kernel of it writes to the imported memory: once it can be waited for,
    /// nothing changes there any more.
    std::string killed;
  };
  /// Tries both, and waits for the other process half a minute at most.
  Found try_both();

 private:
  void kill_and_wait();

  pid_t pid_ = -1;
  int socket_ = -1;
};

}  // namespace hopfeed::bench
