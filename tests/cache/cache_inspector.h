// A CacheInspector looks at the memory of a dynamic cache as it lies, when nobody has a batch under way:
// whether what follows from the authoritative words (cache/cache_layout.h) does, and whether rows have their
// bytes.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache_memory.h"
#include "cache/cache_table.h"
#include "tests/cache/dynamic_cache_fixture.h"

namespace hopfeed::testing {

class CacheInspector {
 public:
  /// `bytes_of` gives what a row must have.
  explicit CacheInspector(int fd,
                          std::function<void(std::int64_t row, std::span<std::byte>)> bytes_of = write_row)
      : memory_(fd),
        section_(*memory_.sections()[0]),
        table_(memory_.data(), section_.shape),
        bytes_of_(std::move(bytes_of)) {}

  /// Returns what is wrong, "" where nothing is.
  std::string faults() const {
    std::string faults = of_tickets() + of_lists();
    std::int64_t valid = 0;
    for (std::uint32_t number = 1; number <= section_.shape.num_frames; ++number) {
      if (number > section_.fresh) continue;
      const FrameWord word = FrameWord::unpack(frame(number).word);
      const std::string name = "frame " + std::to_string(number);
      if (word.state == FrameState::kReading) faults += name + " is being filled; ";
      if (frame(number).pins != 0) faults += name + " is pinned; ";
      if (word.state != FrameState::kValid) continue;
      ++valid;
      const CacheRow* const known = table_.find(word.row);
      if (known == nullptr || known->frame != number) faults += name + ": its row is elsewhere; ";
      std::vector<std::byte> bytes(row_bytes());
      bytes_of_(word.row, bytes);
      const std::byte* const at = memory_.data() + section_.shape.frames_offset + (number - 1) * row_bytes();
      if (std::memcmp(bytes.data(), at, row_bytes()) != 0) faults += name + " has wrong bytes; ";
    }
    if (valid != section_.valid) faults += "the count of valid frames is wrong; ";
    return faults;
  }

 private:
  std::size_t row_bytes() const { return static_cast<std::size_t>(section_.shape.row_bytes); }
  const CacheFrame& frame(std::uint32_t number) const {
    return reinterpret_cast<const CacheFrame*>(memory_.data() + section_.shape.records_offset)[number - 1];
  }
  std::string of_tickets() const {
    std::string faults;
    if (section_.active != 0) faults += "tickets are active; ";
    for (const std::atomic<std::uint32_t>& ticket : section_.tickets)
      if (ticket != 0) faults += "a ticket is lost; ";
    for (std::uint64_t entry = 0; entry < table_.size(); ++entry) {
      const std::string name = "entry " + std::to_string(entry);
      const CacheRow& row = table_.entry(entry);
      if (row.wanted != 0) faults += name + " is wanted by nobody; ";
      if (row.frame != 0 && table_.find(FrameWord::unpack(frame(row.frame).word).row) != &row)
        faults += name + " has the frame of another row; ";
    }
    return faults;
  }

  /// Checks that every frame that was ever used is on the one list that it belongs to.
  std::string of_lists() const {
    std::string faults;
    std::vector<int> bucket(section_.shape.num_frames + 1, kNoBucket);
    for (int b = 0; b <= kEmptyBucket; ++b) {
      std::uint32_t before = 0;
      for (std::uint32_t at = section_.lists[b].head; at != 0; before = at, at = frame(at).next) {
        if (bucket[at] != kNoBucket) return "a frame is on two lists; ";
        bucket[at] = b;
        if (frame(at).prev != before || frame(at).bucket != b) faults += "a list is torn; ";
      }
      if (section_.lists[b].tail != before) faults += "a list has another end; ";
      const int heat = b - kFirstHeatBucket;
      const bool full = b < kFirstHeatBucket ? (section_.full_tickets >> b & 1) != 0
                        : b < kEmptyBucket   ? (section_.full[heat / 64] >> heat % 64 & 1) != 0
                                             : before != 0;
      if (full != (before != 0)) faults += "a list is not known to be full, or empty; ";
    }
    for (std::uint32_t number = 1; number <= section_.fresh; ++number) {
      const FrameWord word = FrameWord::unpack(frame(number).word);
      const int want =
          word.state == FrameState::kValid ? kFirstHeatBucket + frame(number).heat : kEmptyBucket;
      if (bucket[number] != want) faults += "frame " + std::to_string(number) + " is on another list; ";
    }
    return faults;
  }

  const CacheMemory memory_;
  const CacheSectionRecord& section_;
  const CacheTable table_;
  const std::function<void(std::int64_t row, std::span<std::byte>)> bytes_of_;
};

/// Expects that nothing is lost after a member has joined, which sweeps, and all others are gone or idle.
inline void expect_nothing_lost(int fd) {
  const DynamicCache joins(fd);
  EXPECT_EQ(CacheInspector(fd).faults(), "");
}

}  // namespace hopfeed::testing
