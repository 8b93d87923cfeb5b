// DatasetMeta is what meta.json says: the manifest of a dataset folder. Functions name the files beside it.
//
// Dataset ids number the nodes of a type in the one order: by partition, inside a partition by falling
// hotness, ties by smaller original id. docs/formats.md has the files and the table of meta.json.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/element_type.h"

namespace hopfeed {

inline constexpr int kDatasetVersion = 10;
/// Sharded ids came with this version.
inline constexpr int kShardedIdsDatasetVersion = 10;
/// Keys of nodes came with this version.
inline constexpr int kKeysDatasetVersion = 9;
/// Attributes whose rows have a scale (has_scale) came with this version.
inline constexpr int kScaledDatasetVersion = 8;
/// A dataset is written in the oldest version that holds all of it. Version 7 brought the sources in alias
/// tables; those of earlier versions, without them, are read.
inline constexpr int kWeightsDatasetVersion = 7;
/// The codes of times came with this version; times without them are not read.
inline constexpr int kTimesDatasetVersion = 6;
/// `rev_of`, edge splits and `by_id` came with this version.
inline constexpr int kLinksDatasetVersion = 5;
inline constexpr int kPlainDatasetVersion = 4;
inline constexpr int kOldestDatasetVersion = 3;

struct AttrMeta {
  std::string name;  // "x", "y", ...
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;    // of one row; empty for a scalar
  std::int64_t stride_bytes = 0;      // from row to row in the file
  std::int64_t row_elements() const;  // product of shape
  std::int64_t row_bytes() const;
};

/// Returns the attribute of that name, or null.
const AttrMeta* find_attr(const std::vector<AttrMeta>& attrs, const std::string& name);
/// Returns whether there is an attribute of that name that can be a time: one int64 for each node or edge.
bool has_time(const std::vector<AttrMeta>& attrs, const std::string& name);

/// KeyType says what users call the nodes of a type by in their tables; kNone: by their numbers.
enum class KeyType { kNone, kInt64, kString, kUuid };
/// "int64", "string", "uuid". Throws kInvalid for another word.
const char* to_string(KeyType type);
KeyType key_type_from(const std::string& word);

/// KeysMeta are the keys of a node type, which lie in their order: a node's original id is its key's place.
struct KeysMeta {
  KeyType type = KeyType::kNone;
  /// 32 hex digits: XXH3-128 of the keys in order, of each its bytes (of int64 and uuid 8 and 16; of a
  /// string its length as 8 bytes before them).
  std::string digest = {};
};

struct NodeTypeMeta {
  std::string name = "node";
  std::int64_t count = 0;
  std::vector<std::int64_t> partition_offsets;  // [P + 1], first 0, last count
  ElementType new_id_type = ElementType::kInt32;
  std::vector<AttrMeta> attrs;
  std::map<std::string, std::int64_t> splits;  // name -> number of nodes
  std::int64_t num_classes = 0;                // 0: unknown; labels are -1 (none) or 0 .. num_classes - 1
  /// [P] counts the rows of other partitions that each partition has ranked; empty: it has none, as datasets
  /// of one partition, of rows without attributes and of earlier releases.
  std::vector<std::int64_t> remote_rows = {};
  /// [P] counts the nodes of other partitions that each partition has copies of (its halo); empty: there are
  /// none.
  std::vector<std::int64_t> halo_nodes = {};
  /// [P] counts the nodes of other partitions that each partition's rows have edges from, and those that only
  /// the rows of its halo have; with sharded ids (remote_ids.h).
  std::vector<std::int64_t> remote_sources = {}, halo_sources = {};
  KeysMeta keys = {};
  bool has_keys() const { return keys.type != KeyType::kNone; }
};

struct EdgeTypeMeta {
  std::string src = "node", rel = "to", dst = "node";
  std::int64_t count = 0;
  std::vector<std::int64_t> partition_edges;     // [P]
  ElementType index_type = ElementType::kInt32;  // int32 where every source id fits, else int64
  bool has_edge_ids = true;
  ElementType edge_id_type = ElementType::kInt32;
  std::vector<AttrMeta> attrs;
  std::vector<std::string> weights;  // attributes of these edges that have alias tables
  std::vector<std::string>
      times;  // attributes of these edges, or else of their source nodes, that rows are ordered by
  std::string rev_of = {};  // folder() of the edge type that these edges are the reverse of; empty: of none
  std::map<std::string, std::int64_t> splits = {};  // edge splits: name -> number of links
  /// With sharded ids, of the edge splits that have labels: name -> the smallest of all.
  std::map<std::string, std::int64_t> smallest_labels = {};
  bool has_by_id = false;                     // rows have the order of source ids too
  std::vector<std::int64_t> halo_edges = {};  // [P] of the rows that halos copy; empty: there are none
  std::string folder() const { return src + "__" + rel + "__" + dst; }
  /// Returns whether the edge type has something of version 5.
  bool has_links() const { return !rev_of.empty() || !splits.empty() || has_by_id; }
  /// Returns the oldest version that holds it.
  int version() const;
};

/// CutMeta says how the dataset was cut and ordered. It changes nothing in a batch (dataset ids aside).
struct CutMeta {
  std::string method = "none";                   // none | random | metis
  std::vector<std::int64_t> fanouts{15, 10, 5};  // the fanouts that the hotness was computed for
  std::int64_t batch_size = 1024;
  std::int64_t edges_cut = 0;  // edges whose ends lie in two partitions
  std::uint64_t seed = 0;
  std::int64_t metis_degree = 0;  // METIS saw about this many neighbours of each node; 0: all, or not METIS
  /// Nodes are ordered by this (partition_tool/hotness/hotness_policy.h, or a policy of an earlier hopfeed);
  /// it is told where it is another.
  std::string policy = "vip";
};

struct FileMeta {
  std::uint64_t bytes = 0;
  std::uint64_t xxh3 = 0;  // XXH3-64 of the whole file
};

struct DatasetMeta {
  std::string name;
  std::string fingerprint;  // 32 hex digits: the imported content, whatever the cut (fingerprint.h)
  std::string made_by;      // the command line
  std::vector<std::string> class_names;  // optional, of the labels of the first node type
  int partitions = 1;
  /// Ids are sharded: no file has an entry for each node of the graph, or each entry of a split. Partition
  /// p has those of range p (id_ranges.h), and the original ids of its own remote sources (remote_ids.h).
  bool sharded_ids = false;
  CutMeta cut;
  std::vector<NodeTypeMeta> node_types;
  std::vector<EdgeTypeMeta> edge_types;
  std::map<std::string, FileMeta> files;  // relative path -> size and checksum; DatasetWriter fills it

  int node_type(const std::string& name) const;  // number of a type; throws kNotFound listing what there is
  /// Returns the number of an edge type by "src__rel__dst", or by "rel" where only one type has it; throws
  /// kNotFound listing what there is.
  int edge_type(const std::string& name) const;
  /// Returns the edge type that is the reverse of this one, or whose reverse this one is; -1 where none is.
  int reverse_edge_type(int edge_type) const;
  /// Returns the version of the format that meta.json says it is in.
  int version() const;
  /// Returns whether rows of an attribute have a scale each.
  bool has_scales() const;
  /// Return whether the links of an edge split have labels, times.
  bool has_labels(const EdgeTypeMeta& edge, const std::string& split) const;
  bool has_times(const EdgeTypeMeta& edge, const std::string& split) const;
  /// Returns whether an edge type ends at the node type, so that row records name its original ids.
  bool has_rows(const NodeTypeMeta& node) const;
  /// Returns whether a machine needs some of the partitions only: ids are sharded, or the original ids of all
  /// nodes lie beside the partitions.
  bool can_be_shared_out() const;
  /// Returns whether partitions have copies of the rows along the cut (halo_files.h).
  bool has_halos() const { return !node_types.empty() && !node_types[0].halo_nodes.empty(); }
  int edge_src_type(const EdgeTypeMeta& edge) const { return node_type(edge.src); }
  int edge_dst_type(const EdgeTypeMeta& edge) const { return node_type(edge.dst); }
};

/// Reads and validates meta.json (types, limits, sums, names); throws kCorrupt or kVersion naming file and
/// field.
DatasetMeta parse_meta(const std::string& text, const std::string& path);
std::string format_meta(const DatasetMeta& meta);
/// Names the dataset as it lies on disk: its content, its cut and its order, all of it by the checksums of
/// its files. The fingerprint names the content alone.
std::uint64_t manifest_hash(const DatasetMeta& meta);
/// Returns the text of a manifest with the checksum that it ought to have; empty where it does not begin with
/// that field.
std::string seal_meta(std::string text);

/// Throws kInvalid unless `name` is 1 to kMaxNameBytes - 1 of [A-Za-z0-9_.-], not starting with '.', without
/// "__".
void check_name(const std::string& name, const char* what);

// These are paths relative to the dataset folder. Where they take a partition they take halo_of() one too:
// the same file of its halo.
constexpr int halo_of(int partition) { return -1 - partition; }
/// Returns the shape of an array of HaloPlace for so many nodes, as int64.
inline std::vector<std::int64_t> halo_places_shape(std::int64_t nodes) { return {(nodes + 63) / 64, 2}; }
std::string part_folder(int partition);  // "part-0000", of its halo "part-0000/halo"
/// Returns the path of the array that names the nodes of a partition's halo (HaloPlace).
std::string halo_places_path(int partition, const NodeTypeMeta& node);
std::string rows_path(int partition, const EdgeTypeMeta& edge);
std::string indices_path(int partition, const EdgeTypeMeta& edge);
std::string edge_ids_path(int partition, const EdgeTypeMeta& edge);
std::string edge_attr_path(int partition, const EdgeTypeMeta& edge, const std::string& attr);
std::string alias_path(int partition, const EdgeTypeMeta& edge, const std::string& weight);
std::string time_order_path(int partition, const EdgeTypeMeta& edge, const std::string& time);
std::string times_path(int partition, const EdgeTypeMeta& edge, const std::string& time);
std::string time_codes_path(int partition, const EdgeTypeMeta& edge, const std::string& time);
std::string time_bounds_path(const EdgeTypeMeta& edge, const std::string& time);
std::string time_indices_path(int partition, const EdgeTypeMeta& edge, const std::string& time);
std::string by_id_path(int partition, const EdgeTypeMeta& edge);
std::string original_ids_path(int partition, const NodeTypeMeta& node);
std::string attr_path(int partition, const NodeTypeMeta& node, const std::string& attr);
std::string hotness_path(int partition, const NodeTypeMeta& node);
std::string remote_rows_path(int partition, const NodeTypeMeta& node);
std::string new_ids_path(const NodeTypeMeta& node);
std::string all_original_ids_path(const NodeTypeMeta& node);
/// Keys of a node type: int64 [N], or uint8 [N, 16] of UUIDs, or the bytes of all strings, uint8 [B].
std::string keys_path(const NodeTypeMeta& node);
/// Where each string begins in these bytes, and the last ends: int64 [N + 1].
std::string key_offsets_path(const NodeTypeMeta& node);
/// Returns whether the file belongs to keys: machines that sample need none.
bool is_keys_path(const std::string& path);
std::string split_path(const NodeTypeMeta& node, const std::string& split);
// With sharded ids these take the place of new_ids_path, all_original_ids_path, split_path and link_..._path.
// Dataset ids of the original ids of a range, [n]:
std::string new_ids_shard_path(int partition, const NodeTypeMeta& node);
// RemoteIds, of a partition or of a halo:
std::string remote_ids_path(int partition, const NodeTypeMeta& node);
std::string id_buckets_path(int partition, const NodeTypeMeta& node);
// Original and dataset id of each entry of a range of a split, int64 [s, 2]; of links original ids of source
// and destination, then their dataset ids, int64 [s, 4]; labels and times int64 [s].
std::string split_shard_path(int partition, const NodeTypeMeta& node, const std::string& split);
std::string link_pairs_shard_path(int partition, const EdgeTypeMeta& edge, const std::string& split);
std::string link_labels_shard_path(int partition, const EdgeTypeMeta& edge, const std::string& split);
std::string link_times_shard_path(int partition, const EdgeTypeMeta& edge, const std::string& split);
std::string link_pairs_path(const EdgeTypeMeta& edge, const std::string& split);
std::string link_labels_path(const EdgeTypeMeta& edge, const std::string& split);
std::string link_times_path(const EdgeTypeMeta& edge, const std::string& split);
/// Returns whether the file belongs to a halo.
bool is_halo_path(const std::string& path);
/// Returns whether the file is made of others of the dataset: tables of weights, orders by times and by
/// source ids, remote ids, all of a halo.
bool is_derived_path(const std::string& path);

}  // namespace hopfeed
