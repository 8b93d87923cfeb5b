// See batch.h.
#include "python/module/batch.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/quantised_rows.h"
#include "core/batch/field_names.h"

namespace nb = nanobind;

namespace hopfeed::python {
namespace {

constexpr int kCpu = nb::device::cpu::value, kCuda = nb::device::cuda::value;
constexpr std::size_t kMaxDimensions = 4;  // of an array of a block

template <class T>
nb::dlpack::dtype dtype_of() {
  return nb::dtype<T>();
}

/// NumPy has no bfloat16: there it is uint16, as in files.
nb::dlpack::dtype dtype_of(ElementType type, bool torch) {
  using Code = nb::dlpack::dtype_code;
  switch (type) {
    case ElementType::kUint8:
      return dtype_of<std::uint8_t>();
    case ElementType::kInt8:
      return dtype_of<std::int8_t>();
    case ElementType::kInt16:
      return dtype_of<std::int16_t>();
    case ElementType::kInt32:
      return dtype_of<std::int32_t>();
    case ElementType::kInt64:
      return dtype_of<std::int64_t>();
    case ElementType::kFloat16:
      return {static_cast<std::uint8_t>(Code::Float), 16, 1};
    case ElementType::kBfloat16:
      return torch ? nb::dlpack::dtype{static_cast<std::uint8_t>(Code::Bfloat), 16, 1}
                   : dtype_of<std::uint16_t>();
    case ElementType::kFloat32:
      return dtype_of<float>();
    case ElementType::kFloat64:
      return dtype_of<double>();
    case ElementType::kBool:
      return dtype_of<bool>();
    case ElementType::kUint32:
      return dtype_of<std::uint32_t>();
    case ElementType::kInt8Scaled:
    case ElementType::kInt4Scaled:
      break;  // their rows become float32
  }
  return dtype_of<float>();
}

struct Place {
  const void* data = nullptr;
  int device_type = kCpu, device = 0;
};

nb::object array_of(const Place& place, const ArrayView& array, nb::handle owner, bool torch) {
  std::array<std::size_t, kMaxDimensions> shape{};
  std::ranges::copy(array.shape, shape.begin());
  const auto make = [&]<class Framework>(Framework) -> nb::object {
    // Writable, as the tensors of other loaders are: what is written is gone with the slot.
    return nb::ndarray<Framework>(const_cast<void*>(place.data), array.shape.size(), shape.data(), owner,
                                  nullptr, dtype_of(array.type, torch), place.device_type, place.device)
        .cast();
  };
  if (torch) return make(nb::pytorch());
  return make(nb::numpy());
}

/// Rows with a scale as float32, in memory of their own.
nb::object dequantised(const ArrayView& array, bool torch) {
  const QuantisedRows rows = quantised_rows(array);
  auto* values = new std::vector<float>(static_cast<std::size_t>(rows.count * rows.elements));
  const nb::capsule owner(values,
                          [](void* given) noexcept { delete static_cast<std::vector<float>*>(given); });
  dequantise(rows, values->data());
  return array_of({.data = values->data()}, array, owner, torch);
}

/// Whether an array of a batch on a device lies there: those do that DeviceForm names.
bool lies_on_device(const ArrayView& array) {
  constexpr std::array kLarge{batch_field::kNId, batch_field::kDatasetId, batch_field::kBatch,
                              batch_field::kEdgeIndex, batch_field::kEId};
  return std::ranges::find(kLarge, array.name) != kLarge.end() || !is_batch_field(array.name);
}

/// [(store, type number, name, array)], in the order of the block.
nb::list arrays_of(nb::handle self, bool torch) {
  const auto& batch = nb::cast<const PythonBatch&>(self);
  const DeviceForm* device = batch.device_form();
  const BatchView& view = device != nullptr ? device->head : batch.view();
  nb::list arrays;
  for (int i = 0; i < view.num_arrays(); ++i) {
    const ArrayView array = view.array(i);
    nb::object made;
    if (device != nullptr && lies_on_device(array)) {
      if (!torch) throw Error(ErrorCode::kUnsupported, "this batch lies on a GPU, where NumPy has no arrays");
      const std::byte* data = device->data + (array.bytes.data() - view.bytes().data());
      made = array_of({.data = data, .device_type = kCuda, .device = device->device}, array, self, torch);
    } else {
      made = has_scale(array.type) ? dequantised(array, torch)
                                   : array_of({.data = array.bytes.data()}, array, self, torch);
    }
    arrays.append(nb::make_tuple(static_cast<int>(array.store), array.type_number,
                                 nb::str(array.name.data(), array.name.size()), made));
  }
  return arrays;
}

}  // namespace

PythonBatch::PythonBatch(Batch batch, bool copy) : batch_(std::move(batch)) {
  if (batch_->device_form() != nullptr) return;  // copied to the host by who asks for its bytes
  view_ = batch_->view();
  if (!copy) return;
  const std::span<const std::byte> bytes = view_.bytes();
  std::memcpy(copy_.resize(bytes.size()).data(), bytes.data(), bytes.size());
  view_ = BatchView(copy_.bytes());
  batch_.reset();
}

void PythonBatch::used_on(std::uintptr_t stream, int device) const {
  if (batch_) batch_->used_on({reinterpret_cast<void*>(stream), device});
}

void bind_batch(nb::module_& module) {
  nb::class_<PythonBatch>(module, "Batch", "A batch: its arrays are views of the slot that it lies in.")
      .def_prop_ro(
          "key",
          [](const PythonBatch& batch) {
            const BatchKey& key = batch.device_form() ? batch.device_form()->head.key() : batch.view().key();
            return nb::make_tuple(key.epoch, key.first, key.count);
          },
          nb::sig("def key(self) -> tuple[int, int, int]"),
          "(epoch, first, count): it has the seeds at positions [first, first + count) of that epoch.")
      .def(
          "digest",
          [](const PythonBatch& batch) {
            if (batch.device_form() != nullptr)
              throw Error(ErrorCode::kUnsupported, "digest() is of batches in the host's memory");
            return batch.view().digest();
          },
          nb::call_guard<nb::gil_scoped_release>(),
          "XXH3-64 of all its bytes: the same for the same key, whoever made it.")
      .def_prop_ro(
          "num_bytes", [](const PythonBatch& batch) { return batch.view().bytes().size(); },
          "Bytes of the block.")
      .def_prop_ro("is_copy", &PythonBatch::is_copy,
                   "Whether it was copied, since the caller held too many others.")
      .def("used_on", &PythonBatch::used_on, nb::arg("stream"), nb::arg("device"),
           "Work that this CUDA stream (its address) of this GPU (its number) is asked for while the batch "
           "lives may read it: its memory is used again once that is done.")
      .def(
          "arrays", [](nb::handle self, bool torch) { return arrays_of(self, torch); }, nb::arg("torch"),
          nb::sig("def arrays(self, torch: bool) -> list[tuple[int, int, str, object]]"),
          "[(store, type number, name, array)]: store 0 is the batch, 1 a node type, 2 an edge type; the "
          "array is "
          "a torch.Tensor or a numpy.ndarray over the batch's memory, and keeps the batch.");
}

}  // namespace hopfeed::python
