// The importers of NumPy arrays and of OGB's CSV layout, on files that the tests write.
#include "partition_tool/repeated_ids.h"
#include "tests/partition_tool/imported_files.h"
#include "tests/support/expect_refused.h"

namespace hopfeed {
namespace {

class ImportNumpy : public ::testing::Test {
 protected:
  const TempFolder folder_;
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  NumpyImportOptions good() const {
    return {.edge_index = save<std::int64_t>(path("e.npy"), {2, 0, 2, 1, 1, 0}, {2, 3}),
            .features = save<float>(path("x.npy"), {1, 2, 3, 4, 5, 6}, {3, 2}),
            .labels = save<std::int64_t>(path("y.npy"), {1, -1, 0}),
            .splits = {{"train", save<std::int64_t>(path("t.npy"), {2, 0})}}};
  }
};

TEST_F(ImportNumpy, ReadsEdgesFeaturesLabelsAndSplits) {
  const RawGraph graph = import_numpy(good(), no_progress);
  EXPECT_EQ(graph.edges[0].csc.indptr, (Ids{0, 1, 3, 3}));  // 2->1, 0->1, 2->0
  EXPECT_EQ(sources(graph.edges[0]), (Ids{2, 2, 0}));
  EXPECT_EQ(values_of<float>(graph.nodes[0], 0), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values_of<std::int64_t>(graph.nodes[0], 1), (Ids{1, -1, 0}));
  EXPECT_EQ(graph.nodes[0].num_classes, 2);
  EXPECT_EQ(graph.nodes[0].splits.at("train"), (Ids{2, 0}));
}

TEST_F(ImportNumpy, EveryTypeOfIdsAndLabelsGivesTheSameGraph) {
  const RawGraph expected = import_numpy(good(), no_progress);
  NumpyImportOptions options = good();
  options.edge_index = save<std::int32_t>(path("e32.npy"), {2, 0, 2, 1, 1, 0}, {2, 3});
  options.splits["train"] = save<std::int32_t>(path("t32.npy"), {2, 0});
  const float nan = std::nanf("");
  for (const fs::path& labels :
       {save<std::int32_t>(path("y32.npy"), {1, -1, 0}), save<std::int8_t>(path("y8.npy"), {1, -5, 0}),
        save<float>(path("yf.npy"), {1, nan, 0}, {3, 1}), save<double>(path("yd.npy"), {1, nan, 0})}) {
    options.labels = labels;
    const RawGraph graph = import_numpy(options, no_progress);
    EXPECT_EQ(sources(graph.edges[0]), sources(expected.edges[0]));
    EXPECT_EQ(graph.nodes[0].splits, expected.nodes[0].splits);
    EXPECT_EQ(values_of<std::int64_t>(graph.nodes[0], 1), (Ids{1, -1, 0})) << labels;
  }
}

/// As numpy.save leaves an array of another order, byte order or type: `data` is what the file has.
fs::path give(const fs::path& path, const std::string& type, bool fortran, const std::string& shape,
              const std::string& data) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") +
                       ", 'shape': " + shape + ", }";
  header.resize(117, ' ');
  std::ofstream(path, std::ios::binary) << std::string("\x93NUMPY\x01\0\x76\0", 10) << header << '\n' << data;
  return path;
}

template <class T>
std::string big_endian(const std::vector<T>& values) {
  std::string bytes;
  for (const T value : values)
    for (std::size_t byte = sizeof(T); byte-- > 0;)
      bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> 8 * byte);
  return bytes;
}

template <class T>
std::string little_endian(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST_F(ImportNumpy, EveryFormOfTheEdgeIndexGivesTheSameGraph) {
  const RawGraph expected = import_numpy(good(), no_progress);
  EXPECT_TRUE(expected.notes.empty());
  const std::vector<std::int64_t> rows{2, 0, 2, 1, 1, 0}, pairs{2, 1, 0, 1, 2, 0};
  struct Form {
    const char *type, *shape;
    bool fortran;
    std::string data;
    bool told;
  };
  const auto narrow = [](const std::vector<std::int64_t>& ids) {
    return std::vector<std::uint16_t>(ids.begin(), ids.end());
  };
  const auto unsigned_ids = [](const std::vector<std::int64_t>& ids) {
    return std::vector<std::uint64_t>(ids.begin(), ids.end());
  };
  for (const Form& form :
       {Form{"<i8", "(2, 3)", true, little_endian(pairs), false},  // edges.T of edges of [E, 2]
        Form{"<i8", "(3, 2)", false, little_endian(pairs), true},
        Form{"<i8", "(3, 2)", true, little_endian(rows), true},
        Form{">i8", "(2, 3)", false, big_endian(rows), false},
        Form{">i8", "(2, 3)", true, big_endian(pairs), false},
        Form{"<u2", "(2, 3)", false, little_endian(narrow(rows)), false},
        Form{">u2", "(3, 2)", false, big_endian(narrow(pairs)), true},
        Form{"<u8", "(2, 3)", false, little_endian(unsigned_ids(rows)), false}}) {
    NumpyImportOptions options = good();
    options.edge_index = give(path("form.npy"), form.type, form.fortran, form.shape, form.data);
    const RawGraph graph = import_numpy(options, no_progress);
    const std::string what =
        std::string(form.type) + " " + form.shape + (form.fortran ? " in Fortran order" : "");
    EXPECT_EQ(graph.edges[0].csc.indptr, expected.edges[0].csc.indptr) << what;
    EXPECT_EQ(sources(graph.edges[0]), sources(expected.edges[0])) << what;
    ASSERT_EQ(graph.notes.size(), form.told ? 1U : 0U) << what;
    if (form.told) {
      EXPECT_EQ(graph.notes[0],
                path("form.npy").string() +
                    ": its shape is [3, 2], read as [E, 2]: source and destination of each edge");
    }
  }
  NumpyImportOptions options = good();
  options.edge_index = give(path("form.npy"), "<u8", false, "(2, 1)",
                            little_endian<std::uint64_t>({1, std::uint64_t{1} << 63}));
  expect_refused([&] { import_numpy(options, no_progress); },
                 "form.npy: entry [1, 0] is 9223372036854775808, which no int64 holds");
}

TEST_F(ImportNumpy, AttributesLabelsAndSplitsMayHaveAnyForm) {
  NumpyImportOptions options = good();
  options.features = give(path("f.npy"), "<f4", true, "(3, 2)", little_endian<float>({1, 3, 5, 2, 4, 6}));
  options.labels = give(path("l.npy"), "<u2", false, "(3,)", little_endian<std::uint16_t>({1, 2, 0}));
  options.splits["train"] = give(path("s.npy"), ">i4", false, "(2,)", big_endian<std::int32_t>({2, 0}));
  options.node_attrs = {
      {"born", give(path("b.npy"), "<u8", false, "(3,)", little_endian<std::uint64_t>({7, 8, 9}))}};
  options.edge_attrs = {{"kind", give(path("k.npy"), "<u2", true, "(3, 2)",
                                      little_endian<std::uint16_t>({1, 3, 65'535, 2, 4, 6}))}};
  options.times = {"born"};
  const RawGraph graph = import_numpy(options, no_progress);
  EXPECT_EQ(values_of<float>(graph.nodes[0], 0), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values_of<std::int64_t>(graph.nodes[0], 1), (Ids{1, 2, 0}));
  EXPECT_EQ(graph.nodes[0].splits.at("train"), (Ids{2, 0}));
  EXPECT_EQ(graph.nodes[0].attrs[2].type, ElementType::kInt64);
  EXPECT_EQ(values_of<std::int64_t>(graph.nodes[0], 2), (Ids{7, 8, 9}));
  EXPECT_EQ(graph.edges[0].attrs[0].type, ElementType::kInt32);
  EXPECT_EQ(in_edge_values<std::int32_t>(graph.edges[0], 0, 0, 2), (std::vector<std::int32_t>{65'535, 6}));
  const DatasetMeta meta = testing::write_dataset(path("made"), graph);
  EXPECT_EQ(meta.edge_types[0].times, std::vector<std::string>{"born"});
}

TEST_F(ImportNumpy, IdsThatASplitHasTwiceAreTold) {
  NumpyImportOptions options = good();
  EXPECT_TRUE(repeated_ids(import_numpy(options, no_progress)).empty());
  save<std::int64_t>(options.splits["train"], {2, 0, 1, 0, 2, 0});
  const RawGraph graph = import_numpy(options, no_progress);
  EXPECT_EQ(graph.nodes[0].splits.at("train").size(), 6U) << "and kept";
  EXPECT_EQ(repeated_ids(graph),
            std::vector<std::string>{"split 'train' has 3 repeated ids, the first of them 0; all are "
                                     "kept, so these nodes are seeds more than once in an epoch"});
}

TEST_F(ImportNumpy, MasksBecomeIds) {
  NumpyImportOptions options = good();
  write_npy<bool>(path("m.npy"), std::span<const bool>(std::array{true, false, true}), {3});
  options.splits["valid"] = path("m.npy");
  EXPECT_EQ(import_numpy(options, no_progress).nodes[0].splits.at("valid"), (Ids{0, 2}));
}

TEST_F(ImportNumpy, DoubleFeaturesAreRoundedHalfFeaturesAreKept) {
  NumpyImportOptions options = good();
  options.features = save<double>(
      path("xd.npy"), {0.1, 1e300, -1e300, 1 + std::ldexp(1.0, -24), 1 + 3 * std::ldexp(1.0, -24), -0.0},
      {3, 2});
  const float inf = std::numeric_limits<float>::infinity();
  const auto x = values_of<float>(import_numpy(options, no_progress).nodes[0], 0);
  EXPECT_EQ(x,
            (std::vector<float>{0.1F, inf, -inf, 1.0F, 1 + std::ldexp(1.0F, -22), -0.0F}));  // ties to even
  EXPECT_TRUE(std::signbit(x[5]));

  NpyWriter writer(path("xh.npy"), npy_descr(ElementType::kFloat16), {3, 1});
  const std::vector<std::uint16_t> bits{0x3C00, 0x7E01, 0x8000};
  writer.write(std::span<const std::uint16_t>(bits.data(), bits.size()));
  writer.finish();
  options.features = path("xh.npy");
  const RawGraph graph = import_numpy(options, no_progress);
  EXPECT_EQ(graph.nodes[0].attrs[0].type, ElementType::kFloat16);
  EXPECT_EQ(values_of<std::uint16_t>(graph.nodes[0], 0), bits);
}

TEST_F(ImportNumpy, WithoutFeaturesTheLargestIdCountsTheNodes) {
  NumpyImportOptions options{.edge_index = good().edge_index};
  EXPECT_EQ(import_numpy(options, no_progress).num_nodes(), 3);
  options.num_nodes = 10;
  EXPECT_EQ(import_numpy(options, no_progress).num_nodes(), 10);
}

TEST_F(ImportNumpy, AttributesOfEdgesFollowTheirEdgesWithAndWithoutStoredIds) {
  NumpyImportOptions options = good();  // 2->1, 0->1, 2->0
  options.edge_attrs = {{"w", save<float>(path("w.npy"), {1, 2, 3})},
                        {"f", save<float>(path("f.npy"), {1, 2, 3, 4, 5, 6}, {3, 2})}};
  options.node_attrs = {{"since", save<std::int64_t>(path("s.npy"), {7, 8, 9})}};
  options.weights = {"w"};
  options.times = {"since"};
  for (const bool keep : {true, false}) {
    options.keep_edge_ids = keep;
    const RawGraph graph = import_numpy(options, no_progress);
    EXPECT_EQ(graph.edges[0].csc.stores_edge_ids(), keep);
    EXPECT_EQ(in_edge_values<float>(graph.edges[0], 0, 0, 1), (std::vector<float>{3}));
    EXPECT_EQ(in_edge_values<float>(graph.edges[0], 0, 1, 1), (std::vector<float>{1, 2}));
    EXPECT_EQ(in_edge_values<float>(graph.edges[0], 0, 2, 1), (std::vector<float>{}));
    EXPECT_EQ(in_edge_values<float>(graph.edges[0], 1, 1, 2), (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(graph.edges[0].attrs[1].shape, (Ids{2}));
    EXPECT_EQ(graph.nodes[0].attrs[2].name, "since");
    EXPECT_EQ(values_of<std::int64_t>(graph.nodes[0], 2), (Ids{7, 8, 9}));
    EXPECT_EQ(graph.edges[0].weights, std::vector<std::string>{"w"});
    EXPECT_EQ(graph.edges[0].times, std::vector<std::string>{"since"});
  }
}

TEST_F(ImportNumpy, BadAttributesAreNamed) {
  const auto refused = [&](const std::function<void(NumpyImportOptions&)>& spoil, const std::string& part) {
    NumpyImportOptions options = good();
    options.edge_attrs = {{"w", save<float>(path("w.npy"), {1, 2, 3})}};
    options.node_attrs = {{"t", save<std::int64_t>(path("s.npy"), {7, 8, 9})}};
    spoil(options);
    expect_refused([&] { import_numpy(options, no_progress); }, part);
  };
  refused(
      [&](auto& o) {
        save<float>(o.edge_attrs[0].source.path, {1, 2});
      },
      "w.npy: it has 2 rows, but there are 3 edges");
  refused(
      [&](auto& o) {
        save<std::int64_t>(o.node_attrs[0].source.path, {1, 2});
      },
      "s.npy: it has 2 rows, but there are 3 nodes");
  refused(
      [&](auto& o) {
        save<float>(o.edge_attrs[0].source.path, {}, {3, 0});
      },
      "w.npy: its rows have 0 bytes");
  refused(
      [&](auto& o) {
        save<float>(o.edge_attrs[0].source.path, {1, 2, 3}, {3, 1, 1, 1, 1});
      },
      "w.npy: it has 5 dimensions, and 4 can be stored, the edges among them");
  refused([&](auto& o) { o.edge_attrs[0].name = "a__b"; }, "edge attribute 'a__b' is no valid name");
  refused([&](auto& o) { o.edge_attrs.push_back(o.edge_attrs[0]); },
          "edge attribute 'w' has a name that is taken");
  refused([&](auto& o) { o.node_attrs[0].name = "x"; }, "node attribute 'x' has a name that is taken");
  refused([&](auto& o) { o.node_attrs[0].name = "hotness"; },
          "node attribute 'hotness' has a name that is taken");
  for (const std::string field : {"n_id", "batch", "e_id", "walks"}) {
    const std::string said =
        " attribute '" + field + "' has the name of a field that batches have of their own; rename it";
    refused([&](auto& o) { o.node_attrs[0].name = field; }, "node" + said);
    refused([&](auto& o) { o.edge_attrs[0].name = field; }, "edge" + said);
  }
  refused([&](auto& o) { o.weights = {"t"}; }, "weight 't' is no attribute of the edges; they have: w");
  refused([&](auto& o) { o.times = {"w"}; }, "time 'w' has the element type float32; convert it to int64");
  refused([&](auto& o) { o.times = {"u"}; }, "time 'u' is no attribute");
}

TEST_F(ImportNumpy, BadInputIsNamed) {
  const auto refused = [&](const std::function<void(NumpyImportOptions&)>& spoil, const std::string& part,
                           ErrorCode code = ErrorCode::kInvalid) {
    NumpyImportOptions options = good();
    spoil(options);
    expect_refused([&] { import_numpy(options, no_progress); }, part, code);
  };
  refused([&](auto& o) { o.edge_index = path("none.npy"); }, "none.npy", ErrorCode::kNotFound);
  refused([&](auto& o) { std::ofstream(o.edge_index) << "0,1\n"; }, "e.npy", ErrorCode::kCorrupt);
  refused([&](auto& o) { fs::resize_file(o.edge_index, fs::file_size(o.edge_index) - 1); }, "e.npy",
          ErrorCode::kCorrupt);
  refused([&](auto& o) { save<std::int64_t>(o.edge_index, {0, 1, 2}); }, "[2, E]");
  refused(
      [&](auto& o) {
        save<std::int64_t>(o.edge_index, {0, 1, 1, 0, 2, 2, 0, 0, 0}, {3, 3});
      },
      "e.npy: its shape is [3, 3]; the edge index must have the shape [2, E]");
  refused(
      [&](auto& o) {
        save<float>(o.edge_index, {0, 1, 1, 0}, {2, 2});
      },
      "e.npy: its element type is <f4; node ids must be integers");
  refused(
      [&](auto& o) {
        save<std::int64_t>(o.edge_index, {0, 3}, {2, 1});
      },
      "destination node 3, but there are 3");
  refused([&](auto& o) { save<std::int64_t>(o.edge_index, {-1, 1}, {2, 1}); }, "source node -1");
  refused([&](auto& o) { o.num_nodes = 4; }, "x.npy: it has 3 rows, but there are 4");
  refused(
      [&](auto& o) {
        save<float>(o.features, {}, {0, 2});
      },
      "y.npy: it has 3 rows, but there are 0 nodes");
  refused([&](auto& o) { save<std::int64_t>(o.labels, {}, {0}); }, "y.npy: it has 0 rows, but there are 3");
  refused([&](auto& o) { save<float>(o.features, {1, 2, 3}); }, "[N, F]");
  refused([&](auto& o) { save<std::int64_t>(o.features, {1, 2, 3}, {3, 1}); }, "float16, float32 or float64");
  refused([&](auto& o) { save<std::int64_t>(o.labels, {1, 2}); }, "y.npy: it has 2 rows");
  refused([&](auto& o) { save<float>(o.labels, {1, 0.5, 2}); }, "entry 1 is 0.5");
  refused([&](auto& o) { save<std::int64_t>(o.labels, {1, 2'000'000'000, 2}); }, "entry 1 is 2000000000");
  refused([&](auto& o) { save<std::int64_t>(o.labels, {1, 2, 3, 4, 5, 6}, {3, 2}); }, "[N] or [N, 1]");
  refused([&](auto& o) { save<std::int64_t>(o.splits["train"], {0, 3}); }, "entry 1 is node 3");
  refused([&](auto& o) { save<std::int64_t>(o.splits["train"], {-2}); }, "entry 0 is node -2");
  refused([&](auto& o) { save<float>(o.splits["train"], {1}); }, "node ids must be integers");
  refused(
      [&](auto& o) {
        fs::remove(o.splits["train"]);
        write_npy<bool>(o.splits["train"], std::span<const bool>(std::array{true}), {1});
      },
      "mask has 1 entries");
}

class ImportOgb : public ::testing::Test {
 protected:
  ImportOgb() {
    write("raw/num-node-list", "3\n");
    write("raw/num-edge-list", "4\n");
    write("raw/edge", "2,1\n0,1\n2,0\n2,1\n");
    write("raw/node-feat", "1,2.5\n-3,4e-1\nnan,6\n");
    write("raw/node-label", "1\nnan\n0\n");
    write("split/time/train", "2\n0\n");
    write("split/time/valid", "1\n");
    write("split/time/test", "");
  }
  void write(const std::string& stem, const std::string& text) {
    gzip(folder_.path() / (stem + ".csv.gz"), text);
  }
  OgbImportOptions options() const { return {.raw = folder_.path()}; }
  void refused(const std::string& stem, const std::string& text, const std::string& part) {
    const fs::path path = folder_.path() / (stem + ".csv.gz");
    const std::string good = testing::file_bytes(path);
    write(stem, text);
    expect_refused([&] { import_ogb(options(), no_progress); }, part);
    std::ofstream(path, std::ios::binary) << good;
  }
  const TempFolder folder_;
};

TEST_F(ImportOgb, FeaturesOfEdgesFollowTheirEdgesAndInverses) {
  write("raw/edge-feat", "1,2\n3,4\n5,6\n7,8\n");  // of 2->1, 0->1, 2->0, 2->1
  OgbImportOptions options{.raw = folder_.path()};
  for (const bool keep : {true, false}) {
    options.keep_edge_ids = keep;
    options.add_inverse_edge = false;
    const RawGraph graph = import_ogb(options, no_progress);
    EXPECT_EQ(graph.edges[0].csc.stores_edge_ids(), keep);
    EXPECT_EQ(graph.edges[0].attrs[0].name, "edge_attr");
    EXPECT_EQ(in_edge_values<float>(graph.edges[0], 0, 0, 2), (std::vector<float>{5, 6}));
    EXPECT_EQ(in_edge_values<float>(graph.edges[0], 0, 1, 2), (std::vector<float>{1, 2, 3, 4, 7, 8}));
    options.add_inverse_edge = true;
    EXPECT_EQ(in_edge_values<float>(import_ogb(options, no_progress).edges[0], 0, 0, 2),
              (std::vector<float>{3, 4, 5, 6}));
  }
  refused("raw/edge-feat", "1,2\n3,4\n5,6\n", "edge-feat.csv.gz has 3 lines, but there are 4 edges");
}

TEST_F(ImportOgb, ReadsTheLayout) {
  const RawGraph graph = import_ogb(options(), no_progress);
  EXPECT_EQ(graph.edges[0].csc.indptr, (Ids{0, 1, 4, 4}));
  EXPECT_EQ(sources(graph.edges[0]), (Ids{2, 2, 0, 2}));
  const auto x = values_of<float>(graph.nodes[0], 0);
  EXPECT_EQ(std::vector<float>(x.begin(), x.begin() + 4), (std::vector<float>{1, 2.5F, -3, 0.4F}));
  EXPECT_TRUE(std::isnan(x[4]));
  EXPECT_EQ(values_of<std::int64_t>(graph.nodes[0], 1), (Ids{1, -1, 0}));
  EXPECT_EQ(graph.nodes[0].splits,
            (std::map<std::string, Ids>{{"test", {}}, {"train", {2, 0}}, {"valid", {1}}}));
}

TEST_F(ImportOgb, NodeYearsAreTimes) {
  write("raw/node_year", "2013\n1999\n-4\n");
  const RawGraph graph = import_ogb(options(), no_progress);
  EXPECT_EQ(graph.nodes[0].attrs.back().name, "node_year");
  EXPECT_EQ(values_of<std::int64_t>(graph.nodes[0], 2), (Ids{2013, 1999, -4}));
  EXPECT_EQ(graph.edges[0].times, std::vector<std::string>{"node_year"});
  const DatasetMeta meta = testing::write_dataset(folder_.path() / "made", graph);
  EXPECT_EQ(meta.edge_types[0].times, std::vector<std::string>{"node_year"});
  refused("raw/node_year", "2013\n1999\n", "node_year.csv.gz has 2 lines, but there are 3 nodes");
  refused("raw/node_year", "2013\n1999\nlately\n", "node_year.csv.gz, line 3");
}

TEST_F(ImportOgb, PlainFilesAndLinesWithoutBreakAtTheEndWorkToo) {
  fs::remove(folder_.path() / "raw/edge.csv.gz");
  std::ofstream(folder_.path() / "raw/edge.csv") << "2,1\r\n0,1\r\n2,0\r\n2,1";
  EXPECT_EQ(sources(import_ogb(options(), no_progress).edges[0]), (Ids{2, 2, 0, 2}));
}

TEST_F(ImportOgb, InverseEdgesFollowTheirEdge) {
  OgbImportOptions both = options();
  both.add_inverse_edge = true;
  const RawGraph graph = import_ogb(both, no_progress);
  EXPECT_EQ(graph.edges[0].csc.indptr, (Ids{0, 2, 5, 8}));
  EXPECT_EQ(sources(graph.edges[0]),
            (Ids{1, 2, 2, 0, 2, 1, 0, 1}));  // 0: 0->1's inverse, 2->0; 1: ...; 2: inverses
  EXPECT_EQ(std::get<std::vector<std::int32_t>>(graph.edges[0].csc.edge_ids),
            (std::vector<std::int32_t>{3, 4, 0, 2, 6, 1, 5, 7}));
}

TEST_F(ImportOgb, BadInputIsNamedWithItsLine) {
  refused("raw/edge", "2,1\n0;1\n2,0\n2,1\n", "edge.csv.gz, line 2: expected source,destination");
  refused("raw/edge", "2,1\n0,x\n2,0\n2,1\n", "edge.csv.gz, line 2: 'x' is no number");
  refused("raw/edge", "2,1\n0,1,1\n2,0\n2,1\n", "edge.csv.gz, line 2: '1,1' is no number");
  refused("raw/edge", "2,1\n0,1\n3,0\n2,1\n", "edge.csv.gz, line 3: node 3 is out of range");
  refused("raw/edge", "2,1\n0,1\n-1,0\n2,1\n", "edge.csv.gz, line 3: node -1 is out of range");
  refused("raw/edge", "2,1\n99999999999999999999,1\n", "edge.csv.gz, line 2");
  refused("raw/edge", "2,1\n", "num-edge-list.csv.gz says 4 edges");
  refused("raw/num-node-list", "", "num-node-list.csv.gz is empty");
  refused("raw/num-node-list", "3\n4\n", "second graph");
  refused("raw/num-node-list", "-3\n", "out of range");
  refused("raw/node-feat", "1,2\n1\n1,2\n", "node-feat.csv.gz, line 2: 1 features where line 1 has 2");
  refused("raw/node-feat", "1,2\n1,\n1,2\n", "node-feat.csv.gz, line 2: '' is no number");
  refused("raw/node-feat", "1,2\n1,2\n", "node-feat.csv.gz has 2 lines, but there are 3 nodes");
  refused("raw/node-feat", "1,2\n1,2\n1,2\n1,2\n", "node-feat.csv.gz has 4 lines, but there are 3 nodes");
  refused("raw/node-label", "1\n0.5\n0\n", "node-label.csv.gz, line 2: 0.5 is no class number");
  refused("raw/node-label", "1\n0,1\n0\n", "node-label.csv.gz, line 2: several labels");
  refused("raw/node-label", "1\n0\n", "node-label.csv.gz has 2 lines");
  refused("split/time/train", "0\n7\n", "train.csv.gz, line 2: node 7 is out of range");
}

TEST_F(ImportOgb, ACutOffFileIsCorrupt) {
  std::string edges;
  for (int i = 0; i < 5'000; ++i) edges += std::to_string(i % 3) + "," + std::to_string(i * i % 3) + "\n";
  write("raw/edge", edges);
  const fs::path path = folder_.path() / "raw/edge.csv.gz";
  fs::resize_file(path, fs::file_size(path) - 12);
  expect_refused([&] { import_ogb(options(), no_progress); }, "edge.csv.gz", ErrorCode::kCorrupt);
}

TEST_F(ImportOgb, AFileOfNoBytesIsNoEmptySplit) {
  fs::resize_file(folder_.path() / "split/time/train.csv.gz", 0);
  expect_refused([&] { import_ogb(options(), no_progress); }, "train.csv.gz is empty", ErrorCode::kCorrupt);
}

TEST_F(ImportOgb, MissingFilesAndSchemesAreNamed) {
  write("split/random/train", "0\n");
  expect_refused([&] { import_ogb(options(), no_progress); }, "--split-scheme");
  OgbImportOptions chosen = options();
  chosen.split_scheme = "random";
  expect_refused([&] { import_ogb(chosen, no_progress); }, "valid.csv.gz", ErrorCode::kNotFound);
  chosen.split_scheme = "time";
  EXPECT_EQ(import_ogb(chosen, no_progress).num_nodes(), 3);
  fs::remove(folder_.path() / "raw/edge.csv.gz");
  expect_refused([&] { import_ogb(chosen, no_progress); }, "edge.csv.gz", ErrorCode::kNotFound);
  fs::remove_all(folder_.path() / "split");
  expect_refused([&] { import_ogb(chosen, no_progress); }, "no folder split", ErrorCode::kNotFound);
}

}  // namespace
}  // namespace hopfeed
