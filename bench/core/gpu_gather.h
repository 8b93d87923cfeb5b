// Measures feature rows into device memory (gpu/batches/device_rows.h): rows that it holds, rows read over
// UVA, and mixtures, against copies on the same card. gpu_gather_on.h measures over a backend.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace hopfeed::bench {

struct GpuGatherOptions {
  std::size_t row_bytes = 512;
  std::size_t host_bytes = std::size_t{2} << 30;  // pinned table of rows
  std::size_t gathered_rows = 400'000;            // of one gather: about a batch of [15,10,5] x 1024
  int gathers = 10;                               // between two waits
  int repetitions = 9;                            // medians are taken over these
};

/// InPlaceRate is a rate of rows read over UVA.
struct InPlaceRate {
  std::size_t stride = 0;  // from a row to the next
  bool sorted = false;     // the device sorts the ids first, which counts
  double bytes_per_s = 0;
};

struct MixtureRate {
  double held = 0;        // share of the table's rows
  double held_asked = 0;  // share of the rows gathered, as the device counted them
  double bytes_per_s = 0;
  double predicted_bytes_per_s = 0;  // one kind of rows after the other, at their rates
};

struct GpuGatherRates {
  std::string card;
  double host_to_device_bytes = 0, device_copy_bytes = 0;  // as limits --gpu measures them
  double held_bytes = 0;                                   // all rows held
  std::vector<InPlaceRate> in_place;
  std::vector<MixtureRate> mixtures;
  std::size_t verified_rows = 0;
};

/// Throws kNotFound where there is no card, kUnsupported in a build without CUDA, kCorrupt where a row
/// differs.
GpuGatherRates measure_gpu_gathers(const GpuGatherOptions& options);

}  // namespace hopfeed::bench
