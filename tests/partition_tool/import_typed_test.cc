// Importers of graphs of several node and edge types, on files that the tests write.
#include "partition_tool/partition_nodes.h"
#include "partition_tool/read_dataset.h"
#include "tests/partition_tool/imported_files.h"
#include "tests/support/expect_refused.h"
#include "tests/support/made_batch.h"

namespace hopfeed {
namespace {

const char* const kMusic = R"({"name": "music",
  "nodes": [{"name": "user", "features": "x.npy", "labels": "y.npy", "splits": {"train": "train.npy"}},
            {"name": "artist", "count": 2, "attrs": {"born": "born.npy"}}],
  "edges": [{"src": "user", "rel": "listens", "dst": "artist", "index": "listens.npy",
             "attrs": {"plays": "plays.npy", "at": "at.npy"}, "weights": ["plays"], "times": ["at"]},
            {"src": "artist", "rel": "heard_by", "dst": "user", "index": "heard_by.npy", "times": ["born"]},
            {"src": "user", "rel": "trusts", "dst": "user", "index": "trusts.npy"}]})";

/// Three users and two artists.
class ImportNumpyTypes : public ::testing::Test {
 protected:
  ImportNumpyTypes() {
    write(kMusic);
    save<float>(path("x.npy"), {1, 2, 3, 4, 5, 6}, {3, 2});
    save<std::int64_t>(path("y.npy"), {1, -1, 0});
    save<std::int64_t>(path("train.npy"), {2, 0});
    save<std::int64_t>(path("born.npy"), {1980, 1990});
    save<std::int64_t>(path("listens.npy"), {2, 0, 1, 2, 1, 1, 0, 0}, {2, 4});  // 2->1, 0->1, 1->0, 2->0
    save<float>(path("plays.npy"), {5, 6, 7, 0});
    save<float>(path("wide.npy"), {5, 6, 7, 0}, {4, 1});
    save<std::int64_t>(path("at.npy"), {10, 9, 8, 7});
    save<std::int32_t>(path("heard_by.npy"), {1, 0, 2, 0}, {2, 2});  // 1->2, 0->0
    save<std::int64_t>(path("trusts.npy"), {0, 1}, {2, 1});
  }
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  void write(const std::string& text) const { std::ofstream(path("graph.json")) << text; }
  void write_with(const std::string& from, const std::string& to) const {
    std::string text = kMusic;
    ASSERT_NE(text.find(from), std::string::npos) << from;
    write(text.replace(text.find(from), from.size(), to));
  }
  RawGraph import() const { return import_numpy({.hetero = path("graph.json")}, no_progress); }
  void build(const std::string& name) const {
    testing::write_dataset(folder_.path() / name, import());
    testing::verify(folder_.path() / name);
  }
  const TempFolder folder_;
};

TEST_F(ImportNumpyTypes, ReadsNodesAndEdgesOfEachType) {
  const RawGraph graph = import();
  EXPECT_EQ(graph.name, "music");
  ASSERT_EQ(graph.nodes.size(), 2U);
  EXPECT_EQ(graph.nodes[0].name, "user");
  EXPECT_EQ(graph.nodes[0].count, 3);
  EXPECT_EQ(values_of<float>(graph.nodes[0], 0), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values_of<std::int64_t>(graph.nodes[0], 1), (Ids{1, -1, 0}));
  EXPECT_EQ(graph.nodes[0].num_classes, 2);
  EXPECT_EQ(graph.nodes[0].splits.at("train"), (Ids{2, 0}));
  EXPECT_EQ(values_of<std::int64_t>(graph.nodes[1], 0), (Ids{1980, 1990}));
  ASSERT_EQ(graph.edges.size(), 3U);
  EXPECT_EQ(graph.edge_name(graph.edges[0]), "user__listens__artist");
  EXPECT_EQ(graph.edges[0].csc.indptr, (Ids{0, 2, 4}));
  EXPECT_EQ(sources(graph.edges[0]), (Ids{1, 2, 2, 0}));
  EXPECT_EQ(in_edge_values<std::int64_t>(graph.edges[0], 0, 1), (Ids{10, 9}));
  EXPECT_EQ(in_edge_values<float>(graph.edges[0], 1, 0), (std::vector<float>{7, 0}));
  EXPECT_EQ(graph.edges[1].csc.indptr, (Ids{0, 1, 1, 2}));
  EXPECT_EQ(graph.edges[2].csc.indptr, (Ids{0, 0, 1, 1}));
  build("music");
  const DatasetMeta meta = Dataset(path("music")).meta();
  EXPECT_EQ(meta.edge_types[0].weights, std::vector<std::string>{"plays"});
  EXPECT_EQ(meta.edge_types[1].times, std::vector<std::string>{"born"});
}

TEST_F(ImportNumpyTypes, OfInEdgesThatAllWeighZeroNoneIsDrawn) {
  save<float>(path("plays.npy"), {0, 0, 7, 0});  // 2->1, 0->1, 1->0, 2->0
  build("music");
  const Dataset dataset(path("music"));
  for (const std::int64_t fanout : {1, -1}) {
    const BatchOptions options{.fanouts = {-1, fanout}, .weight = "plays", .edge_ids = true};
    const testing::Block batch = testing::make_batch(dataset, {.seeds = {0, 2}}, options);
    EXPECT_EQ(testing::ints(batch.view().get("n_id", Store::kNode, 1)), (Ids{0, 1})) << fanout;
    EXPECT_EQ(testing::ints(batch.view().get("e_id", Store::kEdge, 0)), Ids{2}) << fanout;
  }
}

TEST_F(ImportNumpyTypes, ATypeMayHaveNoNodes) {
  const auto describe = [&](const std::string& count, const std::string& index) {
    write(R"({"nodes": [{"name": "user", "features": "x.npy", "splits": {"train": "train.npy"}},
        {"name": "none", )" +
          count + R"("features": "no_x.npy", "attrs": {"born": "no_born.npy"}}, {"name": "bare", "count": 0}],
      "edges": [{"src": "user", "rel": "trusts", "dst": "user", "index": "trusts.npy"},
        {"src": "none", "rel": "likes", "dst": "user", "index": ")" +
          index + R"("}, {"src": "user", "rel": "liked", "dst": "none", "index": "no_edges.npy"}]})");
  };
  save<float>(path("no_x.npy"), {}, {0, 8});
  save<std::int64_t>(path("no_born.npy"), {}, {0});
  save<std::int64_t>(path("no_edges.npy"), {}, {2, 0});
  for (const std::string count : {"\"count\": 0, ", ""}) {
    describe(count, "no_edges.npy");
    build("made" + std::to_string(count.size()));
    const Dataset dataset(path("made" + std::to_string(count.size())));
    EXPECT_EQ(dataset.num_nodes(1), 0);
    EXPECT_EQ(dataset.num_nodes(2), 0);
    const testing::Block batch = testing::make_batch(dataset, {.seeds = {0, 1, 2}}, {.fanouts = {-1, -1}});
    const ArrayView x = batch.view().get("x", Store::kNode, 1);
    EXPECT_EQ(Ids(x.shape.begin(), x.shape.end()), (Ids{0, 8}));
    testing::write_dataset(path("again" + std::to_string(count.size())),
                           read_dataset(dataset, 2, no_progress));
    EXPECT_EQ(Dataset(path("again" + std::to_string(count.size()))).meta().fingerprint,
              dataset.meta().fingerprint);
  }
  EXPECT_EQ(partition_by_metis(import(), {.partitions = 2}, no_progress).size(), 3U);
  describe("\"count\": 0, ", "trusts.npy");
  expect_refused([&] { import(); }, "trusts.npy: edge 0 has source node 0, but there are 0 nodes");
  describe("\"count\": 1, ", "no_edges.npy");
  expect_refused([&] { import(); }, "no_x.npy: it has 0 rows, but there are 1 nodes");
  write(R"({"nodes": [{"name": "none", "count": 0}], "edges": [
      {"src": "none", "rel": "to", "dst": "none", "index": "no_edges.npy"}]})");
  expect_refused([&] { import(); }, "graph.json: the graph has no nodes");
  write(R"({"nodes": [{"name": "user", "count": 3}, {"name": "none"}], "edges": [
      {"src": "user", "rel": "trusts", "dst": "user", "index": "trusts.npy"}]})");
  expect_refused([&] { import(); }, "node type 'none' has 0 nodes by its edges, out of range");
}

TEST_F(ImportNumpyTypes, ATypeMayBeTheReverseOfAnother) {
  EXPECT_EQ(import().edges[1].rev_of, "");
  for (const char* of : {"listens", "user__listens__artist"}) {
    write_with("\"index\": \"heard_by.npy\"",
               "\"index\": \"heard_by.npy\", \"rev_of\": \"" + std::string(of) + "\"");
    build(of);
    const DatasetMeta meta = Dataset(path(of)).meta();
    EXPECT_EQ(meta.reverse_edge_type(0), 1) << of;
    EXPECT_EQ(meta.reverse_edge_type(1), 0) << of;
    EXPECT_EQ(meta.reverse_edge_type(2), -1) << of;
  }
}

TEST_F(ImportNumpyTypes, WithoutRowsOrACountTheEdgesOfAllTypesTell) {
  write(R"({"nodes": [{"name": "a"}, {"name": "b"}], "edges": [
      {"src": "a", "rel": "to", "dst": "b", "index": "listens.npy"},
        {"src": "b", "rel": "to", "dst": "a", "index": "heard_by.npy"}]})");
  const RawGraph graph = import();
  EXPECT_EQ(graph.name, "graph");
  EXPECT_EQ(graph.nodes[0].count, 3);
  EXPECT_EQ(graph.nodes[1].count, 2);
}

TEST_F(ImportNumpyTypes, ADescriptionThatIsWrongIsNamedWithItsTypeAndField) {
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& part) {
    write_with(from, to);
    expect_refused([&] { import(); }, part);
  };
  refused("{\"name\": \"music\",", "{\"name\": \"music\"", "graph.json is no valid JSON: line 2, column ");
  refused("\"count\": 2", "\"count\": 2, \"count\": 3",
          "graph.json: 'count' is given twice in one place; say it once");
  refused("\"nodes\"", "\"node\"",
          "the description has an unknown field 'node'; it may have: name, nodes, edges");
  refused("\"count\": 2", "\"count\": -2", "node type 1 has 'count' = -2");
  refused("\"count\": 2", "\"count\": 2.5", "node type 1 has 'count' = 2.5");
  refused("\"count\": 2", "\"size\": 2", "node type 1 has an unknown field 'size'");
  refused("\"artist\", \"count\"", "\"user\", \"count\"", "node type 1 is named 'user', as another is");
  refused("\"name\": \"artist\"", "\"name\": \"a b\"", "'a b' is no valid name");
  refused("{\"name\": \"artist\", \"count\": 2", "{\"count\": 2", "node type 1 has no 'name'");
  refused("\"x.npy\"", "7", "node type 0 has 'features' that is no text");
  refused("{\"born\": \"born.npy\"}", "[\"born.npy\"]", "node type 1 has 'attrs' that is no object");
  refused("{\"born\": \"born.npy\"}", "{\"hotness\": \"born.npy\"}", "'hotness' has a name that is taken");
  refused("{\"born\": \"born.npy\"}", "{\"input_id\": \"born.npy\"}",
          "'input_id' has the name of a field that batches have of their own; rename it");
  refused("\"dst\": \"artist\"", "\"dst\": \"artst\"",
          "edge type 0 ends at 'artst', which is no node type; there are: user, artist");
  refused("\"src\": \"artist\", \"rel\": \"heard_by\", \"dst\": \"user\"",
          "\"src\": \"user\", \"rel\": \"listens\", \"dst\": \"artist\"",
          "edge type 1 is named 'user__listens__artist', as another is");
  refused(", \"index\": \"trusts.npy\"", "", "edge type 2 has no 'index'");
  refused("\"weights\": [\"plays\"]", "\"weights\": \"plays\"", "edge type 0 has no list 'weights'");
  refused(
      "\"weights\": [\"plays\"]", "\"weights\": [\"play\"]",
      "edge type user__listens__artist: weight 'play' is no attribute of the edges; they have: at, plays");
  refused("\"times\": [\"born\"]", "\"times\": [\"died\"]", "edge type artist__heard_by__user: time 'died'");
  refused("\"times\": [\"at\"]", "\"times\": [\"plays\"]",
          "time 'plays' has the element type float32; convert it to int64");
  refused("\"index\": \"heard_by.npy\"", "\"index\": \"heard_by.npy\", \"rev_of\": \"hears\"",
          "edge type 1 has rev_of 'hears', which is no other edge type from 'user' to 'artist'; there are: "
          "user__listens__artist");
  refused(
      "\"index\": \"trusts.npy\"", "\"index\": \"trusts.npy\", \"rev_of\": \"trusts\"",
      "edge type 2 has rev_of 'trusts', which is no other edge type from 'user' to 'user'; there are: none");
  refused("\"plays.npy\", \"at\"", "\"wide.npy\", \"at\"", "weight 'plays' has rows of one number each");
  write("[]");
  expect_refused([&] { import(); }, "the description is no object");
  write(R"({"nodes": [], "edges": []})");
  expect_refused([&] { import(); }, "has 0 node types");
  fs::remove(path("graph.json"));
  expect_refused([&] { import(); }, "graph.json", ErrorCode::kNotFound);
}

TEST_F(ImportNumpyTypes, ArraysThatDoNotFitAreNamed) {
  const auto with = [&](const std::string& name, const std::function<void(const fs::path&)>& spoil,
                        const std::string& part, ErrorCode code = ErrorCode::kInvalid) {
    const std::string good = testing::file_bytes(path(name));
    spoil(path(name));
    expect_refused([&] { build("bad"); }, part, code);
    std::ofstream(path(name), std::ios::binary) << good;
  };
  const float nan = std::nanf("");
  with(
      "listens.npy", [](auto& p) { fs::remove(p); }, "listens.npy", ErrorCode::kNotFound);
  with(
      "listens.npy",
      [](auto& p) {
        save<std::int64_t>(p, {2, 0, 3, 2, 1, 1, 0, 0}, {2, 4});
      },
      "listens.npy: edge 2 has source node 3, but there are 3 nodes");
  with(
      "listens.npy",
      [](auto& p) {
        save<std::int64_t>(p, {2, 0, 1, 2, 1, 2, 0, 0}, {2, 4});
      },
      "listens.npy: edge 1 has destination node 2, but there are 2 nodes");
  with(
      "listens.npy",
      [](auto& p) {
        save<std::int64_t>(p, {2, 0, 1, 2}, {4, 1});
      },
      "[2, E]");
  with(
      "plays.npy",
      [](auto& p) {
        save<float>(p, {5, 6, 7});
      },
      "plays.npy: it has 3 rows, but there are 4 edges");
  with(
      "plays.npy",
      [](auto& p) {
        save<float>(p, {5, -6, 7, 0});
      },
      "plays.npy: weight 'plays' of edge 1, which ends at node 1, is -6; weights are zero or above, and "
      "finite");
  with(
      "plays.npy",
      [=](auto& p) {
        save<float>(p, {nan, 6, 7, 0});
      },
      "plays.npy: weight 'plays' of edge 0, which ends at node 1, is nan");
  with(
      "at.npy",
      [](auto& p) {
        save<std::int64_t>(p, {5, 6, 7, 8, 9});
      },
      "at.npy: it has 5 rows, but there are 4 edges");
  with(
      "born.npy",
      [](auto& p) {
        save<std::int64_t>(p, {5, 6, 7});
      },
      "born.npy: it has 3 rows, but there are 2 nodes");
  with(
      "train.npy", [](auto& p) { save<std::int64_t>(p, {3}); },
      "train.npy: entry 0 is node 3, but there are 3 nodes");
  with(
      "y.npy", [](auto& p) { save<std::int64_t>(p, {3}); }, "y.npy: it has 1 rows, but there are 3 nodes");
  build("good");
}

TEST_F(ImportNumpyTypes, OptionsOfSingleArraysAreRefusedBesideADescription) {
  expect_refused(
      [&] { import_numpy({.edge_index = path("trusts.npy"), .hetero = path("graph.json")}, no_progress); },
      "leave out the options of single arrays");
  expect_refused([&] { import_numpy({}, no_progress); }, "give --edge-index, or --hetero");
}

/// Papers, which have a split, and authors in OGB's layout of several types.
class ImportOgbTypes : public ::testing::Test {
 protected:
  ImportOgbTypes() {
    write("raw/num-node-dict", "author,paper\n2,3\n");
    write("raw/relations/author___writes___paper/edge", "1,0\n0,2\n1,2\n");
    write("raw/relations/author___writes___paper/num-edge-list", "3\n");
    write("raw/relations/author___writes___paper/edge-weight", "5\n0.5\n2\n");
    write("raw/relations/paper___cites___paper/edge", "2,1\n0,1\n");
    write("raw/relations/paper___cites___paper/edge-feat", "1,2\n3,4\n");
    write("raw/node-feat/paper/node-feat", "1,2\n3,4\n5,6\n");
    write("raw/node-feat/paper/node_year", "2013\n2011\n2012\n");
    write("raw/node-label/paper/node-label", "1\nnan\n0\n");
    for (const char* split : {"train", "valid", "test"})
      write(std::string("split/time/paper/") + split, split == std::string("train") ? "2\n0\n" : "1\n");
  }
  void write(const std::string& stem, const std::string& text) const {
    gzip(folder_.path() / "mag" / (stem + ".csv.gz"), text);
  }
  void remove(const std::string& stem) const { fs::remove_all(folder_.path() / "mag" / stem); }
  OgbImportOptions options() const { return {.raw = folder_.path() / "mag"}; }
  DatasetMeta build(const std::string& name, const RawGraph& graph) const {
    const DatasetMeta meta = testing::write_dataset(folder_.path() / name, graph);
    testing::verify(folder_.path() / name);
    return meta;
  }
  const TempFolder folder_;
};

TEST_F(ImportOgbTypes, ReadsTheLayout_TypesWithASplitFirst) {
  const RawGraph graph = import_ogb(options(), no_progress);
  EXPECT_EQ(graph.name, "mag");
  ASSERT_EQ(graph.nodes.size(), 2U);
  EXPECT_EQ(graph.nodes[0].name, "paper");
  EXPECT_EQ(values_of<float>(graph.nodes[0], 0), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values_of<std::int64_t>(graph.nodes[0], 1), (Ids{1, -1, 0}));
  EXPECT_EQ(values_of<std::int64_t>(graph.nodes[0], 2), (Ids{2013, 2011, 2012}));
  EXPECT_EQ(graph.nodes[0].splits.at("train"), (Ids{2, 0}));
  EXPECT_EQ(graph.nodes[1].name, "author");
  EXPECT_EQ(graph.nodes[1].count, 2);
  EXPECT_TRUE(graph.nodes[1].splits.empty());
  ASSERT_EQ(graph.edges.size(), 2U);
  EXPECT_EQ(graph.edge_name(graph.edges[0]), "author__writes__paper");
  EXPECT_EQ(graph.edges[0].csc.indptr, (Ids{0, 1, 1, 3}));
  EXPECT_EQ(sources(graph.edges[0]), (Ids{1, 0, 1}));
  EXPECT_EQ(in_edge_values<float>(graph.edges[0], 0, 2), (std::vector<float>{0.5F, 2}));
  EXPECT_EQ(graph.edges[0].weights, std::vector<std::string>{"weight"});
  EXPECT_TRUE(graph.edges[0].times.empty()) << "authors have no year";
  EXPECT_EQ(sources(graph.edges[1]), (Ids{2, 0}));
  EXPECT_EQ(in_edge_values<float>(graph.edges[1], 0, 1, 2), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(graph.edges[1].times, std::vector<std::string>{"node_year"});
  build("made", graph);
}

TEST_F(ImportOgbTypes, InversesAreEdgeTypesOfTheirOwn) {
  OgbImportOptions both = options();
  both.add_inverse_edge = true;
  const RawGraph graph = import_ogb(both, no_progress);
  ASSERT_EQ(graph.edges.size(), 4U);
  EXPECT_EQ(graph.edge_name(graph.edges[1]), "paper__rev_writes__author");
  EXPECT_EQ(graph.edges[1].csc.indptr, (Ids{0, 1, 3}));
  EXPECT_EQ(sources(graph.edges[1]), (Ids{2, 0, 2}));
  EXPECT_EQ(in_edge_values<float>(graph.edges[1], 0, 1), (std::vector<float>{5, 2}));
  EXPECT_EQ(graph.edge_name(graph.edges[3]), "paper__rev_cites__paper");
  EXPECT_EQ(graph.edges[1].rev_of, "author__writes__paper");
  EXPECT_EQ(graph.edges[3].rev_of, "paper__cites__paper");
  EXPECT_EQ(graph.edges[0].rev_of + graph.edges[2].rev_of, "");
  EXPECT_EQ(sources(graph.edges[3]), (Ids{1, 1}));
  build("both", graph);
}

TEST_F(ImportOgbTypes, LinksBesideRawAreEdgeSplits) {
  write("test/author___writes___paper", "0,1\n1,1\n");
  write("valid/paper___cites___paper", "1,2\n");
  const DatasetMeta meta = build("made", import_ogb(options(), no_progress));
  EXPECT_EQ(meta.edge_types[0].splits, (std::map<std::string, std::int64_t>{{"test", 2}}));
  EXPECT_EQ(meta.edge_types[1].splits, (std::map<std::string, std::int64_t>{{"valid", 1}}));
  const Dataset dataset(folder_.path() / "made");
  const LinkSplit test = dataset.edge_split(0, "test");
  EXPECT_EQ(Ids(test.pairs.begin(), test.pairs.end()), (Ids{0, 1, 1, 1}));
  EXPECT_TRUE(test.labels.empty() && test.times.empty());
  write("test/author___writes___paper", "0,3\n");
  expect_refused([&] { import_ogb(options(), no_progress); }, "node 3 is out of range, there are 3 nodes");
}

TEST_F(ImportOgbTypes, HeldOutLinksThatAreEdgesTooAreRefused) {
  write("train/author___writes___paper", "1,0\n0,2\n");  // links to train on are edges
  write("test/author___writes___paper", "0,1\n1,2\n");
  expect_refused([&] { import_ogb(options(), no_progress); },
                 "test/author___writes___paper.csv.gz, line 2: 1,2 is held out and an edge of raw too");
  write("test/author___writes___paper", "0,1\n");
  write("valid/paper___cites___paper", "1,2\n2,1\n");
  expect_refused([&] { import_ogb(options(), no_progress); }, "line 2: 2,1 is held out");
  write("valid/paper___cites___paper", "1,2\n");
  EXPECT_EQ(import_ogb(options(), no_progress).edges[0].splits.at("train").count, 2);
}

// As LastFM comes: counts beside raw, no splits, no features.
TEST_F(ImportOgbTypes, CountsMayLieBesideRaw_AndSplitsAndFeaturesBeAbsent) {
  for (const char* part : {"raw/num-node-dict.csv.gz", "raw/node-feat", "raw/node-label", "split"})
    remove(part);
  std::ofstream(folder_.path() / "mag/num-nodes.csv") << "author,paper\n2,3\n";
  const RawGraph graph = import_ogb(options(), no_progress);
  EXPECT_EQ(graph.nodes[0].name, "author");
  EXPECT_EQ(graph.num_edges(), 5);
  EXPECT_TRUE(build("bare", graph).edge_types[1].times.empty());
}

TEST_F(ImportOgbTypes, WhatDoesNotFitIsNamed) {
  const auto refused = [&](const std::string& stem, const std::string& text, const std::string& part) {
    const fs::path path = folder_.path() / "mag" / (stem + ".csv.gz");
    const std::string good = testing::file_bytes(path);
    write(stem, text);
    expect_refused([&] { build("bad", import_ogb(options(), no_progress)); }, part);
    std::ofstream(path, std::ios::binary) << good;
  };
  const std::string writes = "raw/relations/author___writes___paper/";
  refused("raw/num-node-dict", "author,paper\n2\n", "1 numbers for 2 types");
  refused("raw/num-node-dict", "author,paper\n2,-1\n", "-1 is out of range");
  refused("raw/num-node-dict", "author,paper\n0,0\n", "the graph has no nodes");
  refused("raw/num-node-dict", "author,paper\n2,3\n2,3\n", "a second graph");
  refused("raw/num-node-dict", "author,papers\n2,3\n", "there is no node type 'paper'");
  refused(writes + "edge", "1,0\n2,2\n1,2\n", "node 2 is out of range, there are 2 nodes");
  refused(writes + "num-edge-list", "4\n", "has 3 lines, but");
  refused(writes + "edge-weight", "5\n0.5\n", "edge-weight.csv.gz has 2 lines, but there are 3 edges");
  refused(writes + "edge-weight", "5,1\n0.5,1\n2,1\n", "has several numbers in a line");
  refused(writes + "edge-weight", "5\n-1\n2\n", "weight");
  fs::rename(folder_.path() / "mag" / writes, folder_.path() / "mag/raw/relations/writes");
  expect_refused([&] { import_ogb(options(), no_progress); }, "is not named source___relation___destination");
}

TEST(ImportOgbTypesReal, LastfmIsReadWhole) {
  const char* data = std::getenv("HOPFEED_GRAPHS");
  const fs::path raw = fs::path(data != nullptr ? data : "") / "lastfm";
  if (!fs::exists(raw / "raw"))
    GTEST_SKIP() << "no lastfm in '" << raw.string() << "' (HOPFEED_GRAPHS names the folder)";
  const RawGraph graph = import_ogb({.raw = raw, .add_inverse_edge = true}, no_progress);
  EXPECT_EQ(graph.nodes[0].count, 1892);
  EXPECT_EQ(graph.nodes[1].count, 4489);
  ASSERT_EQ(graph.edges.size(), 4U);
  EXPECT_EQ(graph.edge_name(graph.edges[1]), "artist__rev_listens__user");
  EXPECT_EQ(graph.edges[0].csc.num_edges(), graph.edges[1].csc.num_edges());
  EXPECT_EQ(graph.edges[1].rev_of, "user__listens__artist");
  EXPECT_GT(graph.edges[0].splits.at("test").count, 10'000);
  const TempFolder folder;
  testing::write_dataset(folder.path() / "lastfm", graph);
  testing::verify(folder.path() / "lastfm");
}

}  // namespace
}  // namespace hopfeed
