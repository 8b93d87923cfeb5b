// These kernels gather feature rows: some of each partition lie in the device's memory, the others in the
// host's, which the device reads in place. Several items read a row, neighbours neighbouring bytes, so that
// on a device the requests of a row leave together; items as wide as a warp begin at a line of 128 bytes
// (EMOGI, Min et al., VLDB 2020: requests over the bus that are merged and aligned).
#pragma once
#include <cstdint>

#include "core/base/element_type.h"
#include "core/base/host_device.h"
#include "gpu/kernels/atomics.h"
#include "gpu/kernels/device_views.h"
#include "gpu/kernels/row_bytes.h"

namespace hopfeed::gpu {

/// FeaturePart has the rows of one partition as the device finds them.
struct FeaturePart {
  const unsigned char* held = nullptr;      // the first `num_held` ones, one behind the other
  const unsigned char* in_place = nullptr;  // all of them; null where all are held
  std::int64_t num_held = 0;
};

/// FeatureRows is one attribute.
struct FeatureRows {
  static constexpr std::uint64_t kCounters = 64;  // so that few atomics meet

  const FeaturePart* parts = nullptr;               // [num_parts]
  const std::int64_t* partition_offsets = nullptr;  // [num_parts + 1]
  int num_parts = 0;
  std::uint64_t row_bytes = 0;
  std::uint64_t stride = 0;           // from a row in place to the next
  std::uint64_t* over_uva = nullptr;  // [kCounters]: sum of the rows read in place

  struct Found {
    const unsigned char* row = nullptr;
    bool held = false;
  };
  HOPFEED_HOST_DEVICE Found find(std::int64_t id) const {
    const int p = partition_of(partition_offsets, num_parts, id);
    const FeaturePart& part = parts[p];
    const std::int64_t i = id - partition_offsets[p];
    Found found;
    found.held = i < part.num_held;
    found.row = found.held ? part.held + static_cast<std::uint64_t>(i) * row_bytes
                           : part.in_place + static_cast<std::uint64_t>(i) * stride;
    return found;
  }
};

/// AskedRows is what is gathered.
struct AskedRows {
  const std::int64_t* ids = nullptr;
  const std::uint32_t* order = nullptr;  // where row i comes to lie; null: there

  HOPFEED_HOST_DEVICE std::uint64_t place_of(std::uint64_t i) const {
    return order == nullptr ? i : order[i];
  }
};

/// RowItems says how many items read a row: a power of two, a warp's at most.
struct RowItems {
  static constexpr unsigned kMostBits = 5;
  unsigned bits = 0;
  unsigned aligned = kStretch;  // item 0 reads from the multiple of this at or before the row

  /// Returns the items for rows that begin at multiples of `granule`, a power of two.
  static RowItems of(std::uint64_t row_bytes, unsigned granule) {
    const unsigned worst = granule < kStretch ? kStretch - granule : 0;
    const std::uint64_t stretches = (worst + row_bytes + kStretch - 1) / kStretch;
    RowItems items;
    while (items.bits < kMostBits && stretches > std::uint64_t{1} << items.bits) ++items.bits;
    if (stretches > std::uint64_t{1} << items.bits) items.aligned = 128;
    return items;
  }
};

/// Item i of (rows << items.bits) reads its stretches of row i >> items.bits. `Write` gets each of them.
template <class Write>
struct ReadRows {
  FeatureRows rows;
  AskedRows asked;
  RowItems items;
  Write write;

  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t r = i >> items.bits;
    const std::uint64_t item = i & ((std::uint64_t{1} << items.bits) - 1);
    const FeatureRows::Found found = rows.find(asked.ids[r]);
    if (item == 0 && !found.held) atomic_add(&rows.over_uva[r % FeatureRows::kCounters], 1);
    const auto row = write.row(asked.place_of(r), found.row);
    const unsigned before = place_in(found.row, items.aligned);
    const std::uint64_t end = before + rows.row_bytes;
    for (std::uint64_t at = item * kStretch; at < end; at += std::uint64_t{kStretch} << items.bits) {
      if (at + kStretch <= before) continue;
      const unsigned first = at < before ? static_cast<unsigned>(before - at) : 0;
      const unsigned last = end - at < kStretch ? static_cast<unsigned>(end - at) : kStretch;
      const unsigned char* const stretch =
          found.row + (static_cast<std::int64_t>(at) - static_cast<std::int64_t>(before));
      row.take(RowBytes::load(stretch, first, last), at + first - before);
    }
  }
};

/// WriteStored writes rows as they are stored.
struct WriteStored {
  unsigned char* out;
  std::uint64_t row_bytes;

  struct Row {
    unsigned char* out;
    HOPFEED_HOST_DEVICE void take(const RowBytes& bytes, std::uint64_t offset) const {
      bytes.store(out + offset);
    }
  };
  HOPFEED_HOST_DEVICE Row row(std::uint64_t place, const unsigned char* /*row*/) const {
    return Row{out + place * row_bytes};
  }
};

/// Writes values[i] = value(i) for i below count, four at once where that is aligned. The values are the bits
/// of float32.
template <class Value>
HOPFEED_HOST_DEVICE void store_floats(float* out, unsigned count, const Value& value) {
  for (unsigned i = 0; i < count;) {
    if (count - i >= 4 && place_in(out + i, kStretch) == 0) {
      Words words;
      words.x = value(i);
      words.y = value(i + 1);
      words.z = value(i + 2);
      words.w = value(i + 3);
      store_aligned(out + i, words);
      i += 4;
    } else {
      store_aligned(out + i, static_cast<std::uint32_t>(value(i)));
      ++i;
    }
  }
}

HOPFEED_HOST_DEVICE inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// OfFloat16 and OfBfloat16 are from_float16() and from_bfloat16() of half_floats.h, as bits.
struct OfFloat16 {
  HOPFEED_HOST_DEVICE static std::uint32_t bits(std::uint32_t half) {
    const std::uint32_t sign = (half & 0x8000U) << 16, exponent = half >> 10 & 0x1F, fraction = half & 0x3FF;
    if (exponent == 0x1F) return sign | 0x7F800000U | fraction << 13;
    if (exponent != 0) return sign | (exponent + 112) << 23 | fraction << 13;
    return sign | bits_of(static_cast<float>(fraction) * 5.9604644775390625e-8F);  // 2^-24
  }
};
struct OfBfloat16 {
  HOPFEED_HOST_DEVICE static std::uint32_t bits(std::uint32_t half) { return half << 16; }
};

/// Writes rows of half floats as float32.
template <class Of>
struct WriteHalves {
  float* out;
  std::uint64_t elements;

  struct Row {
    float* out;
    const unsigned char* row;

    /// Writes the elements that begin among these bytes. An element at an odd address may end behind them.
    HOPFEED_HOST_DEVICE void take(const RowBytes& bytes, std::uint64_t offset) const {
      const unsigned first = bytes.begin + offset % 2;
      if (first >= bytes.end) return;
      const std::uint64_t element = (offset + 1) / 2;
      const unsigned char* const next = row + offset + (bytes.end - bytes.begin);
      store_floats(out + element, (bytes.end - first + 1) / 2, [&](unsigned i) {
        const unsigned at = first + 2 * i;
        const std::uint32_t upper =
            at + 1 < bytes.end ? bytes.byte(at + 1) : load_aligned<std::uint8_t>(next);
        return Of::bits(bytes.byte(at) | upper << 8);
      });
    }
  };
  HOPFEED_HOST_DEVICE Row row(std::uint64_t place, const unsigned char* row) const {
    return Row{out + place * elements, row};
  }
};

/// Writes rows with a scale (quantised_rows.h) as float32. A product of two floats is the same on every
/// machine.
template <ElementType kType>
struct WriteScaled {
  float* out;
  std::uint64_t elements;

  static constexpr unsigned kScale = 4;  // bytes
  static constexpr unsigned kPerByte = kType == ElementType::kInt4Scaled ? 2 : 1;

  struct Row {
    float* out;
    std::uint64_t elements;
    float scale;

    HOPFEED_HOST_DEVICE void take(const RowBytes& bytes, std::uint64_t offset) const {
      const unsigned first = bytes.begin + (offset < kScale ? static_cast<unsigned>(kScale - offset) : 0);
      if (first >= bytes.end) return;
      const std::uint64_t element = (offset + (first - bytes.begin) - kScale) * kPerByte;
      const std::uint64_t left = elements - element;
      const unsigned here = (bytes.end - first) * kPerByte;
      store_floats(out + element, left < here ? static_cast<unsigned>(left) : here, [&](unsigned i) {
        const std::uint32_t byte = bytes.byte(first + i / kPerByte);
        // The sign is that of a whole byte, or of a half: two's complement.
        const int number = kPerByte == 1 ? static_cast<int>(byte ^ 0x80) - 0x80
                                         : static_cast<int>((byte >> i % 2 * 4 & 0xF) ^ 8) - 8;
        return bits_of(static_cast<float>(number) * scale);
      });
    }
  };
  HOPFEED_HOST_DEVICE Row row(std::uint64_t place, const unsigned char* row) const {
    return Row{out + place * elements, elements, scale_at(row)};
  }

 private:
  HOPFEED_HOST_DEVICE static float scale_at(const unsigned char* row) {
    std::uint32_t bits = 0;
    if (place_in(row, 4) == 0)
      bits = load_aligned<std::uint32_t>(row);
    else
      for (unsigned i = 0; i < kScale; ++i)
        bits |= std::uint32_t{load_aligned<std::uint8_t>(row + i)} << 8 * i;
    float scale;
    std::memcpy(&scale, &bits, sizeof scale);
    return scale;
  }
};

/// Writes numbers[i] = i.
struct CountUp {
  std::uint32_t* numbers;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const { numbers[i] = static_cast<std::uint32_t>(i); }
};

}  // namespace hopfeed::gpu
