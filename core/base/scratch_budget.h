// A ScratchBudget bounds the memory of batches' scratch. What a batch comes to is known only when it is
// sampled, so the bound is asked where an array grows (scratch.h), which hardly any batch comes to.
//
// A worker has one budget, each of its makers a share of what it has taken by now. While a maker samples, its
// share is that of the thread (Scope), so that nothing in between has to hand it on.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace hopfeed {

class ScratchBudget {
 public:
  /// `limit` is in bytes; `knobs` is what an error says to do.
  ScratchBudget(std::uint64_t limit, std::string knobs) : limit_(limit), knobs_(std::move(knobs)) {}

  std::uint64_t limit() const { return limit_; }
  /// Returns the bytes that all shares have taken. Any thread.
  std::uint64_t taken() const { return taken_.load(std::memory_order_relaxed); }

  /// A Share is what one maker has; it is given back at its end. One thread at a time.
  class Share {
   public:
    explicit Share(std::shared_ptr<ScratchBudget> budget) : budget_(std::move(budget)) {}
    ~Share() { give(bytes_); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    bool fits(std::size_t more) const;
    /// Takes more bytes. Throws kNoSpace, and then has no more than before.
    void take(std::size_t more);
    void give(std::size_t less) noexcept;

   private:
    const std::shared_ptr<ScratchBudget> budget_;
    std::size_t bytes_ = 0;
  };

  /// While a Scope lives, scratch that grows in this thread is of its share; null: of none, and without a
  /// bound.
  class Scope {
   public:
    explicit Scope(Share* share);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Share* const before_;
  };
  /// Returns the share of the calling thread, or null.
  static Share* share();

  /// Covers memory that is no ScratchArray: it needs `bytes`, of which `taken` are in the thread's share
  /// already. Takes what lacks, and says so in `taken`. Throws kNoSpace.
  static void cover(std::size_t bytes, std::size_t& taken);

 private:
  const std::uint64_t limit_;
  const std::string knobs_;
  std::atomic<std::uint64_t> taken_ = 0;
};

}  // namespace hopfeed
