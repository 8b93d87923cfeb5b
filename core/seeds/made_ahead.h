// MadeAhead keeps the seeds of the batch under way, and those of the one that is likely to be the next, made
// while somebody else samples: to shuffle a thousand seeds, draw their negatives and look their ids up takes
// as long as a GPU samples them.
#pragma once
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

#include "core/batch/batch_key.h"

namespace hopfeed {

/// Seeds has all that is made of one batch, and `bytes()`; views of its arrays must survive a swap. Whatever
/// was expected, a batch has the seeds of its own key.
template <class Seeds>
class MadeAhead {
 public:
  /// Returns the seeds of a batch: those that expect() made, or what make(key, seeds) makes now.
  template <class Make>
  const Seeds& take(const BatchKey& key, const Make& make) {
    if (ahead_of_ == key) {
      ahead_of_.reset();
      std::swap(now_, ahead_);
    } else {
      make(key, now_);
    }
    return now_;
  }
  /// Makes those of a batch that may come. What goes wrong is told when it does.
  template <class Make>
  void expect(const BatchKey& key, const Make& make) {
    ahead_of_.reset();
    try {
      make(key, ahead_);
    } catch (const std::exception&) {
      return;
    }
    ahead_of_ = key;
  }
  /// Returns the seeds of the last take().
  const Seeds& now() const { return now_; }
  std::size_t bytes() const { return now_.bytes() + ahead_.bytes(); }

 private:
  Seeds now_, ahead_;
  std::optional<BatchKey> ahead_of_;
};

}  // namespace hopfeed
