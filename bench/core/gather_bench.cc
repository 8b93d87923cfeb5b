// hopfeed-bench gather: feature rows of real batches into reused memory, against the best row-gather rate.
// With --gpu: rows of a table into a card's memory, against its copies.
#include <algorithm>
#include <atomic>

#include "bench/bench_data.h"
#include "bench/bench_options.h"
#include "bench/core/gpu_gather.h"
#include "bench/core/machine_limits.h"
#include "bench/measure.h"
#include "core/base/error.h"
#include "core/base/scratch.h"
#include "core/maker/mapped_features.h"
#include "core/sampler/neighbor_sampler.h"
#include "core/seeds/node_list.h"

namespace hopfeed::bench {
namespace {

// The nodes of a few batches, so that the gather sees the skew of real ones.
std::vector<std::vector<std::int64_t>> sampled_nodes(const Dataset& dataset, const BenchOptions& options) {
  const NodeList seeds(dataset.split(0, "train"), {});
  NeighborSampler sampler(dataset, {.fanouts = options.fanouts});
  NodeList::Positions positions;
  std::vector<std::vector<std::int64_t>> batches;
  const std::int64_t count = std::min(options.batch_size, seeds.size());
  for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
    seeds.seeds({.seed = 1, .epoch = epoch, .first = 0, .count = count}, positions);
    std::vector<std::int64_t> ids(positions.original_id.size());
    dataset.dataset_ids(0, positions.original_id, ids);
    const TypedSeeds typed{.node_type = 0, .ids = ids, .times = {}};
    const Sample& sample = sampler.sample(
        {.key = {.seed = 1, .epoch = epoch, .first = 0, .count = count}, .seeds = {&typed, 1}});
    batches.emplace_back(sample.nodes[0].dataset_ids.begin(), sample.nodes[0].dataset_ids.end());
  }
  return batches;
}

void verify(const AttrView& attr, const std::vector<std::int64_t>& nodes, const std::byte* rows) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const int p = partition_of(attr.partition_offsets, nodes[i]);
    const std::byte* row =
        attr.parts[static_cast<std::size_t>(p)] +
        (nodes[i] - attr.partition_offsets[static_cast<std::size_t>(p)]) * attr.stride_bytes;
    if (!std::equal(row, row + attr.row_bytes, rows + i * static_cast<std::size_t>(attr.row_bytes))) {
      throw Error(ErrorCode::kCorrupt, "gathered row " + std::to_string(i) + " differs from the dataset's");
    }
  }
}

Report gathers_report(const GpuGatherRates& rates, std::size_t row_bytes) {
  Report in_place = Report::array(), mixtures = Report::array();
  for (const InPlaceRate& rate : rates.in_place)
    in_place.push_back({{"stride", rate.stride},
                        {"ids_sorted", rate.sorted},
                        {"bytes_per_s", rate.bytes_per_s},
                        {"fraction_of_host_to_device", rate.bytes_per_s / rates.host_to_device_bytes}});
  for (const MixtureRate& rate : rates.mixtures)
    mixtures.push_back({{"held", rate.held},
                        {"held_of_gathered", rate.held_asked},
                        {"bytes_per_s", rate.bytes_per_s},
                        {"fraction_of_predicted", rate.bytes_per_s / rate.predicted_bytes_per_s}});
  return {{"row_bytes", row_bytes},
          {"host_to_device_bytes_per_s", rates.host_to_device_bytes},
          {"device_copy_bytes_per_s", rates.device_copy_bytes},
          {"held_bytes_per_s", rates.held_bytes},
          {"held_fraction_of_device_copy", rates.held_bytes / rates.device_copy_bytes},
          {"in_place", in_place},
          {"mixtures", mixtures},
          {"verified_rows", rates.verified_rows}};
}

Report bench_gpu_gather(const BenchOptions& options) {
  std::vector<std::int64_t> widths{400, 512};
  if (options.row_bytes > 0) widths = {options.row_bytes};
  Report report{{"rows", Report::array()}};
  for (const std::int64_t width : widths) {
    const auto row_bytes = static_cast<std::size_t>(width);
    const GpuGatherRates rates =
        measure_gpu_gathers({.row_bytes = row_bytes,
                             .gathered_rows = std::min(GpuGatherOptions{}.gathered_rows,
                                                       GpuGatherOptions{}.host_bytes / 4 / row_bytes)});
    report["card"] = rates.card;
    report["rows"].push_back(gathers_report(rates, row_bytes));
  }
  return report;
}

}  // namespace

Report bench_gather(const BenchOptions& options) {
  if (options.gpu) return bench_gpu_gather(options);
  require_valid(options.row_bytes == 0, "--row-bytes is of gather --gpu; give both");
  const Dataset dataset(dataset_folder(options), {.huge_pages = options.huge_pages});
  const AttrView x = dataset.attr(0, "x");
  const auto batches = sampled_nodes(dataset, options);
  std::size_t largest = 0;
  double rows = 0;
  for (const auto& nodes : batches) {
    largest = std::max(largest, nodes.size());
    rows += static_cast<double>(nodes.size()) / static_cast<double>(batches.size());
  }
  std::vector<ScratchArray<std::byte>> buffers(static_cast<std::size_t>(options.threads));
  for (auto& buffer : buffers) buffer.reserve(largest * static_cast<std::size_t>(x.row_bytes));
  const LimitOptions limit{.threads = options.threads, .seconds = std::min(1.0, options.seconds)};

  const Rate limit_before = row_gather_bytes_per_s(x, dataset.num_nodes(0), limit);
  std::atomic<std::int64_t> verified{0};
  const Rate bytes = rate(options.threads, options.seconds, [&](int thread, std::int64_t repetition) {
    const auto& nodes = batches[static_cast<std::size_t>(repetition + thread) % batches.size()];
    std::byte* out = buffers[static_cast<std::size_t>(thread)].data();
    MappedFeatures source(x);
    FeatureSource& features = source;
    features.gather(features.prepare(nodes), out);
    if (options.verify && repetition == 0) {
      verify(x, nodes, out);
      ++verified;
    }
    return static_cast<double>(nodes.size()) * static_cast<double>(x.row_bytes);
  });
  const Rate best = mean(limit_before, row_gather_bytes_per_s(x, dataset.num_nodes(0), limit));
  return {{"threads", options.threads},
          {"row_bytes", x.row_bytes},
          {"rows_per_batch", rows},
          {"bytes_per_s", bytes.per_s},
          {"ms_per_batch", 1e3 * options.threads * rows * static_cast<double>(x.row_bytes) / bytes.per_cpu_s},
          {"limit_bytes_per_s", best.per_s},
          {"cpu_share", bytes.cpu_share()},
          {"fraction_of_limit", bytes.per_cpu_s / best.per_cpu_s},
          {"verified_batches", verified.load()}};
}

}  // namespace hopfeed::bench
