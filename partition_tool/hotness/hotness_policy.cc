// See hotness_policy.h. The graph is read in its imported numbering, so that sums of doubles, and with them
// the order of the nodes, do not hang on how the dataset was cut or ordered before.
#include "partition_tool/hotness/hotness_policy.h"

#include <fmt/format.h>

#include <array>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/parallel_ranges.h"
#include "core/dataset/dataset_meta.h"
#include "core/dataset/inverse_ids.h"
#include "partition_tool/hotness/hotness.h"
#include "partition_tool/hotness/presample.h"

namespace hopfeed {
namespace {

constexpr std::array<std::pair<HotnessPolicy, const char*>, 4> kPolicies{
    {{HotnessPolicy::kVip, "vip"},
     {HotnessPolicy::kDegree, "degree"},
     {HotnessPolicy::kPresample, "presample"},
     {HotnessPolicy::kOracle, "oracle"}}};

/// Epochs of presample are none of those that count.
constexpr std::uint64_t kPresampleSeed = 0x9E3779B97F4A7C15;

/// A mapped dataset as a graph in imported ids, types numbered through.
class MappedGraph {
 public:
  MappedGraph(const Dataset& dataset, int seed_type, std::span<const std::int64_t> seeds);
  MappedGraph(const MappedGraph&) = delete;  // its rows are made by this very object
  MappedGraph& operator=(const MappedGraph&) = delete;
  const HotnessGraph& graph() const { return graph_; }
  /// [N] by dataset id of a type.
  std::vector<double> by_dataset_id(const std::vector<double>& values, int type) const {
    std::vector<double> out(original_[type].size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = values[first_[type] + original_[type][i]];
    return out;
  }

 private:
  void add_edges(int edge_type);

  const Dataset& dataset_;
  std::vector<std::int64_t> first_{0};               // per node type, and of all nodes
  std::vector<std::vector<std::int64_t>> original_;  // per node type: dataset id -> imported id
  std::vector<std::vector<std::int64_t>> indptr_;    // per edge type
  std::vector<std::int64_t> train_;
  HotnessGraph graph_;
};

MappedGraph::MappedGraph(const Dataset& dataset, int seed_type, std::span<const std::int64_t> seeds)
    : dataset_(dataset) {
  for (int t = 0; t < dataset.num_node_types(); ++t) {
    original_.push_back(inverse_ids(dataset, t));
    first_.push_back(first_.back() + dataset.num_nodes(t));
  }
  graph_.num_nodes = first_.back();
  indptr_.resize(dataset.num_edge_types());
  for (int e = 0; e < dataset.num_edge_types(); ++e) add_edges(e);
  train_.resize(seeds.empty() ? dataset.num_nodes(seed_type) : std::ssize(seeds));
  if (seeds.empty())
    std::iota(train_.begin(), train_.end(), first_[seed_type]);
  else
    for (std::size_t i = 0; i < seeds.size(); ++i) train_[i] = first_[seed_type] + seeds[i];
  graph_.train = train_;
}

void MappedGraph::add_edges(int edge_type) {
  const CscView csc = dataset_.csc(edge_type);
  const EdgeTypeMeta& edge = dataset_.meta().edge_types[edge_type];
  std::vector<std::int64_t>& indptr = indptr_[edge_type];
  indptr.resize(csc.num_dst_nodes + 1);
  for (std::size_t p = 0; p < csc.parts.size(); ++p) {
    const CscPart& part = csc.parts[p];
    for (std::int64_t row = 0; row < part.num_rows; ++row) {
      const std::int64_t begin = part.rows[row].offset, end = part.rows[row + 1].offset;
      if (begin < 0 || begin > end || end > part.num_edges)
        throw Error(ErrorCode::kCorrupt,
                    fmt::format("{}: row {} spans [{}, {}) of {} edges; run hopfeed-partition verify",
                                (dataset_.folder() / rows_path(static_cast<int>(p), edge)).string(), row,
                                begin, end, part.num_edges));
      indptr[original_[csc.dst_type][csc.partition_offsets[p] + row] + 1] = end - begin;
    }
  }
  for (std::int64_t v = 0; v < csc.num_dst_nodes; ++v) indptr[v + 1] += indptr[v];
  const auto make_row = [this, csc, &edge](std::int64_t v, std::span<std::int64_t> out) {
    const std::int64_t id = dataset_.dataset_id(csc.dst_type, v);
    const int p = partition_of(csc.partition_offsets, id);
    const CscPart& part = csc.parts[p];
    const std::int64_t begin = part.rows[id - csc.partition_offsets[p]].offset;
    const std::vector<std::int64_t>& original = original_[csc.src_type];
    const auto copy = [&](const auto* indices) {
      for (std::size_t k = 0; k < out.size(); ++k) {
        const std::int64_t source = indices[begin + static_cast<std::int64_t>(k)];
        if (source < 0 || source >= csc.num_src_nodes)
          throw Error(ErrorCode::kCorrupt,
                      fmt::format("{}: entry {} is node {}, but there are {}; run hopfeed-partition verify",
                                  (dataset_.folder() / indices_path(p, edge)).string(),
                                  begin + static_cast<std::int64_t>(k), source, csc.num_src_nodes));
        out[k] = original[source];
      }
    };
    if (csc.index_type == ElementType::kInt32)
      copy(static_cast<const std::int32_t*>(part.indices));
    else
      copy(static_cast<const std::int64_t*>(part.indices));
  };
  graph_.edges.push_back({.indptr = indptr,
                          .indices = MakeRow<std::int64_t>(make_row),
                          .first_dst = first_[csc.dst_type],
                          .first_src = first_[csc.src_type]});
}

/// Those of an edge type: edge_fanouts names it by "src__rel__dst" or "rel".
std::vector<std::int64_t> fanouts_of(const DatasetMeta& meta, int edge_type, const BatchOptions& batch) {
  for (const auto& [name, fanouts] : batch.edge_fanouts)
    if (meta.edge_type(name) == edge_type) return fanouts;
  return {};
}

/// Edges that leave each node, over all edge types. Each thread owns a range of the nodes that are counted
/// and reads all rows, as in hotness.cc.
std::vector<double> out_degrees(const HotnessGraph& graph, const HotnessRequest& request) {
  std::vector<double> degree(graph.num_nodes);
  std::int64_t done = 0, total = 0;
  for (const HotnessEdges& edges : graph.edges) total += edges.indptr.back();
  for (const HotnessEdges& edges : graph.edges) {
    const auto count_block = [&](std::int64_t first, std::int64_t last, auto indices) {
      parallel_ranges(request.threads, std::ssize(degree), [&](int, std::int64_t begin, std::int64_t end) {
        const auto width = static_cast<std::uint64_t>(end - begin);
        for (std::int64_t e = 0; e < edges.indptr[last] - edges.indptr[first]; ++e) {
          const std::int64_t v = edges.first_src + indices[e];
          if (static_cast<std::uint64_t>(v - begin) < width) ++degree[v];
        }
      });
      if (request.progress) request.progress(done + edges.indptr[last], total);
    };
    for_row_blocks(
        edges.indptr, edges.indices, request.threads, [](std::int64_t) { return true; }, count_block);
    done += edges.indptr.back();
  }
  return degree;
}

std::vector<double> of_graph(const Dataset& dataset, HotnessPolicy policy, const HotnessRequest& request,
                             HotnessGraph graph) {
  if (policy == HotnessPolicy::kDegree) return out_degrees(graph, request);
  for (std::size_t e = 0; e < graph.edges.size(); ++e)
    graph.edges[e].fanouts = fanouts_of(dataset.meta(), static_cast<int>(e), request.batch);
  return inclusion_probability(graph, {.fanouts = request.batch.fanouts,
                                       .batch_size = request.batch_size,
                                       .threads = request.threads,
                                       .progress = request.progress});
}

std::vector<std::vector<double>> sampled(const Dataset& dataset, HotnessPolicy policy,
                                         const HotnessRequest& request) {
  std::vector<std::int64_t> all;
  if (request.seeds.empty()) {
    all.resize(dataset.num_nodes(request.node_type));
    std::iota(all.begin(), all.end(), 0);
  }
  const auto counts = count_reads(
      dataset, request.seeds.empty() ? std::span<const std::int64_t>(all) : request.seeds, request.batch,
      {.node_type = request.node_type,
       .batch_size = request.batch_size,
       .epochs = request.epochs,
       .seed = policy == HotnessPolicy::kOracle ? request.seed : request.seed ^ kPresampleSeed,
       .threads = request.threads,
       .progress = request.progress});
  std::vector<std::vector<double>> hot;
  for (const std::vector<std::int64_t>& type : counts) hot.emplace_back(type.begin(), type.end());
  return hot;
}

void check(const Dataset& dataset, const HotnessRequest& request) {
  request.batch.validate();
  require_valid(request.batch_size >= 1, fmt::format("the batch size is {}, at least 1", request.batch_size));
  require_valid(request.epochs >= 1, fmt::format("{} is {}, at least 1", marked("epochs"), request.epochs));
  require_valid(request.node_type >= 0 && request.node_type < dataset.num_node_types(),
                fmt::format("there is no node type {}", request.node_type));
  const NodeTypeMeta& type = dataset.meta().node_types[request.node_type];
  for (const std::int64_t v : request.seeds)
    require_valid(v >= 0 && v < type.count,
                  fmt::format("seed {} is no node: type '{}' has ids 0 to {}", v, type.name, type.count - 1));
}

}  // namespace

const char* to_string(HotnessPolicy policy) {
  for (const auto& [known, name] : kPolicies)
    if (known == policy) return name;
  return "unknown";
}

HotnessPolicy hotness_policy_from(std::string_view name) {
  std::string all;
  for (const auto& [policy, known] : kPolicies) {
    if (known == name) return policy;
    all += all.empty() ? "" : ", ";
    all += known;
  }
  throw Error(ErrorCode::kInvalid, fmt::format("there is no policy '{}'; choose one of {}", name, all));
}

bool has_closed_form(const Dataset&, const BatchOptions& batch) {
  return batch.sampler == BatchOptions::kNeighborSampler && batch.weight.empty() && !batch.trees() &&
         !batch.labor && !batch.replace && !batch.link.on();
}

std::vector<std::vector<double>> node_hotness(const Dataset& dataset, HotnessPolicy policy,
                                              const HotnessRequest& request) {
  check(dataset, request);
  if (policy == HotnessPolicy::kPresample || policy == HotnessPolicy::kOracle)
    return sampled(dataset, policy, request);
  if (policy == HotnessPolicy::kVip && !has_closed_form(dataset, request.batch))
    throw Error(ErrorCode::kUnsupported,
                "policy vip has a formula for plain neighbour sampling alone; choose presample");
  const MappedGraph mapped(dataset, request.node_type, request.seeds);
  const std::vector<double> values = of_graph(dataset, policy, request, mapped.graph());
  std::vector<std::vector<double>> hot;
  for (int t = 0; t < dataset.num_node_types(); ++t) hot.push_back(mapped.by_dataset_id(values, t));
  return hot;
}

}  // namespace hopfeed
