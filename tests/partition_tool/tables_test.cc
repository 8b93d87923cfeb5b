// Shards of a dataset from sorted rows (partition_tool/tables): against the obvious writer, file by file,
// and with streams and shards that cannot be served.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <tuple>

#include "core/base/error.h"
#include "core/dataset/id_at.h"
#include "core/dataset/node_keys.h"
#include "partition_tool/tables/arrow_stream.h"
#include "partition_tool/tables/column_shard.h"
#include "partition_tool/tables/dataset_draft.h"
#include "partition_tool/tables/edge_shard.h"
#include "partition_tool/tables/finish_dataset.h"
#include "partition_tool/tables/node_shard.h"
#include "partition_tool/tables/shard_folder.h"
#include "tests/support/arrow_table.h"
#include "tests/support/dataset_files.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::ArrowTestColumn;
using testing::ArrowTestTable;
using testing::number_column_of;
using testing::TempFolder;
using Ints = std::vector<std::int64_t>;

constexpr const char* kNothing = "nothing was refused";

/// In the order that shards have: destination, source, the bytes of the attributes.
testing::TypedEdges sorted(const testing::TypedEdges& edges) {
  std::vector<std::size_t> order(edges.sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto bytes_of = [](const auto& values, std::size_t i) {
    std::array<unsigned char, 8> bytes{};
    if (!values.empty()) std::memcpy(bytes.data(), &values[i], 8);
    return bytes;
  };
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::tuple(edges.destinations[i], edges.sources[i], bytes_of(edges.weight, i),
                      bytes_of(edges.time, i));
  });
  testing::TypedEdges result = edges;
  for (std::size_t i = 0; i < order.size(); ++i) {
    result.sources[i] = edges.sources[order[i]];
    result.destinations[i] = edges.destinations[order[i]];
    if (!edges.weight.empty()) result.weight[i] = edges.weight[order[i]];
    if (!edges.time.empty()) result.time[i] = edges.time[order[i]];
  }
  return result;
}

/// What shards are made of, and the dataset that the obvious writer makes of the same.
struct Case {
  testing::TypedGraph graph;
  fs::path oracle;
  std::string draft;
};

ArrowStream& open(std::unique_ptr<ArrowStream>& stream, ArrowTestTable table) {
  ArrowArrayStream given = testing::stream_of(std::move(table));
  stream = std::make_unique<ArrowStream>(&given);
  return *stream;
}

std::string draft_of(const fs::path& dataset) {
  nlohmann::json meta = nlohmann::json::parse(testing::file_bytes(dataset / "meta.json"));
  for (const char* key : {"checksum", "fingerprint", "files"}) meta.erase(key);
  meta["cut"]["edges_cut"] = 0;
  return meta.dump();
}

class ShardsOfADataset : public ::testing::Test {
 protected:
  Case make(std::uint64_t seed, bool wide, bool edge_ids) {
    Case made{.graph = testing::random_typed_graph({.seed = seed, .empty_type = seed % 2 == 0}),
              .oracle = folder_.path() / "oracle",
              .draft = {}};
    for (testing::TypedEdges& edges : made.graph.edges) edges = sorted(edges);
    testing::TypedCut cut = testing::random_typed_cut(made.graph, 3, seed);
    cut.wide_ids = wide;
    cut.edge_ids = edge_ids;
    cut.by_id = seed % 3 == 0;
    testing::write_typed_dataset(made.oracle, made.graph, cut);
    made.draft = draft_of(made.oracle);
    return made;
  }

  fs::path next() { return folder_.path() / ("shard" + std::to_string(shards_.size())); }
  void shard_of_nodes(const Dataset& dataset, const std::string& draft, int type, int p) {
    const NodeTypeMeta& node = dataset.meta().node_types[static_cast<std::size_t>(type)];
    const std::int64_t begin = node.partition_offsets[static_cast<std::size_t>(p)],
                       rows = node.partition_offsets[static_cast<std::size_t>(p) + 1] - begin;
    ArrowTestTable table{.columns = {}, .rows = rows, .batch_rows = 7};
    Ints originals(static_cast<std::size_t>(rows));
    for (std::int64_t i = 0; i < rows; ++i)
      originals[static_cast<std::size_t>(i)] = dataset.original_id(type, begin + i);
    table.columns.push_back(number_column_of("original_id", "l", originals));
    const NpyArray hotness(dataset.folder() / hotness_path(p, node));
    const auto hot = hotness.as<double>();
    table.columns.push_back(number_column_of("hotness", "g", std::vector<double>(hot.begin(), hot.end())));
    for (const AttrMeta& attr : node.attrs) {
      const NpyArray file(dataset.folder() / attr_path(p, node, attr.name));
      table.columns.push_back(column_of(attr, file, rows));
    }
    std::unique_ptr<ArrowStream> stream;
    const fs::path folder = next();
    write_node_shard(open(stream, std::move(table)), parse_draft(draft), type, p, folder);
    shards_.push_back(folder);
  }

  static ArrowTestColumn column_of(const AttrMeta& attr, const NpyArray& file, std::int64_t rows) {
    const char* const format = attr.type == ElementType::kFloat32   ? "f"
                               : attr.type == ElementType::kFloat64 ? "g"
                                                                    : "l";
    ArrowTestColumn column{
        .name = attr.name,
        .format = attr.shape.empty() ? format : "+w:" + std::to_string(attr.row_elements()),
        .items = attr.shape.empty() ? "" : format,
        .values = {},
        .row_bytes = static_cast<std::size_t>(attr.row_bytes()),
        .texts = {},
        .absent = {}};
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto row =
          file.bytes().subspan(static_cast<std::size_t>(i * attr.stride_bytes), column.row_bytes);
      column.values.insert(column.values.end(), row.begin(), row.end());
    }
    return column;
  }

  struct EdgeStream {
    ArrowTestTable table;
    Ints originals, first_ids;
    std::map<std::string, Ints> bounds;
  };
  /// Edges of one pair come in the opposite order.
  static EdgeStream edges_of(const Dataset& dataset, int e, int p) {
    const EdgeTypeMeta& edge = dataset.meta().edge_types[static_cast<std::size_t>(e)];
    const NpyArray rows_file(dataset.folder() / rows_path(p, edge)),
        index_file(dataset.folder() / indices_path(p, edge));
    const auto rows = rows_file.as<RowRecord>();
    EdgeStream out;
    Ints row, src, src_new;
    NpyArray ids;
    if (edge.has_edge_ids) ids = NpyArray(dataset.folder() / edge_ids_path(p, edge));
    const int src_type = dataset.meta().edge_src_type(edge);
    for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
      out.originals.push_back(rows[i].original_id);
      const bool any = rows[i + 1].offset > rows[i].offset;
      if (edge.has_edge_ids)
        out.first_ids.push_back(any ? id_at(ids.bytes().data(), edge.edge_id_type, rows[i].offset) : -1);
      for (std::int64_t k = rows[i].offset; k < rows[i + 1].offset; ++k) {
        row.push_back(static_cast<std::int64_t>(i));
        src_new.push_back(id_at(index_file.bytes().data(), edge.index_type, k));
        src.push_back(dataset.original_id(src_type, src_new.back()));
      }
    }
    out.table.rows = std::ssize(row);
    out.table.batch_rows = 13;
    out.table.columns = {number_column_of("row", "l", row), number_column_of("src", "l", src),
                         number_column_of("src_new", "l", src_new)};
    for (const AttrMeta& attr : edge.attrs) {
      ArrowTestColumn column =
          column_of(attr, NpyArray(dataset.folder() / edge_attr_path(p, edge, attr.name)), out.table.rows);
      turn_parallel_edges(row, src, column);
      out.table.columns.push_back(std::move(column));
    }
    for (const std::string& time : edge.times) {
      const NpyArray file(dataset.folder() / time_bounds_path(edge, time));
      const auto bounds = file.as<std::int64_t>();
      out.bounds[time].assign(bounds.begin(), bounds.end());
      if (find_attr(edge.attrs, time) == nullptr)
        out.table.columns.push_back(times_of_sources(dataset, edge, time, src_new));
    }
    return out;
  }
  static void turn_parallel_edges(const Ints& row, const Ints& src, ArrowTestColumn& column) {
    for (std::size_t first = 0, end = 0; first < row.size(); first = end) {
      for (end = first + 1; end < row.size() && row[end] == row[first] && src[end] == src[first];) ++end;
      for (std::size_t a = first, b = end - 1; a < b; ++a, --b)
        std::swap_ranges(column.values.begin() + static_cast<std::ptrdiff_t>(a * column.row_bytes),
                         column.values.begin() + static_cast<std::ptrdiff_t>((a + 1) * column.row_bytes),
                         column.values.begin() + static_cast<std::ptrdiff_t>(b * column.row_bytes));
    }
  }
  static ArrowTestColumn times_of_sources(const Dataset& dataset, const EdgeTypeMeta& edge,
                                          const std::string& time, const Ints& src_new) {
    const int type = dataset.meta().edge_src_type(edge);
    const NodeTypeMeta& node = dataset.meta().node_types[static_cast<std::size_t>(type)];
    Ints of_all;
    for (int p = 0; p < dataset.meta().partitions; ++p) {
      const NpyArray file(dataset.folder() / attr_path(p, node, time));
      const auto times = file.as<std::int64_t>();
      of_all.insert(of_all.end(), times.begin(), times.end());
    }
    Ints times;
    for (const std::int64_t id : src_new) times.push_back(of_all[static_cast<std::size_t>(id)]);
    return number_column_of(time, "l", times);
  }

  void shard_of_edges(const Dataset& dataset, const std::string& draft, int e, int p, int threads) {
    EdgeStream from = edges_of(dataset, e, p);
    std::unique_ptr<ArrowStream> stream;
    const fs::path folder = next();
    write_edge_shard(open(stream, std::move(from.table)), parse_draft(draft),
                     {.edge_type = e,
                      .partition = p,
                      .original_ids = from.originals,
                      .first_edge_ids = from.first_ids,
                      .time_bounds = from.bounds,
                      .threads = threads},
                     folder);
    shards_.push_back(folder);
  }

  void column(const std::string& draft, const ColumnShardOptions& options, ArrowTestColumn values,
              std::int64_t rows) {
    std::unique_ptr<ArrowStream> stream;
    const fs::path folder = next();
    write_column_shard(open(stream, {.columns = {std::move(values)}, .rows = rows, .batch_rows = 11}),
                       parse_draft(draft), options, folder);
    shards_.push_back(folder);
  }
  void numbers(const std::string& draft, const ColumnShardOptions& options, const Ints& values) {
    column(draft, options, number_column_of("n", "l", values), std::ssize(values));
  }

  void shards_of(const Case& made, int threads) {
    const Dataset dataset(made.oracle);
    const DatasetMeta& meta = dataset.meta();
    shards_.clear();
    for (int t = 0; t < dataset.num_node_types(); ++t) {
      const NodeTypeMeta& node = meta.node_types[static_cast<std::size_t>(t)];
      Ints new_ids, originals;
      for (std::int64_t v = 0; v < node.count; ++v) new_ids.push_back(dataset.dataset_id(t, v));
      for (std::int64_t id = 0; id < node.count; ++id) originals.push_back(dataset.original_id(t, id));
      numbers(made.draft, {.kind = "new_ids", .type = t}, new_ids);
      numbers(made.draft, {.kind = "original_ids", .type = t}, originals);
      for (const auto& [split, count] : node.splits) {
        const auto ids = dataset.split(t, split);
        numbers(made.draft, {.kind = "split", .type = t, .name = split}, Ints(ids.begin(), ids.end()));
      }
      for (int p = 0; p < meta.partitions; ++p) shard_of_nodes(dataset, made.draft, t, p);
    }
    for (int e = 0; e < dataset.num_edge_types(); ++e) {
      for (const std::string& time : meta.edge_types[static_cast<std::size_t>(e)].times)
        numbers(made.draft, {.kind = "bounds", .type = e, .name = time},
                edges_of(dataset, e, 0).bounds.at(time));
      for (int p = 0; p < meta.partitions; ++p) shard_of_edges(dataset, made.draft, e, p, threads);
    }
  }
  FinishResult finish(const std::string& draft) {
    return finish_dataset(
        parse_draft(draft),
        {.folder = folder_.path() / "made", .shards = shards_, .made_by = "a test", .threads = 2});
  }
  template <class Body>
  static std::string refusal(const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return kNothing;
  }

  TempFolder folder_;
  std::vector<fs::path> shards_;
};

TEST_F(ShardsOfADataset, FilesAreThoseOfTheObviousWriter) {
  for (const std::uint64_t seed : {1, 2, 3, 5}) {
    SCOPED_TRACE(seed);
    const Case made = make(seed, seed % 2 == 0, seed != 5);
    shards_of(made, seed % 2 == 0 ? 1 : 3);
    finish(made.draft);
    const fs::path folder = folder_.path() / "made";
    testing::verify(folder);
    const DatasetMeta meta = Dataset(folder).meta(), oracle = Dataset(made.oracle).meta();
    EXPECT_EQ(meta.fingerprint, oracle.fingerprint);
    EXPECT_EQ(meta.cut.edges_cut, oracle.cut.edges_cut);
    std::size_t compared = 0;
    for (const auto& [path, file] : oracle.files) {
      if (path.find("remote_rows") != std::string::npos) continue;
      ++compared;
      EXPECT_EQ(testing::file_bytes(folder / path), testing::file_bytes(made.oracle / path)) << path;
    }
    EXPECT_EQ(compared, meta.files.size());
    fs::remove_all(folder);
    for (const fs::path& shard : shards_) fs::remove_all(shard);
  }
}

TEST_F(ShardsOfADataset, SplitsOfLinksAreReadBack_AndPartOfTheFingerprint) {
  Case made = make(1, false, true);
  shards_of(made, 1);
  const std::string plain = finish(made.draft).meta.fingerprint;
  fs::remove_all(folder_.path() / "made");
  for (const fs::path& shard : shards_) fs::remove_all(shard);
  shards_.clear();

  nlohmann::json draft = nlohmann::json::parse(made.draft);
  draft["edge_types"][0]["splits"] = {{"train", 3}, {"test", 2}};
  const std::string text = made.draft = draft.dump();
  shards_of(made, 1);
  const DatasetMeta meta = parse_draft(text);
  const std::int64_t last_source = meta.node_types[meta.edge_src_type(meta.edge_types[0])].count - 1,
                     last_target = meta.node_types[meta.edge_dst_type(meta.edge_types[0])].count - 1;
  const Ints train = {0, 0, last_source, last_target, 1, 0}, test = {1, last_target, 0, 0},
             labels = {1, 0, 7};
  const auto of = [](const char* kind, const char* split) {
    return ColumnShardOptions{.kind = kind, .type = 0, .name = split};
  };
  numbers(text, of("link_pairs", "train"), train);
  EXPECT_EQ(refusal([&] { finish(text); }).find("no shard has the array edge_splits/"), 0U);
  numbers(text, of("link_pairs", "test"), test);
  numbers(text, of("link_labels", "train"), labels);
  EXPECT_NE(finish(text).meta.fingerprint, plain);
  testing::verify(folder_.path() / "made");
  const Dataset dataset(folder_.path() / "made");
  EXPECT_TRUE(std::ranges::equal(dataset.edge_split(0, "train").pairs, train));
  EXPECT_TRUE(std::ranges::equal(dataset.edge_split(0, "train").labels, labels));
  EXPECT_TRUE(std::ranges::equal(dataset.edge_split(0, "test").pairs, test));
  EXPECT_TRUE(dataset.edge_split(0, "test").labels.empty());

  EXPECT_NE(refusal([&] {
              numbers(text, of("link_pairs", "valid"), test);
            }).find("the draft has no edge split 'valid' of edge type"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              numbers(text, of("link_pairs", "test"), {0, 0});
            }).find("4 are wanted"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              numbers(text, of("link_pairs", "test"), {0, 0, 0, last_target + 1});
            }).find("link 1 of edge split 'test' has the node"),
            std::string::npos);
}

TEST_F(ShardsOfADataset, KeysArePartOfTheFingerprint_AndOfNothingElse) {
  Case made = make(1, false, true);
  shards_of(made, 1);
  const std::string plain = finish(made.draft).meta.fingerprint;
  fs::remove_all(folder_.path() / "made");
  for (const fs::path& shard : shards_) fs::remove_all(shard);
  shards_.clear();

  nlohmann::json draft = nlohmann::json::parse(made.draft);
  draft["node_types"][0]["keys"] = "string";
  draft["node_types"][1]["keys"] = "uuid";
  draft["node_types"][2]["keys"] = "int64";
  const std::string text = made.draft = draft.dump();
  shards_of(made, 1);
  const DatasetMeta meta = parse_draft(text);
  std::vector<std::string> names;
  for (std::int64_t v = 0; v < meta.node_types[0].count; ++v)
    names.push_back("k" + std::to_string(10'000 + v * v));
  names[0] = "";
  names.back() = "z\xC3\xA4h";
  column(text, {.kind = "keys", .type = 0},
         {.name = "k", .format = "u", .values = {}, .texts = names, .absent = {}}, std::ssize(names));
  ArrowTestColumn uuids{
      .name = "k", .format = "w:16", .values = {}, .row_bytes = 16, .texts = {}, .absent = {}};
  for (std::int64_t v = 0; v < meta.node_types[1].count; ++v) {
    uuids.values.resize(uuids.values.size() + 16, std::byte{7});
    uuids.values[uuids.values.size() - 2] = std::byte(v / 256);
    uuids.values.back() = std::byte(v % 256);
  }
  column(text, {.kind = "keys", .type = 1}, uuids, meta.node_types[1].count);
  Ints numbers_of_users;
  for (std::int64_t v = 0; v < meta.node_types[2].count; ++v) numbers_of_users.push_back(v * v - 500);
  numbers_of_users[0] = INT64_MIN;
  std::ranges::sort(numbers_of_users);
  numbers_of_users.erase(std::ranges::unique(numbers_of_users).begin(), numbers_of_users.end());
  numbers(text, {.kind = "keys", .type = 2}, numbers_of_users);
  const DatasetMeta with = finish(text).meta;
  EXPECT_NE(with.fingerprint, plain);
  const fs::path folder = folder_.path() / "made";
  testing::verify(folder);
  EXPECT_EQ(Dataset(folder).meta().version(), kKeysDatasetVersion);

  const NodeKeys strings(folder, with.node_types[0]), ids(folder, with.node_types[1]),
      users(folder, with.node_types[2]);
  for (std::size_t v = 0; v < names.size(); ++v) {
    EXPECT_EQ(strings.bytes(static_cast<std::int64_t>(v)), names[v]);
    EXPECT_EQ(strings.find(names[v]), static_cast<std::int64_t>(v));
  }
  EXPECT_EQ(strings.find("nobody"), -1);
  EXPECT_EQ(users.find(INT64_MIN), 0);
  EXPECT_EQ(users.find(std::int64_t{3}), -1);
  EXPECT_EQ(ids.find(ids.bytes(5)), 5);
  EXPECT_NE(refusal([&] { users.find("a"); }).find("type int64"), std::string::npos);

  // Machines that sample need none.
  fs::remove_all(folder / "keys");
  testing::verify(folder);
  EXPECT_NE(refusal([&] { const NodeKeys gone(folder, with.node_types[0]); }).find("--with-keys"),
            std::string::npos);
}

TEST_F(ShardsOfADataset, KeysThatDoNotRiseAreRefused_AndDamagedOnesAreFound) {
  Case made = make(1, false, true);
  nlohmann::json draft = nlohmann::json::parse(made.draft);
  draft["node_types"][0]["keys"] = "int64";
  const std::string text = made.draft = draft.dump();
  shards_of(made, 1);
  Ints keys(static_cast<std::size_t>(parse_draft(text).node_types[0].count));
  std::iota(keys.begin(), keys.end(), 0);
  for (const std::int64_t wrong : {3, 1'000}) {
    Ints others = keys;
    others[3] = wrong + 1;  // twice, or too late
    EXPECT_NE(refusal([&] { numbers(text, {.kind = "keys", .type = 0}, others); }).find("key 4 of node type"),
              std::string::npos);
  }
  numbers(text, {.kind = "keys", .type = 0}, keys);
  const DatasetMeta meta = finish(text).meta;
  testing::swap_first_two(folder_.path() / "made", keys_path(meta.node_types[0]), 8);
  EXPECT_NE(refusal([&] { testing::verify(folder_.path() / "made"); }).find("the keys' digest is"),
            std::string::npos);
}

TEST_F(ShardsOfADataset, AShardIsMadeOnce_AndWhatIsMissingTwiceOrDamagedIsNamed) {
  const Case made = make(3, false, true);
  shards_of(made, 1);
  const Dataset dataset(made.oracle);
  const fs::path first = shards_[0];
  const auto before = fs::last_write_time(first / "shard.json");
  std::unique_ptr<ArrowStream> stream;
  write_column_shard(open(stream, {.columns = {number_column_of("n", "l", Ints{})}}), parse_draft(made.draft),
                     {.kind = "new_ids"}, first);
  EXPECT_EQ(fs::last_write_time(first / "shard.json"), before);

  std::vector<fs::path> all = shards_;
  shards_.erase(shards_.begin());
  EXPECT_NE(refusal([&] { finish(made.draft); }).find("no shard has the array nodes/"), std::string::npos);
  shards_ = all;
  fs::copy(first, folder_.path() / "twice", fs::copy_options::recursive);
  shards_.push_back(folder_.path() / "twice");
  EXPECT_NE(refusal([&] { finish(made.draft); }).find("is in two shards"), std::string::npos);
  shards_ = all;
  nlohmann::json other = nlohmann::json::parse(made.draft);
  other["name"] = "another";
  EXPECT_NE(refusal([&] { finish(other.dump()); }).find("is of another draft than this dataset"),
            std::string::npos);
  const std::string path = ShardFolder::read(all.back()).files.begin()->first;
  std::string bytes = testing::file_bytes(all.back() / path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(all.back() / path, std::ios::binary) << bytes;
  EXPECT_NE(refusal([&] { finish(made.draft); }).find("is not what its shard.json says"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_.path() / "made"));
}

TEST_F(ShardsOfADataset, StreamsThatDoNotFitAreRefused_AndLeaveNothing) {
  const Case made = make(1, false, true);
  const Dataset dataset(made.oracle);
  const auto refused = [&](const std::function<void(EdgeStream&)>& spoil) {
    EdgeStream from = edges_of(dataset, 0, 0);
    spoil(from);
    const std::string why = refusal([&] {
      std::unique_ptr<ArrowStream> stream;
      write_edge_shard(
          open(stream, from.table), parse_draft(made.draft),
          {.original_ids = from.originals, .first_edge_ids = from.first_ids, .time_bounds = from.bounds},
          folder_.path() / "none");
    });
    const bool made_one = fs::remove_all(folder_.path() / "none") > 0;
    EXPECT_EQ(made_one, why == kNothing);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1) << why;
    return why;
  };
  EXPECT_EQ(refused([](EdgeStream&) {}), kNothing);
  const auto values_of = [](ArrowTestColumn& column) {
    return reinterpret_cast<std::int64_t*>(column.values.data());
  };
  const auto has = [](const std::string& text, const std::string& what) {
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  has(refused([&](EdgeStream& from) { values_of(from.table.columns[0])[from.table.rows / 2] = 0; }),
      "is out of order");
  has(refused([&](EdgeStream& from) { values_of(from.table.columns[0])[from.table.rows - 1] = 1'000'000; }),
      "there is no such node");
  has(refused([&](EdgeStream& from) { values_of(from.table.columns[2])[0] = -4; }), "there is no such node");
  has(refused([&](EdgeStream& from) { from.table.rows -= 1; }), "in the draft");
  has(refused([&](EdgeStream& from) { from.table.columns[1].name = "source"; }),
      "no column 'src'; it has row, source");
  has(refused([&](EdgeStream& from) { from.table.columns[0].format = "i"; }),
      "column 'row' holds int32 in each row, and int64 is wanted");
  has(refused([&](EdgeStream& from) { from.table.columns[0].format = "tdD"; }), "has the Arrow format 'tdD'");
  has(refused([&](EdgeStream& from) { from.table.columns[2].absent = {17}; }),
      "column 'src_new' has no value in row 17");
  has(refused([&](EdgeStream& from) { from.table.error_after_batches = "Out of Memory"; }), "Out of Memory");
}

TEST_F(ShardsOfADataset, ColumnsAndNumbersThatTheDraftDoesNotKnowAreRefused) {
  const Case made = make(1, false, true);
  const Dataset dataset(made.oracle);
  const auto has = [](const std::string& text, const std::string& what) {
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  const auto refused = [&](const ColumnShardOptions& options, const Ints& values) {
    return refusal([&] { numbers(made.draft, options, values); });
  };
  const std::string split = dataset.meta().node_types[0].splits.begin()->first;
  has(refused({.kind = "split", .type = 0, .name = split}, {0, -1}), "a column of split has the node -1");
  has(refused({.kind = "split", .type = 0, .name = "../../outside"}, {0}), "the draft has no split");
  has(refused({.kind = "bounds", .type = 0, .name = "../../../outside"}, {0}), "the draft has no time");
  has(refused({.kind = "new_ids", .type = 77}, {0}), "has no node type 77");
  has(refused({.kind = "bounds", .type = -1}, {0}), "has no edge type -1");
  has(refused({.kind = "anything"}, {0}), "no column of a dataset is called 'anything'");
  has(refusal([&] {
        std::unique_ptr<ArrowStream> stream;
        write_column_shard(open(stream, {.columns = {}}), parse_draft(made.draft), {.kind = "new_ids"},
                           next());
      }),
      "a table has no columns");
  has(refusal([&] { shard_of_nodes(dataset, made.draft, 0, 0); }), kNothing);
  EdgeStream from = edges_of(dataset, 0, 0);
  const auto edges_refused = [&](int type, int partition, const Ints& originals, const Ints& first_ids) {
    return refusal([&] {
      std::unique_ptr<ArrowStream> stream;
      write_edge_shard(open(stream, from.table), parse_draft(made.draft),
                       {.edge_type = type,
                        .partition = partition,
                        .original_ids = originals,
                        .first_edge_ids = first_ids,
                        .time_bounds = from.bounds},
                       folder_.path() / "none");
    });
  };
  has(edges_refused(99, 0, from.originals, from.first_ids), "has no edge type 99");
  has(edges_refused(0, 3, from.originals, from.first_ids), "3 partitions, and none is 3");
  Ints longer = from.originals, beyond = from.first_ids;
  longer.push_back(0);
  has(edges_refused(0, 0, longer, from.first_ids), "and others are told");
  longer.back() = longer.front();
  std::ranges::fill(beyond, std::int64_t{5'000'000'000});
  has(edges_refused(0, 0, from.originals, beyond), "are told to begin with edge 5000000000");
}

TEST_F(ShardsOfADataset, BlocksDoNotShow) {
  constexpr std::int64_t kNodes = 3'000, kEdges = 700'000;
  const nlohmann::json draft = {{"name", "blocks"},
                                {"made_by", "a test"},
                                {"class_names", nlohmann::json::array()},
                                {"partitions", 1},
                                {"cut",
                                 {{"method", "none"},
                                  {"fanouts", {3}},
                                  {"batch_size", 8},
                                  {"edges_cut", 0},
                                  {"seed", "0000000000000000"}}},
                                {"node_types",
                                 {{{"name", "node"},
                                   {"count", kNodes},
                                   {"partition_offsets", {0, kNodes}},
                                   {"new_id_type", "int32"},
                                   {"attrs", nlohmann::json::array()},
                                   {"splits", nlohmann::json::object()},
                                   {"num_classes", 0}}}},
                                {"edge_types",
                                 {{{"src", "node"},
                                   {"rel", "to"},
                                   {"dst", "node"},
                                   {"count", kEdges},
                                   {"partition_edges", {kEdges}},
                                   {"index_type", "int32"},
                                   {"has_edge_ids", true},
                                   {"edge_id_type", "int32"},
                                   {"attrs", nlohmann::json::array()},
                                   {"weights", nlohmann::json::array()},
                                   {"times", nlohmann::json::array()}}}}};
  Ints rows, sources, originals(kNodes), first_ids(kNodes, 0);
  std::iota(originals.begin(), originals.end(), 0);
  std::mt19937_64 random(3);
  for (std::int64_t e = 0; e < kEdges; ++e)
    rows.push_back(static_cast<std::int64_t>(random() % 20 == 0 ? 7 : random() % kNodes));
  std::ranges::sort(rows);
  for (std::int64_t e = 0; e < kEdges; ++e) {
    const auto at = static_cast<std::size_t>(e);
    const bool same = e > 0 && rows[at] == rows[at - 1];
    if (!same) first_ids[static_cast<std::size_t>(rows[at])] = e;
    sources.push_back(same ? std::min(sources.back() + static_cast<std::int64_t>(random() % 2), kNodes - 1)
                           : 0);
  }
  const auto made_in = [&](std::int64_t batch_rows, int threads) {
    std::unique_ptr<ArrowStream> stream;
    const fs::path folder = folder_.path() / ("of" + std::to_string(batch_rows));
    write_edge_shard(
        open(stream, {.columns = {number_column_of("row", "l", rows), number_column_of("src", "l", sources),
                                  number_column_of("src_new", "l", sources)},
                      .rows = kEdges,
                      .batch_rows = batch_rows}),
        parse_draft(draft.dump()),
        {.original_ids = originals, .first_edge_ids = first_ids, .threads = threads}, folder);
    return testing::file_bytes(folder / "shard.json");
  };
  const std::string expected = made_in(kEdges, 1);
  EXPECT_EQ(made_in(1 << 18, 3), expected);
  EXPECT_EQ(made_in(99'991, 2), expected);
  EXPECT_NE(refusal([&] {
              std::unique_ptr<ArrowStream> stream;
              write_edge_shard(
                  open(stream, {.columns = {number_column_of("row", "l", Ints(kEdges, 5)),
                                            number_column_of("src", "l", Ints(kEdges, 1)),
                                            number_column_of("src_new", "l", Ints(kEdges, 1))},
                                .rows = kEdges,
                                .batch_rows = 1 << 17}),
                  parse_draft(draft.dump()),
                  {.original_ids = originals, .first_edge_ids = first_ids, .max_row_bytes = 1 << 20},
                  folder_.path() / "none");
            }).find("node 5 has over 262144 in-edges"),
            std::string::npos);
}

TEST_F(ShardsOfADataset, AStreamThatIsNoTableIsReleased) {
  ArrowArrayStream given = testing::stream_of({.columns = {}});
  static int released = 0;
  static void (*release)(ArrowArrayStream*) = given.release;
  given.release = [](ArrowArrayStream* stream) {
    ++released;
    release(stream);
  };
  given.get_schema = [](ArrowArrayStream*, ArrowSchema*) { return 22; };
  EXPECT_NE(refusal([&] { const ArrowStream stream(&given); }).find("could not tell what it holds"),
            std::string::npos);
  EXPECT_EQ(released, 1);
}

TEST_F(ShardsOfADataset, DraftsThatNoDatasetCanHaveAreRefused) {
  const Case made = make(1, false, true);
  const auto refused = [&](const std::function<void(nlohmann::json&)>& spoil) {
    nlohmann::json draft = nlohmann::json::parse(made.draft);
    spoil(draft);
    return refusal([&] { parse_draft(draft.dump()); });
  };
  EXPECT_NE(refused([](nlohmann::json& draft) {
              draft["node_types"][0]["count"] = -1;
            }).find("the draft of a dataset"),
            std::string::npos);
  EXPECT_NE(refused([](nlohmann::json& draft) {
              draft["node_types"][0]["keys"] = "float";
            }).find("'float' is no type"),
            std::string::npos);
  EXPECT_NE(refused([](nlohmann::json& draft) { draft.erase("edge_types"); }).find("lacks something"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse_draft("{"); }).find("no valid JSON"), std::string::npos);
}

}  // namespace
}  // namespace hopfeed
