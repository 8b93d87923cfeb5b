// CachedRows are rows of an attribute that a cache keeps in front of a slow tier, as a source of features
// sees them. The cache is cache/dynamic_cache.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace hopfeed {

/// They are one attribute's rows, for the batches that one source makes: one at a time is under way.
class CachedRows {
 public:
  virtual ~CachedRows() = default;
  /// Says that the next batch wants these rows. A batch that was announced before and not kept is dropped.
  /// The ids need not stay.
  virtual void announce(std::span<const std::int64_t> ids) = 0;

  /// Returns the places, among the announced ids, of those that nobody will have brought by take(): they are
  /// not there, and no batch that was announced before wants them. To read them may begin at once.
  virtual std::span<const std::size_t> absent() const = 0;

  struct Hit {
    std::size_t at = 0;              // of the ids that were announced
    const std::byte* row = nullptr;  // row_bytes, which stay as they are until keep() or drop()
  };
  /// Returns the rows of the batch that are there, pinned; by rising `at`.
  virtual std::span<const Hit> take() = 0;
  /// Says that the batch is whole, and at(i) the row of the i-th id: the cache keeps those that are worth it,
  /// and lets go of the pins.
  virtual void keep(const std::function<const std::byte*(std::size_t i)>& at) = 0;
  /// Gives the batch up.
  virtual void drop() = 0;
};

}  // namespace hopfeed
