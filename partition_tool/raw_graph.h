// A RawGraph is a graph of any node and edge types as it was imported, in its own numbering: what every
// importer and generator makes, and what `partition` reads back from a dataset. One shared stage
// (node_order.h, dataset_build.h) turns it into a dataset.
#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/element_type.h"
#include "core/dataset/dataset_meta.h"
#include "partition_tool/hotness/neighbour_rows.h"

namespace hopfeed {

/// An IdArray owns ids, 32 bits wide where they fit.
using IdArray = std::variant<std::vector<std::int32_t>, std::vector<std::int64_t>>;

/// Makes `size` zeros for ids below `bound`.
inline IdArray make_id_array(std::int64_t size, std::int64_t bound) {
  if (bound <= std::int64_t{1} << 31) return std::vector<std::int32_t>(size);
  return std::vector<std::int64_t>(size);
}

/// An IdSpan views ids of either width.
using IdSpan = std::variant<std::span<const std::int32_t>, std::span<const std::int64_t>>;

inline IdSpan view(const IdArray& ids) {
  return std::visit([](const auto& items) { return IdSpan(std::span(items)); }, ids);
}

inline std::int64_t id_count(const IdSpan& ids) {
  return std::visit([](auto items) { return std::ssize(items); }, ids);
}

inline ElementType id_type(const IdArray& ids) {
  return ids.index() == 0 ? ElementType::kInt32 : ElementType::kInt64;
}

enum class EdgeIds {
  kNone,       // the dataset will store none
  kPositions,  // edge e of the rows has id e: the import was sorted by destination
  kStored,     // Csc::edge_ids
  kHeld,       // Csc::edge_ids, to read edge attributes by; the dataset will store none
};

/// A Csc has in-neighbours by destination; inside a row they are in the imported order.
struct Csc {
  std::vector<std::int64_t> indptr;  // [N + 1]
  IdArray indices;                   // [E] source nodes, imported ids; empty where `make_row` gives them
  std::variant<std::monostate, MakeRow<std::int32_t>, MakeRow<std::int64_t>> make_row;
  EdgeIds edge_id_kind = EdgeIds::kNone;
  IdArray edge_ids;  // [E] where kStored or kHeld: positions in the imported edge list

  std::int64_t num_rows() const { return std::ssize(indptr) - 1; }
  std::int64_t num_edges() const { return indptr.empty() ? 0 : indptr.back(); }

  bool stores_edge_ids() const {
    return edge_id_kind == EdgeIds::kPositions || edge_id_kind == EdgeIds::kStored;
  }
  /// Reads the edge ids of one row; empty where they are not known.
  void read_edge_ids(std::int64_t v, std::vector<std::int64_t>& out) const {
    out.clear();
    if (edge_id_kind == EdgeIds::kNone) return;
    out.resize(indptr[v + 1] - indptr[v]);
    if (edge_id_kind == EdgeIds::kPositions) return std::iota(out.begin(), out.end(), indptr[v]);
    std::visit([&](const auto& ids) { std::copy_n(ids.begin() + indptr[v], out.size(), out.begin()); },
               edge_ids);
  }
  /// Returns the rows for passes over all of them.
  NeighbourRows rows() const {
    if (const auto* narrow = std::get_if<MakeRow<std::int32_t>>(&make_row)) return *narrow;
    if (const auto* wide = std::get_if<MakeRow<std::int64_t>>(&make_row)) return *wide;
    return std::visit([](auto items) { return NeighbourRows(items); }, view(indices));
  }
  /// Reads one row, in ids of the width that `num_nodes` needs.
  template <class Id>
  void read_row(std::int64_t v, std::span<Id> out) const {
    if (const auto* make = std::get_if<MakeRow<Id>>(&make_row)) return (*make)(v, out);
    std::copy_n(std::get<std::vector<Id>>(indices).begin() + indptr[v], out.size(), out.begin());
  }
};

/// A RawAttr is one node attribute. Rows are asked for while they are written, so that a mapped or computed
/// one never lies in memory.
struct RawAttr {
  std::string name;
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;  // of one row; empty for a scalar
  std::string origin = {};          // the file that it is read from, for errors; empty: none
  /// Fills one row (exactly its bytes). It is called from several threads, in any order.
  std::function<void(std::int64_t node, std::span<std::byte> row)> read_row;
};

/// A RawEdgeAttr is one edge attribute; its rows too are asked for while they are written.
struct RawEdgeAttr {
  std::string name;
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;  // of one edge; empty for a scalar
  std::string origin = {};          // the file that it is read from, for errors; empty: none
  /// Fills the rows of all in-edges of a node, in row order, without padding. `edge_ids` are those of
  /// Csc::read_edge_ids. It is called from several threads, in any order.
  std::function<void(std::int64_t node, std::span<const std::int64_t> edge_ids, std::span<std::byte> rows)>
      read_rows;
};

/// RawNodes are the nodes of one type.
struct RawNodes {
  std::string name = "node";
  std::int64_t count = 0;
  std::vector<RawAttr> attrs;
  std::map<std::string, std::vector<std::int64_t>> splits;  // imported ids, in the imported order
  std::int64_t num_classes = 0;                             // 0: unknown
  KeysMeta keys = {};                  // what users call them by: of a dataset that was read back
  std::filesystem::path keys_of = {};  // that dataset's folder
};

/// A LinkBlock is consecutive links of an edge split.
struct LinkBlock {
  std::span<const std::int64_t> pairs;          // source, destination, source, ...; imported ids
  std::span<const std::int64_t> labels, times;  // one for each pair; empty where the split has none
};

struct RawEdges;

/// RawLinks are links of one edge split. They are asked for while they are written, so that those that are
/// edges of the graph need not lie in memory a second time.
struct RawLinks {
  std::int64_t count = 0;
  bool has_labels = false, has_times = false;
  /// Gives all links, front to back. `of` is the edge type that has the split.
  std::function<void(const RawEdges& of, const std::function<void(const LinkBlock&)>& take)> read;
};

/// HeldLinks lie in memory; labels and times may be empty.
struct HeldLinks {
  std::vector<std::int64_t> pairs, labels, times;
};

inline RawLinks raw_links(HeldLinks links) {
  const auto held = std::make_shared<const HeldLinks>(std::move(links));
  return {.count = std::ssize(held->pairs) / 2,
          .has_labels = !held->labels.empty(),
          .has_times = !held->times.empty(),
          .read = [held](const RawEdges&, const std::function<void(const LinkBlock&)>& take) {
            take({.pairs = held->pairs, .labels = held->labels, .times = held->times});
          }};
}

/// RawEdges are the edges of one type.
struct RawEdges {
  int src_type = 0, dst_type = 0;  // of RawGraph::nodes
  std::string rel = "to";
  Csc csc;  // a row for each node of dst_type; sources are imported ids of src_type
  std::vector<RawEdgeAttr> attrs;
  std::vector<std::string> weights;  // attributes that weighted sampling shall draw by
  std::vector<std::string> times;    // attributes, or else of the source nodes, that rows shall be ordered by
  bool by_id = false;                // rows are stored in the order of source ids too
  std::string rev_of = {};  // "src__rel__dst" of the type that these are the reverse of; empty: of none
  std::map<std::string, RawLinks> splits = {};
};

/// A RawGraph may number nodes of all types through: those of the first type come first, then those of the
/// next.
struct RawGraph {
  std::string name;
  std::vector<RawNodes> nodes;
  std::vector<RawEdges> edges;
  std::vector<std::string> class_names;  // of the labels of the first node type
  std::vector<std::string> notes = {};   // what the import wants told: a line each

  /// Returns the number of the first node of a type; of all nodes for the type behind the last.
  std::int64_t first_node(int type) const {
    return std::accumulate(
        nodes.begin(), nodes.begin() + type, std::int64_t{0},
        [](std::int64_t sum, const RawNodes& type_nodes) { return sum + type_nodes.count; });
  }
  std::int64_t num_nodes() const { return first_node(static_cast<int>(nodes.size())); }
  std::int64_t num_edges() const {
    return std::accumulate(edges.begin(), edges.end(), std::int64_t{0},
                           [](std::int64_t sum, const RawEdges& type) { return sum + type.csc.num_edges(); });
  }
  /// Returns the splits "train" of all types, numbered through.
  std::vector<std::int64_t> training_nodes() const {
    std::vector<std::int64_t> train;
    for (int t = 0; t < static_cast<int>(nodes.size()); ++t) {
      const auto split = nodes[t].splits.find("train");
      if (split == nodes[t].splits.end()) continue;
      std::ranges::transform(split->second, std::back_inserter(train),
                             [first = first_node(t)](std::int64_t v) { return first + v; });
    }
    return train;
  }
  /// Returns "src__rel__dst".
  std::string edge_name(const RawEdges& type) const {
    return nodes[type.src_type].name + "__" + type.rel + "__" + nodes[type.dst_type].name;
  }
};

/// Makes a graph of one node type and one edge type, with the names that homogeneous graphs have.
inline RawGraph graph_of_one_type(std::string name) {
  RawGraph graph;
  graph.name = std::move(name);
  graph.nodes.resize(1);
  graph.edges.resize(1);
  return graph;
}

}  // namespace hopfeed
