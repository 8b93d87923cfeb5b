// See given_array.h.
#include "core/dataset/given_array.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/base/error.h"

namespace hopfeed {
namespace {

constexpr ElementType kNumbers[] = {ElementType::kUint8,   ElementType::kInt8,    ElementType::kInt16,
                                    ElementType::kInt32,   ElementType::kUint32,  ElementType::kInt64,
                                    ElementType::kFloat16, ElementType::kFloat32, ElementType::kFloat64,
                                    ElementType::kBool};
constexpr std::int64_t kTogether = 4096;  // integers that are widened at a time

template <class T>
void widen(const GivenArray& array, std::int64_t first, std::span<std::int64_t> out) {
  T block[kTogether];
  for (std::size_t done = 0; done < out.size();) {
    const std::size_t some = std::min(out.size() - done, static_cast<std::size_t>(kTogether));
    array.read(first + static_cast<std::int64_t>(done), std::span(block, some));
    std::copy_n(block, some, out.begin() + static_cast<std::ptrdiff_t>(done));
    done += some;
  }
}

MappedFile file_of(const ArraySource& source) { return source.held ? MappedFile() : MappedFile(source.path); }

}  // namespace

GivenArray::GivenArray(const ArraySource& source) : path_(source.path), file_(file_of(source)) {
  if (source.held) {
    header_ = given_npy_header(source.held->descr, source.held->shape, source.held->bytes.size(), path_);
    bytes_ = source.held->bytes;
  } else {
    header_ = parse_npy_header(file_.bytes(), path_, NpyForms::kGiven);
    bytes_ = file_.bytes().subspan(header_.data_offset);
  }
  const std::string little = header_.descr.starts_with('>') ? "<" + header_.descr.substr(1) : header_.descr;
  swapped_ = little != header_.descr;
  const auto known = std::ranges::find(kNumbers, little, npy_descr);
  if (little == "<u2") {
    type_ = ElementType::kInt32;
    widening_ = Widening::kUint16;
  } else if (little == "<u8") {
    type_ = ElementType::kInt64;
    widening_ = Widening::kUint64;
  } else if (known != std::end(kNumbers)) {
    type_ = *known;
  } else {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{}: structured elements; store plain numbers", path_.string()));
  }
  // With one dimension that has more than one entry both orders are the same.
  fortran_ = header_.fortran_order && std::ranges::count_if(shape(), [](auto d) { return d > 1; }) > 1;
}

std::string GivenArray::shape_text() const { return fmt::format("[{}]", fmt::join(shape(), ", ")); }

bool GivenArray::has_integers() const {
  return type_ != ElementType::kFloat16 && type_ != ElementType::kFloat32 && type_ != ElementType::kFloat64 &&
         type_ != ElementType::kBool;
}

void GivenArray::require(ElementType type) const {
  require_valid(type_ == type, fmt::format("{} holds elements of type '{}', expected '{}'", path().string(),
                                           descr(), npy_descr(type)));
}

std::vector<std::int64_t> GivenArray::place_of(std::int64_t entry) const {
  std::vector<std::int64_t> place(shape().size());
  for (std::size_t d = place.size(); d-- > 0;) {
    place[d] = entry % shape()[d];
    entry /= shape()[d];
  }
  return place;
}

void GivenArray::convert(std::int64_t at, std::int64_t entry, std::byte* out) const {
  std::byte raw[sizeof(std::uint64_t)];
  const std::size_t size = header_.item_bytes;
  std::memcpy(raw, bytes().data() + static_cast<std::size_t>(at) * size, size);
  if (swapped_) std::reverse(raw, raw + size);
  if (widening_ == Widening::kUint16) {
    std::uint16_t narrow;
    std::memcpy(&narrow, raw, sizeof(narrow));
    const std::int32_t value = narrow;
    std::memcpy(out, &value, sizeof(value));
    return;
  }
  if (widening_ == Widening::kUint64) {
    std::uint64_t value;
    std::memcpy(&value, raw, sizeof(value));
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      const std::vector<std::int64_t> place = place_of(entry);
      throw Error(
          ErrorCode::kInvalid,
          fmt::format("{}: entry {} is {}, which no int64 holds", path().string(),
                      place.size() == 1 ? std::to_string(entry) : fmt::format("[{}]", fmt::join(place, ", ")),
                      value));
    }
  }
  std::memcpy(out, raw, size);
}

void GivenArray::read(std::int64_t first, std::span<std::byte> out) const {
  const std::size_t size = element_bytes(type_);
  const auto entries = static_cast<std::int64_t>(out.size() / size);
  if (!fortran_ && as_stored()) {
    if (!out.empty())
      std::memcpy(out.data(), bytes().data() + static_cast<std::size_t>(first) * size, out.size());
    return;
  }
  if (!fortran_) {
    for (std::int64_t i = 0; i < entries; ++i)
      convert(first + i, first + i, out.data() + i * static_cast<std::int64_t>(size));
    return;
  }
  // The file has the first dimension's neighbours side by side: an entry's place there is counted along.
  std::vector<std::int64_t> place = place_of(first), step(shape().size(), 1);
  for (std::size_t d = 1; d < step.size(); ++d) step[d] = step[d - 1] * shape()[d - 1];
  std::int64_t at = 0;
  for (std::size_t d = 0; d < step.size(); ++d) at += place[d] * step[d];
  for (std::int64_t i = 0; i < entries; ++i) {
    convert(at, first + i, out.data() + i * static_cast<std::int64_t>(size));
    for (std::size_t d = step.size(); d-- > 0;) {
      at += step[d];
      if (++place[d] < shape()[d]) break;
      at -= place[d] * step[d];
      place[d] = 0;
    }
  }
}

void GivenArray::read_integers(std::int64_t first, std::span<std::int64_t> out) const {
  switch (type_) {
    case ElementType::kUint8:
      return widen<std::uint8_t>(*this, first, out);
    case ElementType::kInt8:
      return widen<std::int8_t>(*this, first, out);
    case ElementType::kInt16:
      return widen<std::int16_t>(*this, first, out);
    case ElementType::kInt32:
      return widen<std::int32_t>(*this, first, out);
    case ElementType::kUint32:
      return widen<std::uint32_t>(*this, first, out);
    default:
      return read<std::int64_t>(first, out);  // throws for floats and bools
  }
}

}  // namespace hopfeed
