// See seed_store.h.
#include "server_client_mode/server/seed_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/error.h"
#include "core/base/memory_limits.h"
#include "core/base/sha256.h"

namespace hopfeed {

StoredSeeds::StoredSeeds(std::size_t bytes) {
  constexpr const char* what = "cannot keep the seeds that a client gave";
  require_valid(bytes > 0, "the given seeds are empty; give some");
  auto fd = std::make_shared<OwnedFd>(memfd_create("hopfeed-seeds", MFD_CLOEXEC), what);
  if (const int error = posix_fallocate(fd->get(), 0, static_cast<off_t>(bytes)); error != 0)
    throw_errno(what, error);
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd->get(), 0);
  if (address == MAP_FAILED) throw_errno(what, errno);
  bytes_ = {static_cast<std::byte*>(address), bytes};
  fd_ = std::move(fd);
}

StoredSeeds::~StoredSeeds() { munmap(bytes_.data(), bytes_.size()); }

std::shared_ptr<StoredSeeds> SeedStore::make(std::size_t bytes) {
  const MutexLock lock(mutex_);
  if (bytes <= options_.max_bytes) drop_unused_until(options_.max_bytes - bytes);
  if (bytes > options_.max_bytes || counted_->load() > options_.max_bytes - bytes) {
    throw Error(
        ErrorCode::kNoSpace,
        fmt::format("the given seeds take {}, and the server keeps at most {} of them, of which {} are "
                    "in use; give fewer, or have it started with more (--max-memory)",
                    format_bytes(bytes), format_bytes(options_.max_bytes), format_bytes(counted_->load())));
  }
  auto* made = new StoredSeeds(bytes);
  counted_->fetch_add(bytes);
  return {made, [counted = counted_](StoredSeeds* seeds) {
            counted->fetch_sub(seeds->bytes().size());
            delete seeds;
          }};
}

void SeedStore::drop_unused_until(std::size_t bytes) {
  while (counted_->load() > bytes) {
    auto oldest = kept_.end();
    for (auto seeds = kept_.begin(); seeds != kept_.end(); ++seeds) {
      if (seeds->second.seeds.use_count() > 1) continue;
      if (oldest == kept_.end() || seeds->second.last_used < oldest->second.last_used) oldest = seeds;
    }
    if (oldest == kept_.end()) return;
    kept_.erase(oldest);
  }
}

std::string SeedStore::keep(std::shared_ptr<StoredSeeds> seeds) {
  std::string hash = sha256(seeds->bytes());
  const MutexLock lock(mutex_);
  kept_.try_emplace(hash, Kept{.seeds = std::move(seeds), .last_used = {}}).first->second.last_used =
      Clock::now();
  return hash;
}

std::shared_ptr<const StoredSeeds> SeedStore::find(const std::string& sha256) {
  const MutexLock lock(mutex_);
  const auto found = kept_.find(sha256);
  if (found == kept_.end()) return nullptr;
  found->second.last_used = Clock::now();
  return found->second.seeds;
}

void SeedStore::expire(Clock::time_point now) {
  const MutexLock lock(mutex_);
  for (auto& [hash, kept] : kept_) {
    if (kept.seeds.use_count() > 1) kept.last_used = std::max(kept.last_used, now);
  }
  std::erase_if(kept_, [&](const auto& entry) { return now - entry.second.last_used > options_.kept; });
}

std::size_t SeedStore::bytes() const { return counted_->load(); }

}  // namespace hopfeed
