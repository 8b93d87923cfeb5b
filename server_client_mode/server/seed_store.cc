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
#include "core/base/memory_file.h"
#include "core/base/memory_limits.h"
#include "core/base/sha256.h"

namespace hopfeed {

namespace {

constexpr const char* kCannotKeep = "cannot keep the seeds that a client gave";

}  // namespace

StoredSeeds::StoredSeeds(std::size_t bytes) {
  require_valid(bytes > 0, "the given seeds are empty; give some");
  auto fd = std::make_shared<OwnedFd>(
      make_memory_file({.name = "hopfeed-seeds", .what = kCannotKeep, .out_of_the_way = false}));
  if (ftruncate(fd->get(), static_cast<off_t>(bytes)) != 0) throw_errno(kCannotKeep, errno);
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd->get(), 0);
  if (address == MAP_FAILED) throw_errno(kCannotKeep, errno);
  bytes_ = {static_cast<std::byte*>(address), bytes};
  fd_ = std::move(fd);
}

void StoredSeeds::back(std::size_t bytes) {
  if (bytes <= backed_) return;
  const int error =
      posix_fallocate(fd_->get(), static_cast<off_t>(backed_), static_cast<off_t>(bytes - backed_));
  if (error != 0) throw_errno(kCannotKeep, error);
  backed_ = bytes;
}

StoredSeeds::~StoredSeeds() { munmap(bytes_.data(), bytes_.size()); }

std::shared_ptr<StoredSeeds> SeedStore::make(std::size_t bytes) {
  if (bytes > options_.max_bytes / 2)
    throw Error(
        ErrorCode::kNoSpace,
        fmt::format("the given seeds take {}, and of one client the server takes at most {} at a time; "
                    "give fewer, or have it started with more (--max-memory)",
                    format_bytes(bytes), format_bytes(options_.max_bytes / 2)));
  return {new StoredSeeds(bytes), [counted = counted_](StoredSeeds* seeds) {
            const std::size_t backed = seeds->backed();
            delete seeds;
            counted->fetch_sub(backed);
          }};
}

void SeedStore::grow(StoredSeeds& seeds, std::size_t bytes) {
  const std::size_t more = bytes - seeds.backed();
  take_unused_for(more).clear();
  if (counted_->fetch_add(more) + more > options_.max_bytes) {
    counted_->fetch_sub(more);
    throw Error(
        ErrorCode::kNoSpace,
        fmt::format(
            "the given seeds take {}, and the server keeps at most {} of all clients, of which {} are "
            "in use; come back later, or have it started with more (--max-memory)",
            format_bytes(seeds.bytes().size()), format_bytes(options_.max_bytes),
            format_bytes(counted_->load())));
  }
  try {
    seeds.back(bytes);
  } catch (...) {
    counted_->fetch_sub(more);
    throw;
  }
}

std::vector<std::shared_ptr<const StoredSeeds>> SeedStore::take_unused_for(std::size_t bytes) {
  std::vector<std::shared_ptr<const StoredSeeds>> taken;
  const MutexLock lock(mutex_);
  for (std::size_t in_use = counted_->load(); in_use + bytes > options_.max_bytes;) {
    auto oldest = kept_.end();
    for (auto seeds = kept_.begin(); seeds != kept_.end(); ++seeds) {
      if (seeds->second.seeds.use_count() > 1) continue;
      if (oldest == kept_.end() || seeds->second.last_used < oldest->second.last_used) oldest = seeds;
    }
    if (oldest == kept_.end()) break;
    in_use -= std::min(in_use, oldest->second.seeds->backed());
    taken.push_back(std::move(oldest->second.seeds));
    kept_.erase(oldest);
  }
  return taken;
}

std::string SeedStore::keep(const std::shared_ptr<StoredSeeds>& seeds) {
  std::string hash = sha256(seeds->bytes());
  const MutexLock lock(mutex_);
  kept_.try_emplace(hash, Kept{.seeds = seeds, .last_used = {}}).first->second.last_used = Clock::now();
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
  std::vector<std::shared_ptr<const StoredSeeds>> gone;  // without the lock
  const MutexLock lock(mutex_);
  for (auto& [hash, kept] : kept_) {
    if (kept.seeds.use_count() > 1) kept.last_used = std::max(kept.last_used, now);
    if (now - kept.last_used > options_.kept) gone.push_back(std::move(kept.seeds));
  }
  std::erase_if(kept_, [](const auto& entry) { return entry.second.seeds == nullptr; });
}

std::size_t SeedStore::bytes() const { return counted_->load(); }

}  // namespace hopfeed
