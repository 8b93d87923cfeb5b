// ChannelMemory in a sealed memfd, mapped by Boost.Interprocess through /proc/self/fd/N. See docs/faults.md
// for why it is no segment with a name, why posix_fallocate comes before every write, and what the seals are
// good for.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <cerrno>
#include <fstream>
#include <string>

#include "channel/memory.h"
#include "core/base/error.h"
#include "core/base/failpoint.h"
#include "core/base/memory_file.h"
#include "core/base/owned_fd.h"

namespace hopfeed {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

OwnedFd create_memfd() {
  return make_memory_file({.name = "hopfeed-channel",
                           .what = "cannot create the channel (memfd_create)",
                           .sealable = true,
                           .executable = false});
}

class MemfdMemory final : public ChannelMemory {
 public:
  MemfdMemory(OwnedFd fd, std::size_t size, boost::interprocess::mode_t mode)
      : fd_(std::move(fd)), mode_(mode) {
    size_ = size;
    namespace bi = boost::interprocess;
    try {
      const bi::file_mapping file(("/proc/self/fd/" + std::to_string(fd_.get())).c_str(), mode_);
      if (size >= kHugePageBytes) map(file, huge_page_hint(size));
      if (data_ == nullptr) map(file, nullptr);
    } catch (const bi::interprocess_exception& error) {
      if (error.get_native_error() == EMFILE) throw_errno("cannot map the channel", EMFILE);
      throw Error(
          ErrorCode::kNoSpace,
          fmt::format(
              "cannot map {} bytes of address space for the channel ({}): raise the limit on address space "
              "(ulimit -v) or lower {}, num_slots or fanouts",
              size, error.what(), marked("batch_size")));
    }
    madvise(data_, size_, MADV_DONTDUMP);  // a core file of a trainer needs no batches
  }

  void reserve(std::size_t offset, std::size_t bytes) override {
    int error = EINTR;
    while (error == EINTR)
      error = posix_fallocate(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
    if (FAILPOINT("memory.reserve")) error = ENOSPC;
    if (error != 0)
      throw_errno(fmt::format("cannot reserve {} bytes of memory for the channel", bytes), error);
    collapse(offset, bytes);
  }

  void punch(std::size_t offset, std::size_t bytes) override {
    int result = -1;
    do {
      result = fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                         static_cast<off_t>(bytes));
    } while (result != 0 && errno == EINTR);
    if (result != 0) throw_errno("cannot give memory of the channel back", errno);
  }

  std::size_t allocated() const override {
    struct stat status {};
    if (fstat(fd_.get(), &status) != 0) throw_errno("cannot read the size of the channel", errno);
    return static_cast<std::size_t>(status.st_blocks) * 512;
  }

  int fd() const override { return fd_.get(); }

 private:
  void map(const boost::interprocess::file_mapping& file, void* hint) {
    try {
      boost::interprocess::mapped_region region(file, mode_, 0, size_, hint);
      region_.swap(region);
      data_ = static_cast<std::byte*>(region_.get_address());
    } catch (const boost::interprocess::interprocess_exception&) {
      if (hint == nullptr) throw;  // with a hint: somebody took the address in between
    }
  }

  /// Whole 2 MiB pages inside the range, and no byte outside it: the kernel would fill holes up. Best effort.
  void collapse(std::size_t offset, std::size_t bytes) {
    constexpr int kCollapse = 25;  // MADV_COLLAPSE, since Linux 6.1; glibc 2.36 does not name it
    const std::size_t begin = round_up(offset, kHugePageBytes),
                      end = (offset + bytes) / kHugePageBytes * kHugePageBytes;
    if (begin < end) madvise(data_ + begin, end - begin, kCollapse);
  }

  OwnedFd fd_;
  boost::interprocess::mode_t mode_;
  boost::interprocess::mapped_region region_;
};

std::unique_ptr<ChannelMemory> map_sealed(int fd, boost::interprocess::mode_t mode) {
  struct stat status {};
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(fd, &status) != 0) {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("file descriptor {} is no sealed channel; start workers through a loader", fd));
  }
  if (status.st_size == 0)
    throw Error(ErrorCode::kCorrupt, fmt::format("the channel at file descriptor {} is empty", fd));
  OwnedFd own(fcntl(fd, F_DUPFD_CLOEXEC, 3), "cannot attach to the channel");
  return std::make_unique<MemfdMemory>(std::move(own), static_cast<std::size_t>(status.st_size), mode);
}

}  // namespace

std::unique_ptr<ChannelMemory> make_shared_memory(std::size_t size) {
  OwnedFd fd = create_memfd();
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0 || fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    throw_errno(fmt::format("cannot make a channel of {} bytes", size), errno);
  return std::make_unique<MemfdMemory>(std::move(fd), size, boost::interprocess::read_write);
}

std::unique_ptr<ChannelMemory> attach_shared_memory(int fd) {
  return map_sealed(fd, boost::interprocess::read_write);
}

std::unique_ptr<ChannelMemory> look_at_shared_memory(int fd) {
  return map_sealed(fd, boost::interprocess::read_only);
}

std::size_t channel_huge_bytes() {
  std::ifstream smaps("/proc/self/smaps");
  std::size_t sum = 0;
  bool ours = false;
  for (std::string line; std::getline(smaps, line);) {
    const bool heading =
        line.find(':') > line.find('-');  // "7f..-7f.. rw-s ... /memfd:NAME", else "Key:   value kB"
    if (heading) ours = line.find("/memfd:hopfeed-channel") != std::string::npos;
    if (ours && line.starts_with("ShmemPmdMapped:")) sum += std::stoull(line.substr(15)) * 1024;
  }
  return sum;
}

}  // namespace hopfeed
