// hopfeed-bench rows: whole batches from the loader with features stored as each row type, and what it costs
// to make float32 of those with a scale.
//
// The types take turns, since a shared machine drifts: each round takes some batches of every type, one after
// the other, and a type's figure against float32 is the median over the rounds.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/bench_data.h"
#include "bench/bench_options.h"
#include "bench/measure.h"
#include "bench/worker_mode/batch_verifier.h"
#include "core/base/scratch.h"
#include "partition_tool/convert_attrs.h"
#include "worker_mode/loader.h"

namespace hopfeed::bench {
namespace {

constexpr int kTurns = 9;
constexpr const char* kRowTypes[] = {"float32", "float16", "bfloat16", "int8", "int4"};

double middle(std::vector<double> values) {
  const auto at = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

LoaderOptions row_loader_options(const BenchOptions& options, const std::string& dataset) {
  LoaderOptions loader;
  loader.dataset = dataset;
  loader.batch = {.fanouts = options.fanouts, .edge_ids = options.edge_ids};
  loader.deal.batch_size = options.batch_size;
  loader.seed = 1;
  loader.execution.num_workers = options.threads;
  loader.execution.huge_pages = options.huge_pages;
  return loader;
}

/// The batches of one type, epoch after epoch.
class RowStream {
 public:
  RowStream(const BenchOptions& options, const std::string& dataset)
      : options_(row_loader_options(options, dataset)),
        dataset_(dataset, {.huge_pages = options.huge_pages}),
        seeds_(dataset_.split(0, options_.split), {.node_type = 0, .shuffle = true}),
        maker_(dataset_, seeds_, options_.batch),
        loader_(options_) {
    loader_.begin_epoch(0);
    const Batch first = next();
    bytes_ = first.view().bytes().size();
    if (options.verify) BatchVerifier(options_).check(first.view());
  }

  Batch next() {
    for (;;) {
      stop_if_asked();
      if (std::optional<Batch> batch = loader_.next()) return std::move(*batch);
      loader_.begin_epoch(++epoch_);
    }
  }

  /// Batches per second. What lay ready when the turn began does not count.
  double turn(double seconds) {
    for (std::int64_t ready = 0; ready < 2 * options_.execution.num_workers + 2; ++ready) next();
    const double begin = now();
    std::int64_t taken = 0;
    for (; now() - begin < seconds || taken == 0; ++taken) next();
    return static_cast<double>(taken) / (now() - begin);
  }
  /// Bytes of the first batch, which is the same one for every type.
  std::size_t bytes() const { return bytes_; }

  /// CPU milliseconds of one thread that makes batches for nobody, each of which no turn before had: what is
  /// left of the figures of a machine that others use too.
  double make_ms(ScratchArray<std::byte>& block) {
    constexpr int kBatches = 3;
    const double begin = thread_cpu_seconds();
    for (int i = 0; i < kBatches; ++i) {
      const std::int64_t count = std::min(options_.deal.batch_size, seeds_.size());
      const std::size_t bytes = maker_.sample({.seed = 2, .epoch = made_++, .first = 0, .count = count});
      block.reserve(bytes);
      maker_.write({block.data(), bytes});
    }
    return 1e3 * (thread_cpu_seconds() - begin) / kBatches;
  }

  /// CPU milliseconds of one thread that makes float32 of a batch's features; 0 where they have no scale.
  double convert_ms(ScratchArray<float>& out) {
    const Batch batch = next();
    const ArrayView x = batch.view().get("x", Store::kNode);
    if (!has_scale(x.type)) return 0;
    const QuantisedRows rows = quantised_rows(x);
    out.reserve(static_cast<std::size_t>(rows.count * rows.elements));
    const double begin = thread_cpu_seconds();
    dequantise(rows, out.data());
    return 1e3 * (thread_cpu_seconds() - begin);
  }

 private:
  LoaderOptions options_;
  Dataset dataset_;
  NodeList seeds_;
  BatchMaker maker_;
  Loader loader_;
  std::int64_t epoch_ = 0, made_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace

Report bench_rows(const BenchOptions& options) {
  std::vector<std::unique_ptr<RowStream>> streams;
  for (const char* type : kRowTypes)
    streams.push_back(
        std::make_unique<RowStream>(options, converted_folder(options, convertible_type(type)).string()));
  constexpr std::size_t kCount = std::size(kRowTypes);
  std::vector<double> rates[kCount], ratios[kCount], making[kCount], converting[kCount];
  ScratchArray<std::byte> block;
  ScratchArray<float> values;
  for (int round = -1; round < kTurns; ++round) {  // the first one warms
    for (std::size_t t = 0; t < kCount; ++t) {
      const double rate = streams[t]->turn(options.seconds / 2), made = streams[t]->make_ms(block),
                   converted = streams[t]->convert_ms(values);
      if (round < 0) continue;
      rates[t].push_back(rate);
      ratios[t].push_back(rate / rates[0].back());
      making[t].push_back(made);
      converting[t].push_back(converted);
    }
  }
  Report report{{"num_workers", options.threads}, {"rounds", kTurns}};
  if (options.verify) report["verified_batches"] = kCount;
  for (std::size_t t = 0; t < kCount; ++t)
    report[kRowTypes[t]] = {{"batches_per_s", middle(rates[t])},
                            {"bytes_per_batch", streams[t]->bytes()},
                            {"times_float32", middle(ratios[t])},
                            {"make_ms", middle(making[t])},
                            {"make_times_float32", middle(making[0]) / middle(making[t])},
                            {"convert_ms", middle(converting[t])}};
  return report;
}

}  // namespace hopfeed::bench
