// Rows of several arrays by id, and what a row's sources reduce to, beside a serial oracle.
#include "core/dataset/row_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace hopfeed {
namespace {

/// Rows of `width` floats in arrays of these heights; row i has i + element / 8, exact in float.
class Table {
 public:
  Table(std::vector<std::int64_t> heights, std::size_t width, std::size_t stride) : width_(width) {
    for (const std::int64_t height : heights) {
      std::vector<float>& array = arrays_.emplace_back(static_cast<std::size_t>(height) * stride);
      for (std::int64_t row = 0; row < height; ++row)
        for (std::size_t i = 0; i < width; ++i)
          array[static_cast<std::size_t>(row) * stride + i] = value(starts_.back() + row, i);
      starts_.push_back(starts_.back() + height);
      addresses_.push_back(reinterpret_cast<std::uintptr_t>(array.data()));
    }
    view_ = {.starts = starts_, .arrays = addresses_, .stride = stride * sizeof(float)};
  }
  static float value(std::int64_t row, std::size_t element) {
    return static_cast<float>(row) + static_cast<float>(element) / 8;
  }
  const RowTable& view() const { return view_; }
  std::size_t width() const { return width_; }

 private:
  std::vector<std::int64_t> starts_{0};
  std::vector<std::uint64_t> addresses_;
  std::vector<std::vector<float>> arrays_;
  std::size_t width_;
  RowTable view_;
};

InEdges in_edges(const std::vector<std::int64_t>& offsets, const std::vector<std::int32_t>& sources) {
  return {.offsets = offsets,
          .sources = sources.data(),
          .count = static_cast<std::int64_t>(sources.size()),
          .type = ElementType::kInt32,
          .path = "indices.npy"};
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == ErrorCode::kCorrupt ? error.what() : "another code";
  }
  return "none";
}

TEST(RowTable, RowsOfSeveralArrays_ComeInTheOrderOfTheirIds) {
  const Table table({3, 0, 40, 1}, 5, 7);
  std::vector<std::int64_t> ids{43, 0, 2, 3, 42, 3};
  for (std::int64_t id = 0; id < 44; ++id) ids.push_back(43 - id);
  for (std::size_t count = 0; count <= ids.size(); ++count) {  // fewer and more than are read ahead
    std::vector<float> out(count * 5, -1);
    gather_rows(table.view(), {ids.data(), count}, 5 * sizeof(float),
                reinterpret_cast<std::byte*>(out.data()));
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], Table::value(ids[i / 5], i % 5)) << i;
  }
}

TEST(RowTable, IdsOutsideTheGraph_AreErrorsBeforeAnyRowIsRead) {
  const Table table({4, 4}, 2, 2);
  for (const std::int64_t wrong :
       {std::int64_t{-1}, std::int64_t{8}, std::numeric_limits<std::int64_t>::min()}) {
    const std::vector<std::int64_t> ids{1, wrong};
    std::vector<float> out(4, 7);
    EXPECT_EQ(error_of([&] { gather_rows(table.view(), ids, 8, reinterpret_cast<std::byte*>(out.data())); }),
              "rows: neighbours that are no nodes; run hopfeed-partition verify");
    EXPECT_EQ(out, std::vector<float>(4, 7));
  }
  std::vector<float> out(4, 7);
  const auto reduce = [&](const std::vector<std::int64_t>& offsets,
                          const std::vector<std::int32_t>& sources) {
    return error_of([&] {
      reduce_rows<float>(table.view(), in_edges(offsets, sources), nullptr, Reduction::kSum, 2, out.data(),
                         1);
    });
  };
  EXPECT_EQ(reduce({0, 1, 2}, {0, 8}),
            "indices.npy: neighbours that are no nodes; run hopfeed-partition verify");
  EXPECT_EQ(reduce({0, 1, 2}, {-1, 0}),
            "indices.npy: neighbours that are no nodes; run hopfeed-partition verify");
  const std::string offsets =
      "indices.npy: row offsets that are outside the graph; run hopfeed-partition verify";
  EXPECT_EQ(reduce({0, 1, 3}, {0, 1}), offsets);
  EXPECT_EQ(reduce({-1, 1, 2}, {0, 1}), offsets);
  EXPECT_EQ(reduce({0, 2, 1}, {0, 1}), offsets);
  EXPECT_EQ(out, std::vector<float>(4, 7));
  EXPECT_EQ(reduce({1, 1, 2}, {8, 1}), "none");  // an edge of an earlier row is none of these
}

TEST(RowTable, ClosedForm_SumsAndLargestAndSmallestOnTopOfWhatIsThere) {
  const Table table({2, 3}, 1, 1);  // rows 0, 1, 2, 3, 4
  const std::vector<std::int64_t> offsets{1, 4, 4, 6};
  const std::vector<std::int32_t> sources{9, 4, 1, 1, 0, 3};
  const std::vector<float> weights{1, -2, 0.5F, 3, 1};
  const auto reduced = [&](Reduction reduction, const float* of_edges) {
    std::vector<float> out{0.5F, 1, 2};
    reduce_rows<float>(table.view(), in_edges(offsets, sources), of_edges, reduction, 1, out.data(), 1);
    return out;
  };
  EXPECT_EQ(reduced(Reduction::kSum, nullptr), (std::vector<float>{6.5F, 1, 5}));
  EXPECT_EQ(reduced(Reduction::kSum, weights.data()), (std::vector<float>{3, 1, 5}));
  EXPECT_EQ(reduced(Reduction::kMax, nullptr), (std::vector<float>{4, 1, 3}));
  EXPECT_EQ(reduced(Reduction::kMin, nullptr), (std::vector<float>{0.5F, 1, 0}));
  EXPECT_EQ(reduced(Reduction::kMin, weights.data()), (std::vector<float>{-2, 1, 0}));
}

TEST(RowTable, NotANumber_StaysWhateverTheReductionIs) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> rows{1, nan, 2};
  const std::vector<std::int64_t> starts{0, 3};
  const std::vector<std::uint64_t> arrays{reinterpret_cast<std::uintptr_t>(rows.data())};
  const RowTable table{.starts = starts, .arrays = arrays, .stride = sizeof(float)};
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin})
    for (const std::vector<std::int32_t>& sources :
         {std::vector<std::int32_t>{0, 1, 2}, {1, 0, 2}, {0, 2, 1}}) {
      float out = 0;
      reduce_rows<float>(table, in_edges({0, 3}, sources), nullptr, reduction, 1, &out, 1);
      EXPECT_TRUE(std::isnan(out));
    }
}

/// Rows of many degrees, two of them far beyond those whose sum is made in one go.
struct Graph {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> sources;
  std::vector<float> weights;
  explicit Graph(std::int32_t nodes) {
    std::mt19937 random(7);
    for (std::size_t row = 0; row < 300; ++row) {
      const std::size_t degree = row == 17 ? 5000 : row == 299 ? 1001 : random() % 600 * (row % 3 == 0);
      for (std::size_t e = 0; e < degree; ++e) {
        sources.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(nodes)));
        weights.push_back(static_cast<float>(random() % 1000) / 999);
      }
      offsets.push_back(static_cast<std::int64_t>(sources.size()));
    }
  }
};

TEST(RowTable, SumsOfManyEdges_AreThoseInDoubleOverEdgesInTheirOrder) {
  const Table table({500, 700}, 3, 4);
  const Graph graph(1200);
  std::vector<float> out(300 * 3, 0);
  reduce_rows<float>(table.view(), in_edges(graph.offsets, graph.sources), graph.weights.data(),
                     Reduction::kSum, 3, out.data(), 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    double sum = 0, size = 0;
    for (auto e = static_cast<std::size_t>(graph.offsets[i / 3]);
         e < static_cast<std::size_t>(graph.offsets[i / 3 + 1]); ++e) {
      const double term =
          static_cast<double>(graph.weights[e]) * static_cast<double>(Table::value(graph.sources[e], i % 3));
      sum += term, size += std::abs(term);
    }
    ASSERT_NEAR(out[i], sum, 1e-6 * size) << i;
  }
}

TEST(RowTable, OrderOfTheEdges_IsThatOfTheAdditions) {
  // What is lost beside a large row depends on it.
  std::vector<float> rows{1, 3e7F, -3e7F};
  const std::vector<std::int64_t> starts{0, 3};
  const std::vector<std::uint64_t> arrays{reinterpret_cast<std::uintptr_t>(rows.data())};
  const RowTable few{.starts = starts, .arrays = arrays, .stride = sizeof(float)};
  const auto sum = [&](const std::vector<std::int32_t>& sources) {
    float total = 0;
    reduce_rows<float>(few, in_edges({0, 3}, sources), nullptr, Reduction::kSum, 1, &total, 1);
    return total;
  };
  EXPECT_EQ(sum({1, 2, 0}), 1);
  EXPECT_EQ(sum({1, 0, 2}), 0);
}

TEST(RowTable, AnyNumberOfThreads_GivesTheSameBits) {
  const Table table({500, 700}, 33, 33);
  const Graph graph(1200);
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin})
    for (const bool weighed : {false, true}) {
      const auto reduced = [&](std::size_t threads) {
        std::vector<float> out(300 * 33, 0.25F);
        reduce_rows<float>(table.view(), in_edges(graph.offsets, graph.sources),
                           weighed ? graph.weights.data() : nullptr, reduction, 33, out.data(), threads);
        return out;
      };
      const std::vector<float> one = reduced(1);
      for (const std::size_t threads : {0, 2, 3, 8, 1000}) {
        const std::vector<float> many = reduced(threads);
        ASSERT_EQ(std::memcmp(many.data(), one.data(), one.size() * sizeof(float)), 0) << threads;
      }
    }
}

/// A table of 900 rows of which the arrays of [200, 500) and [500, 510) are not here, and every third row of
/// these lies elsewhere; `whole` has all.
struct PartlyElsewhere {
  static constexpr std::size_t kWidth = 5;
  Table whole{{200, 300, 10, 390}, kWidth, kWidth};
  std::vector<std::uint64_t> arrays{whole.view().arrays.begin(), whole.view().arrays.end()};
  RankedSet elsewhere{900};
  std::vector<float> rows;  // those, by rising id, one number apart
  std::vector<std::int32_t> known;
  RowTable table;
  PartlyElsewhere() {
    for (std::int32_t id = 0; id < 900; ++id) {
      const bool here = id < 200 || id >= 510;
      if (!here && id % 3 != 0) continue;
      known.push_back(id);
      if (here) continue;
      elsewhere.add(id);
      for (std::size_t i = 0; i <= kWidth; ++i) rows.push_back(i < kWidth ? Table::value(id, i) : -1);
    }
    elsewhere.close();
    arrays[1] = arrays[2] = 0;
    table = {.starts = whole.view().starts,
             .arrays = arrays,
             .stride = whole.view().stride,
             .elsewhere = &elsewhere,
             .elsewhere_rows = reinterpret_cast<const std::byte*>(rows.data()),
             .elsewhere_stride = (kWidth + 1) * sizeof(float)};
  }
};

TEST(RowTable, RowsElsewhere_AreGatheredAndReducedAsThoseOfArrays) {
  const PartlyElsewhere some;
  const std::size_t width = PartlyElsewhere::kWidth;
  Graph graph(static_cast<std::int32_t>(some.known.size()));
  for (std::int32_t& source : graph.sources) source = some.known[static_cast<std::size_t>(source)];
  const std::vector<std::int64_t> ids(graph.sources.begin(), graph.sources.end());
  std::vector<float> gathered(ids.size() * width, -1);
  gather_rows(some.table, ids, width * sizeof(float), reinterpret_cast<std::byte*>(gathered.data()));
  for (std::size_t i = 0; i < gathered.size(); ++i)
    ASSERT_EQ(gathered[i], Table::value(ids[i / width], i % width)) << i;
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin})
    for (const std::size_t threads : {1, 3, 8}) {
      const auto reduced = [&](const RowTable& table, std::size_t on) {
        std::vector<float> out(300 * width, 0.25F);
        reduce_rows<float>(table, in_edges(graph.offsets, graph.sources), graph.weights.data(), reduction,
                           width, out.data(), on);
        return out;
      };
      ASSERT_EQ(reduced(some.table, threads), reduced(some.whole.view(), 1)) << threads;
    }
}

TEST(RowTable, IdsOfNoArrayThatLieNowhereElse_AreErrorsThatNameTheFirst) {
  PartlyElsewhere some;
  const std::size_t width = PartlyElsewhere::kWidth;
  std::vector<float> out(300 * width);
  const auto gather = [&](std::int64_t id) {
    return error_of([&] {
      gather_rows(some.table, std::vector{std::int64_t{3}, id, std::int64_t{4}}, width * sizeof(float),
                  reinterpret_cast<std::byte*>(out.data()));
    });
  };
  EXPECT_EQ(gather(201), "none");  // 3 * 67
  EXPECT_EQ(gather(200), "row 200 was not fetched");
  EXPECT_EQ(gather(509), "row 509 was not fetched");
  for (const std::size_t threads : {1, 3})
    for (const std::size_t edge : {0, 1'500, 2'998}) {  // of the first thread's share, and of others'
      std::vector<std::int64_t> offsets(301);
      for (std::size_t row = 0; row < 300; ++row) offsets[row + 1] = static_cast<std::int64_t>(row + 1) * 10;
      std::vector<std::int32_t> sources(3'000, 201);
      sources[edge] = 202;
      sources[2'999] = 203;
      EXPECT_EQ(error_of([&] {
                  reduce_rows<float>(some.table, in_edges(offsets, sources), nullptr, Reduction::kSum, width,
                                     out.data(), threads);
                }),
                "row 202 was not fetched")
          << threads << " threads, edge " << edge;
    }
  some.table.elsewhere = nullptr;
  EXPECT_EQ(gather(201), "row 201 was not fetched");
}

TEST(RowTable, Doubles_AndWideIds_AsFloatsAre) {
  std::vector<double> rows{0.5, 1.5, 2.5};
  const std::vector<std::int64_t> starts{0, 3}, offsets{0, 2, 3}, sources{2, 0, 1};
  const std::vector<std::uint64_t> arrays{reinterpret_cast<std::uintptr_t>(rows.data())};
  std::vector<double> out(2, 0);
  reduce_rows<double>(
      {.starts = starts, .arrays = arrays, .stride = sizeof(double)},
      {.offsets = offsets, .sources = sources.data(), .count = 3, .type = ElementType::kInt64}, nullptr,
      Reduction::kSum, 1, out.data(), 2);
  EXPECT_EQ(out, (std::vector<double>{3, 1.5}));
}

TEST(RowTable, NoRowsAndNoEdges_GiveNothing) {
  const Table table({}, 2, 2);
  gather_rows(table.view(), {}, 8, nullptr);
  std::vector<float> out(4, 3);
  reduce_rows<float>(table.view(), in_edges({0, 0, 0}, {}), nullptr, Reduction::kSum, 2, out.data(), 4);
  reduce_rows<float>(table.view(), in_edges({0}, {}), nullptr, Reduction::kSum, 2, nullptr, 4);
  EXPECT_EQ(out, std::vector<float>(4, 3));
}

}  // namespace
}  // namespace hopfeed
