// DeviceRows are feature rows of one attribute on a device: of each partition the first ones, which are the
// hottest (core/batch/held_share.h), lie in its memory, and the others are read where they lie in the host's
// (UVA), or all are copied. Over a backend (host_backend.h), whose work is in order: what gather() was asked
// for before is done by the time of wait().
//
//   DeviceRows<CudaBackend> rows(backend, plan);
//   rows.gather(ids, n, out);              // or gather_as_float()
//   backend.wait();
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/base/element_type.h"
#include "core/base/error.h"
#include "gpu/engine/hop_engine.h"
#include "gpu/kernels/feature_kernels.h"
#include "gpu/memory/device_array.h"

namespace hopfeed::gpu {

/// HostRows are the rows of one attribute in the host's memory, which must outlive what reads it.
struct HostRows {
  std::vector<const std::byte*> parts;          // [P] first row of each partition; any if it has none
  std::vector<std::int64_t> partition_offsets;  // [P + 1] id of each partition's first row
  std::int64_t row_bytes = 0;                   // of a row as stored: with its scale where the type has one
  std::int64_t stride = 0;                      // from a row to the next; 0: row_bytes
  ElementType type = ElementType::kFloat32;
  std::int64_t elements = 0;  // of a row, for conversion
};

struct RowsPlan {
  HostRows rows;
  std::vector<std::int64_t> held;        // [P] rows of the device's memory; empty: none
  GraphPlace place = GraphPlace::kHost;  // of the others; kDevice: all rows are copied
  bool sort_ids = false;  // each gather reads in the order of the ids, so that neighbours share pages

  bool all_held() const {
    if (place == GraphPlace::kDevice) return true;
    for (std::size_t p = 0; p < rows.parts.size(); ++p)
      if ((held.empty() ? 0 : held[p]) < rows.partition_offsets[p + 1] - rows.partition_offsets[p])
        return false;
    return true;
  }
};

struct RowCounts {
  std::uint64_t on_device = 0, over_uva = 0;
};

template <class Backend>
class DeviceRows {
 public:
  /// Copies the rows that are held. The backend must outlive this. Throws kInvalid for a plan that
  /// contradicts itself, and what the backend throws where memory does not suffice.
  DeviceRows(Backend& backend, const RowsPlan& plan)
      : backend_(&backend),
        type_(plan.rows.type),
        elements_(static_cast<std::uint64_t>(plan.rows.elements)),
        sort_ids_(plan.sort_ids),
        held_(backend),
        parts_(backend),
        partition_offsets_(backend),
        over_uva_(backend),
        host_over_uva_(backend),
        numbers_(backend),
        sorted_order_(backend),
        sorted_ids_(backend) {
    check(plan);
    const std::vector<FeaturePart> parts = place(plan);
    view_.row_bytes = static_cast<std::uint64_t>(plan.rows.row_bytes);
    view_.stride = static_cast<std::uint64_t>(stride(plan.rows));
    view_.num_parts = static_cast<int>(parts.size());
    view_.parts = upload(parts_, parts);
    view_.partition_offsets = upload(partition_offsets_, plan.rows.partition_offsets);
    over_uva_.reserve(FeatureRows::kCounters);
    host_over_uva_.reserve(FeatureRows::kCounters);
    backend_->fill(over_uva_.data(), 0, over_uva_.bytes());
    view_.over_uva = over_uva_.data();
    items_ = RowItems::of(view_.row_bytes, granule(parts));
    while (id_bits_ < 63 && plan.rows.partition_offsets.back() >> id_bits_ != 0) ++id_bits_;
    backend_->wait();  // the plan's arrays were copied from
  }
  DeviceRows(DeviceRows&&) noexcept = default;
  DeviceRows& operator=(DeviceRows&&) = delete;

  /// Writes the rows of `ids` (device memory, ids of the dataset that were checked) one after another at
  /// `out` (device memory, a multiple of 64), as they are stored.
  void gather(const std::int64_t* ids, std::uint64_t n, std::byte* out) {
    read(ids, n, WriteStored{reinterpret_cast<unsigned char*>(out), view_.row_bytes});
  }

  /// Gathers rows as float32 [n, elements], from float32, float16, bfloat16 and rows with a scale; throws
  /// kUnsupported for other types. Rows whose scale is a number come out to the bit as half_floats.h and
  /// quantised_rows.h give them.
  void gather_as_float(const std::int64_t* ids, std::uint64_t n, float* out) {
    require_valid(bytes_of(type_, elements_).value_or(view_.row_bytes) == view_.row_bytes,
                  std::to_string(elements_) + " elements of " + to_string(type_) + " do not take " +
                      std::to_string(view_.row_bytes) + " bytes");
    switch (type_) {
      case ElementType::kFloat32:
        return gather(ids, n, reinterpret_cast<std::byte*>(out));
      case ElementType::kFloat16:
        return read(ids, n, WriteHalves<OfFloat16>{out, elements_});
      case ElementType::kBfloat16:
        return read(ids, n, WriteHalves<OfBfloat16>{out, elements_});
      case ElementType::kInt8Scaled:
        return read(ids, n, WriteScaled<ElementType::kInt8Scaled>{out, elements_});
      case ElementType::kInt4Scaled:
        return read(ids, n, WriteScaled<ElementType::kInt4Scaled>{out, elements_});
      default:
        throw Error(ErrorCode::kUnsupported, std::string("rows of ") + to_string(type_) +
                                                 " are not converted on a device; gather them as stored");
    }
  }

  /// Counts the rows of all gathers so far. Waits for the device.
  RowCounts counts() {
    backend_->copy(host_over_uva_.data(), over_uva_.data(), FeatureRows::kCounters * sizeof(std::uint64_t));
    backend_->wait();
    RowCounts counts;
    for (std::uint64_t i = 0; i < FeatureRows::kCounters; ++i) counts.over_uva += host_over_uva_.data()[i];
    counts.on_device = asked_ - counts.over_uva;
    return counts;
  }

  /// Returns the bytes of the device's memory, the held rows' included.
  std::size_t device_bytes() const {
    return held_.bytes() + parts_.bytes() + partition_offsets_.bytes() + over_uva_.bytes() +
           numbers_.bytes() + sorted_order_.bytes() + sorted_ids_.bytes();
  }

 private:
  static constexpr std::size_t kPartAlignment = 128;

  static std::int64_t stride(const HostRows& rows) { return rows.stride == 0 ? rows.row_bytes : rows.stride; }

  /// Returns the bytes of a row of a type that is converted; nothing for other types.
  static std::optional<std::uint64_t> bytes_of(ElementType type, std::uint64_t elements) {
    switch (type) {
      case ElementType::kFloat32:
        return 4 * elements;
      case ElementType::kFloat16:
      case ElementType::kBfloat16:
        return 2 * elements;
      case ElementType::kInt8Scaled:
        return 4 + elements;
      case ElementType::kInt4Scaled:
        return 4 + elements / 2 + elements % 2;
      default:
        return {};
    }
  }

  static void check(const RowsPlan& plan) {
    const HostRows& rows = plan.rows;
    const std::size_t parts = rows.parts.size();
    require_valid(parts > 0 && rows.partition_offsets.size() == parts + 1,
                  "rows of " + std::to_string(parts) + " partitions have " +
                      std::to_string(rows.partition_offsets.size()) +
                      " offsets; give one more than partitions");
    require_valid(rows.row_bytes >= 0 && stride(rows) >= rows.row_bytes,
                  "rows of " + std::to_string(rows.row_bytes) + " bytes cannot lie " +
                      std::to_string(stride(rows)) + " bytes apart");
    require_valid(plan.held.empty() || plan.held.size() == parts,
                  "held rows are given for " + std::to_string(plan.held.size()) + " of " +
                      std::to_string(parts) + " partitions; give them for all or none");
    for (std::size_t p = 0; p < parts; ++p) {
      const std::int64_t count = rows.partition_offsets[p + 1] - rows.partition_offsets[p];
      require_valid(count >= 0, "the offsets of partition " + std::to_string(p) + " fall");
      require_valid(plan.held.empty() || (plan.held[p] >= 0 && plan.held[p] <= count),
                    "partition " + std::to_string(p) + " has " + std::to_string(count) +
                        " rows and cannot hold " + (plan.held.empty() ? "" : std::to_string(plan.held[p])));
    }
  }

  /// Copies held rows, and says where the device finds the others.
  std::vector<FeaturePart> place(const RowsPlan& plan) {
    const HostRows& rows = plan.rows;
    std::vector<FeaturePart> parts(rows.parts.size());
    std::vector<std::size_t> at(rows.parts.size());
    const auto row_bytes = static_cast<std::size_t>(rows.row_bytes),
               far = static_cast<std::size_t>(stride(rows));
    std::size_t bytes = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const std::int64_t count = rows.partition_offsets[p + 1] - rows.partition_offsets[p];
      parts[p].num_held = plan.place == GraphPlace::kDevice ? count : plan.held.empty() ? 0 : plan.held[p];
      at[p] = bytes;
      bytes += (static_cast<std::size_t>(parts[p].num_held) * row_bytes + kPartAlignment - 1) /
               kPartAlignment * kPartAlignment;
    }
    held_.reserve(bytes);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const auto count = static_cast<std::size_t>(rows.partition_offsets[p + 1] - rows.partition_offsets[p]),
                 held = static_cast<std::size_t>(parts[p].num_held);
      unsigned char* const to = held == 0 ? nullptr : held_.data() + at[p];
      parts[p].held = to;
      if (far == row_bytes || held == 1)
        backend_->copy(to, rows.parts[p], held * row_bytes);
      else
        backend_->copy_rows(to, row_bytes, rows.parts[p], far, row_bytes, held);
      if (to != nullptr)  // the last row's stretch ends there, and is read whole
        backend_->fill(to + held * row_bytes, 0,
                       (kPartAlignment - held * row_bytes % kPartAlignment) % kPartAlignment);
      if (held == count) continue;
      parts[p].in_place = static_cast<const unsigned char*>(
          backend_->place_graph(rows.parts[p], (count - 1) * far + row_bytes, GraphPlace::kHost));
    }
    return parts;
  }

  template <class T>
  T* upload(DeviceArray<Backend, T>& to, const std::vector<T>& from) {
    to.reserve(from.size());
    backend_->copy(to.data(), from.data(), from.size() * sizeof(T));
    return to.data();
  }

  /// Returns the greatest power of two, a stretch at most, that all rows begin at multiples of.
  unsigned granule(const std::vector<FeaturePart>& parts) const {
    std::uint64_t all = kStretch;
    for (const FeaturePart& part : parts) {
      if (part.num_held > 0) all |= reinterpret_cast<std::uintptr_t>(part.held) | view_.row_bytes;
      if (part.in_place != nullptr) all |= reinterpret_cast<std::uintptr_t>(part.in_place) | view_.stride;
    }
    return static_cast<unsigned>(all & (~all + 1));
  }

  template <class Write>
  void read(const std::int64_t* ids, std::uint64_t n, const Write& write) {
    asked_ += n;
    if (n == 0) return;
    AskedRows asked;
    asked.ids = ids;
    if (sort_ids_ && n <= std::numeric_limits<std::uint32_t>::max()) sort(n, asked);
    backend_->launch(n << items_.bits, ReadRows<Write>{view_, asked, items_, write});
  }

  void sort(std::uint64_t n, AskedRows& asked) {
    if (n > numbers_.capacity()) {
      numbers_.reserve(n);
      backend_->launch(numbers_.capacity(), CountUp{numbers_.data()});
    }
    sorted_ids_.reserve(n);
    sorted_order_.reserve(n);
    backend_->sort_by(asked.ids, sorted_ids_.data(), numbers_.data(), sorted_order_.data(), n, id_bits_);
    asked.ids = sorted_ids_.data();
    asked.order = sorted_order_.data();
  }

  template <class T>
  using Array = DeviceArray<Backend, T>;

  Backend* backend_;
  const ElementType type_;
  const std::uint64_t elements_;
  const bool sort_ids_;
  FeatureRows view_;
  RowItems items_;
  int id_bits_ = 1;
  std::uint64_t asked_ = 0;
  Array<unsigned char> held_;
  Array<FeaturePart> parts_;
  Array<std::int64_t> partition_offsets_;
  Array<std::uint64_t> over_uva_;
  DeviceArray<Backend, std::uint64_t, Where::kPinned> host_over_uva_;
  Array<std::uint32_t> numbers_, sorted_order_;  // 0, 1, 2, ...; where the sorted ids' rows come to lie
  Array<std::int64_t> sorted_ids_;
};

}  // namespace hopfeed::gpu
