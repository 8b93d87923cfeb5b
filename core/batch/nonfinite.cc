// See nonfinite.h. In every one of the types all bits of the exponent are set in NaN and infinity and in
// nothing else.
#include "core/batch/nonfinite.h"

#include <fmt/format.h>

#include <cstring>
#include <type_traits>

#include "core/base/error.h"
#include "core/batch/packed_block.h"

namespace hopfeed {
namespace {

template <class Word>
Word load(std::span<const std::byte> values, std::size_t i) {
  Word bits;
  std::memcpy(&bits, values.data() + i * sizeof bits, sizeof bits);
  return bits;
}

template <class Word>
std::int64_t count(std::span<const std::byte> values, std::type_identity_t<Word> exponent) {
  std::int64_t found = 0;
  for (std::size_t i = 0; i < values.size() / sizeof(Word); ++i)
    found += (load<Word>(values, i) & exponent) == exponent;
  return found;
}

std::int64_t count_scales(std::span<const std::byte> rows, std::int64_t row_bytes) {
  std::int64_t found = 0;
  for (; !rows.empty(); rows = rows.subspan(static_cast<std::size_t>(row_bytes)))
    found += count<std::uint32_t>(rows.first(kScaleBytes), 0x7F800000);
  return found;
}

std::int64_t count_in(const ArrayView& array) {
  return count_nonfinite(array.type, array.bytes,
                         has_scale(array.type) ? quantised_rows(array).stride_bytes : 0);
}

/// The node that row `row` of an attribute belongs to: in a packed block the row-th whose rows are not held.
std::size_t node_of(const BatchView& batch, const ArrayView& array, std::size_t row) {
  const ArrayView held = batch.find(kHeldBits, Store::kNode, array.type_number);
  if (held.name.empty()) return row;
  const std::span<const std::uint8_t> bits = held.as<std::uint8_t>();
  for (std::size_t node = 0;; ++node)
    if ((bits[node / 8] >> node % 8 & 1) == 0 && row-- == 0) return node;
}

[[noreturn]] void report(const BatchView& batch, const ArrayView& array) {
  const std::size_t row_bytes = array.bytes.size() / static_cast<std::size_t>(array.shape[0]),
                    width = has_scale(array.type) ? row_bytes : element_bytes(array.type),
                    columns = row_bytes / width;
  std::size_t at = 0;
  while (count_nonfinite(array.type, array.bytes.subspan(at * width, width),
                         static_cast<std::int64_t>(row_bytes)) == 0)
    ++at;
  const auto n_id = batch.get("n_id", Store::kNode, array.type_number).as<std::int64_t>();
  throw Error(
      ErrorCode::kInvalid,
      fmt::format("batch (epoch {}, first {}, count {}): attribute '{}' of node {} is NaN or infinite in "
                  "{}; clean the data (--reject-nonfinite refuses it at the import) or leave out {}",
                  batch.key().epoch, batch.key().first, batch.key().count, array.name,
                  n_id[node_of(batch, array, at / columns)],
                  has_scale(array.type) ? "its scale" : fmt::format("column {}", at % columns),
                  marked("check_finite")));
}

}  // namespace

std::int64_t count_nonfinite(ElementType type, std::span<const std::byte> values, std::int64_t row_bytes) {
  switch (type) {
    case ElementType::kFloat16:
      return count<std::uint16_t>(values, 0x7C00);
    case ElementType::kBfloat16:
      return count<std::uint16_t>(values, 0x7F80);
    case ElementType::kFloat32:
      return count<std::uint32_t>(values, 0x7F800000);
    case ElementType::kFloat64:
      return count<std::uint64_t>(values, 0x7FF0000000000000);
    case ElementType::kInt8Scaled:
    case ElementType::kInt4Scaled:
      return count_scales(values, row_bytes);
    default:
      return 0;
  }
}

void require_finite(const BatchView& batch) {
  for (int i = 0; i < batch.num_arrays(); ++i) {
    const ArrayView array = batch.array(i);
    if (array.store == Store::kNode && count_in(array) > 0) report(batch, array);
  }
}

}  // namespace hopfeed
