// The Debian importer on a saved dump of five packages (data/packages.txt).
#include "partition_tool/import_debian.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "core/base/error.h"
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
  EXPECT_EQ(packages[0].relations, (std::vector<DebianRelation>{{1, "libbeta1"},
                                                                {1, "gamma"},
                                                                {1, "delta"},
                                                                {1, "unknown-package"},
                                                                {0, "libbeta1"},
                                                                {1, "epsilon"}}));
  EXPECT_EQ(packages[0].source, "alpha-tools");
  EXPECT_EQ(packages[0].maintainer, "ada@example.org");
  EXPECT_EQ(packages[0].tags, (Names{"role::program", "interface::x11", "use::editing", "role::program"}));
  EXPECT_EQ(packages[3].source, "gamma");
  EXPECT_EQ(packages[3].maintainer, "The Team");
  EXPECT_EQ(packages[1].name, "delta");
  EXPECT_EQ(packages[1].relations, (std::vector<DebianRelation>{{2, "epsilon"}, {2, "libbeta1"}}));
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

/// (source, destination) of an edge type in the order of its edge ids.
std::vector<std::pair<std::int64_t, std::int64_t>> edges_of(const RawGraph& graph, const std::string& name) {
  for (const RawEdges& type : graph.edges) {
    if (graph.edge_name(type) != name) continue;
    std::vector<std::pair<std::int64_t, std::int64_t>> edges;
    for (std::int64_t v = 0; v < type.csc.num_rows(); ++v) {
      for (std::int64_t e = type.csc.indptr[v]; e < type.csc.indptr[v + 1]; ++e)
        edges.emplace_back(std::get<std::vector<std::int32_t>>(type.csc.indices)[e], v);
    }
    return edges;
  }
  ADD_FAILURE() << "no edge type " << name;
  return {};
}

std::vector<float> features_of(const RawNodes& nodes, std::int64_t v) {
  std::vector<float> row(kDebianFeatures);
  nodes.attrs[0].read_row(v, std::as_writable_bytes(std::span(row)));
  return row;
}

TEST(ImportDebian, WithTypes_PackagesStayAsTheyAreAndEachEdgeTypeHasItsReverse) {
  const RawGraph plain = import_debian({.dump = dump(), .min_class_size = 2}, no_progress),
                 graph = import_debian({.dump = dump(), .hetero = true, .min_class_size = 2}, no_progress);
  // alpha 0, delta 1, epsilon 2, gamma 3, libbeta1 4; sources alpha-tools, delta, epsilon, gamma; maintainers
  // "The Team", Ada; tags interface::x11, role::program, use::editing.
  std::vector<std::pair<std::string, std::int64_t>> nodes;
  for (const RawNodes& type : graph.nodes) nodes.emplace_back(type.name, type.count);
  EXPECT_EQ(nodes, (std::vector<std::pair<std::string, std::int64_t>>{
                       {"package", 5}, {"source", 4}, {"maintainer", 2}, {"tag", 3}}));
  EXPECT_EQ(graph.nodes[0].splits, plain.nodes[0].splits);
  EXPECT_EQ(graph.class_names, plain.class_names);
  using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const std::map<std::string, Pairs> expected{
      {"pre_depends__package", {{0, 4}}},
      {"depends__package", {{0, 1}, {0, 2}, {0, 3}, {0, 4}}},
      {"recommends__package", {{1, 2}, {1, 4}}},
      {"suggests__package", {{3, 1}}},
      {"enhances__package", {{4, 0}}},
      {"built_from__source", {{0, 0}, {4, 0}, {1, 1}, {2, 2}, {3, 3}}},
      {"maintained_by__maintainer", {{3, 0}, {0, 1}, {4, 1}}},
      {"tagged__tag", {{0, 0}, {0, 1}, {3, 1}, {0, 2}}}};
  EXPECT_EQ(graph.edges.size(), 2 * expected.size());
  for (const auto& [name, edges] : expected) {
    const std::string to = name.substr(name.find("__") + 2), rel = name.substr(0, name.find("__"));
    EXPECT_EQ(edges_of(graph, "package__" + name), edges) << name;
    Pairs reverse = edges_of(graph, to + "__rev_" + rel + "__package");
    for (auto& [a, b] : reverse) std::swap(a, b);
    std::sort(reverse.begin(), reverse.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second, a.first) < std::pair(b.second, b.first);
    });
    EXPECT_EQ(reverse, edges) << name;
    EXPECT_TRUE(std::ranges::any_of(graph.edges, [&](const RawEdges& type) {
      return graph.edge_name(type) == to + "__rev_" + rel + "__package" && type.rev_of == "package__" + name;
    })) << name;
  }
  EXPECT_EQ(features_of(graph.nodes[0], 3), features_of(plain.nodes[0], 3));
  EXPECT_EQ(features_of(graph.nodes[1], 3), features_of(plain.nodes[0], 3));  // a mean of one
  const auto a = features_of(plain.nodes[0], 0), b = features_of(plain.nodes[0], 4),
             mean = features_of(graph.nodes[1], 0);
  double squares = 0;
  for (int f = 0; f < kDebianFeatures; ++f) squares += std::pow(a[f] + b[f], 2);
  for (int f = 0; f < kDebianFeatures; ++f)
    EXPECT_NEAR(mean[f], (a[f] + b[f]) / std::sqrt(squares), 1e-6) << f;
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
