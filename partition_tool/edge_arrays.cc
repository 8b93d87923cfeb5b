// See edge_arrays.h.
#include "partition_tool/edge_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/parallel_ranges.h"
#include "core/batch/nonfinite.h"
#include "core/dataset/row_order.h"
#include "partition_tool/edge_array_checks.h"
#include "partition_tool/raw_attrs.h"
#include "partition_tool/row_blocks.h"
#include "partition_tool/row_tables.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kEdgeBlockBytes = 8 << 20;

/// A thread's copy of an edge attribute's rows of one node.
class RowReader {
 public:
  RowReader(const Csc& csc, const RawEdgeAttr& attr)
      : csc_(csc), attr_(attr), row_bytes_(meta_of(attr).row_bytes()) {}
  std::span<const std::byte> read(std::int64_t node) {
    csc_.read_edge_ids(node, edge_ids_);
    rows_.resize((csc_.indptr[node + 1] - csc_.indptr[node]) * row_bytes_);
    attr_.read_rows(node, edge_ids_, rows_);
    return rows_;
  }
  bool knows_ids() const { return !edge_ids_.empty(); }
  /// The position in the imported list of the k-th edge of the row that was read last.
  std::int64_t edge_id(std::size_t k) const { return edge_ids_[k]; }

 private:
  const Csc& csc_;
  const RawEdgeAttr& attr_;
  const std::int64_t row_bytes_;
  std::vector<std::int64_t> edge_ids_;
  std::vector<std::byte> rows_;
};

/// The times of a row's edges: their own, or else of their source nodes, which are read once for all rows.
class Times {
 public:
  Times(const RawGraph& graph, const RawEdges& edges, const std::string& name, int threads)
      : csc_(edges.csc), edge_attr_(find_attr(edges.attrs, name)) {
    if (edge_attr_) return;
    const RawNodes& sources = graph.nodes[edges.src_type];
    of_nodes_.resize(sources.count);
    const RawAttr& attr = *find_attr(sources.attrs, name);
    parallel_ranges(threads, sources.count, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t v = begin; v < end; ++v)
        attr.read_row(v, std::as_writable_bytes(std::span(&of_nodes_[v], 1)));
    });
  }
  void read(std::int64_t node, std::vector<std::int64_t>& edge_ids, std::vector<std::int64_t>& times) const {
    times.resize(csc_.indptr[node + 1] - csc_.indptr[node]);
    if (edge_attr_) {
      csc_.read_edge_ids(node, edge_ids);
      return edge_attr_->read_rows(node, edge_ids, std::as_writable_bytes(std::span(times)));
    }
    if (std::ssize(of_nodes_) <= std::int64_t{1} << 31)  // the width of make_id_array
      read_sources<std::int32_t>(node, times);
    else
      read_sources<std::int64_t>(node, times);
  }
  /// What codes of them count: of kTimeSamples edges, evenly spread.
  std::vector<std::int64_t> bounds(int threads) const {
    const std::int64_t step = std::max<std::int64_t>(1, csc_.num_edges() / kTimeSamples);
    std::vector<std::vector<std::int64_t>> samples(threads);
    parallel_ranges(threads, csc_.num_rows(), [&](int worker, std::int64_t first, std::int64_t last) {
      std::vector<std::int64_t> edge_ids, times;
      for (std::int64_t v = first; v < last; ++v) {
        const std::int64_t begin = csc_.indptr[v], end = csc_.indptr[v + 1];
        std::int64_t edge = (begin + step - 1) / step * step;
        if (edge >= end) continue;
        read(v, edge_ids, times);
        for (; edge < end; edge += step) samples[worker].push_back(times[edge - begin]);
      }
    });
    for (std::size_t i = 1; i < samples.size(); ++i)
      samples[0].insert(samples[0].end(), samples[i].begin(), samples[i].end());
    return time_bounds(std::move(samples[0]));
  }

 private:
  template <class Id>
  void read_sources(std::int64_t node, std::vector<std::int64_t>& times) const {
    std::vector<Id> sources(times.size());
    csc_.read_row(node, std::span(sources));
    std::ranges::transform(sources, times.begin(), [&](Id source) { return of_nodes_[source]; });
  }
  const Csc& csc_;
  const RawEdgeAttr* edge_attr_;
  std::vector<std::int64_t> of_nodes_;
};

}  // namespace

EdgeArrays::EdgeArrays(DatasetWriter& writer, const RawGraph& graph, int edge_type,
                       std::span<const NodeOrder> orders, const EdgeTypeMeta& edge, const Options& options)
    : writer_(writer),
      graph_(graph),
      edge_type_(edge_type),
      edges_(graph.edges[edge_type]),
      order_(orders[edges_.dst_type]),
      source_order_(orders[edges_.src_type]),
      edge_(edge),
      options_(options) {}

void EdgeArrays::write(std::span<Fingerprint> fingerprints,
                       const std::function<void(const std::string&, std::int64_t)>& nonfinite) {
  for (int a = 0; a < static_cast<int>(edge_.attrs.size()); ++a) write_attr(a, fingerprints, nonfinite);
  for (const std::string& weight : edge_.weights) write_alias(weight);
  for (const std::string& time : edge_.times) write_time_order(time);
  if (edge_.has_by_id)
    std::visit([&]<class Id>(const std::vector<Id>&) { write_by_id<Id>(); }, source_order_.new_ids);
}

template <class Start, class Row, class Finish>
void EdgeArrays::for_rows(int partition, const std::string& step, std::int64_t edge_bytes, const Start& start,
                          const Row& row, const Finish& finish) {
  std::int64_t done = 0;
  for (int p = 0; p < partition; ++p) done += edge_.partition_edges[p];
  const std::int64_t block_edges = std::max<std::int64_t>(1, kEdgeBlockBytes / edge_bytes);
  for_blocks_in_order(edges_.csc.indptr, order_, partition, block_edges, [&](const RowBlock& block) {
    start(block.num_edges());
    parallel_ranges(options_.threads, std::ssize(block.rows),
                    [&](int worker, std::int64_t begin, std::int64_t end) {
                      for (std::int64_t i = begin; i < end; ++i)
                        row(worker, block.rows[i].original_id, block.rows[i].offset - block.first_edge,
                            block.end_of(i) - block.first_edge);
                    });
    finish();
    options_.progress({step.c_str(), "edges", static_cast<std::uint64_t>(done + block.end_edge),
                       static_cast<std::uint64_t>(edge_.count)});
  });
}

void EdgeArrays::write_attr(int number, std::span<Fingerprint> fingerprints,
                            const std::function<void(const std::string&, std::int64_t)>& nonfinite) {
  const AttrMeta& meta = edge_.attrs[number];
  const std::int64_t row_bytes = meta.row_bytes(), stride = meta.stride_bytes;
  std::vector<RowReader> readers(fingerprints.size(), {edges_.csc, edges_.attrs[number]});
  std::vector<std::byte> block;
  std::atomic<std::int64_t> bad = 0;
  for (int p = 0; p < static_cast<int>(edge_.partition_edges.size()); ++p) {
    const std::string path = edge_attr_path(p, edge_, meta.name);
    NpyWriter file = writer_.open(
        path, npy_descr(meta.type),
        {edge_.partition_edges[p], stride / static_cast<std::int64_t>(element_bytes(meta.type))});
    for_rows(
        p, "Writing edge attribute " + meta.name, stride,
        [&](std::int64_t edges) { block.assign(edges * stride, std::byte{0}); },
        [&](int worker, std::int64_t node, std::int64_t begin, std::int64_t end) {
          const std::span<const std::byte> rows = readers[worker].read(node);
          bad += count_nonfinite(meta.type, rows, row_bytes);
          fingerprints[worker].add_edge_attr(edge_type_, node, number, rows);
          for (std::int64_t i = begin; i < end; ++i)
            std::memcpy(block.data() + i * stride, rows.data() + (i - begin) * row_bytes, row_bytes);
        },
        [&] { file.write_bytes(block); });
    writer_.close(path, std::move(file));
  }
  nonfinite(edge_.folder() + "/" + meta.name, bad);
}

void EdgeArrays::write_alias(const std::string& weight) {
  std::visit([&](const auto& new_ids) { write_alias(weight, std::span(new_ids)); }, source_order_.new_ids);
}

template <class Id>
void EdgeArrays::write_alias(const std::string& weight, std::span<const Id> new_ids) {
  const RawEdgeAttr& attr = *find_attr(edges_.attrs, weight);
  using Record = AliasRecord<Id>;
  struct Worker {
    RowReader reader;
    AliasBuilder builder;
    std::vector<double> weights;
    std::vector<AliasEntry> entries;
    std::vector<Id> sources;
  };
  std::vector<Worker> workers(options_.threads, {{edges_.csc, attr}, {}, {}, {}, {}});
  std::vector<Record> block;
  for (int p = 0; p < static_cast<int>(edge_.partition_edges.size()); ++p) {
    const std::string path = alias_path(p, edge_, weight);
    NpyWriter file = writer_.open(path, npy_descr(ElementType::kUint32),
                                  {edge_.partition_edges[p], sizeof(Record) / sizeof(std::uint32_t)});
    for_rows(
        p, "Writing alias tables of " + weight, sizeof(Record),
        [&](std::int64_t edges) { block.resize(edges); },
        [&](int number, std::int64_t node, std::int64_t begin, std::int64_t end) {
          Worker& worker = workers[number];
          weights_to_doubles(attr.type, worker.reader.read(node), worker.weights);
          worker.sources.resize(end - begin);
          edges_.csc.read_row(node, std::span(worker.sources));
          for (Id& source : worker.sources) source = new_ids[source];
          try {
            alias_records<Id>(worker.builder, worker.weights, worker.sources, worker.entries,
                              block.data() + begin);
          } catch (const Error& error) {
            const std::string where = edge_type_prefix(graph_, edges_) + file_prefix(attr);
            const std::size_t bad = first_bad_weight(worker.weights);
            if (bad == worker.weights.size() || !worker.reader.knows_ids())  // the row as a whole
              throw Error(error.code(), fmt::format("{}weight '{}', in-edges of node {}: {}", where, weight,
                                                    node, error.message()));
            throw Error(error.code(),
                        fmt::format("{}weight '{}' of edge {}, which ends at node {}, {}", where, weight,
                                    worker.reader.edge_id(bad), node, why_bad(worker.weights[bad])));
          }
        },
        [&] { file.write<Record>(block); });
    writer_.close(path, std::move(file));
  }
}

void EdgeArrays::write_time_order(const std::string& time) {
  std::visit([&](const auto& new_ids) { write_time_order(time, std::span(new_ids)); }, source_order_.new_ids);
}

template <class Id>
void EdgeArrays::write_time_order(const std::string& time, std::span<const Id> new_ids) {
  const Times times(graph_, edges_, time, options_.threads);
  struct Worker {
    std::vector<std::int64_t> edge_ids, times;
    std::vector<std::uint32_t> order;
    std::vector<Id> sources;
  };
  std::vector<Worker> workers(options_.threads);
  const std::vector<std::int64_t> bounds = times.bounds(options_.threads);
  const std::string bounds_path = time_bounds_path(edge_, time);
  NpyWriter bounds_file = writer_.open(bounds_path, npy_descr(ElementType::kInt64), {std::ssize(bounds)});
  bounds_file.write<std::int64_t>(bounds);
  writer_.close(bounds_path, std::move(bounds_file));
  std::vector<std::uint32_t> orders;
  std::vector<std::int64_t> sorted;
  std::vector<std::int16_t> codes;
  std::vector<Id> indices;
  for (int p = 0; p < static_cast<int>(edge_.partition_edges.size()); ++p) {
    const std::string order_path = time_order_path(p, edge_, time), sorted_path = times_path(p, edge_, time),
                      code_path = time_codes_path(p, edge_, time),
                      index_path = time_indices_path(p, edge_, time);
    const std::vector<std::int64_t> shape{edge_.partition_edges[p]};
    NpyWriter order_file = writer_.open(order_path, npy_descr(ElementType::kUint32), shape),
              sorted_file = writer_.open(sorted_path, npy_descr(ElementType::kInt64), shape),
              code_file = writer_.open(code_path, npy_descr(ElementType::kInt16), shape),
              index_file = writer_.open(index_path, npy_descr(edge_.index_type), shape);
    for_rows(
        p, "Ordering rows by " + time,
        sizeof(std::int64_t) + sizeof(std::uint32_t) + sizeof(std::int16_t) + sizeof(Id),
        [&](std::int64_t edges) {
          orders.resize(edges);
          sorted.resize(edges);
          codes.resize(edges);
          indices.resize(edges);
        },
        [&](int number, std::int64_t node, std::int64_t begin, std::int64_t end) {
          Worker& worker = workers[number];
          times.read(node, worker.edge_ids, worker.times);
          worker.sources.resize(end - begin);
          edges_.csc.read_row(node, std::span(worker.sources));
          for (Id& source : worker.sources) source = new_ids[source];
          order_by_time<Id>(worker.times, bounds, worker.sources, worker.order,
                            {.order = orders.data() + begin,
                             .times = sorted.data() + begin,
                             .codes = codes.data() + begin,
                             .indices = indices.data() + begin});
        },
        [&] {
          order_file.write<std::uint32_t>(orders);
          sorted_file.write<std::int64_t>(sorted);
          code_file.write<std::int16_t>(codes);
          index_file.write<Id>(indices);
        });
    writer_.close(order_path, std::move(order_file));
    writer_.close(sorted_path, std::move(sorted_file));
    writer_.close(code_path, std::move(code_file));
    writer_.close(index_path, std::move(index_file));
  }
}

template <class Id>
void EdgeArrays::write_by_id() {
  struct Worker {
    std::vector<Id> row;
    std::vector<std::int64_t> sources;
    std::vector<std::uint32_t> order;
  };
  std::vector<Worker> workers(options_.threads);
  std::vector<std::uint32_t> orders;
  for (int p = 0; p < static_cast<int>(edge_.partition_edges.size()); ++p) {
    const std::string path = by_id_path(p, edge_);
    NpyWriter file = writer_.open(path, npy_descr(ElementType::kUint32), {edge_.partition_edges[p]});
    for_rows(
        p, "Ordering rows by id", sizeof(std::uint32_t), [&](std::int64_t edges) { orders.resize(edges); },
        [&](int number, std::int64_t node, std::int64_t begin, std::int64_t end) {
          Worker& worker = workers[number];
          worker.row.resize(end - begin);
          edges_.csc.read_row(node, std::span(worker.row));
          worker.sources.assign(worker.row.begin(), worker.row.end());
          order_row(worker.sources, worker.order);
          std::ranges::copy(worker.order, orders.begin() + begin);
        },
        [&] { file.write<std::uint32_t>(orders); });
    writer_.close(path, std::move(file));
  }
}

}  // namespace hopfeed
