// See read_dataset.h. The folder may be damaged: offsets and ids are checked before they are used.
#include "partition_tool/read_dataset.h"

#include <fmt/format.h>

#include <cstring>

#include "core/base/error.h"
#include "core/base/memory_limits.h"
#include "core/base/parallel_ranges.h"
#include "core/dataset/array_place.h"
#include "core/dataset/inverse_ids.h"
#include "partition_tool/graph_memory.h"

namespace hopfeed {
namespace {

[[noreturn]] void corrupt(const Dataset& dataset, const std::string& file, const std::string& what) {
  throw Error(ErrorCode::kCorrupt, (dataset.folder() / file).string() + ": " + what);
}

void require_memory_for(const Dataset& dataset) {
  std::uint64_t bytes = 0;
  for (const NodeTypeMeta& node : dataset.meta().node_types) bytes += graph_bytes({.num_nodes = node.count});
  for (int t = 0; t < dataset.num_edge_types(); ++t) {
    const CscView view = dataset.csc(t);
    bytes += graph_bytes({.num_sources = view.num_src_nodes,
                          .held_edges = view.num_edges,
                          .stored_edge_ids = view.has_edge_ids});
  }
  require_memory(bytes, available_memory(), "to cut " + dataset.folder().string(), "use a machine with more");
}

/// Dataset id -> original id of one node type.
std::vector<std::int64_t> read_originals(const Dataset& dataset, int node_type) {
  const NodeTypeMeta& node = dataset.meta().node_types[node_type];
  std::vector<std::int64_t> original = inverse_ids(dataset, node_type);
  for (std::int64_t id = 0; !dataset.meta().has_rows(node) && id < node.count; ++id) {
    if (dataset.original_id(node_type, id) != original[id])
      corrupt(dataset, original_ids_path(partition_of(node.partition_offsets, id), node),
              fmt::format("dataset id {} says original id {}, which new_ids does not", id,
                          dataset.original_id(node_type, id)));
  }
  return original;
}

/// One edge type on its way into memory.
class EdgeReader {
 public:
  /// `originals` has one list for each node type.
  EdgeReader(const Dataset& dataset, int edge_type, const std::vector<std::vector<std::int64_t>>& originals,
             int threads)
      : dataset_(dataset),
        edge_(dataset.meta().edge_types[edge_type]),
        view_(dataset.csc(edge_type)),
        sources_(originals[view_.src_type]),
        destinations_(originals[view_.dst_type]),
        threads_(threads) {}

  Csc read(const Progress& progress);

 private:
  void read_rows();
  template <class Stored, class Out>
  void copy_sources(int p, std::vector<Out>& out) const;
  template <class Stored, class Out>
  void copy_edge_ids(int p, std::vector<Out>& out) const;

  const Dataset& dataset_;
  const EdgeTypeMeta& edge_;
  const CscView view_;
  const std::vector<std::int64_t>&sources_, &destinations_;  // dataset id -> original id
  const int threads_;
  Csc csc_;
};

void EdgeReader::read_rows() {
  csc_.indptr.assign(view_.num_dst_nodes + 1, 0);
  for (std::size_t p = 0; p < view_.parts.size(); ++p) {
    const CscPart& part = view_.parts[p];
    for (std::int64_t row = 0; row < part.num_rows; ++row) {
      const std::int64_t begin = part.rows[row].offset, end = part.rows[row + 1].offset,
                         v = part.rows[row].original_id;
      const auto file = [&] { return rows_path(static_cast<int>(p), edge_); };
      if (begin < 0 || begin > end || end > part.num_edges)
        corrupt(dataset_, file(),
                fmt::format("row {} spans [{}, {}) of {} edges", row, begin, end, part.num_edges));
      if (v != destinations_[view_.partition_offsets[p] + row])
        corrupt(dataset_, file(), fmt::format("row {} says original id {}, which new_ids does not", row, v));
      csc_.indptr[v + 1] = end - begin;
    }
  }
  for (std::int64_t v = 0; v < view_.num_dst_nodes; ++v) csc_.indptr[v + 1] += csc_.indptr[v];
}

template <class Stored, class Out>
void EdgeReader::copy_sources(int p, std::vector<Out>& out) const {
  const CscPart& part = view_.parts[p];
  const Stored* stored = static_cast<const Stored*>(part.indices);
  parallel_ranges(threads_, part.num_rows, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t at = csc_.indptr[part.rows[row].original_id];
      for (std::int64_t e = part.rows[row].offset; e < part.rows[row + 1].offset; ++e) {
        const std::int64_t source = stored[e];
        if (source < 0 || source >= view_.num_src_nodes)
          corrupt(dataset_, indices_path(p, edge_),
                  fmt::format("entry {} is node {}, but there are {}", e, source, view_.num_src_nodes));
        out[at++] = static_cast<Out>(sources_[source]);
      }
    }
  });
}

template <class Stored, class Out>
void EdgeReader::copy_edge_ids(int p, std::vector<Out>& out) const {
  const CscPart& part = view_.parts[p];
  const Stored* stored = static_cast<const Stored*>(part.edge_ids);
  parallel_ranges(threads_, part.num_rows, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t at = csc_.indptr[part.rows[row].original_id];
      for (std::int64_t e = part.rows[row].offset; e < part.rows[row + 1].offset; ++e) {
        const std::int64_t id = stored[e];
        if (id < 0 || id >= view_.num_edges)
          corrupt(dataset_, edge_ids_path(p, edge_),
                  fmt::format("entry {} is edge {}, but there are {}", e, id, view_.num_edges));
        out[at++] = static_cast<Out>(id);
      }
    }
  });
}

Csc EdgeReader::read(const Progress& progress) {
  read_rows();
  csc_.indices = make_id_array(view_.num_edges, view_.num_src_nodes);
  if (view_.has_edge_ids) {
    csc_.edge_id_kind = EdgeIds::kStored;
    csc_.edge_ids = make_id_array(view_.num_edges, view_.num_edges);
  }
  std::int64_t done = 0;
  for (int p = 0; p < static_cast<int>(view_.parts.size()); ++p) {
    std::visit(
        [&](auto& out) {
          if (view_.index_type == ElementType::kInt32)
            copy_sources<std::int32_t>(p, out);
          else
            copy_sources<std::int64_t>(p, out);
        },
        csc_.indices);
    std::visit(
        [&](auto& out) {
          if (!view_.has_edge_ids) return;
          if (view_.edge_id_type == ElementType::kInt32)
            copy_edge_ids<std::int32_t>(p, out);
          else
            copy_edge_ids<std::int64_t>(p, out);
        },
        csc_.edge_ids);
    done += view_.parts[p].num_edges;
    progress({"Reading edges", "edges", static_cast<std::uint64_t>(done),
              static_cast<std::uint64_t>(view_.num_edges)});
  }
  return std::move(csc_);
}

/// Rows of an edge attribute lie as the edges do. EdgeReader has checked the offsets by the time that this is
/// asked.
auto edge_rows_reader(const Dataset& dataset, int edge_type, const std::string& attr) {
  return [&dataset, view = dataset.edge_attr(edge_type, attr), csc = dataset.csc(edge_type)](
             std::int64_t v, std::span<const std::int64_t>, std::span<std::byte> rows) {
    const std::int64_t id = dataset.dataset_id(csc.dst_type, v);
    const int p = partition_of(csc.partition_offsets, id);
    const RowRecord& row = csc.parts[p].rows[id - csc.partition_offsets[p]];
    const std::byte* from = view.parts[p] + row.offset * view.stride_bytes;
    for (std::size_t at = 0; at < rows.size(); at += view.row_bytes, from += view.stride_bytes)
      std::memcpy(rows.data() + at, from, view.row_bytes);
  };
}

auto node_row_reader(const Dataset& dataset, int node_type, const std::string& attr) {
  return [&dataset, node_type, view = dataset.attr(node_type, attr)](std::int64_t v,
                                                                     std::span<std::byte> row) {
    const std::int64_t id = dataset.dataset_id(node_type, v);
    const int p = partition_of(view.partition_offsets, id);
    std::memcpy(row.data(), view.parts[p] + (id - view.partition_offsets[p]) * view.stride_bytes, row.size());
  };
}

RawNodes read_nodes(const Dataset& dataset, int node_type) {
  const NodeTypeMeta& node = dataset.meta().node_types[node_type];
  RawNodes nodes{.name = node.name,
                 .count = node.count,
                 .attrs = {},
                 .splits = {},
                 .num_classes = node.num_classes,
                 .keys = node.keys,
                 .keys_of = dataset.folder()};
  for (const auto& [name, count] : node.splits) {
    const auto ids = dataset.split(node_type, name);
    for (std::int64_t i = 0; i < std::ssize(ids); ++i) {
      if (ids[i] < 0 || ids[i] >= node.count)
        corrupt(dataset, place_in_split(dataset.meta(), node, name, i).file,
                fmt::format("node {} is out of range", ids[i]));
    }
    nodes.splits[name].assign(ids.begin(), ids.end());
  }
  for (const AttrMeta& attr : node.attrs)
    nodes.attrs.push_back({.name = attr.name,
                           .type = attr.type,
                           .shape = attr.shape,
                           .read_row = node_row_reader(dataset, node_type, attr.name)});
  return nodes;
}

/// Edge splits are read from their maps; ids are checked before anything is done with them.
std::map<std::string, RawLinks> read_links(const Dataset& dataset, int edge_type) {
  const EdgeTypeMeta& edge = dataset.meta().edge_types[edge_type];
  const CscView csc = dataset.csc(edge_type);
  std::map<std::string, RawLinks> splits;
  for (const auto& [name, count] : edge.splits) {
    const LinkSplit links = dataset.edge_split(edge_type, name);
    for (std::int64_t i = 0; i < std::ssize(links.pairs); ++i) {
      if (links.pairs[i] >= 0 && links.pairs[i] < (i % 2 == 0 ? csc.num_src_nodes : csc.num_dst_nodes))
        continue;
      const ArrayPlace place = place_of_link(dataset.meta(), edge, name, i / 2);
      corrupt(dataset, place.file,
              fmt::format("link {} has node {}, out of range", place.entry, links.pairs[i]));
    }
    splits[name] = {.count = count,
                    .has_labels = dataset.meta().has_labels(edge, name),
                    .has_times = dataset.meta().has_times(edge, name),
                    .read = [links](const RawEdges&, const std::function<void(const LinkBlock&)>& take) {
                      take({.pairs = links.pairs, .labels = links.labels, .times = links.times});
                    }};
  }
  return splits;
}

}  // namespace

RawGraph read_dataset(const Dataset& dataset, int threads, const Progress& progress) {
  const DatasetMeta& meta = dataset.meta();
  RawGraph graph;
  graph.name = meta.name;
  graph.class_names = meta.class_names;
  require_memory_for(dataset);
  std::vector<std::vector<std::int64_t>> originals;
  for (int t = 0; t < dataset.num_node_types(); ++t) {
    graph.nodes.push_back(read_nodes(dataset, t));
    originals.push_back(read_originals(dataset, t));
  }
  for (int t = 0; t < dataset.num_edge_types(); ++t) {
    const EdgeTypeMeta& edge = meta.edge_types[t];
    graph.edges.push_back({.src_type = meta.edge_src_type(edge),
                           .dst_type = meta.edge_dst_type(edge),
                           .rel = edge.rel,
                           .csc = EdgeReader(dataset, t, originals, threads).read(progress),
                           .attrs = {},
                           .weights = edge.weights,
                           .times = edge.times,
                           .by_id = edge.has_by_id,
                           .rev_of = edge.rev_of,
                           .splits = read_links(dataset, t)});
    for (const AttrMeta& attr : edge.attrs)
      graph.edges.back().attrs.push_back({.name = attr.name,
                                          .type = attr.type,
                                          .shape = attr.shape,
                                          .read_rows = edge_rows_reader(dataset, t, attr.name)});
  }
  return graph;
}

}  // namespace hopfeed
