// Makes a file that lies in memory alone and has no name in any folder (memfd): processes of a machine share
// it by handing each other its descriptor.
#pragma once
#include "core/base/owned_fd.h"

namespace hopfeed {

struct MemoryFileOptions {
  const char* name = "hopfeed";  // as /proc/PID/maps shows it
  const char* what = "";         // "cannot create ...": how the message of an error begins
  bool sealable = false;         // F_ADD_SEALS may be asked for
  bool executable = true;        // false: never, where the kernel knows how (6.3); for sealable ones
  bool out_of_the_way = true;    // under a number that out_of_the_way() gives
};

/// Makes an empty one, closed on exec. Throws as throw_errno does, with `what`.
OwnedFd make_memory_file(const MemoryFileOptions& options);

}  // namespace hopfeed
