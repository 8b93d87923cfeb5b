// A Dataset is a dataset folder opened for reading: everything mapped, nothing copied, headers, sizes and
// types checked at the door (microseconds per file, whatever its size). What the arrays hold is checked where
// it is read, or all at once by verify().
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "core/dataset/graph_view.h"
#include "core/dataset/npy.h"
#include "core/dataset/partition_peers.h"
#include "core/dataset/remote_ids.h"

namespace hopfeed {

/// LinkSplit views the links of an edge split, in the order that they were given in.
struct LinkSplit {
  std::span<const std::int64_t> pairs;   // [2 P]: source and destination of each link, original ids
  std::span<const std::int64_t> labels;  // [P]; empty: none
  std::span<const std::int64_t> times;   // [P]; empty: none
  std::filesystem::path path;            // of the pairs' file
  std::int64_t count() const { return std::ssize(pairs) / 2; }
};

/// SplitShard views the entries of one range of a split, where ids are sharded (id_ranges.h).
struct SplitShard {
  std::span<const std::int64_t> ids;  // [s, 2] original id, dataset id
  std::int64_t count() const { return std::ssize(ids) / 2; }
};

/// LinkShard views the links of one range of an edge split, where ids are sharded.
struct LinkShard {
  std::span<const std::int64_t> pairs;   // [s, 4] original ids of source and destination, their dataset ids
  std::span<const std::int64_t> labels;  // [s]; empty: none
  std::span<const std::int64_t> times;   // [s]; empty: none
  std::int64_t count() const { return std::ssize(pairs) / 4; }
};

/// RankedRows are rows of a node type in other partitions than one, as that one's training nodes read them:
/// the hottest first. What is read too seldom is not in it.
struct RankedRows {
  const std::byte* ids = nullptr;  // [count] dataset ids of `type`
  std::int64_t count = 0;
  ElementType type = ElementType::kInt32;  // or kInt64
  std::int64_t operator[](std::int64_t i) const {
    return type == ElementType::kInt32 ? reinterpret_cast<const std::int32_t*>(ids)[i]
                                       : reinterpret_cast<const std::int64_t*>(ids)[i];
  }
};

struct DatasetOptions {
  HugePages huge_pages = HugePages::kAuto;  // of every mapped array
  /// Opens some partitions alone, as on a machine that has these; the others need not be in the folder. The
  /// dataset must be one that can_be_shared_out(), as those can that were cut into several partitions.
  bool some_partitions = false;
  /// Names the partitions; empty: those whose folders are there. Only with some_partitions.
  std::vector<int> partitions = {};
};

class Dataset {
 public:
  /// Throws kNotFound, kCorrupt or kVersion naming the file and the field; kUnsupported where
  /// HugePages::kAlways cannot be had; kInvalid or kNotFound for a partition that is not there.
  explicit Dataset(const std::filesystem::path& folder, DatasetOptions options = {});
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  const DatasetMeta& meta() const { return meta_; }
  int num_node_types() const { return static_cast<int>(meta_.node_types.size()); }
  int num_edge_types() const { return static_cast<int>(meta_.edge_types.size()); }
  std::int64_t num_nodes(int node_type) const { return meta_.node_types[node_type].count; }

  /// Returns whether the partition was opened. Views of others have null in its place (CscPart::rows,
  /// AttrView::parts and the like). Halos come behind the partitions (num_parts), and are always here.
  bool has_partition(int partition) const { return here_[static_cast<std::size_t>(partition)]; }
  /// Returns whether all partitions were opened.
  bool whole() const { return whole_; }
  /// Returns the partitions that were opened, rising.
  std::vector<int> partitions() const;

  /// Returns how many parts views have. Where partitions are missing, copies of their rows may be here: the
  /// halos of those that were opened (halo_files.h). Views have them as parts behind the partitions, and
  /// their rows by ids behind those of all nodes, or edges: a row of a halo is read, drawn and gathered by
  /// its id as any other.
  int num_parts() const { return static_cast<int>(here_.size()); }
  /// Returns the id of a halo's copy of a row; -1 where none has it. It is for nodes in partitions that are
  /// not here.
  std::int64_t halo_id(int node_type, std::int64_t dataset_id) const;
  /// RowPlace says where views have a row: its partition, or the halo with its copy. Where neither is here,
  /// `part` is its partition, which has_partition() denies.
  struct RowPlace {
    int part = 0;
    std::int64_t row = 0;
  };
  RowPlace row_place(int node_type, std::int64_t dataset_id) const {
    const std::vector<std::int64_t>& offsets = nodes_[node_type].offsets;
    int p = partition_of(offsets, dataset_id);
    if (!has_partition(p))
      if (const std::int64_t copy = halo_id(node_type, dataset_id); copy >= 0)
        dataset_id = copy, p = partition_of(offsets, copy);
    return {.part = p, .row = dataset_id - offsets[p]};
  }
  /// Returns the id behind the greatest that views have a row of: num_nodes(), and the rows of halos.
  std::int64_t end_of_ids(int node_type) const { return nodes_[node_type].offsets.back(); }
  /// Returns what the path functions (dataset_meta.h) take for that part of a view: a partition, or a halo.
  int files_of(int part) const {
    return part < meta_.partitions ? part : halo_of(halos_[part - meta_.partitions]);
  }
  /// Throws kUnsupported, "WHAT reads the whole graph, ...", unless it is whole.
  void require_whole(const std::string& what) const;
  /// Returns whoever answers for the other partitions; null where nobody does.
  PartitionPeers* peers() const { return peers_.get(); }
  /// Sets who answers for the other partitions, before anything reads rows of them.
  void set_peers(std::shared_ptr<PartitionPeers> peers) { peers_ = std::move(peers); }
  /// Returns whoever answers for `partition`; throws kUnsupported naming it where nobody does.
  PartitionPeers& require_peers(int partition) const;

  CscView csc(int edge_type) const;
  /// Returns an attribute of nodes. Throws kNotFound naming the attributes that exist.
  AttrView attr(int node_type, const std::string& name) const;
  /// Returns the rows of an edge attribute, in the dataset's order (CscPart::first_edge + position in the
  /// partition). Throws kNotFound naming the attributes that exist.
  AttrView edge_attr(int edge_type, const std::string& name) const;
  /// Returns the alias tables of an edge attribute. Throws kNotFound naming the weights that exist.
  WeightView weight(int edge_type, const std::string& name) const;
  /// Returns the rows in the order of a time. Throws kNotFound naming the times that exist.
  TimeView time(int edge_type, const std::string& name) const;
  /// Returns the rows in the order of source ids; empty where the dataset has none.
  ByIdView by_id(int edge_type) const { return {.order = edges_[edge_type].by_id.parts}; }
  /// Returns the original ids of a split, in the imported order. Where ids are sharded they are joined at the
  /// first call, and only where the dataset is whole: kUnsupported elsewhere (core/sampler/peer_ids.h asks).
  /// Throws kNotFound naming the splits that exist.
  std::span<const std::int64_t> split(int node_type, const std::string& name) const;
  /// Returns the links of a split of an edge type. Throws kNotFound naming the edge splits that exist.
  LinkSplit edge_split(int edge_type, const std::string& name) const;
  /// With sharded ids: the range of a partition that was opened. Throw kNotFound as split() and edge_split().
  SplitShard split_shard(int node_type, const std::string& name, int partition) const;
  LinkShard link_shard(int edge_type, const std::string& name, int partition) const;
  /// Returns a float64 per node of a partition, in dataset order.
  std::span<const double> hotness(int node_type, int partition) const;
  /// Returns the rows of other partitions by how hot they are for this one; none where the dataset does not
  /// store it (meta().remote_rows). What it holds is not checked (cache/remote_ranks.h does).
  RankedRows remote_rows(int node_type, int partition) const;

  /// Returns whether each partition has a range of the ids, and no machine those of all nodes.
  bool sharded_ids() const { return meta_.sharded_ids; }
  /// Returns whether this machine can tell the ids of all nodes; else it asks (core/sampler/peer_ids.h), and
  /// the functions below that look ids up throw kUnsupported for those of others.
  bool has_all_ids() const { return whole_ || !meta_.sharded_ids; }
  /// Writes out[i] = dataset id of original_ids[i], or -1 where another partition's range has it.
  void find_dataset_ids(int node_type, std::span<const std::int64_t> original_ids,
                        std::span<std::int64_t> out) const;
  /// Writes out[i] = original id of dataset_ids[i], which are in range; -1 where it is not known here. With
  /// sharded ids known are those of nodes of partitions that are here, and of their remote sources.
  void find_original_ids(int node_type, std::span<const std::int64_t> dataset_ids, std::int64_t* out) const;

  /// Returns the dataset id of an original id. Throws kInvalid naming the id where it is out of range,
  /// kCorrupt where the table is.
  std::int64_t dataset_id(int node_type, std::int64_t original_id) const;
  /// Writes out[i] = dataset id of original_ids[i].
  void dataset_ids(int node_type, std::span<const std::int64_t> original_ids,
                   std::span<std::int64_t> out) const;
  /// Returns the original id of a dataset id.
  std::int64_t original_id(int node_type, std::int64_t dataset_id) const;

  /// Returns the original id of a node; throws kCorrupt naming file and row where what the file has is no
  /// node: for those who index by it.
  std::int64_t checked_original_id(int node_type, std::int64_t dataset_id) const;

  /// Writes out[i] = original id of dataset_ids[i], which are in range.
  void original_ids(int node_type, std::span<const std::int64_t> dataset_ids, std::int64_t* out) const;

  /// Returns the original ids of a partition that was opened.
  OriginalIds original_ids(int node_type, int partition) const;

  /// Returns how the mapped arrays lie in memory, as the kernel tells it now.
  PageUse page_use() const;
  /// Returns all arrays that are mapped, in an order that the dataset decides.
  std::vector<std::span<const std::byte>> arrays() const;

  /// Scans everything: checksums of all files, row offsets, ids in range, new_ids a permutation that agrees
  /// with the row records, split ids, links, labels, and the fingerprint recomputed. Of a folder with some
  /// partitions the checksums alone, of what is there. `progress(done, total)` in bytes. Throws kCorrupt.
  void verify(const std::function<void(std::uint64_t done, std::uint64_t total)>& progress) const;

 private:
  /// PartFiles is an array that each part has a file of, and where views find its elements.
  template <class Element>
  struct PartFiles {
    std::vector<NpyArray> files;        // [part]; empty ones of partitions that are not here
    std::vector<const Element*> parts;  // [part]; null there
    const NpyArray& add(NpyArray file) {
      if constexpr (std::is_same_v<Element, std::byte>)
        parts.push_back(file.bytes().data());
      else
        parts.push_back(file.as<Element>().data());
      return files.emplace_back(std::move(file));
    }
    void skip() { files.emplace_back(), parts.push_back(nullptr); }
  };
  struct RemoteIdFiles {
    NpyArray entries, buckets;
    RemoteIds ids;
  };
  /// Joined has the ranges of a split one behind the other, made when somebody wants it so.
  struct Joined {
    std::once_flag once;
    std::vector<std::int64_t> numbers, labels, times;
  };
  struct OwnIds {
    std::int64_t begin = 0;  // the partition's first dataset id
    OriginalIds ids;
  };
  struct NodeFiles {
    std::vector<std::int64_t> offsets;      // [parts + 1] of ids
    std::vector<NpyArray> halo_places;      // [halo] of HaloPlace
    NpyArray new_ids;                       // [N]; not with sharded ids
    NpyArray all_original_ids;              // [N] the inverse; read where some partitions are not here
    std::vector<NpyArray> new_ids_shards;   // [partition], with sharded ids, as the three below
    std::vector<OwnIds> own_ids;            // of the partitions that are here
    std::vector<RemoteIdFiles> remote_ids;  // [part]
    std::vector<std::vector<NpyArray>> split_shards;  // [split][partition]
    std::vector<PartFiles<std::byte>> attrs;          // in the order of meta's list
    std::vector<NpyArray> splits;                     // in the order of meta's map
    std::vector<std::unique_ptr<Joined>> joined;      // likewise
    std::vector<NpyArray> hotness;                    // [partition]
    std::vector<NpyArray> remote_rows;                // [partition], or none
    std::vector<NpyArray> original_ids;               // [partition]; empty where row records name them
  };
  struct LinkFiles {
    NpyArray pairs, labels, times;  // without a path: not there
  };
  struct LinkShards {
    std::vector<LinkFiles> shards;  // [partition]
    std::unique_ptr<Joined> joined = std::make_unique<Joined>();
  };
  /// RowFiles are the rows of one part.
  struct RowFiles {
    NpyArray rows, indices;
    NpyArray edge_ids;  // without a path: not there
  };
  /// TimeFiles are the rows in the order of one time.
  struct TimeFiles {
    NpyArray bounds;
    PartFiles<std::uint32_t> orders;
    PartFiles<std::int64_t> times;
    PartFiles<std::int16_t> codes;
    PartFiles<std::byte> indices;
  };
  struct EdgeFiles {
    std::vector<RowFiles> rows;                      // [part]
    std::vector<CscPart> parts;                      // [part]
    std::vector<std::int64_t> partition_offsets{0};  // [parts + 1] of the edges
    PartFiles<std::uint32_t> by_id;                  // empty where the dataset has none
    std::vector<PartFiles<std::byte>> attrs;         // in the order of meta's lists, as all below
    std::vector<PartFiles<std::byte>> aliases;
    std::size_t alias_bytes = 0;  // from entry to entry, in all of them
    std::vector<TimeFiles> times;
    std::vector<LinkFiles> splits;         // in the order of meta's map
    std::vector<LinkShards> split_shards;  // with sharded ids
  };
  void open_nodes(int node_type);
  void open_node_attrs(int node_type, int partition, std::int64_t rows);
  void open_edges(int edge_type);
  void open_rows(int edge_type, int partition, CscPart part);
  void open_edge_extras(int edge_type, int partition, std::int64_t num_edges);
  void skip_edge_extras(int edge_type);
  void open_links(int edge_type);
  void open_ids(int node_type);
  void open_id_shards(int node_type, int partition);
  void open_remote_ids(int node_type, int part, std::int64_t count);
  void open_link_shards(int edge_type);
  void find_own_ids(int node_type);
  /// Returns where the original id of a node whose row is here lies; null of others.
  static const std::int64_t* own_place(const NodeFiles& files, std::int64_t dataset_id) {
    const std::int64_t* place = nullptr;
    for (const auto& [begin, ids] : files.own_ids) {
      const bool here =
          static_cast<std::uint64_t>(dataset_id - begin) < static_cast<std::uint64_t>(ids.count);
      place = here ? ids.first + (dataset_id - begin) * ids.stride : place;
    }
    return place;
  }
  template <class Id>
  void find_in_lists(const NodeFiles& files, std::span<const std::int64_t> dataset_ids,
                     std::int64_t* out) const;
  NpyArray open_attr(const std::string& relative, const AttrMeta& attr, std::int64_t rows) const;
  NpyArray open_array(const std::string& relative) const;

  void choose_partitions();
  void original_ids_of_all(int node_type, std::span<const std::int64_t> dataset_ids, std::int64_t* out) const;
  std::size_t split_number(int node_type, const std::string& name) const;
  std::size_t edge_split_number(int edge_type, const std::string& name) const;
  std::span<const std::int64_t> joined_split(int node_type, std::size_t split) const;
  LinkSplit joined_links(int edge_type, std::size_t split) const;
  void require_joinable(const std::string& split) const;
  void check_original_id(int node_type, std::int64_t original_id) const;
  [[noreturn]] void refuse_unknown_id(int node_type, const char* kind, std::int64_t id) const;

  std::filesystem::path folder_;
  DatasetOptions options_;
  std::vector<char> here_;  // [parts]
  std::vector<int> halos_;  // of these partitions; behind the partitions in views
  bool whole_ = true;
  std::shared_ptr<PartitionPeers> peers_;
  DatasetMeta meta_;
  std::vector<NodeFiles> nodes_;
  std::vector<EdgeFiles> edges_;
  std::vector<int> edge_type_into_;  // per node type: an edge type whose rows name its original ids, or -1
};

}  // namespace hopfeed
