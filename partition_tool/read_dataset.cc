// See read_dataset.h. The folder may be damaged: offsets and ids are checked before they are used.
#include "partition_tool/read_dataset.h"

#include <fmt/format.h>

#include <cstring>

#include "cache/parallel_ranges.h"
#include "core/error.h"
#include "partition_tool/graph_memory.h"

namespace hopfeed {
namespace {

[[noreturn]] void corrupt(const Dataset& dataset, const std::string& file, const std::string& what) {
  throw Error(ErrorCode::kCorrupt, (dataset.folder() / file).string() + ": " + what);
}

/// Dataset id -> original id, and with it the degrees of all rows into csc.indptr.
std::vector<std::int64_t> read_rows(const Dataset& dataset, const CscView& view, Csc& csc) {
  std::vector<std::int64_t> original(view.num_dst_nodes);
  csc.indptr.assign(view.num_dst_nodes + 1, 0);
  for (std::size_t p = 0; p < view.parts.size(); ++p) {
    const CscPart& part = view.parts[p];
    for (std::int64_t row = 0; row < part.num_rows; ++row) {
      const std::int64_t begin = part.rows[row].offset, end = part.rows[row + 1].offset,
                         v = part.rows[row].original_id;
      const std::int64_t id = view.partition_offsets[p] + row;
      const auto file = [&] { return rows_path(static_cast<int>(p), dataset.meta().edge_types[0]); };
      if (begin < 0 || begin > end || end > part.num_edges)
        corrupt(dataset, file(),
                fmt::format("row {} spans [{}, {}) of {} edges", row, begin, end, part.num_edges));
      if (v < 0 || v >= view.num_dst_nodes || dataset.dataset_id(0, v) != id)
        corrupt(dataset, file(), fmt::format("row {} says original id {}, which new_ids does not", row, v));
      original[id] = v;
      csc.indptr[v + 1] = end - begin;
    }
  }
  for (std::int64_t v = 0; v < view.num_dst_nodes; ++v) csc.indptr[v + 1] += csc.indptr[v];
  return original;
}

template <class Stored, class Out>
void copy_sources(const Dataset& dataset, const CscView& view, int p,
                  const std::vector<std::int64_t>& original, int threads, const Csc& csc,
                  std::vector<Out>& out) {
  const CscPart& part = view.parts[p];
  const Stored* stored = static_cast<const Stored*>(part.indices);
  parallel_ranges(threads, part.num_rows, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t at = csc.indptr[part.rows[row].original_id];
      for (std::int64_t e = part.rows[row].offset; e < part.rows[row + 1].offset; ++e) {
        const std::int64_t source = stored[e];
        if (source < 0 || source >= view.num_src_nodes)
          corrupt(dataset, indices_path(p, dataset.meta().edge_types[0]),
                  fmt::format("entry {} is node {}, but there are {}", e, source, view.num_src_nodes));
        out[at++] = static_cast<Out>(original[source]);
      }
    }
  });
}

template <class Stored, class Out>
void copy_edge_ids(const Dataset& dataset, const CscView& view, int p, int threads, const Csc& csc,
                   std::vector<Out>& out) {
  const CscPart& part = view.parts[p];
  const Stored* stored = static_cast<const Stored*>(part.edge_ids);
  parallel_ranges(threads, part.num_rows, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t at = csc.indptr[part.rows[row].original_id];
      for (std::int64_t e = part.rows[row].offset; e < part.rows[row + 1].offset; ++e) {
        const std::int64_t id = stored[e];
        if (id < 0 || id >= view.num_edges)
          corrupt(dataset, edge_ids_path(p, dataset.meta().edge_types[0]),
                  fmt::format("entry {} is edge {}, but there are {}", e, id, view.num_edges));
        out[at++] = static_cast<Out>(id);
      }
    }
  });
}

void read_edges(const Dataset& dataset, const CscView& view, int threads, const Progress& progress,
                Csc& csc) {
  require_graph_memory(
      {.num_nodes = view.num_dst_nodes, .held_edges = view.num_edges, .stored_edge_ids = view.has_edge_ids},
      "to cut " + dataset.folder().string(), "use a machine with more");
  const std::vector<std::int64_t> original = read_rows(dataset, view, csc);
  csc.indices = make_id_array(view.num_edges, view.num_src_nodes);
  if (view.has_edge_ids) {
    csc.edge_id_kind = EdgeIds::kStored;
    csc.edge_ids = make_id_array(view.num_edges, view.num_edges);
  }
  std::int64_t done = 0;
  for (int p = 0; p < static_cast<int>(view.parts.size()); ++p) {
    std::visit(
        [&](auto& out) {
          if (view.index_type == ElementType::kInt32)
            copy_sources<std::int32_t>(dataset, view, p, original, threads, csc, out);
          else
            copy_sources<std::int64_t>(dataset, view, p, original, threads, csc, out);
        },
        csc.indices);
    std::visit(
        [&](auto& out) {
          if (!view.has_edge_ids) return;
          if (view.edge_id_type == ElementType::kInt32)
            copy_edge_ids<std::int32_t>(dataset, view, p, threads, csc, out);
          else
            copy_edge_ids<std::int64_t>(dataset, view, p, threads, csc, out);
        },
        csc.edge_ids);
    done += view.parts[p].num_edges;
    progress({"Reading edges", "edges", static_cast<std::uint64_t>(done),
              static_cast<std::uint64_t>(view.num_edges)});
  }
}

/// Rows of an edge attribute lie as the edges do. read_edges has checked the offsets by the time that this is asked.
auto row_reader(const Dataset& dataset, const std::string& attr) {
  return [&dataset, view = dataset.edge_attr(0, attr), csc = dataset.csc(0)](
             std::int64_t v, std::span<const std::int64_t>, std::span<std::byte> rows) {
    const std::int64_t id = dataset.dataset_id(0, v);
    const int p = partition_of(csc.partition_offsets, id);
    const RowRecord& row = csc.parts[p].rows[id - csc.partition_offsets[p]];
    const std::byte* from = view.parts[p] + row.offset * view.stride_bytes;
    for (std::size_t at = 0; at < rows.size(); at += view.row_bytes, from += view.stride_bytes)
      std::memcpy(rows.data() + at, from, view.row_bytes);
  };
}

}  // namespace

RawGraph read_dataset(const Dataset& dataset, int threads, const Progress& progress) {
  const DatasetMeta& meta = dataset.meta();
  if (meta.node_types.size() != 1 || meta.edge_types.size() != 1) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} has {} node types and {} edge types; partition takes graphs of one type",
                            dataset.folder().string(), meta.node_types.size(), meta.edge_types.size()));
  }
  const NodeTypeMeta& node = meta.node_types[0];
  RawGraph graph;
  graph.name = meta.name;
  graph.num_classes = node.num_classes;
  graph.class_names = meta.class_names;
  for (const auto& [name, count] : node.splits) {
    const auto ids = dataset.split(0, name);
    for (std::int64_t id : ids) {
      if (id < 0 || id >= node.count)
        corrupt(dataset, split_path(node, name), fmt::format("node {} is out of range", id));
    }
    graph.splits[name].assign(ids.begin(), ids.end());
  }
  for (const AttrMeta& attr : node.attrs) {
    const AttrView view = dataset.attr(0, attr.name);
    graph.attrs.push_back({.name = attr.name,
                           .type = attr.type,
                           .shape = attr.shape,
                           .read_row = [&dataset, view](std::int64_t v, std::span<std::byte> row) {
                             const std::int64_t id = dataset.dataset_id(0, v);
                             const int p = partition_of(view.partition_offsets, id);
                             std::memcpy(row.data(),
                                         view.parts[p] + (id - view.partition_offsets[p]) * view.stride_bytes,
                                         row.size());
                           }});
  }
  const EdgeTypeMeta& edge = meta.edge_types[0];
  for (const AttrMeta& attr : edge.attrs)
    graph.edge_attrs.push_back({.name = attr.name,
                                .type = attr.type,
                                .shape = attr.shape,
                                .read_rows = row_reader(dataset, attr.name)});
  graph.weights = edge.weights;
  graph.times = edge.times;
  read_edges(dataset, dataset.csc(0), threads, progress, graph.csc);
  return graph;
}

}  // namespace hopfeed
