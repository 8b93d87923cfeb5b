// See memory_file.h.
#include "core/base/memory_file.h"

#include <linux/memfd.h>
#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "core/base/error.h"

namespace hopfeed {

OwnedFd make_memory_file(const MemoryFileOptions& options) {
  const unsigned flags = MFD_CLOEXEC | (options.sealable ? MFD_ALLOW_SEALING : 0U);
  OwnedFd fd;
#ifdef MFD_NOEXEC_SEAL
  if (!options.executable) {
    fd = OwnedFd(memfd_create(options.name, flags | MFD_NOEXEC_SEAL));
    if (!fd && errno != EINVAL) throw_errno(options.what, errno);  // EINVAL: before Linux 6.3
  }
#endif
  if (!fd) fd = OwnedFd(memfd_create(options.name, flags), options.what);
  return options.out_of_the_way ? out_of_the_way(fd, options.what) : std::move(fd);
}

}  // namespace hopfeed
