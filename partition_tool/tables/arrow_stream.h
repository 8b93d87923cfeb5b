// Reads tables that another library hands over in this process, by Arrow's C stream interface: three plain
// structs with functions to call, and no library. Source: "The Arrow C data interface" and "The Arrow C
// stream interface" of the Apache Arrow specification.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/element_type.h"

// These are as the specification has them, field by field.
struct ArrowSchema;
struct ArrowArray;
struct ArrowArrayStream;

namespace hopfeed {

/// An ArrowType is what a column holds, as far as a dataset can take it.
struct ArrowType {
  enum class Kind { kNumbers, kText, kFixedBytes };
  Kind kind = Kind::kNumbers;
  ElementType element = ElementType::kInt64;  // of numbers
  std::int64_t width = 1;                     // numbers or bytes of a row; of texts 1
  bool is_list = false;                       // numbers: a list of `width` in each row
};

/// Returns "int64", "float32 [3]", "text", "16 bytes".
std::string to_string(const ArrowType& type);

/// An ArrowColumn views one column of an ArrowBatch, which it must not outlive.
class ArrowColumn {
 public:
  ArrowColumn(const ArrowArray& array, const ArrowType& type, std::string_view name)
      : array_(&array), type_(type), name_(name) {}

  const ArrowType& type() const { return type_; }
  /// Writes the rows [first, first + count) one behind the other, `out` holds exactly their bytes. Booleans
  /// become bytes. Not of texts.
  void read(std::int64_t first, std::int64_t count, std::span<std::byte> out) const;
  /// Of texts. It is valid as long as the batch.
  std::string_view text(std::int64_t row) const;
  /// Throws kInvalid naming column and row (counted from `before`) where one has no value.
  void require_values(std::int64_t before) const;

 private:
  const ArrowArray* array_;
  ArrowType type_;
  std::string_view name_;
};

/// An ArrowBatch is some consecutive rows of a stream.
class ArrowBatch {
 public:
  ArrowBatch(std::unique_ptr<ArrowArray, void (*)(ArrowArray*)> array, std::int64_t rows)
      : array_(std::move(array)), rows_(rows) {}
  std::int64_t rows() const { return rows_; }
  const ArrowArray& child(std::size_t column) const;

 private:
  std::unique_ptr<ArrowArray, void (*)(ArrowArray*)> array_;
  std::int64_t rows_;
};

class ArrowStream {
 public:
  /// Takes the stream over: it is released when this ends. `each(rows)` hears of all rows so far, between two
  /// batches; it may throw. Throws kInvalid where it is no table, kIo with the words of who made it.
  explicit ArrowStream(ArrowArrayStream* stream, std::function<void(std::int64_t rows)> each = {});
  ArrowStream(const ArrowStream&) = delete;
  ArrowStream& operator=(const ArrowStream&) = delete;

  /// Returns the number of a column. Throws kNotFound naming it and those that there are.
  std::size_t column(std::string_view name) const;
  /// Throws kInvalid where there is no such column, or a dataset cannot take what it holds, naming it and its
  /// format.
  const ArrowType& type(std::size_t column) const;
  /// Returns the next rows, none at the end. Throws kIo with the words of who makes them, kInvalid where a
  /// column lacks a value.
  std::optional<ArrowBatch> next();
  ArrowColumn column_of(const ArrowBatch& batch, std::size_t column) const;
  /// Rows of all batches so far.
  std::int64_t rows() const { return rows_; }

 private:
  struct Column {
    std::string name, format;
    std::optional<ArrowType> type;  // none: of no kind that a dataset can take
  };
  [[noreturn]] void fail(const char* what) const;

  std::unique_ptr<ArrowArrayStream, void (*)(ArrowArrayStream*)> stream_;
  const std::function<void(std::int64_t)> each_;
  std::vector<Column> columns_;
  std::int64_t rows_ = 0;
};

}  // namespace hopfeed
