// See tune_files.h.
#include "partition_tool/tune/tune_files.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>

#include "cache/cache_memory.h"
#include "cache/file_features.h"
#include "core/base/error.h"
#include "partition_tool/tune/tune_rates.h"

namespace hopfeed {
namespace {

using Clock = std::chrono::steady_clock;

/// Reads nothing and tells of every read that it came: so FileFeatures itself says what it would have asked.
class CountingReader final : public FileReader {
 public:
  explicit CountingReader(const ReaderOptions& options) : FileReader(options) {}
  void start(const Read& read) override { asked_.push_back(read); }
  void submit() override {}
  std::optional<Done> wait(std::chrono::milliseconds) override {
    if (asked_.empty()) return std::nullopt;
    const Done done{.buffer = asked_.front().buffer, .result = asked_.front().bytes};
    asked_.pop_front();
    return done;
  }
  int under_way() const override { return static_cast<int>(asked_.size()); }
  const char* name() const override { return "counting"; }

 private:
  std::deque<Read> asked_;
};

/// The file tier of one attribute.
struct Attr {
  std::unique_ptr<FileFeatures> file;
  std::size_t type = 0, row_bytes = 0;
};

/// What a row cache keeps, but for how hot rows are, which takes 2 KB a partition.
std::vector<CachedAttr> cached_of(const Dataset& dataset, std::span<const FeatureName> attrs) {
  std::vector<CachedAttr> cached;
  for (const FeatureName& name : attrs)
    cached.push_back({.what = name,
                      .rows = dataset.num_nodes(name.type),
                      .row_bytes = dataset.attr(name.type, name.name).row_bytes,
                      .heat = {}});
  return cached;
}

std::vector<Attr> open_attrs(const Dataset& dataset, std::span<const FeatureName> attrs,
                             const FileFeaturesOptions& options) {
  std::vector<Attr> opened;
  for (const FeatureName& name : attrs) {
    RowFiles files = open_row_files(dataset, name);
    const auto row_bytes = static_cast<std::size_t>(files.row_bytes);
    opened.push_back({.file = std::make_unique<FileFeatures>(std::move(files), options),
                      .type = static_cast<std::size_t>(name.type),
                      .row_bytes = row_bytes});
  }
  return opened;
}

std::int64_t reads_of(const std::vector<Attr>& attrs) {
  std::int64_t reads = 0;
  for (const Attr& attr : attrs) reads += attr.file->counts().reads;
  return reads;
}

void read_batch(std::vector<Attr>& attrs, const std::vector<std::vector<std::int64_t>>& ids,
                std::vector<std::byte>& out) {
  for (Attr& attr : attrs) {
    out.resize(std::max(out.size(), ids[attr.type].size() * attr.row_bytes));
    attr.file->gather(attr.file->prepare(ids[attr.type]), out.data());
  }
}

/// A second, of all threads together, and the seconds on a core that each took.
struct ReadRate {
  double per_second = 0, cpu_seconds = 0;
  std::size_t batches = 0;
};

/// `first`: the batch to begin with. Pages that were read a moment ago may lie in some cache behind the disk.
ReadRate read_rate(const Dataset& dataset, std::span<const FeatureName> attrs, const BatchIds& ids,
                   std::size_t first, const FileRateOptions& options) {
  struct Thread {
    std::vector<Attr> attrs;
    std::vector<std::byte> out;
    double reads = 0, seconds = 0;
    std::size_t batches = 1;
    std::exception_ptr error;
  };
  std::vector<Thread> all(static_cast<std::size_t>(options.workers));
  for (Thread& thread : all) thread.attrs = open_attrs(dataset, attrs, {});
  // Each thread begins with another batch, and takes them in turn: the disk is asked for fresh pages.
  const auto run = [&](std::size_t number) {
    Thread& thread = all[number];
    try {
      std::size_t next = first + number * ids.size() / all.size();
      read_batch(thread.attrs, ids[next++ % ids.size()], thread.out);  // makes the memory's pages
      const std::int64_t before = reads_of(thread.attrs);
      const auto begin = Clock::now();
      do {
        read_batch(thread.attrs, ids[next++ % ids.size()], thread.out);
        ++thread.batches;
        thread.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      } while (thread.seconds < options.seconds);
      thread.reads = static_cast<double>(reads_of(thread.attrs) - before);
    } catch (...) {
      thread.error = std::current_exception();
    }
  };
  // What io_uring does in threads of the kernel's counts for the process.
  const double cpu = process_cpu_seconds();
  {
    std::vector<std::jthread> others;
    try {
      for (std::size_t number = 1; number < all.size(); ++number) others.emplace_back(run, number);
    } catch (const std::system_error& error) {
      throw_errno("cannot start a thread that reads features", error.code().value());
    }
    run(0);
  }
  ReadRate rate;
  double reads = 0;
  for (const Thread& thread : all) {
    if (thread.error) std::rethrow_exception(thread.error);
    rate.per_second += thread.reads / thread.seconds;
    reads += static_cast<double>(reads_of(thread.attrs));
    rate.batches += thread.batches;
  }
  rate.cpu_seconds = (process_cpu_seconds() - cpu) / reads;
  return rate;
}

}  // namespace

std::vector<FeatureName> file_attrs(const Dataset& dataset, const BatchOptions& batch) {
  std::vector<FeatureName> names;
  for (int t = 0; t < dataset.num_node_types(); ++t)
    for (const AttrMeta& attr : dataset.meta().node_types[static_cast<std::size_t>(t)].attrs)
      if (carries(batch, attr.name) && attr.row_bytes() >= kLeastFileRowBytes)
        names.push_back({.store = Store::kNode, .type = t, .name = attr.name});
  return names;
}

std::vector<std::int64_t> file_row_bytes(const Dataset& dataset, std::span<const FeatureName> attrs) {
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(dataset.num_node_types()));
  for (const FeatureName& name : attrs)
    bytes[static_cast<std::size_t>(name.type)] += dataset.attr(name.type, name.name).row_bytes;
  return bytes;
}

FileReads count_reads(const Dataset& dataset, std::span<const FeatureName> attrs, const BatchIds& ids,
                      const std::function<bool(std::size_t batch, int type, std::int64_t id)>& wanted) {
  FileFeaturesOptions options;
  options.open_reader = [](std::span<const int>, const ReaderOptions& reader) {
    return std::make_unique<CountingReader>(reader);
  };
  std::vector<Attr> opened = open_attrs(dataset, attrs, options);
  std::vector<std::byte> out;
  std::vector<std::vector<std::int64_t>> left;
  for (std::size_t b = 0; b < ids.size(); ++b) {
    left = ids[b];
    for (std::size_t t = 0; wanted && t < left.size(); ++t)
      std::erase_if(left[t], [&](std::int64_t id) { return !wanted(b, static_cast<int>(t), id); });
    read_batch(opened, left, out);
  }
  FileReads mean;
  const auto batches = static_cast<double>(std::max<std::size_t>(ids.size(), 1));
  for (const Attr& attr : opened) {
    mean.reads += static_cast<double>(attr.file->counts().reads) / batches;
    mean.read_bytes += static_cast<double>(attr.file->counts().read_bytes) / batches;
  }
  return mean;
}

std::int64_t row_cache_bytes(const Dataset& dataset, std::span<const FeatureName> attrs, double share) {
  return static_cast<std::int64_t>(dynamic_cache_bytes(cached_of(dataset, attrs), share));
}

double row_cache_share(const Dataset& dataset, std::span<const FeatureName> attrs, std::size_t bytes) {
  return dynamic_cache_share(cached_of(dataset, attrs), bytes);
}

FileRates measure_files(const Dataset& dataset, std::span<const FeatureName> attrs, const BatchIds& ids,
                        const FileRateOptions& options) {
  const auto tell = [&](int done) {
    if (options.progress) options.progress(done * options.seconds, 2 * options.seconds);
  };
  tell(0);
  FileRateOptions alone = options, together = options;
  alone.workers = 1;
  together.workers = std::clamp(options.workers, 1, 64);
  const ReadRate one = read_rate(dataset, attrs, ids, 0, alone);
  tell(1);
  const ReadRate all = together.workers == 1 ? one : read_rate(dataset, attrs, ids, one.batches, together);
  tell(2);
  return {.reads_per_second = one.per_second,
          .all_reads_per_second = std::max(all.per_second, one.per_second),
          .cpu_seconds_per_read = all.cpu_seconds};
}

}  // namespace hopfeed
