// Any bytes as a batch block: BatchView refuses them, or all that it then shows lies inside them.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/batch/aligned_block.h"
#include "core/batch/batch_view.h"

namespace {

/// Reads the first and the last row; the elements of all may be more than there is memory for.
unsigned values_of(const hopfeed::QuantisedRows& rows) {
  if (rows.count == 0 || rows.elements == 0 || rows.elements > 1 << 16) return 0;
  std::vector<float> values(static_cast<std::size_t>(rows.elements));
  unsigned sum = 0;
  for (const std::int64_t row : {std::int64_t{0}, rows.count - 1}) {
    hopfeed::dequantise(rows.part(row, row + 1), values.data());
    sum += values.front() != 0 || values.back() != 0;
  }
  return sum;
}

/// Reads the first and the last byte of everything, so that the sanitizer sees where it lies.
unsigned touch(const hopfeed::BatchView& batch) {
  unsigned sum = 0;
  for (int i = 0; i < batch.num_arrays(); ++i) {
    const hopfeed::ArrayView array = batch.array(i);
    sum += static_cast<unsigned>(array.name.size() + array.shape.size());
    if (!array.bytes.empty())
      sum += static_cast<unsigned>(array.bytes.front()) + static_cast<unsigned>(array.bytes.back());
    if (hopfeed::has_scale(array.type)) sum += values_of(hopfeed::quantised_rows(array));
    sum += static_cast<unsigned>(batch.find(array.name, array.store, array.type_number).bytes.size());
  }
  return sum + static_cast<unsigned>(batch.digest());
}

/// The fields of a batch by their names, each of which may be missing or of another kind.
template <class Read>
void try_reading(Read read) {
  try {
    [[maybe_unused]] volatile auto value = read();
  } catch (const hopfeed::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hopfeed::AlignedBlock block(size);
  if (size > 0) std::memcpy(block.bytes().data(), data, size);
  try {
    const hopfeed::BatchView batch(block.bytes());
    [[maybe_unused]] volatile unsigned sum = touch(batch);
    try_reading([&] { return batch.batch_size(); });
    try_reading([&] { return batch.num_nodes(); });
    try_reading([&] { return batch.num_edges(); });
    try_reading([&] { return batch.input_id().size(); });
    try_reading([&] { return batch.num_sampled_nodes().size(); });
    try_reading([&] { return batch.num_sampled_edges().size(); });
  } catch (const hopfeed::Error&) {
  }
  return 0;
}
