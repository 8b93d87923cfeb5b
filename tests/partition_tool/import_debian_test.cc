// The Debian importer on a saved dump of five packages (data/packages.txt).
#include "partition_tool/import_debian.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>

#include "core/error.h"
#include "partition_tool/debian_packages.h"
#include "partition_tool/hashed_tfidf.h"
#include "tests/partition_tool/made_dataset.h"

namespace hopfeed {
namespace {

using testing::no_progress;
using Names = std::vector<std::string_view>;

std::filesystem::path dump() {
  return std::filesystem::path(std::getenv("HOPFEED_SOURCE")) / "tests/partition_tool/data/packages.txt";
}

TEST(DebianPackages, RelationFieldsAreParsed) {
  const auto parsed = [](std::string_view field) {
    Names names;
    append_related(field, names);
    return names;
  };
  EXPECT_EQ(parsed("libc6 (>= 2.34), perl:any"), (Names{"libc6", "perl"}));
  EXPECT_EQ(parsed("a | b (<< 1:2~3) | c [!arm64] <!stage1>,d"), (Names{"a", "b", "c", "d"}));
  EXPECT_EQ(parsed(" a,\n b(=1),\n\tc "), (Names{"a", "b", "c"}));
  EXPECT_EQ(parsed(""), Names{});
  EXPECT_EQ(parsed(", ,|"), Names{});
}

TEST(DebianPackages, RecordsAreJoinedByNameAndSorted) {
  const std::string text = testing::file_bytes(dump());
  const auto packages = parse_debian_packages(text, "dump");
  ASSERT_EQ(packages.size(), 5U);
  EXPECT_EQ(packages[0].name, "alpha");
  EXPECT_EQ(packages[0].section, "editors");  // without its archive area, of the first record
  EXPECT_EQ(packages[0].summary, "Fast editor for X11 windows");  // the first line only
  EXPECT_EQ(packages[0].related,
            (Names{"libbeta1", "gamma", "delta", "unknown-package", "libbeta1", "epsilon"}));
  EXPECT_EQ(packages[1].name, "delta");
  EXPECT_EQ(packages[1].related, (Names{"epsilon", "libbeta1"}));
  EXPECT_EQ(packages[1].summary, "tools");
  EXPECT_EQ(packages[4].name, "libbeta1");
}

TEST(DebianPackages, TextOfAnotherFormIsNamedWithItsLine) {
  for (const auto& [text, expected] :
       {std::pair<std::string, std::string>{"Package: a\nno field here\n", "dump, line 2"},
        {"Package: a\n\nSection: x\n\nPackage: b\n", "dump, line 4"},
        {"<html>\n", "dump, line 1"},
        {"Package: a\nTag: x,\n y,\n z\n:\xff\nbroken", "dump, line 6"}}) {
    try {
      parse_debian_packages(text, "dump");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalid);
      EXPECT_EQ(std::string(error.what()).rfind(expected, 0), 0U) << error.what();
    }
  }
}

TEST(ImportDebian, EdgesRunBothWaysOnceAndWithoutLoops) {
  const RawGraph graph = import_debian({.dump = dump(), .min_class_size = 2}, no_progress);
  // alpha 0, delta 1, epsilon 2, gamma 3, libbeta1 4. alpha: 4 3 1 2; libbeta1 enhances alpha; gamma suggests
  // itself and delta; delta recommends epsilon and libbeta1. Breaks, Conflicts and Provides are no edges.
  std::set<std::pair<std::int64_t, std::int64_t>> expected;
  for (const auto& [a, b] : {std::pair{0, 4}, {0, 3}, {0, 1}, {0, 2}, {3, 1}, {1, 2}, {1, 4}}) {
    expected.emplace(a, b);
    expected.emplace(b, a);
  }
  ASSERT_EQ(graph.num_nodes(), 5);
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (std::int64_t v = 0; v < 5; ++v) {
    for (std::int64_t e = graph.edges[0].csc.indptr[v]; e < graph.edges[0].csc.indptr[v + 1]; ++e) {
      found.emplace_back(v, std::get<std::vector<std::int32_t>>(graph.edges[0].csc.indices)[e]);
      EXPECT_EQ(std::get<std::vector<std::int32_t>>(graph.edges[0].csc.edge_ids)[e],
                e);  // the list is sorted by destination
    }
  }
  EXPECT_EQ(found, (std::vector<std::pair<std::int64_t, std::int64_t>>(expected.begin(), expected.end())));
}

TEST(ImportDebian, SectionsOfFewPackagesAreUnlabelled) {
  const RawGraph graph = import_debian({.dump = dump(), .min_class_size = 2}, no_progress);
  EXPECT_EQ(graph.class_names, (std::vector<std::string>{"editors", "libs"}));
  EXPECT_EQ(graph.nodes[0].num_classes, 2);
  std::vector<std::int64_t> labels(5);
  for (std::int64_t v = 0; v < 5; ++v)
    graph.nodes[0].attrs[1].read_row(v, std::as_writable_bytes(std::span(&labels[v], 1)));
  EXPECT_EQ(labels, (std::vector<std::int64_t>{0, 1, -1, 0, 1}));
  std::set<std::int64_t> in_splits;
  for (const auto& [name, ids] : graph.nodes[0].splits) in_splits.insert(ids.begin(), ids.end());
  EXPECT_EQ(in_splits, (std::set<std::int64_t>{0, 1, 3, 4}));  // labelled packages, each in one split
}

TEST(ImportDebian, NoClassLargeEnoughIsRefused) {
  EXPECT_THROW(import_debian({.dump = dump()}, no_progress), Error);
}

TEST(HashedTfidf, RowsHaveLengthOneAndDependOnWordsOnly) {
  const std::vector<std::string_view> texts{"Fast Editor",  "editor  fast!", "a b c", "",
                                            "fast library", "caf\xc3\xa9"};
  const auto x = hashed_tfidf(texts, 64);
  const auto row = [&](int i) { return std::vector<float>(x.begin() + i * 64, x.begin() + (i + 1) * 64); };
  EXPECT_EQ(row(0), row(1));                  // case, order and punctuation do not count
  EXPECT_EQ(row(2), std::vector<float>(64));  // words of one letter neither
  EXPECT_EQ(row(3), std::vector<float>(64));
  EXPECT_NE(row(0), row(4));
  for (int i : {0, 4, 5}) {
    double squares = 0;
    for (float value : row(i)) squares += static_cast<double>(value) * value;
    EXPECT_NEAR(squares, 1, 1e-6) << i;
  }
}

TEST(HashedTfidf, RareWordsWeighMore) {
  const std::vector<std::string_view> texts{"common rare", "common", "common", "common"};
  const auto x = hashed_tfidf(texts, 4096);
  std::vector<double> weights;
  for (int f = 0; f < 4096; ++f) {
    if (x[f] != 0) weights.push_back(std::abs(x[f]));
  }
  std::sort(weights.begin(), weights.end());
  ASSERT_EQ(weights.size(), 2U);
  EXPECT_NEAR(weights[1] / weights[0], 1 + std::log(5.0 / 2.0), 1e-6);  // the common word weighs 1 + ln(5/5)
}

}  // namespace
}  // namespace hopfeed
