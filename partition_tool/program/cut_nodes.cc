// See cut_nodes.h.
#include "partition_tool/program/cut_nodes.h"

#include <fmt/format.h>

#include <chrono>

#include "core/base/error.h"
#include "core/base/memory_limits.h"

namespace hopfeed {
namespace {

/// The degree that fits, said where it is not all.
std::int64_t fitting_degree(const RawGraph& graph, const PartitionOptions& how, Bars& bars) {
  const std::uint64_t available = available_memory().bytes / 10 * 9;  // the estimate is one
  const MetisFit fit = fit_metis(graph, how, available);
  if (fit.degree > 0) {
    bars.finish();
    fmt::print(
        "METIS would need about {} for all edges, {} are to be had: it sees about {} neighbours of each "
        "node "
        "(--metis-degree {} makes this cut again)\n",
        format_bytes(fit.whole_bytes), format_bytes(available), fit.degree, fit.degree);
  }
  return fit.degree;
}

}  // namespace

void check_choice(const CutChoice& choice) {
  if (choice.metis_degree && choice.method != "metis")
    throw Error(ErrorCode::kInvalid, "--metis-degree is for --method metis; leave it out");
}

NodeCut cut_nodes(const RawGraph& graph, const CutChoice& choice, int partitions, int threads, Bars& bars) {
  const auto begin = std::chrono::steady_clock::now();
  PartitionOptions how{.partitions = partitions, .seed = choice.seed, .threads = threads};
  NodeCut cut;
  if (choice.method == "metis") {
    if (partitions > 1)
      cut.metis_degree = choice.metis_degree ? *choice.metis_degree : fitting_degree(graph, how, bars);
    how.metis_degree = cut.metis_degree;
    cut.partition_of = partition_by_metis(graph, how, bars.progress());
  } else {
    cut.partition_of = partition_randomly(graph, how);
  }
  cut.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return cut;
}

}  // namespace hopfeed
