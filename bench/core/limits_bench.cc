// hopfeed-bench limits: this machine's own figures, one core and all, on 4 KiB and on 2 MiB pages; the card's
// with --gpu.
#include <thread>

#include "bench/bench_data.h"
#include "bench/bench_options.h"
#include "bench/core/gpu_limits.h"
#include "bench/core/machine_limits.h"
#include "core/base/scratch.h"
#include "core/dataset/dataset.h"

namespace hopfeed::bench {
namespace {

Report gpu_report() {
  const GpuLimits limits = measure_gpu_limits({});
  const auto told = [](const std::vector<GpuGather>& all) {
    Report gathers = Report::array();
    for (const GpuGather& gather : all)
      gathers.push_back({{"row_bytes", gather.row_bytes},
                         {"ids_sorted", gather.sorted},
                         {"bytes_per_s", gather.bytes_per_s}});
    return gathers;
  };
  const auto works = [](const std::string& error) { return error.empty() ? Report(true) : Report(error); };
  return {{"card", limits.card},
          {"cuda_driver", limits.driver_version},
          {"cuda_runtime", limits.runtime_version},
          {"host_to_device_bytes_per_s", limits.host_to_device_bytes},
          {"device_copy_bytes_per_s", limits.device_copy_bytes},
          {"uva_reads_4_per_s", limits.uva_reads_4},
          {"uva_reads_32_per_s", limits.uva_reads_32},
          {"uva_batch_reads_4_per_s", limits.uva_batch_reads_4},
          {"uva_batch_reads_4_sorted_per_s", limits.uva_batch_reads_4_sorted},
          {"device_reads_4_per_s", limits.device_reads_4},
          {"device_reads_32_per_s", limits.device_reads_32},
          {"uva_gathers", told(limits.uva_gathers)},
          {"uva_reads_4_per_s_2_MiB_pages", limits.uva_reads_4_huge},
          {"uva_reads_32_per_s_2_MiB_pages", limits.uva_reads_32_huge},
          {"uva_gathers_2_MiB_pages", told(limits.uva_gathers_huge)},
          {"hash_inserts_per_s", limits.hash_inserts},
          {"pins_sealed_memfd", works(limits.memfd_error)},
          {"pins_read_only_file", works(limits.file_error)},
          {"own_writes_bytes_per_s", limits.own_writes},
          {"imported_writes_bytes_per_s", limits.imported_writes},
          {"imports_device_memory", works(limits.import_error)},
          {"kernels_end_with_their_process", works(limits.killed_error)}};
}

// Rows of the size asked for, in memory of our own; without one the dataset's own attribute.
struct Rows {
  Rows(const Dataset& dataset, std::int64_t row_bytes) {
    if (row_bytes == 0) {
      count = dataset.num_nodes(0);
      view = dataset.attr(0, "x");
      return;
    }
    constexpr std::size_t kBytes = std::size_t{1} << 30;
    memory.reserve(kBytes);
    std::fill_n(memory.data(), kBytes, std::byte{1});  // untouched pages would all be the zero page
    count = static_cast<std::int64_t>(kBytes) / row_bytes;
    offsets[1] = count;
    part = memory.data();
    view = {
        .parts = {&part, 1}, .partition_offsets = offsets, .row_bytes = row_bytes, .stride_bytes = row_bytes};
  }
  ScratchArray<std::byte> memory;
  std::int64_t offsets[2] = {0, 0};
  const std::byte* part = nullptr;
  std::int64_t count = 0;
  AttrView view;
};

}  // namespace

Report bench_limits(const BenchOptions& options) {
  if (options.gpu) return gpu_report();
  const auto folder = dataset_folder(options);
  const Dataset small_pages(folder, {.huge_pages = HugePages::kNever}),
      huge_pages(folder, {.huge_pages = options.huge_pages == HugePages::kNever ? HugePages::kAuto
                                                                                : options.huge_pages});
  const Rows rows(huge_pages, options.row_bytes);
  Report report;
  for (const int threads : {1, static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))}) {
    const LimitOptions limit{.threads = threads, .seconds = options.seconds, .verify = options.verify};
    report[threads == 1 ? "one_core" : "all_cores"] = {
        {"threads", threads},
        {"random_reads_per_s_4_KiB_pages", random_reads_per_s(small_pages.csc(0), limit).per_s},
        {"random_reads_per_s_2_MiB_pages", random_reads_per_s(huge_pages.csc(0), limit).per_s},
        {"row_bytes", rows.view.row_bytes},
        {"row_gather_bytes_per_s", row_gather_bytes_per_s(rows.view, rows.count, limit).per_s},
        {"copy_bytes_per_s", copy_bytes_per_s(limit).per_s},
        {"sequential_bytes_per_s", sequential_bytes_per_s(limit).per_s}};
  }
  report["verified"] = options.verify;
  const PageUse use = huge_pages.page_use();
  report["huge_page_bytes"] = use.huge;
  report["resident_bytes"] = use.resident;
  return report;
}

}  // namespace hopfeed::bench
