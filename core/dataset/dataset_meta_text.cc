// meta.json to a DatasetMeta and back; see dataset_meta.h.
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cctype>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "core/dataset/dataset_meta.h"
#include "core/dataset/meta_json.h"

namespace hopfeed {
namespace {

using nlohmann::json;

constexpr const char* kFormatName = "hopfeed-dataset";
constexpr const char* kSharded = "sharded";  // 'ids'

bool is_hex(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isdigit(c) || (c >= 'a' && c <= 'f'); });
}

std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

// The manifest's checksum covers the text itself, its own digits taken as zeros. It is the first field, so
// its place is known.
constexpr std::string_view kChecksumHead = "{\n \"checksum\": \"", kNoChecksum = "0000000000000000";

void check_checksum(const std::string& text, const std::string& path) {
  if (seal_meta(text) == text) return;
  throw Error(
      ErrorCode::kCorrupt,
      path +
          " was changed after it was written: its 'checksum' is missing or another; make the dataset again");
}

AttrMeta read_attr(const MetaFields& in) {
  AttrMeta attr;
  attr.name = in.name("name");
  attr.type = in.element("element_type");
  attr.shape = in.wholes("shape", 1, kMaxRowBytes, 3);
  attr.stride_bytes = in.whole("stride_bytes", 1, kMaxRowBytes);
  const std::int64_t row = attr.row_bytes();
  if (row > kMaxRowBytes) in.fail("has rows that are too wide");
  if (attr.stride_bytes < row || attr.stride_bytes % static_cast<std::int64_t>(element_bytes(attr.type)) != 0)
    in.fail("has a stride that is shorter than a row or no multiple of its element");
  return attr;
}

std::vector<AttrMeta> read_attrs(const MetaFields& in, const std::string& of) {
  std::vector<AttrMeta> attrs;
  for (const json& item : in.list("attrs", kMaxAttrs)) {
    attrs.push_back(read_attr(in.child(item, of + ", attribute " + std::to_string(attrs.size()))));
    for (std::size_t i = 0; i + 1 < attrs.size(); ++i) {
      if (attrs[i].name == attrs.back().name) in.fail("names attribute '" + attrs[i].name + "' twice");
    }
  }
  return attrs;
}

/// {name: count}.
std::map<std::string, std::int64_t> read_splits(const MetaFields& in, const std::string& of,
                                                std::int64_t max_count) {
  std::map<std::string, std::int64_t> splits;
  const json& named = in.at("splits");
  const MetaFields counts = in.child(named, of + ", splits");
  for (const auto& [name, count] : named.items()) {
    try {
      check_name(name, "split");
    } catch (const Error& error) {
      in.fail(error.message());
    }
    splits[name] = counts.whole(name.c_str(), 0, max_count);
  }
  return splits;
}

KeysMeta read_keys(const MetaFields& in) {
  KeysMeta keys;
  try {
    keys.type = key_type_from(in.text("type"));
  } catch (const Error& error) {
    in.fail(error.message());
  }
  keys.digest = in.text("digest");
  if (keys.digest.size() != 32 || !is_hex(keys.digest)) in.fail("have a 'digest' that is not 32 hex digits");
  return keys;
}

NodeTypeMeta read_node_type(const MetaFields& in, int partitions) {
  NodeTypeMeta node;
  node.name = in.name("name");
  node.count = in.whole("count", 0, kMaxNodes);
  node.partition_offsets = in.wholes("partition_offsets", 0, kMaxNodes, kMaxPartitions + 1);
  if (node.partition_offsets.size() != static_cast<std::size_t>(partitions) + 1)
    in.fail("has partition_offsets that do not match the number of partitions");
  if (node.partition_offsets.front() != 0 || node.partition_offsets.back() != node.count ||
      !std::is_sorted(node.partition_offsets.begin(), node.partition_offsets.end())) {
    in.fail("has partition_offsets that do not rise from 0 to the number of nodes");
  }
  node.new_id_type = in.index("new_id_type");
  node.num_classes = in.whole("num_classes", 0, kMaxNodes);
  node.attrs = read_attrs(in, "node type " + node.name);
  for (const AttrMeta& attr : node.attrs) {
    if (attr.name == "hotness" || attr.name == "original_ids")
      in.fail("has an attribute '" + attr.name + "', which is the name of a file of its own");
  }
  node.splits = read_splits(in, "node type " + node.name, kMaxNodes);
  // How many rows of other partitions each has.
  const auto read_others = [&](const char* field) {
    if (!in.has(field)) return std::vector<std::int64_t>();
    std::vector<std::int64_t> others = in.wholes(field, 0, kMaxNodes, kMaxPartitions);
    if (others.size() != static_cast<std::size_t>(partitions))
      in.fail(fmt::format("has {} that do not match the number of partitions", field));
    for (int p = 0; p < partitions; ++p) {
      const std::int64_t own = node.partition_offsets[p + 1] - node.partition_offsets[p];
      if (others[p] > node.count - own)
        in.fail(fmt::format("has more {} of partition {} than other partitions have rows", field, p));
    }
    return others;
  };
  node.remote_rows = read_others("remote_rows");
  node.halo_nodes = read_others("halo_nodes");
  node.remote_sources = read_others("remote_sources");
  node.halo_sources = read_others("halo_sources");
  if (in.has("keys")) node.keys = read_keys(in.child(in.at("keys"), "keys of node type " + node.name));
  return node;
}

EdgeTypeMeta read_edge_type(const MetaFields& in, int partitions) {
  EdgeTypeMeta edge;
  edge.src = in.name("src");
  edge.rel = in.name("rel");
  edge.dst = in.name("dst");
  edge.count = in.whole("count", 0, kMaxEdges);
  edge.partition_edges = in.wholes("partition_edges", 0, kMaxEdges, kMaxPartitions);
  std::int64_t sum = 0;
  for (std::int64_t n : edge.partition_edges) sum += n;  // at most 2^12 * 2^48: no overflow
  if (edge.partition_edges.size() != static_cast<std::size_t>(partitions) || sum != edge.count)
    in.fail("has partition_edges that do not add up to its edges");
  edge.index_type = in.index("index_type");
  edge.has_edge_ids = in.flag("has_edge_ids");
  edge.edge_id_type = in.index("edge_id_type");
  edge.attrs = read_attrs(in, "edge type " + edge.folder());
  edge.weights = in.names("weights", kMaxAttrs);
  edge.times = in.names("times", kMaxAttrs);
  if (in.has("rev_of")) edge.rev_of = in.text("rev_of");
  if (in.has("has_by_id")) edge.has_by_id = in.flag("has_by_id");
  if (in.has("splits")) edge.splits = read_splits(in, "edge type " + edge.folder(), kMaxEdges);
  if (in.has("smallest_labels"))
    for (const auto& [name, label] : in.at("smallest_labels").items()) {
      if (!label.is_number_integer() || !edge.splits.contains(name))
        in.fail("has 'smallest_labels' of no split");
      edge.smallest_labels[name] = label.get<std::int64_t>();
    }
  if (!in.has("halo_edges")) return edge;
  edge.halo_edges = in.wholes("halo_edges", 0, edge.count, kMaxPartitions);
  if (edge.halo_edges.size() != static_cast<std::size_t>(partitions))
    in.fail("has halo_edges that do not match the number of partitions");
  return edge;
}

json attrs_json(const std::vector<AttrMeta>& attrs) {
  json list = json::array();
  for (const AttrMeta& attr : attrs) {
    list.push_back({{"name", attr.name},
                    {"element_type", to_string(attr.type)},
                    {"shape", attr.shape},
                    {"stride_bytes", attr.stride_bytes}});
  }
  return list;
}

// What weights and times name is a number per edge (of times: or per source node), each named once.
void check_weights_and_times(const MetaFields& in, const DatasetMeta& meta, const EdgeTypeMeta& edge) {
  using enum ElementType;
  const auto check = [&](const std::vector<std::string>& names, std::size_t i, const AttrMeta* attr,
                         std::initializer_list<ElementType> types) {
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      in.fail("names '" + names[i] + "' twice for edge type " + edge.folder());
    if (attr && attr->shape.empty() && std::find(types.begin(), types.end(), attr->type) != types.end())
      return;
    in.fail("has no attribute '" + names[i] + "' of one fitting number for edge type " + edge.folder());
  };
  for (std::size_t i = 0; i < edge.weights.size(); ++i)
    check(edge.weights, i, find_attr(edge.attrs, edge.weights[i]), {kFloat32, kFloat64, kInt32, kInt64});
  for (std::size_t i = 0; i < edge.times.size(); ++i) {
    const AttrMeta* attr = find_attr(edge.attrs, edge.times[i]);
    if (!attr) attr = find_attr(meta.node_types[meta.edge_src_type(edge)].attrs, edge.times[i]);
    check(edge.times, i, attr, {kInt64});
  }
}

/// A reverse leads back between the same node types, is the only one of its type and has none itself.
void check_reverses(const MetaFields& in, const DatasetMeta& meta) {
  for (const EdgeTypeMeta& edge : meta.edge_types) {
    if (edge.rev_of.empty()) continue;
    const auto of = std::ranges::find(meta.edge_types, edge.rev_of, &EdgeTypeMeta::folder);
    if (of == meta.edge_types.end() || of->src != edge.dst || of->dst != edge.src || !of->rev_of.empty())
      in.fail("has an edge type " + edge.folder() + " that cannot be the reverse of '" + edge.rev_of + "'");
    if (std::ranges::count(meta.edge_types, edge.rev_of, &EdgeTypeMeta::rev_of) > 1)
      in.fail("has several reverses of edge type " + edge.rev_of);
  }
}

/// All types have them, or none.
void check_halos(const MetaFields& in, const DatasetMeta& meta) {
  const auto other = [&](const std::vector<std::int64_t>& halos) {
    return halos.empty() == meta.has_halos();
  };
  if (std::ranges::any_of(meta.node_types, other, &NodeTypeMeta::halo_nodes) ||
      std::ranges::any_of(meta.edge_types, other, &EdgeTypeMeta::halo_edges))
    in.fail("has halos of some types and not of others");
}

/// Sharded ids have a list of remote sources for each node type, of halos too where there are some.
void check_sharded_ids(const MetaFields& in, const DatasetMeta& meta) {
  for (const NodeTypeMeta& node : meta.node_types)
    if (node.remote_sources.empty() == meta.sharded_ids ||
        node.halo_sources.empty() == (meta.sharded_ids && meta.has_halos()) ||
        (meta.sharded_ids && meta.has_halos() && node.halo_nodes != node.remote_sources))
      in.fail("has 'ids' that do not go with the 'remote_sources' or 'halo_sources' of node type " +
              node.name);
}

[[noreturn]] void refuse_version(const std::string& path, std::int64_t version, const char* what) {
  throw Error(ErrorCode::kVersion,
              fmt::format("{} has dataset version {}{}, this hopfeed reads version {}: import the data again",
                          path, version, what, kDatasetVersion));
}

void read_names(const MetaFields& in, DatasetMeta& meta) {
  meta.name = in.text("name");
  meta.fingerprint = in.text("fingerprint");
  if (meta.fingerprint.size() != 32 || !is_hex(meta.fingerprint))
    in.fail("has a 'fingerprint' that is not 32 hex digits");
  meta.made_by = in.text("made_by");
  for (const json& item : in.list("class_names", kMaxNodes)) {
    if (!item.is_string()) in.fail("has a class name that is no text");
    meta.class_names.push_back(item.get<std::string>());
  }
}

CutMeta read_cut(const MetaFields& in) {
  CutMeta cut;
  cut.method = in.text("method");
  cut.fanouts = in.wholes("fanouts", -1, kMaxFanout, kMaxHops);
  cut.batch_size = in.whole("batch_size", 1, kMaxBatchSize);
  cut.edges_cut = in.whole("edges_cut", 0, kMaxEdges);
  cut.seed = in.hex("seed");
  if (in.has("metis_degree")) cut.metis_degree = in.whole("metis_degree", 1, kMaxEdges);
  if (in.has("policy")) cut.policy = in.text("policy");
  return cut;
}

void read_node_types(const MetaFields& in, DatasetMeta& meta) {
  for (const json& item : in.list("node_types", kMaxTypes)) {
    meta.node_types.push_back(read_node_type(
        in.child(item, "node type " + std::to_string(meta.node_types.size())), meta.partitions));
    for (std::size_t i = 0; i + 1 < meta.node_types.size(); ++i) {
      if (meta.node_types[i].name == meta.node_types.back().name) in.fail("names a node type twice");
    }
  }
}

/// Of the edge types so far: its name is new, its ends are node types.
void check_last_edge_type(const MetaFields& in, const DatasetMeta& meta) {
  const EdgeTypeMeta& edge = meta.edge_types.back();
  for (std::size_t i = 0; i + 1 < meta.edge_types.size(); ++i) {
    if (meta.edge_types[i].folder() == edge.folder()) in.fail("names an edge type twice");
  }
  for (const std::string& end : {edge.src, edge.dst}) {
    if (std::none_of(meta.node_types.begin(), meta.node_types.end(),
                     [&](const NodeTypeMeta& node) { return node.name == end; })) {
      in.fail("has an edge type with unknown node type '" + end + "'");
    }
  }
  check_weights_and_times(in, meta, edge);
}

void read_files(const MetaFields& in, DatasetMeta& meta) {
  const json& files = in.at("files");
  if (!files.is_object()) in.fail("has no object 'files'");
  for (const auto& [name, value] : files.items()) {
    const MetaFields file = in.child(value, "file " + name);
    meta.files[name] = {.bytes = static_cast<std::uint64_t>(file.whole("bytes", 0, INT64_MAX)),
                        .xxh3 = file.hex("xxh3")};
  }
}

}  // namespace

std::string seal_meta(std::string text) {
  if (!text.starts_with(kChecksumHead) || text.size() < kChecksumHead.size() + kNoChecksum.size()) return "";
  text.replace(kChecksumHead.size(), kNoChecksum.size(), kNoChecksum);
  text.replace(kChecksumHead.size(), kNoChecksum.size(), hex64(XXH3_64bits(text.data(), text.size())));
  return text;
}

DatasetMeta parse_meta(const std::string& text, const std::string& path) {
  const json document = parse_json(text);
  if (document.is_discarded())
    throw Error(ErrorCode::kCorrupt, path + " is no valid JSON: " + json_complaint(text));
  const MetaFields in(document, path, "");
  if (in.text("format") != kFormatName)
    throw Error(ErrorCode::kCorrupt, path + ": 'format' is not '" + kFormatName + "'");
  const std::int64_t version = in.whole("version", 0, INT64_MAX);
  if (version < kOldestDatasetVersion || version > kDatasetVersion) refuse_version(path, version, "");
  check_checksum(text, path);
  DatasetMeta meta;
  read_names(in, meta);
  meta.partitions = static_cast<int>(in.whole("partitions", 1, kMaxPartitions));
  if (in.has("ids")) {
    if (in.text("ids") != kSharded) in.fail(fmt::format("has 'ids' that are not '{}'", kSharded));
    meta.sharded_ids = true;
  }
  meta.cut = read_cut(in.child(in.at("cut"), "cut"));
  read_node_types(in, meta);
  for (const json& item : in.list("edge_types", kMaxTypes)) {
    meta.edge_types.push_back(read_edge_type(
        in.child(item, "edge type " + std::to_string(meta.edge_types.size())), meta.partitions));
    check_last_edge_type(in, meta);
    if (version < kTimesDatasetVersion && !meta.edge_types.back().times.empty())
      refuse_version(path, version, " with times");
  }
  if (meta.node_types.empty()) in.fail("has no node type");
  if (version < kScaledDatasetVersion && meta.has_scales())
    in.fail("has what its version does not know: rows with a scale");
  if (version < kKeysDatasetVersion && meta.version() == kKeysDatasetVersion)
    in.fail("has what its version does not know: keys of nodes");
  if (version < kShardedIdsDatasetVersion && meta.sharded_ids)
    in.fail("has what its version does not know: sharded ids");
  check_reverses(in, meta);
  check_halos(in, meta);
  check_sharded_ids(in, meta);
  if (version < kLinksDatasetVersion && std::ranges::any_of(meta.edge_types, &EdgeTypeMeta::has_links))
    in.fail("has what its version does not know: rev_of, splits or has_by_id of edges");
  read_files(in, meta);
  for (const EdgeTypeMeta& edge : meta.edge_types)
    for (const auto& [name, count] : edge.splits)
      if (edge.smallest_labels.contains(name) != (meta.sharded_ids && meta.has_labels(edge, name)))
        in.fail("has 'smallest_labels' that do not go with the labels of edge type " + edge.folder());
  return meta;
}

std::string format_meta(const DatasetMeta& meta) {
  json document = {{"checksum", kNoChecksum},
                   {"format", kFormatName},
                   {"version", meta.version()},
                   {"name", meta.name},
                   {"fingerprint", meta.fingerprint},
                   {"made_by", meta.made_by},
                   {"class_names", meta.class_names},
                   {"partitions", meta.partitions},
                   {"cut",
                    {{"method", meta.cut.method},
                     {"fanouts", meta.cut.fanouts},
                     {"batch_size", meta.cut.batch_size},
                     {"edges_cut", meta.cut.edges_cut},
                     {"seed", hex64(meta.cut.seed)}}}};
  if (meta.sharded_ids) document["ids"] = kSharded;
  if (meta.cut.metis_degree > 0) document["cut"]["metis_degree"] = meta.cut.metis_degree;
  if (meta.cut.policy != "vip") document["cut"]["policy"] = meta.cut.policy;
  json& nodes = document["node_types"] = json::array();
  for (const NodeTypeMeta& node : meta.node_types) {
    nodes.push_back({{"name", node.name},
                     {"count", node.count},
                     {"partition_offsets", node.partition_offsets},
                     {"new_id_type", to_string(node.new_id_type)},
                     {"attrs", attrs_json(node.attrs)},
                     {"splits", json(node.splits)},
                     {"num_classes", node.num_classes}});
    if (node.splits.empty()) nodes.back()["splits"] = json::object();
    if (!node.remote_rows.empty()) nodes.back()["remote_rows"] = node.remote_rows;
    if (!node.halo_nodes.empty()) nodes.back()["halo_nodes"] = node.halo_nodes;
    if (!node.remote_sources.empty()) nodes.back()["remote_sources"] = node.remote_sources;
    if (!node.halo_sources.empty()) nodes.back()["halo_sources"] = node.halo_sources;
    if (node.has_keys())
      nodes.back()["keys"] = {{"type", to_string(node.keys.type)}, {"digest", node.keys.digest}};
  }
  json& edges = document["edge_types"] = json::array();
  for (const EdgeTypeMeta& edge : meta.edge_types) {
    edges.push_back({{"src", edge.src},
                     {"rel", edge.rel},
                     {"dst", edge.dst},
                     {"count", edge.count},
                     {"partition_edges", edge.partition_edges},
                     {"index_type", to_string(edge.index_type)},
                     {"has_edge_ids", edge.has_edge_ids},
                     {"edge_id_type", to_string(edge.edge_id_type)},
                     {"attrs", attrs_json(edge.attrs)},
                     {"weights", edge.weights},
                     {"times", edge.times}});
    if (!edge.rev_of.empty()) edges.back()["rev_of"] = edge.rev_of;
    if (!edge.splits.empty()) edges.back()["splits"] = json(edge.splits);
    if (!edge.smallest_labels.empty()) edges.back()["smallest_labels"] = json(edge.smallest_labels);
    if (edge.has_by_id) edges.back()["has_by_id"] = true;
    if (!edge.halo_edges.empty()) edges.back()["halo_edges"] = edge.halo_edges;
  }
  json& files = document["files"] = json::object();
  for (const auto& [name, file] : meta.files)
    files[name] = {{"bytes", file.bytes}, {"xxh3", hex64(file.xxh3)}};
  return seal_meta(json_text(document, 1) + "\n");
}

std::uint64_t manifest_hash(const DatasetMeta& meta) {
  const std::string text = format_meta(meta);
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace hopfeed
