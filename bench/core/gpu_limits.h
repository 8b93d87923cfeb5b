// Measures what the card and its bus to host memory can do, and whether the mechanisms that hopfeed's
// CUDA design rests on work here. Plain C++ for the caller; the CUDA is in gpu_limits.cu, which only builds
// with -DHOPFEED_CUDA=ON see.
//
// UVA: kernels read pinned host memory in place (unified virtual addressing; the zero-copy sampling of Min et
// al., "Large Graph Convolutional Network Training with GPU-Oriented Data Communication Architecture", VLDB
// 2021).
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace hopfeed::bench {

struct GpuLimitOptions {
  std::size_t host_bytes = std::size_t{2} << 30;  // pinned table that is read over UVA
  std::size_t gathered_rows = 400'000;            // of one gather: about a batch of [15,10,5] x 1024
  std::size_t batch_reads = 500'000;              // of 4 bytes: about the last hop of such a batch
  int repetitions = 9;                            // medians are taken over these
};

struct GpuGather {
  std::size_t row_bytes = 0;
  bool sorted = false;  // ids in rising order, so that neighbours share pages
  double bytes_per_s = 0;
};

/// Rates are per second; a mechanism's `*_error` is empty where it works, else what CUDA said.
struct GpuLimits {
  std::string card;
  int driver_version = 0, runtime_version = 0;         // as CUDA counts: 13000 is 13.0
  double host_to_device_bytes = 0;                     // cudaMemcpyAsync from pinned memory
  double device_copy_bytes = 0;                        // counted once
  double uva_reads_4 = 0, uva_reads_32 = 0;            // random reads of pinned host memory by a kernel
  double uva_reads_4_huge = 0, uva_reads_32_huge = 0;  // the same of memory on 2 MiB pages
  double device_reads_4 = 0, device_reads_32 = 0;
  /// A batch's reads of 4 bytes of pinned host memory, a thread each: as they come, and in rising order.
  double uva_batch_reads_4 = 0, uva_batch_reads_4_sorted = 0;
  std::vector<GpuGather> uva_gathers;       // rows of pinned host memory into device memory
  std::vector<GpuGather> uva_gathers_huge;  // the same of memory on 2 MiB pages
  double hash_inserts = 0;                  // atomicCAS into a half-full table of device memory
  std::string memfd_error;  // cudaHostRegister of a mapping of a sealed memfd, read by a kernel
  std::string file_error;   // the same of a file's mapping that may only be read
  double own_writes = 0, imported_writes = 0;  // bytes a second process writes to its memory and to ours
  std::string import_error;                    // device memory that a second process imports by a descriptor
  std::string killed_error;  // kernels of a killed process are gone once it can be waited for
};

/// Forks a process that imports memory before it touches CUDA, so it must be called by a process that has
/// not. Throws kNotFound where there is no card, kIo naming the call that failed.
GpuLimits measure_gpu_limits(const GpuLimitOptions& options);

}  // namespace hopfeed::bench
