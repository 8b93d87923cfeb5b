// See arrow_stream.h.
#include "partition_tool/tables/arrow_stream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/base/error.h"
#include "partition_tool/tables/arrow_abi.h"

namespace hopfeed {
namespace {

void release_array(ArrowArray* array) {
  if (array->release != nullptr) array->release(array);
  delete array;
}

void release_stream(ArrowArrayStream* stream) {
  if (stream->release != nullptr) stream->release(stream);
  delete stream;
}

/// The element type of a format of one letter.
std::optional<ElementType> element_of(std::string_view format) {
  if (format.size() != 1) return std::nullopt;
  switch (format[0]) {
    case 'b':
      return ElementType::kBool;
    case 'c':
      return ElementType::kInt8;
    case 'C':
      return ElementType::kUint8;
    case 's':
      return ElementType::kInt16;
    case 'i':
      return ElementType::kInt32;
    case 'I':
      return ElementType::kUint32;
    case 'l':
      return ElementType::kInt64;
    case 'e':
      return ElementType::kFloat16;
    case 'f':
      return ElementType::kFloat32;
    case 'g':
      return ElementType::kFloat64;
    default:
      return std::nullopt;
  }
}

/// The number behind "+w:" or "w:".
std::optional<std::int64_t> width_behind(std::string_view head, std::string_view format) {
  if (!format.starts_with(head)) return std::nullopt;
  format.remove_prefix(head.size());
  std::int64_t width = 0;
  const auto [end, error] = std::from_chars(format.data(), format.data() + format.size(), width);
  if (error != std::errc{} || end != format.data() + format.size() || width < 1) return std::nullopt;
  return width;
}

std::optional<ArrowType> type_of(const ArrowSchema& schema) {
  const std::string_view format = schema.format;
  if (schema.dictionary != nullptr) return std::nullopt;
  if (const auto element = element_of(format)) return ArrowType{.element = *element};
  if (format == "u" || format == "z" || format == "U" || format == "Z")
    return ArrowType{.kind = ArrowType::Kind::kText};
  if (const auto width = width_behind("w:", format))
    return ArrowType{.kind = ArrowType::Kind::kFixedBytes, .width = *width};
  const auto width = width_behind("+w:", format);
  if (!width || schema.n_children != 1) return std::nullopt;
  const auto element = element_of(schema.children[0]->format);
  if (!element || *element == ElementType::kBool) return std::nullopt;  // bits of rows that begin anywhere
  return ArrowType{.element = *element, .width = *width, .is_list = true};
}

bool has_bit(const void* bits, std::int64_t at) {
  return (static_cast<const std::uint8_t*>(bits)[at / 8] >> at % 8 & 1) != 0;
}

}  // namespace

std::string to_string(const ArrowType& type) {
  switch (type.kind) {
    case ArrowType::Kind::kText:
      return "text";
    case ArrowType::Kind::kFixedBytes:
      return fmt::format("{} bytes", type.width);
    case ArrowType::Kind::kNumbers:
      break;
  }
  const std::string element = hopfeed::to_string(type.element);
  return type.is_list ? fmt::format("{} [{}]", element, type.width) : element;
}

void ArrowColumn::read(std::int64_t first, std::int64_t count, std::span<std::byte> out) const {
  const bool list = type_.is_list;
  const ArrowArray& values = list ? *array_->children[0] : *array_;
  const std::int64_t begin =
      list ? (array_->offset + first) * type_.width + values.offset : array_->offset + first;
  if (type_.kind == ArrowType::Kind::kNumbers && type_.element == ElementType::kBool) {
    for (std::int64_t i = 0; i < count; ++i)
      out[static_cast<std::size_t>(i)] = std::byte{has_bit(values.buffers[1], begin + i)};
    return;
  }
  const bool bytes = type_.kind == ArrowType::Kind::kFixedBytes;
  const std::size_t each = bytes ? static_cast<std::size_t>(type_.width) : element_bytes(type_.element);
  const std::size_t size = static_cast<std::size_t>(list ? count * type_.width : count) * each;
  if (size > 0)
    std::memcpy(out.data(),
                static_cast<const std::byte*>(values.buffers[1]) + static_cast<std::size_t>(begin) * each,
                size);
}

std::string_view ArrowColumn::text(std::int64_t row) const {
  const auto at = static_cast<std::size_t>(array_->offset + row);
  const auto* const bytes = static_cast<const char*>(array_->buffers[2]);
  const auto between = [&](const auto* offsets) {
    return std::string_view(bytes + offsets[at], static_cast<std::size_t>(offsets[at + 1] - offsets[at]));
  };
  if (type_.width == sizeof(std::int64_t))
    return between(static_cast<const std::int64_t*>(array_->buffers[1]));
  return between(static_cast<const std::int32_t*>(array_->buffers[1]));
}

void ArrowColumn::require_values(std::int64_t before) const {
  const auto check = [&](const ArrowArray& array, std::int64_t begin, std::int64_t each) {
    if (array.null_count == 0 || array.n_buffers == 0 || array.buffers[0] == nullptr) return;
    for (std::int64_t i = 0; i < array_->length * each; ++i)
      if (!has_bit(array.buffers[0], begin + i))
        throw Error(ErrorCode::kInvalid,
                    fmt::format("column '{}' has no value in row {}", name_, before + i / each));
  };
  check(*array_, array_->offset, 1);
  if (!type_.is_list) return;
  const ArrowArray& values = *array_->children[0];
  check(values, array_->offset * type_.width + values.offset, type_.width);
}

const ArrowArray& ArrowBatch::child(std::size_t column) const { return *array_->children[column]; }

ArrowStream::ArrowStream(ArrowArrayStream* stream, std::function<void(std::int64_t)> each)
    : stream_(new ArrowArrayStream(*stream), release_stream), each_(std::move(each)) {
  stream->release = nullptr;  // moved
  ArrowSchema schema{};
  if (stream_->get_schema(stream_.get(), &schema) != 0) fail("tell what it holds");
  const std::unique_ptr<ArrowSchema, void (*)(ArrowSchema*)> whole(&schema, [](ArrowSchema* given) {
    if (given->release != nullptr) given->release(given);
  });
  require_valid(std::string_view(schema.format) == "+s", "a stream of rows is no table; give a table");
  for (std::int64_t i = 0; i < schema.n_children; ++i) {
    const ArrowSchema& child = *schema.children[i];
    columns_.push_back(
        {.name = child.name == nullptr ? "" : child.name, .format = child.format, .type = type_of(child)});
    std::optional<ArrowType>& type = columns_.back().type;
    const bool wide = columns_.back().format == "U" || columns_.back().format == "Z";
    if (type && type->kind == ArrowType::Kind::kText)
      type->width = wide ? sizeof(std::int64_t) : sizeof(std::int32_t);
  }
}

void ArrowStream::fail(const char* what) const {
  const char* const words = stream_->get_last_error(stream_.get());
  std::string reason = words == nullptr ? "it gave no reason" : words;
  throw Error(ErrorCode::kIo, fmt::format("a stream of rows could not {}: {}", what, reason));
}

std::size_t ArrowStream::column(std::string_view name) const {
  const auto found = std::ranges::find(columns_, name, &Column::name);
  if (found != columns_.end()) return static_cast<std::size_t>(found - columns_.begin());
  std::vector<std::string> names;
  for (const Column& column : columns_) names.push_back(column.name);
  throw Error(ErrorCode::kNotFound,
              fmt::format("a stream of rows has no column '{}'; it has {}", name, fmt::join(names, ", ")));
}

const ArrowType& ArrowStream::type(std::size_t column) const {
  require_valid(column < columns_.size(), "a table has no columns");
  const Column& found = columns_[column];
  if (!found.type)
    throw Error(ErrorCode::kInvalid,
                fmt::format("column '{}' has the Arrow format '{}', which no attribute can have", found.name,
                            found.format));
  return *found.type;
}

std::optional<ArrowBatch> ArrowStream::next() {
  for (;;) {
    std::unique_ptr<ArrowArray, void (*)(ArrowArray*)> array(new ArrowArray{}, release_array);
    if (stream_->get_next(stream_.get(), array.get()) != 0) fail("be read");
    if (array->release == nullptr) return std::nullopt;
    const std::int64_t rows = array->length;
    if (rows == 0) continue;
    require_valid(array->n_children == std::ssize(columns_) && array->offset == 0,
                  "rows of a stream have other columns than it told, or begin in the middle");
    ArrowBatch batch(std::move(array), rows);
    for (std::size_t c = 0; c < columns_.size(); ++c)
      if (columns_[c].type) column_of(batch, c).require_values(rows_);
    rows_ += rows;
    if (each_) each_(rows_);
    return batch;
  }
}

ArrowColumn ArrowStream::column_of(const ArrowBatch& batch, std::size_t column) const {
  return {batch.child(column), type(column), columns_[column].name};
}

}  // namespace hopfeed
