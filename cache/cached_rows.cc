// See cached_rows.h. A batch's ticket ends when its rows are taken: what is there is pinned from then on, and
// what is missing is read for this batch whatever the others keep, so that to bring it in for its sake would
// be in vain.
#include "cache/cached_rows.h"

#include <array>
#include <cstring>
#include <utility>

#include "core/base/failpoint.h"

namespace hopfeed {
namespace {

// How far ahead lines are asked for; what they lead to follows half as far.
constexpr std::size_t kFarAhead = 32, kAhead = 16, kNearAhead = 8;

class SectionRows final : public CachedRows {
 public:
  SectionRows(CacheSection& section, CacheMembers& members) : section_(section), members_(members) {}
  ~SectionRows() override { drop(); }

  void announce(std::span<const std::int64_t> ids) override;
  std::span<const std::size_t> absent() const override { return absent_; }
  std::span<const Hit> take() override;
  void keep(const std::function<const std::byte*(std::size_t i)>& at) override;
  void drop() override;

 private:
  /// Calls each(i) of all ids, which come near before.
  template <class Each>
  void for_ids(const Each& each) const;
  template <class FrameAt, class Each>
  void for_frames(std::size_t count, const FrameAt& frame_at, const Each& each) const;
  void end_batch_locked();
  void owe_batch();
  void bypass();
  void choose();
  void fill(const std::function<const std::byte*(std::size_t i)>& at);
  void publish(std::size_t whole);

  CacheSection& section_;
  CacheMembers& members_;
  // The batch under way.
  bool begun_ = false, bypassed_ = false;
  int ticket_ = -1;
  std::vector<std::int64_t> ids_;
  std::vector<std::size_t> absent_, missed_;  // of ids_
  std::vector<Hit> hits_;
  std::vector<std::uint32_t> pinned_;  // frames, one a hit
  /// Frames that are filled, and of what.
  struct Filling {
    std::uint32_t frame;
    std::size_t at;
  };
  std::vector<Filling> filling_;
  struct Missed {
    std::size_t at;
    std::uint8_t heat;
    int rank;
  };
  std::vector<Missed> ranked_, by_rank_;  // the missed ones
};

template <class Each>
void SectionRows::for_ids(const Each& each) const {
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    if (i + kFarAhead < ids_.size()) section_.prefetch_row(ids_[i + kFarAhead]);
    if (i + kAhead < ids_.size()) section_.prefetch_frame(ids_[i + kAhead]);
    if (i + kNearAhead < ids_.size()) section_.prefetch_neighbours(ids_[i + kNearAhead]);
    each(i);
  }
}

/// Calls each(i) of frame_at(i) for all `count`.
template <class FrameAt, class Each>
void SectionRows::for_frames(std::size_t count, const FrameAt& frame_at, const Each& each) const {
  for (std::size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) section_.prefetch_frame_record(frame_at(i + kAhead));
    if (i + kNearAhead < count) section_.prefetch_row_of(frame_at(i + kNearAhead));
    each(i);
  }
}

void SectionRows::announce(std::span<const std::int64_t> ids) {
  const bool mine = members_.is_mine();
  if (mine) members_.sweep_if_wanted();
  ids_.reserve(ids.size());
  for (std::vector<std::size_t>* list : {&absent_, &missed_}) {
    list->clear();
    list->reserve(ids.size());
  }
  if (mine) {
    const CacheSection::Lock lock(section_);
    if (lock)
      end_batch_locked();  // of the old ids
    else
      owe_batch();
    ids_.assign(ids.begin(), ids.end());
    begun_ = true;
    bypassed_ = false;
    if (lock) {
      ticket_ = section_.take_ticket();
      for_ids([&](std::size_t i) {
        if (section_.want(ids_[i], ticket_)) absent_.push_back(i);
      });
      return;
    }
  }
  ids_.assign(ids.begin(), ids.end());
  if (mine) bypass();
  for (std::size_t i = 0; i < ids.size(); ++i) absent_.push_back(i);
}

std::span<const CachedRows::Hit> SectionRows::take() {
  if (!begun_ || !members_.is_mine()) return {};
  hits_.clear();
  hits_.reserve(ids_.size());
  pinned_.reserve(ids_.size());
  missed_.clear();
  {
    const CacheSection::Lock lock(section_);
    if (lock) {
      for_ids([&](std::size_t i) {
        section_.forget_wish(ids_[i], ticket_);
        const std::uint32_t frame = section_.pin(ids_[i]);
        if (frame == 0) return missed_.push_back(i);
        pinned_.push_back(frame);
        hits_.push_back({.at = i, .row = section_.bytes(frame)});
      });
      if (ticket_ >= 0) section_.end_ticket(std::exchange(ticket_, -1));
    } else {
      bypass();
      for (std::size_t i = 0; i < ids_.size(); ++i) missed_.push_back(i);
    }
  }
  static_cast<void>(FAILPOINT("cache.pinned"));
  return hits_;
}

void SectionRows::keep(const std::function<const std::byte*(std::size_t i)>& at) {
  if (!begun_ || !members_.is_mine()) return;
  CacheSectionRecord& record = section_.record();
  record.reads.fetch_add(static_cast<std::int64_t>(ids_.size()), std::memory_order_relaxed);
  record.hits.fetch_add(static_cast<std::int64_t>(hits_.size()), std::memory_order_relaxed);
  filling_.clear();
  for (auto* list : {&ranked_, &by_rank_}) list->resize(missed_.size());
  filling_.reserve(missed_.size());
  for (std::size_t m = 0; m < missed_.size(); ++m)
    ranked_[m] = {.at = missed_[m], .heat = section_.heat(ids_[missed_[m]]), .rank = 0};
  {
    const CacheSection::Lock lock(section_);
    if (!lock) {
      bypass();
      owe_batch();
      return;
    }
    end_batch_locked();
    choose();
  }
  if (!filling_.empty()) fill(at);
}

void SectionRows::drop() {
  if (!begun_ || !members_.is_mine()) return;
  if (ticket_ < 0 && pinned_.empty()) {
    begun_ = false;
    return;
  }
  const CacheSection::Lock lock(section_);
  if (lock)
    end_batch_locked();
  else
    owe_batch();
}

void SectionRows::end_batch_locked() {
  for_frames(
      pinned_.size(), [&](std::size_t i) { return pinned_[i]; },
      [&](std::size_t i) { section_.unpin(pinned_[i]); });
  if (ticket_ >= 0) {
    for_ids([&](std::size_t i) {
      section_.forget_wish(ids_[i], ticket_);
      section_.settle(ids_[i]);
    });
    section_.end_ticket(ticket_);
  }
  pinned_.clear();
  hits_.clear();
  ticket_ = -1;
  begun_ = false;
}

/// The mutex is not to be had.
void SectionRows::owe_batch() {
  if (ticket_ >= 0 || !pinned_.empty())
    section_.owe({.pinned = pinned_,
                  .whole = {},
                  .torn = {},
                  .tickets = ticket_ < 0 ? 0 : std::uint32_t{1} << ticket_});
  pinned_.clear();
  hits_.clear();
  ticket_ = -1;
  begun_ = false;
}

void SectionRows::bypass() {
  if (!std::exchange(bypassed_, true)) section_.record().bypassed.fetch_add(1, std::memory_order_relaxed);
}

/// Frames for the missed rows that are worth it. The row that is needed soonest chooses first, so that none
/// takes a frame that a later one has to be refused for.
void SectionRows::choose() {
  std::array<std::size_t, kRanks + 1> begin{};
  for (std::size_t m = 0; m < ranked_.size(); ++m) {
    if (m + kAhead < ranked_.size()) section_.prefetch_row(ids_[ranked_[m + kAhead].at]);
    ranked_[m].rank = section_.rank(ids_[ranked_[m].at], ranked_[m].heat);
    ++begin[static_cast<std::size_t>(ranked_[m].rank) + 1];
  }
  for (std::size_t rank = 0; rank < kRanks; ++rank) begin[rank + 1] += begin[rank];
  for (const Missed& missed : ranked_) by_rank_[begin[static_cast<std::size_t>(missed.rank)]++] = missed;
  for (std::size_t m = 0; m < by_rank_.size(); ++m) {
    if (m + kFarAhead < by_rank_.size()) section_.prefetch_row(ids_[by_rank_[m + kFarAhead].at]);
    const Missed& missed = by_rank_[m];
    const std::int64_t row = ids_[missed.at];
    // Twice in the batch, or another batch has read it too; or nobody would find it.
    if (section_.has_frame(row) || !section_.make_place(row)) continue;
    const std::uint32_t frame = section_.claim(row, missed.heat, missed.rank);
    if (frame == 0) return;
    filling_.push_back({.frame = frame, .at = missed.at});
  }
}

void SectionRows::fill(const std::function<const std::byte*(std::size_t i)>& at) {
  const auto row_bytes = static_cast<std::size_t>(section_.shape().row_bytes);
  std::size_t whole = 0;
  try {
    for (; whole < filling_.size(); ++whole) {
      static_cast<void>(FAILPOINT("cache.reading"));
      std::memcpy(section_.bytes(filling_[whole].frame), at(filling_[whole].at), row_bytes);
    }
  } catch (...) {
    publish(whole);
    throw;
  }
  publish(whole);
}

/// The first `whole` frames are filled, the others will not be.
void SectionRows::publish(std::size_t whole) {
  static_cast<void>(FAILPOINT("cache.filled"));
  const CacheSection::Lock lock(section_);
  if (lock) {
    for_frames(
        filling_.size(), [&](std::size_t i) { return filling_[i].frame; },
        [&](std::size_t i) {
          i < whole ? section_.publish(filling_[i].frame) : section_.abandon(filling_[i].frame);
        });
    return;
  }
  CacheSection::Debt debt;
  for (std::size_t i = 0; i < filling_.size(); ++i)
    (i < whole ? debt.whole : debt.torn).push_back(filling_[i].frame);
  section_.owe(debt);
  bypass();
}

}  // namespace

std::unique_ptr<CachedRows> open_cached_rows(CacheSection& section, CacheMembers& members) {
  return std::make_unique<SectionRows>(section, members);
}

}  // namespace hopfeed
