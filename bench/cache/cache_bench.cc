// hopfeed-bench cache: an epoch's batches through the dynamic cache (cache/dynamic_cache.h), one after the
// other by its members in turn, each announced `window` batches ahead, against what Belady's choices and a
// static prefix have of the same batches, and what its bookkeeping costs.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/bench_data.h"
#include "bench/bench_options.h"
#include "bench/measure.h"
#include "cache/cache_memory.h"
#include "cache/cached_attrs.h"
#include "cache/dynamic_cache.h"
#include "core/base/error.h"
#include "core/dataset/dataset.h"
#include "partition_tool/tune/next_use.h"
#include "partition_tool/tune/tune_measure.h"

namespace hopfeed::bench {
namespace {

const FeatureName kTraced{.store = Store::kNode, .type = 0, .name = "rows"};

/// What calls of one kind took of the core: other programs do not add to it.
class CallTime {
 public:
  template <class Call>
  auto operator()(const Call& call) {
    struct Add {
      double& spent;
      const double begin = thread_cpu_seconds();
      ~Add() { spent += thread_cpu_seconds() - begin; }
    } const add{spent_};
    return call();
  }
  double ns_per(std::int64_t rows) const {
    return rows == 0 ? 0.0 : 1e9 * spent_ / static_cast<double>(rows);
  }

 private:
  double spent_ = 0;
};

RowTrace sample_trace(const BenchOptions& options) {
  const Dataset dataset(dataset_folder(options), {.huge_pages = options.huge_pages});
  return measure_batches(dataset, dataset.split(0, "train"),
                         {.batch = {.fanouts = options.fanouts},
                          .batch_size = options.batch_size,
                          .most_batches = options.batches,
                          .most_seconds = std::numeric_limits<double>::max(),
                          .keep_trace = true})
      .trace;
}

/// What is read of a slow tier in the program that this stands for: the row's number, again and again.
class NumberedRows {
 public:
  explicit NumberedRows(std::int64_t row_bytes) : words_(static_cast<std::size_t>(row_bytes + 7) / 8) {}
  const std::byte* row(std::int64_t id) {
    words_.front() = words_.back() = id;
    return reinterpret_cast<const std::byte*>(words_.data());
  }
  static void verify(const std::byte* row, std::int64_t id) {
    std::int64_t found = 0;
    std::memcpy(&found, row, sizeof(found));
    if (found != id) throw Error(ErrorCode::kCorrupt, "a row of the cache has the bytes of another one");
  }

 private:
  std::vector<std::int64_t> words_;
};

struct Times {
  CallTime announce, take, keep;
};

/// By the members in turn; fills `times`.
void replay(const RowTrace& trace, const BenchOptions& options, int fd, Times& times) {
  std::vector<std::unique_ptr<DynamicCache>> members;
  for (int m = 0; m < options.threads; ++m) members.push_back(std::make_unique<DynamicCache>(fd));
  const auto window = static_cast<std::size_t>(options.window);
  std::vector<std::unique_ptr<CachedRows>> sources;
  for (std::size_t i = 0; i <= window; ++i) {
    sources.push_back(members[i % members.size()]->open(kTraced));
    require_valid(sources.back() != nullptr, "a cache has room for 64 members; lower --threads");
  }
  NumberedRows rows(options.row_bytes);
  std::size_t announced = 0;
  for (std::size_t b = 0; b < trace.batches.size(); ++b) {
    for (; announced < trace.batches.size() && announced <= b + window; ++announced)
      times.announce([&] { sources[announced % sources.size()]->announce(trace.batches[announced]); });
    CachedRows& source = *sources[b % sources.size()];
    const std::vector<std::int64_t>& ids = trace.batches[b];
    for (const CachedRows::Hit& hit : times.take([&] { return source.take(); }))
      NumberedRows::verify(hit.row, ids[hit.at]);
    times.keep([&] { source.keep([&](std::size_t i) { return rows.row(ids[i]); }); });
  }
}

}  // namespace

Report bench_cache(const BenchOptions& given) {
  BenchOptions options = given;
  if (options.row_bytes == 0) options.row_bytes = 64;
  require_valid(options.row_bytes >= 8,
                "cache verifies the first 8 bytes of rows; give --row-bytes 8 or more");
  const RowTrace trace = sample_trace(options);
  const CachedAttr attr{.what = kTraced,
                        .rows = trace.num_rows,
                        .row_bytes = options.row_bytes,
                        .heat = RowHeats::of_each(trace.num_rows, [&](std::int64_t row) {
                          return heat_of_place(row, trace.num_rows);
                        })};
  const OwnedFd fd = make_dynamic_cache({&attr, 1}, dynamic_cache_bytes({&attr, 1}, options.held));
  Times times;
  replay(trace, options, fd.get(), times);
  const DynamicCache::Counts counts = DynamicCache(fd.get()).counts();
  const CacheHits best = simulate_belady(trace, counts.frames, kWholeEpoch);
  const double hit_rate = static_cast<double>(counts.hits) / static_cast<double>(counts.reads);
  const double announce = times.announce.ns_per(counts.reads), take = times.take.ns_per(counts.reads),
               keep = times.keep.ns_per(counts.reads);
  return {
      {"threads", options.threads},
      {"window", options.window},
      {"held", options.held},
      {"row_bytes", options.row_bytes},
      {"rows", trace.num_rows},
      {"frames", counts.frames},
      {"cache_bytes", counts.bytes},
      {"batches", trace.batches.size()},
      {"rows_per_batch", static_cast<double>(counts.reads) / static_cast<double>(trace.batches.size())},
      {"hit_rate", hit_rate},
      {"belady_window_hit_rate", simulate_belady(trace, counts.frames, options.window).rate()},
      {"belady_hit_rate", best.rate()},
      {"fraction_of_belady", best.rate() > 0 ? hit_rate / best.rate() : 1.0},
      {"static_hit_rate", simulate_static(trace, counts.frames).rate()},
      {"evicted_per_batch", static_cast<double>(counts.evicted) / static_cast<double>(trace.batches.size())},
      {"bypassed", counts.bypassed},
      {"announce_ns_per_row", announce},
      {"take_ns_per_row", take},
      {"keep_ns_per_row", keep},
      {"ns_per_row", announce + take + keep}};
}

}  // namespace hopfeed::bench
