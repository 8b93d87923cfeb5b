// hopfeed-bench file: rows of features read from a file, a page for each, against what fio reads of the same
// file in the same time with requests of the same size, as many at once.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "bench/bench_data.h"
#include "bench/bench_options.h"
#include "bench/measure.h"
#include "cache/file_features.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/maker/mapped_features.h"

namespace hopfeed::bench {
namespace {

constexpr std::size_t kRows = 20'000;  // of a batch
const FeatureName kFeature{.store = Store::kNode, .type = 0, .name = "x"};

/// Random rows, each within a page of even number: neighbours would be read together, and fio's are not.
std::vector<std::int64_t> rows_in_pages(const RowFiles& rows, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto count = static_cast<std::uint64_t>(rows.partition_offsets[1]);
  const auto row_bytes = static_cast<std::uint64_t>(rows.row_bytes);
  require_valid(rows.files.front().bytes() > 16 * kReadAlign && row_bytes <= 1'024,
                "file measures rows of at most 1,024 bytes in a file of more than 64 KiB; choose --nodes and "
                "--features for that");
  std::vector<std::int64_t> ids;
  while (ids.size() < kRows) {
    const std::uint64_t id = random() % count;
    const std::uint64_t begin =
        rows.files.front().data_offset() + id * static_cast<std::uint64_t>(rows.stride_bytes);
    const std::uint64_t page = begin / kReadAlign;
    if (page % 2 == 0 && (begin + row_bytes - 1) / kReadAlign == page)
      ids.push_back(static_cast<std::int64_t>(id));
  }
  return ids;
}

void verify(const Dataset& dataset, const std::vector<std::int64_t>& ids,
            const std::vector<std::byte>& rows) {
  std::vector<std::byte> expected(rows.size());
  const auto mapped = mapped_features(dataset, kFeature);
  mapped->gather(mapped->prepare(ids), expected.data());
  if (rows != expected) throw Error(ErrorCode::kCorrupt, "rows from the file differ from the mapped ones");
}

/// Requests per second; 0 where there is no fio.
double fio_reads_per_s(const RowFile& file, const BenchOptions& options, const FileFeatures::Means& means) {
  const std::string path = file.path().string();
  require_valid(path.find('\'') == std::string::npos, "the dataset's path has a ' in it; choose another");
  const std::string command = fmt::format(
      "fio --name=rows --filename='{}' --readonly --rw=randread --bs={} --iodepth={} --numjobs={} "
      "--group_reporting --time_based --runtime={:.0f}ms --direct={} --ioengine={} --fixedbufs "
      "--output-format=json 2>/dev/null",
      path, kReadAlign, ReaderOptions{}.depth, options.threads, std::max(1.0, 1e3 * options.seconds),
      means.direct ? 1 : 0, means.reader == "io_uring" ? "io_uring" : "psync");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(popen(command.c_str(), "r"), pclose);
  if (!output) return 0;
  std::string text;
  char part[4'096];
  for (std::size_t n; (n = std::fread(part, 1, sizeof(part), output.get())) > 0;) text.append(part, n);
  const std::size_t begin = text.find('{');
  if (begin == std::string::npos) return 0;
  return parse_json(text.substr(begin)).at("jobs").at(0).at("read").at("iops").get<double>();
}

}  // namespace

Report bench_file(const BenchOptions& options) {
  const Dataset dataset(dataset_folder(options), {.huge_pages = options.huge_pages});
  struct Thread {
    std::unique_ptr<FileFeatures> file;
    std::vector<std::vector<std::int64_t>> batches;
    std::vector<std::byte> out;
  };
  std::vector<Thread> threads(static_cast<std::size_t>(options.threads));
  std::uint64_t seed = 0;
  for (Thread& thread : threads) {
    RowFiles rows = open_row_files(dataset, kFeature);
    thread.out.resize(kRows * static_cast<std::size_t>(rows.row_bytes));
    for (int i = 0; i < 8; ++i) thread.batches.push_back(rows_in_pages(rows, ++seed));
    thread.file = std::make_unique<FileFeatures>(std::move(rows), FileFeaturesOptions{});
  }
  const RowFiles rows = open_row_files(dataset, kFeature);
  const FileFeatures::Means means = threads.front().file->means();
  const double fio_before = fio_reads_per_s(rows.files.front(), options, means);
  const Rate reads = rate(options.threads, options.seconds, [&](int number, std::int64_t repetition) {
    Thread& thread = threads[static_cast<std::size_t>(number)];
    const auto& ids = thread.batches[static_cast<std::size_t>(repetition) % thread.batches.size()];
    const std::int64_t before = thread.file->counts().reads;
    thread.file->gather(thread.file->prepare(ids), thread.out.data());
    if (options.verify && repetition == 0) verify(dataset, ids, thread.out);
    return static_cast<double>(thread.file->counts().reads - before);
  });
  const double fio = (fio_before + fio_reads_per_s(rows.files.front(), options, means)) / 2;
  TierCounts counts;
  for (const Thread& thread : threads) counts += thread.file->counts();
  Report report{
      {"threads", options.threads},
      {"reader", means.reader},
      {"direct", means.direct},
      {"row_bytes", rows.row_bytes},
      {"file_bytes", rows.files.front().bytes()},
      {"depth", ReaderOptions{}.depth},
      {"read_bytes", static_cast<double>(counts.read_bytes) / static_cast<double>(counts.reads)},
      {"reads_per_s", reads.per_s},
      {"rows_per_s", reads.per_s * static_cast<double>(counts.file_rows) / static_cast<double>(counts.reads)},
      {"limit_reads_per_s", nullptr},
      {"fraction_of_limit", nullptr}};
  if (fio > 0) {
    report["limit_reads_per_s"] = fio;
    report["fraction_of_limit"] = reads.per_s / fio;
  }
  return report;
}

}  // namespace hopfeed::bench
