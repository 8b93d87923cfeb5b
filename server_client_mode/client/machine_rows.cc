// See machine_rows.h. The memfd: the rows as HeldRows lays them out, then one byte that says whether they are
// finite.
#include "server_client_mode/client/machine_rows.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "channel/machine_memory.h"
#include "core/base/error.h"
#include "core/base/memory_file.h"
#include "core/base/memory_limits.h"
#include "worker_mode/worker_process.h"

namespace hopfeed {
namespace {

/// `owner` lives as long as the mapping.
std::shared_ptr<std::byte[]> map(int fd, std::size_t bytes, int protection,
                                 std::shared_ptr<const void> owner) {
  void* const at = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) throw_errno("cannot map the rows that are held", errno);
  return {static_cast<std::byte*>(at),
          [bytes, owner = std::move(owner)](std::byte* memory) { munmap(memory, bytes); }};
}

/// Taken now: where it does not fit, that is an error here, and no bus error while rows come. In pieces: a
/// signal ends a long one, and tens of GB take longer than a server waits for a sign of life.
void reserve(const OwnedFd& fd, std::size_t bytes, const std::function<void()>& meanwhile) {
  constexpr std::size_t kPiece = std::size_t{16} << 20;
  auto told = std::chrono::steady_clock::now();
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    int error = EINTR;
    while (error == EINTR)
      error =
          posix_fallocate(fd.get(), static_cast<off_t>(at), static_cast<off_t>(std::min(kPiece, bytes - at)));
    if (error != 0)
      throw Error(ErrorCode::kNoSpace,
                  fmt::format("there is no memory for {} of rows to hold ({}); lower the cache",
                              format_bytes(bytes), std::strerror(error)));
    if (std::chrono::steady_clock::now() - told < std::chrono::seconds(1)) continue;
    meanwhile();
    told = std::chrono::steady_clock::now();
  }
}

OwnedFd new_memory(std::size_t bytes, const std::function<void()>& meanwhile) {
  OwnedFd fd = make_memory_file({.name = "hopfeed-held-rows",
                                 .what = "cannot create memory for the rows that are held",
                                 .sealable = true});
  reserve(fd, bytes, meanwhile);
  return fd;
}

/// Loaded once: from here on nobody changes them, nor their size, which would be a bus error in every rank.
void seal(const OwnedFd& fd) {
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
    throw_errno("cannot seal the rows that are held", errno);
}

}  // namespace

MachineRows machine_rows(const MachineRowsOptions& options) {
  const std::size_t bytes = HeldRows::memory_of(options.meta, options.batch, options.share) + 1;
  const auto make = [&] {
    OwnedFd fd = new_memory(bytes, options.meanwhile);
    const std::shared_ptr<std::byte[]> memory = map(fd.get(), bytes, PROT_READ | PROT_WRITE, nullptr);
    HeldRows rows(options.meta, options.batch, options.share, memory);
    memory[static_cast<std::ptrdiff_t>(bytes - 1)] = std::byte{options.load(rows)};
    seal(fd);
    return fd;
  };
  const auto memory = std::make_shared<const MachineMemory>(
      fmt::format("held rows {} {}", options.order, options.share.millionths), make,
      MachineMemory::Waiting{.meanwhile = options.meanwhile});
  const std::shared_ptr<std::byte[]> mapped = map(memory->fd(), bytes, PROT_READ, memory);
  return {.rows = std::make_shared<const HeldRows>(options.meta, options.batch, options.share, mapped),
          .finite = mapped[static_cast<std::ptrdiff_t>(bytes - 1)] != std::byte{0}};
}

AgreedShare agreed_share(const std::string& name, const std::function<HeldShare()>& decide) {
  const auto memory = std::make_shared<const MachineMemory>("held share " + name, [&] {
    const HeldShare share = decide();
    return memfd_of("hopfeed-held-share", &share, sizeof(share));
  });
  HeldShare share;
  if (pread(memory->fd(), &share, sizeof(share), 0) != sizeof(share))
    throw_errno("cannot read how many rows the ranks hold", errno);
  return {.share = share, .agreement = memory};
}

}  // namespace hopfeed
