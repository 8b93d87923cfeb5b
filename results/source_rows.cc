// See source_rows.h.
#include "results/source_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "core/base/each_processor.h"
#include "core/base/error.h"
#include "core/base/half_floats.h"
#include "core/base/quantised_rows.h"

namespace hopfeed {
namespace {

[[noreturn]] void throw_corrupt(const RowsOfPart& rows, const char* what) {
  throw Error(
      ErrorCode::kCorrupt,
      fmt::format("{} of partition {}, rows {} to {}: outside the graph; run hopfeed-partition verify", what,
                  rows.part, rows.begin, rows.end));
}

template <class Number>
void convert(std::int64_t width, const std::byte* row, float* out) {
  const auto* numbers = reinterpret_cast<const Number*>(row);
  for (std::int64_t i = 0; i < width; ++i) out[i] = static_cast<float>(numbers[i]);
}

/// How rows become float32: as they are, or by way of `scratch`.
struct AsTheyAre {
  [[gnu::always_inline]] const float* operator()(const std::byte* row) const {
    return reinterpret_cast<const float*>(row);
  }
};
struct Decoded {
  ElementType type;
  std::int64_t width;
  float* scratch;
  const float* operator()(const std::byte* row) const {
    decode_row(type, width, row, scratch);
    return scratch;
  }
};

template <class Id, class Read>
[[gnu::always_inline]] inline void mean_rows(const SourceRows& sources, const RowRecord* records,
                                             const Id* ids, const RowsOfPart& rows, float* out,
                                             std::int64_t out_stride, const Read& read) {
  const std::int64_t width = sources.width;
  const std::span<const Id> of_edges(ids + records[rows.begin].offset, ids + records[rows.end].offset);
  if (!are_rows(sources.table, of_edges)) throw_corrupt(rows, "neighbours");
  PlacesAhead<Id> places(sources.table, of_edges,
                         static_cast<std::size_t>(width) * element_bytes(sources.type));
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    float* __restrict__ const sum = out + (row - rows.begin) * out_stride;
    const std::int64_t begin = records[row].offset, end = records[row + 1].offset;
    std::fill_n(sum, width, 0.0F);
    for (std::int64_t edge = begin; edge < end; ++edge) {
      const float* __restrict__ const message = read(places.next());
      for (std::int64_t f = 0; f < width; ++f) sum[f] += message[f];
    }
    if (end - begin < 2) continue;
    const float share = 1.0F / static_cast<float>(end - begin);
    for (std::int64_t f = 0; f < width; ++f) sum[f] *= share;
  }
}

HOPFEED_EACH_PROCESSOR void mean_of(const SourceRows& sources, const RowRecord* records,
                                    const std::int32_t* ids, const RowsOfPart& rows, float* out,
                                    std::int64_t out_stride) {
  mean_rows(sources, records, ids, rows, out, out_stride, AsTheyAre{});
}

HOPFEED_EACH_PROCESSOR void mean_of(const SourceRows& sources, const RowRecord* records,
                                    const std::int64_t* ids, const RowsOfPart& rows, float* out,
                                    std::int64_t out_stride) {
  mean_rows(sources, records, ids, rows, out, out_stride, AsTheyAre{});
}

void require_offsets(const CscPart& part, const RowsOfPart& rows) {
  std::int64_t before = 0;
  for (std::int64_t row = rows.begin; row <= rows.end; ++row) {
    if (part.rows[row].offset < before || part.rows[row].offset > part.num_edges)
      throw_corrupt(rows, "row offsets");
    before = part.rows[row].offset;
  }
}

template <class Id>
void add_ids(const Id* ids, std::int64_t count, const RowsOfPart& rows, const std::vector<bool>& here,
             const std::vector<std::int64_t>& offsets, RankedSet& boundary) {
  std::int64_t begin = 0, end = 0;  // of the last partition that was here
  for (std::int64_t i = 0; i < count; ++i) {
    const auto id = static_cast<std::int64_t>(ids[i]);
    if (id >= begin && id < end) continue;
    if (id < 0 || id >= offsets.back()) throw_corrupt(rows, "neighbours");
    const auto part = static_cast<std::size_t>(partition_of(offsets, id));
    if (here[part])
      begin = offsets[part], end = offsets[part + 1];
    else
      boundary.add(id);
  }
}

}  // namespace

void decode_row(ElementType type, std::int64_t width, const std::byte* row, float* out) {
  switch (type) {
    case ElementType::kFloat32:
      std::memcpy(out, row, static_cast<std::size_t>(width) * sizeof(float));
      return;
    case ElementType::kFloat16:
    case ElementType::kBfloat16: {
      const auto* halves = reinterpret_cast<const std::uint16_t*>(row);
      for (std::int64_t i = 0; i < width; ++i)
        out[i] = type == ElementType::kFloat16 ? from_float16(halves[i]) : from_bfloat16(halves[i]);
      return;
    }
    case ElementType::kInt8Scaled:
    case ElementType::kInt4Scaled:
      dequantise({.type = type,
                  .elements = width,
                  .stride_bytes = quantised_row_bytes(type, width),
                  .count = 1,
                  .rows = row},
                 out);
      return;
    case ElementType::kFloat64:
      return convert<double>(width, row, out);
    case ElementType::kUint8:
    case ElementType::kBool:
      return convert<std::uint8_t>(width, row, out);
    case ElementType::kInt8:
      return convert<std::int8_t>(width, row, out);
    case ElementType::kInt16:
      return convert<std::int16_t>(width, row, out);
    case ElementType::kInt32:
      return convert<std::int32_t>(width, row, out);
    case ElementType::kUint32:
      return convert<std::uint32_t>(width, row, out);
    case ElementType::kInt64:
      return convert<std::int64_t>(width, row, out);
  }
}

void add_boundary(const CscView& csc, int part, const std::vector<bool>& here,
                  const std::vector<std::int64_t>& source_offsets, RankedSet& boundary) {
  const CscPart& edges = csc.parts[static_cast<std::size_t>(part)];
  const RowsOfPart all{.part = part, .begin = 0, .end = edges.num_rows};
  if (csc.index_type == ElementType::kInt32)
    add_ids(static_cast<const std::int32_t*>(edges.indices), edges.num_edges, all, here, source_offsets,
            boundary);
  else
    add_ids(static_cast<const std::int64_t*>(edges.indices), edges.num_edges, all, here, source_offsets,
            boundary);
}

void mean_of_sources(const SourceRows& sources, const CscView& csc, const RowsOfPart& rows, float* out,
                     std::int64_t out_stride) {
  const CscPart& part = csc.parts[static_cast<std::size_t>(rows.part)];
  require_offsets(part, rows);
  const auto run = [&](const auto* ids) {
    if (sources.type == ElementType::kFloat32) return mean_of(sources, part.rows, ids, rows, out, out_stride);
    std::vector<float> scratch(static_cast<std::size_t>(sources.width));
    mean_rows(sources, part.rows, ids, rows, out, out_stride,
              Decoded{.type = sources.type, .width = sources.width, .scratch = scratch.data()});
  };
  if (csc.index_type == ElementType::kInt32)
    run(static_cast<const std::int32_t*>(part.indices));
  else
    run(static_cast<const std::int64_t*>(part.indices));
}

}  // namespace hopfeed
