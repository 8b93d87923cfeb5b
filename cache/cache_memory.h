// CacheMemory is the memory of a dynamic cache (cache_layout.h): a sealed memfd, made once and mapped whole.
// A member opens it anew through /proc/self/fd, so that the locks that it takes on the file are its own,
// whoever else has the descriptor.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "cache/cache_layout.h"
#include "cache/cached_attrs.h"
#include "core/base/owned_fd.h"

namespace hopfeed {

/// Returns a budget that holds this share, 0 to 1, of the rows of each attribute.
std::size_t dynamic_cache_bytes(std::span<const CachedAttr> attrs, double share);
/// Returns the share of the rows that so many bytes hold; 0 where that is no row.
double dynamic_cache_share(std::span<const CachedAttr> attrs, std::size_t bytes);

/// Makes the memory for a cache of `bytes` in all, bookkeeping included; every attribute gets the same share
/// of its rows. Throws kInvalid where that is no row of each, kNoSpace.
OwnedFd make_dynamic_cache(std::span<const CachedAttr> attrs, std::size_t bytes);

class CacheMemory {
 public:
  /// Throws kCorrupt where `fd` is no cache, kVersion for another version's, kIo, kNoSpace.
  explicit CacheMemory(int fd);
  ~CacheMemory();
  CacheMemory(const CacheMemory&) = delete;
  CacheMemory& operator=(const CacheMemory&) = delete;

  CacheHeader& header() const { return *reinterpret_cast<CacheHeader*>(data_); }
  std::span<CacheSectionRecord* const> sections() const { return sections_; }
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  int fd() const { return fd_.get(); }

 private:
  const OwnedFd fd_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::vector<CacheSectionRecord*> sections_;
};

}  // namespace hopfeed
