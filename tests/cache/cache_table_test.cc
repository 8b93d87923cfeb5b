// What a section knows of rows, against a map: rows keep their entries while they matter, and their places go
// to others when they do not. And how hot rows are, against each row's byte.
#include "cache/cache_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "cache/row_heats.h"

namespace hopfeed {
namespace {

struct Memory {
  explicit Memory(std::uint64_t places) {
    shape.rows = std::int64_t{1} << 40;
    shape.num_places = places;
    shape.rows_offset = places * sizeof(std::uint64_t);
    words.resize(2 * places);
  }
  CacheTable table() { return {reinterpret_cast<std::byte*>(words.data()), shape}; }

  CacheSectionShape shape;
  std::vector<std::uint64_t> words;
};

TEST(CacheTable, RowsThatMatterKeepTheirEntries_AndOthersGiveTheirPlaces) {
  Memory memory(64);
  const CacheTable table = memory.table();
  constexpr std::uint32_t kActive = 0b0110;
  std::map<std::int64_t, CacheRow> matter;
  std::mt19937_64 random(1);
  int refused = 0, over_wishes = 0;
  for (int step = 0; step < 20'000; ++step) {
    const auto row = static_cast<std::int64_t>(random() % 90) * 1'000'003;
    const bool frame = random() % 3 == 0;
    CacheRow* const entry =
        table.place(row, kActive, frame ? CacheTable::Over::kWishes : CacheTable::Over::kNobody);
    if (entry == nullptr) {
      ++refused;
      ASSERT_FALSE(matter.contains(row));
    } else {
      const CacheRow want = matter.contains(row) ? matter[row] : CacheRow{};
      if (want.frame != 0 || (want.wanted & kActive) != 0) {
        ASSERT_EQ(entry->frame, want.frame);
        ASSERT_EQ(entry->wanted, want.wanted);
      }
      *entry = {.frame = frame ? 7U : 0U, .wanted = static_cast<std::uint32_t>(random() % 16)};
      matter[row] = *entry;
    }
    if (random() % 4 == 0 && !matter.empty()) {  // one does not matter any more
      const auto gone = std::next(matter.begin(), static_cast<std::ptrdiff_t>(random() % matter.size()));
      if (CacheRow* const known = table.find(gone->first); known != nullptr) *known = {};
      matter.erase(gone);
    }
    for (auto it = matter.begin(); it != matter.end();) {
      const CacheRow* const known = table.find(it->first);
      const bool is_there = known != nullptr;
      if (it->second.frame != 0) {
        ASSERT_TRUE(is_there) << "a row with a frame is never forgotten";
      }
      if (is_there) {
        ASSERT_EQ(known->frame, it->second.frame);
        ASSERT_EQ(known->wanted, it->second.wanted);
        ++it;
        continue;
      }
      if ((it->second.wanted & kActive) != 0) ++over_wishes;
      it = matter.erase(it);
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(over_wishes, 100);
}

TEST(CacheTable, NeighboursAndMultiplesSpreadEvenly) {
  constexpr std::uint64_t kPlaces = 1 << 13;
  for (const std::int64_t stride : {1L, 2L, 8L, 4'096L, 1L << 20, 999'983L}) {
    Memory memory(kPlaces);
    const CacheTable table = memory.table();
    int refused = 0;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(kPlaces) / 2; ++i) {
      CacheRow* const entry = table.place(i * stride, 1, CacheTable::Over::kNobody);
      if (entry == nullptr)
        ++refused;
      else
        entry->frame = 1;
    }
    EXPECT_LE(refused, static_cast<int>(kPlaces) / 2 / 25) << "stride " << stride;
  }
}

TEST(RowHeats, AreWhatWasAdded_AsStretchesOrByteByByte) {
  std::mt19937_64 random(2);
  for (const int longest : {1, 2, 7, 40, 3'000}) {
    std::vector<std::uint8_t> want;
    constexpr std::size_t kRows = 10'000;
    RowHeats heats(kRows);
    while (want.size() < kRows) {
      const auto heat = static_cast<std::uint8_t>(random() % 5 * 60);
      heats.add(static_cast<std::int64_t>(want.size()),
                static_cast<std::uint8_t>(random()));  // corrected at once
      heats.add(static_cast<std::int64_t>(want.size()), heat);
      want.insert(want.end(), 1 + random() % static_cast<std::uint64_t>(longest), heat);
    }
    want.resize(kRows);
    heats.end();
    EXPECT_LE(heats.bytes().size(), want.size());
    EXPECT_EQ(heats.runs() == 0, longest < 10) << longest;
    const RowHeatsView view =
        heats.runs() > 0
            ? RowHeatsView(std::span(reinterpret_cast<const HeatRun*>(heats.bytes().data()), heats.runs()))
            : RowHeatsView(std::span(reinterpret_cast<const std::uint8_t*>(heats.bytes().data()),
                                     heats.bytes().size()));
    for (std::size_t row = 0; row < want.size(); ++row) {
      ASSERT_EQ(heats(static_cast<std::int64_t>(row)), want[row]);
      ASSERT_EQ(view(static_cast<std::int64_t>(row)), want[row]);
    }
  }
  const RowHeats none;
  EXPECT_EQ(none(std::int64_t{1} << 46), 0);
}

}  // namespace
}  // namespace hopfeed
