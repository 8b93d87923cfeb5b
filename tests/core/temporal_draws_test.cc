// Temporal draws: each neighbour of the past as often as another, none of the future, and a search instead of
// a scan.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>

#include "core/draws/temporal_picker.h"
#include "tests/core/chi_square.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr std::int64_t kTrees = 20'000, kEdges = 60, kNow = 40, kWindow = 25;

/// How often each edge of a star is taken, by trees that all stand at kNow; edge i is of time i * 7 % kEdges.
Ints taken(const BatchOptions& options) {
  testing::TypedGraph graph{.nodes = {{.count = kEdges + 1}}, .edges = {{}}};
  graph.nodes[0].time.assign(kEdges + 1, kNow);
  for (std::int64_t e = 0; e < kEdges; ++e) {
    graph.edges[0].sources.push_back(e + 1);
    graph.edges[0].destinations.push_back(0);
    graph.edges[0].time.push_back(e * 7 % kEdges);
  }
  const testing::TempFolder folder;
  testing::write_typed_dataset(folder.path() / "star", graph);
  const Dataset dataset(folder.path() / "star");
  const testing::Block block = testing::make_batch(dataset, {.seeds = Ints(kTrees, 0)}, options, 17);
  Ints counts(kEdges);  // by time
  for (const std::int64_t edge : testing::ints(block.view().get("e_id", Store::kEdge)))
    ++counts[edge * 7 % kEdges];
  return counts;
}

void expect_uniform_past(const Ints& counts, std::int64_t fanout, bool replace) {
  Ints past;
  for (std::int64_t time = 0; time < kEdges; ++time) {
    if (time > kNow - kWindow && time <= kNow)
      past.push_back(counts[time]);
    else
      EXPECT_EQ(counts[time], 0) << "of time " << time;
  }
  const auto size = static_cast<double>(past.size()), k = static_cast<double>(fanout);
  const double expected = static_cast<double>(kTrees) * k / size;
  double statistic = 0;
  for (const std::int64_t count : past)
    statistic += (static_cast<double>(count) - expected) * (static_cast<double>(count) - expected) / expected;
  // Without replacement the picks of one row repel each other: the finite population factor.
  if (!replace) statistic *= (size - 1) / (size - k);
  EXPECT_TRUE(testing::plausible(testing::chi_square_tail(statistic, size - 1))) << statistic;
}

TEST(TemporalDraws, OfTheWindow_AreUniform) {
  for (const std::int64_t fanout : {1, 5, 20}) {
    for (const bool replace : {false, true}) {
      SCOPED_TRACE(fanout);
      expect_uniform_past(taken({.fanouts = {fanout},
                                 .replace = replace,
                                 .time = "time",
                                 .time_window = kWindow,
                                 .edge_ids = true}),
                          fanout, replace);
    }
  }
}

/// Zeros that no memory stands behind until they are read.
template <class T>
class Zeros {
 public:
  explicit Zeros(std::size_t count) : bytes_(count * sizeof(T)) {
    void* memory = ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    ::madvise(memory, bytes_, MADV_NOHUGEPAGE);
    data_ = static_cast<const T*>(memory);
  }
  ~Zeros() { ::munmap(const_cast<T*>(data_), bytes_); }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  const T* data() const { return data_; }
  std::ptrdiff_t pages_read() const {
    std::vector<unsigned char> resident((bytes_ + 4'095) / 4'096);
    EXPECT_EQ(::mincore(const_cast<T*>(data_), bytes_, resident.data()), 0);
    return std::count_if(resident.begin(), resident.end(), [](unsigned char page) { return page & 1; });
  }

 private:
  std::size_t bytes_;
  const T* data_;
};

// GraphBolt's scan of the whole row would read all of 16,384 pages. Where the codes leave all of the row
// open, its times are searched.
TEST(TemporalDraws, OfAHub_SearchItsTimesAndReadNoMore) {
  constexpr std::uint64_t kDegree = std::uint64_t{1} << 23;
  for (const bool open : {false, true}) {
    const Zeros<std::int16_t> codes(kDegree);
    const Zeros<std::int64_t> times(kDegree);
    const Zeros<std::uint32_t> order(kDegree);
    const std::int16_t* code_part = codes.data();
    const std::int64_t* time_part = times.data();
    const std::uint32_t* order_part = order.data();
    const auto* index_part = reinterpret_cast<const std::byte*>(order_part);  // never read
    TimePlace end, begin;  // code 0 is of time 0; the guess is far from what is found
    end.time = 5, begin.time = 2;
    end.share = begin.share = 0.25;
    end.past = begin.past = open ? 0 : 1;
    end.open = begin.open = open;
    PickScratch scratch;
    TemporalPicker picker({.fanout = 10, .stream = {.key = 1, .retry_key = 2, .node = 0, .tree = 0}},
                          {.time = {.bounds = {},
                                    .codes = {&code_part, 1},
                                    .order = {&order_part, 1},
                                    .times = {&time_part, 1},
                                    .indices = {&index_part, 1}},
                           .ends = {&end, 1},
                           .begins = {&begin, 1},
                           .positions = true},
                          scratch);
    DrawnGroup group;
    group.count = 1;
    DrawnRow& row = group.rows[0];
    row = {};
    row.degree = kDegree;
    picker.look(row, 0, 0);
    group.most = row.most;
    picker.close_in(group);
    picker.draw(group);
    EXPECT_EQ(row.population, 0U) << "time 0 lies before the window that ends at 5";
    EXPECT_LE(codes.pages_read(), 2 * 2 * 23 + 2);
    EXPECT_LE(times.pages_read(), open ? 2 * 23 : 0);
    EXPECT_EQ(order.pages_read(), 0);
  }
}

// All of the row is of the past: as many of its edges are read as are drawn.
TEST(TemporalDraws, OfAHub_ReadOnlyTheEdgesThatAreDrawn) {
  constexpr std::uint64_t kDegree = std::uint64_t{1} << 23, kFanout = 10;
  for (const TemporalStrategy strategy : {TemporalStrategy::kUniform, TemporalStrategy::kLast}) {
    const Zeros<std::int16_t> codes(kDegree);
    const Zeros<std::int64_t> times(kDegree);
    const Zeros<std::uint32_t> order(kDegree), indices(kDegree);
    const std::int16_t* code_part = codes.data();
    const std::int64_t* time_part = times.data();
    const std::uint32_t* order_part = order.data();
    const auto* index_part = reinterpret_cast<const std::byte*>(indices.data());
    TimePlace end;
    end.time = 5, end.past = 1;
    end.share = 0.25;
    PickScratch scratch;
    TemporalPicker picker({.fanout = kFanout, .stream = {.key = 1, .retry_key = 2, .node = 0, .tree = 0}},
                          {.time = {.bounds = {},
                                    .codes = {&code_part, 1},
                                    .order = {&order_part, 1},
                                    .times = {&time_part, 1},
                                    .indices = {&index_part, 1}},
                           .ends = {&end, 1},
                           .strategy = strategy,
                           .index_bytes = sizeof(std::uint32_t),
                           .positions = true},
                          scratch);
    DrawnGroup group;
    group.count = 1;
    DrawnRow& row = group.rows[0];
    row = {};
    row.degree = kDegree;
    picker.look(row, 0, 0);
    group.most = row.most;
    picker.close_in(group);
    picker.draw(group);
    EXPECT_EQ(row.population, kDegree);
    std::uint64_t sum = 0, picked = 0;
    picker.pick(group, row, [&](std::uint64_t count, auto place, auto /*position*/) {
      for (std::uint64_t j = 0; j < count; ++j, ++picked)
        sum += order_part[place(j)] + indices.data()[place(j)];
    });
    EXPECT_EQ(picked, kFanout);
    EXPECT_EQ(sum, 0U) << "read";
    EXPECT_LE(codes.pages_read(), 2 * 23 + 2);
    EXPECT_EQ(times.pages_read(), 0);
    const std::ptrdiff_t most = strategy == TemporalStrategy::kLast ? 2 : std::ptrdiff_t{kFanout};
    EXPECT_GE(order.pages_read(), 1);
    EXPECT_LE(order.pages_read(), most);
    EXPECT_LE(indices.pages_read(), most);
  }
}

}  // namespace
}  // namespace hopfeed
