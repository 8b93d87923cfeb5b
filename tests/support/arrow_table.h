// Tables for tests, handed over by Arrow's C stream interface as another library would: columns in memory, in
// batches of some rows, each with rows in front that its offset skips.
#pragma once
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/element_type.h"
#include "partition_tool/tables/arrow_abi.h"

namespace hopfeed::testing {

struct ArrowTestColumn {
  std::string name, format;          // "l", "+w:3" with `items` "f", "u", ...
  std::string items = {};            // format of what a list has
  std::vector<std::byte> values;     // of numbers, lists and fixed bytes: one row behind the other
  std::size_t row_bytes = 0;         // of these
  std::vector<std::string> texts;    // of "u"
  std::vector<std::int64_t> absent;  // rows without a value
};

template <class T>
ArrowTestColumn number_column_of(const std::string& name, const std::string& format,
                                 const std::vector<T>& numbers) {
  ArrowTestColumn column{
      .name = name, .format = format, .values = {}, .row_bytes = sizeof(T), .texts = {}, .absent = {}};
  const auto bytes = std::as_bytes(std::span(numbers));
  column.values.assign(bytes.begin(), bytes.end());
  return column;
}

struct ArrowTestTable {
  std::vector<ArrowTestColumn> columns;
  std::int64_t rows = 0;
  std::int64_t batch_rows = 1'000;
  std::string error_after_batches = {};  // what the stream says in place of its second batch; empty: nothing
};

namespace arrow_table {

/// What a struct of Arrow points to lives as long as its release() is not called.
struct ArrayParts {
  std::vector<std::vector<std::byte>> buffers;
  std::vector<const void*> pointers;
  std::vector<std::unique_ptr<ArrowArray>> children;
  std::vector<ArrowArray*> child_pointers;
};
struct SchemaParts {
  std::string format, name;
  std::vector<std::unique_ptr<ArrowSchema>> children;
  std::vector<ArrowSchema*> child_pointers;
};

inline void fill(ArrowArray& array, std::unique_ptr<ArrayParts> parts, std::int64_t length,
                 std::int64_t offset, std::int64_t nulls) {
  for (const auto& buffer : parts->buffers)
    parts->pointers.push_back(buffer.empty() ? nullptr : buffer.data());
  for (const auto& child : parts->children) parts->child_pointers.push_back(child.get());
  array = {.length = length,
           .null_count = nulls,
           .offset = offset,
           .n_buffers = static_cast<std::int64_t>(parts->pointers.size()),
           .n_children = static_cast<std::int64_t>(parts->child_pointers.size()),
           .buffers = parts->pointers.data(),
           .children = parts->child_pointers.data(),
           .dictionary = nullptr,
           .release =
               [](ArrowArray* released) {
                 auto* const own = static_cast<ArrayParts*>(released->private_data);
                 for (const auto& child : own->children)
                   if (child->release != nullptr) child->release(child.get());
                 delete own;
                 released->release = nullptr;
               },
           .private_data = nullptr};
  array.private_data = parts.release();
}

inline void fill(ArrowSchema& schema, std::unique_ptr<SchemaParts> parts) {
  for (const auto& child : parts->children) parts->child_pointers.push_back(child.get());
  schema = {.format = parts->format.c_str(),
            .name = parts->name.c_str(),
            .metadata = nullptr,
            .flags = 2,
            .n_children = static_cast<std::int64_t>(parts->child_pointers.size()),
            .children = parts->child_pointers.data(),
            .dictionary = nullptr,
            .release =
                [](ArrowSchema* released) {
                  auto* const own = static_cast<SchemaParts*>(released->private_data);
                  for (const auto& child : own->children)
                    if (child->release != nullptr) child->release(child.get());
                  delete own;
                  released->release = nullptr;
                },
            .private_data = nullptr};
  schema.private_data = parts.release();
}

constexpr std::int64_t kSkipped = 3;  // rows of rubbish in front of each batch's column

inline std::unique_ptr<ArrowArray> array_of(const ArrowTestColumn& column, std::int64_t first,
                                            std::int64_t rows) {
  auto parts = std::make_unique<ArrayParts>();
  std::vector<std::byte> valid((static_cast<std::size_t>(kSkipped + rows) + 7) / 8, std::byte{0xFF});
  std::int64_t nulls = 0;
  for (const std::int64_t row : column.absent) {
    if (row < first || row >= first + rows) continue;
    const auto bit = static_cast<std::size_t>(kSkipped + row - first);
    valid[bit / 8] &= ~(std::byte{1} << static_cast<int>(bit % 8));
    ++nulls;
  }
  parts->buffers.push_back(nulls > 0 ? valid : std::vector<std::byte>());
  if (column.format == "u") {
    std::vector<std::int32_t> offsets(static_cast<std::size_t>(kSkipped) + 1, 0);
    std::string bytes;
    for (std::int64_t i = first; i < first + rows; ++i) {
      bytes += column.texts[static_cast<std::size_t>(i)];
      offsets.push_back(static_cast<std::int32_t>(bytes.size()));
    }
    const auto raw = std::as_bytes(std::span(offsets));
    parts->buffers.emplace_back(raw.begin(), raw.end());
    parts->buffers.emplace_back(reinterpret_cast<const std::byte*>(bytes.data()),
                                reinterpret_cast<const std::byte*>(bytes.data()) + bytes.size());
  } else {
    std::vector<std::byte> values(static_cast<std::size_t>(kSkipped) * column.row_bytes, std::byte{0xAB});
    const auto begin = column.values.begin() +
                       static_cast<std::ptrdiff_t>(static_cast<std::size_t>(first) * column.row_bytes);
    values.insert(values.end(), begin,
                  begin + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rows) * column.row_bytes));
    if (column.items.empty()) {
      parts->buffers.push_back(std::move(values));
    } else {
      auto list = std::make_unique<ArrayParts>();
      list->buffers = {{}, std::move(values)};
      parts->children.push_back(std::make_unique<ArrowArray>());
      const std::int64_t width = std::stoll(column.format.substr(3));
      fill(*parts->children.back(), std::move(list), (kSkipped + rows) * width, 0, 0);
    }
  }
  auto array = std::make_unique<ArrowArray>();
  fill(*array, std::move(parts), rows, kSkipped, nulls);
  return array;
}

struct StreamParts {
  ArrowTestTable table;
  std::int64_t next = 0;
  std::string error;
};

inline StreamParts& parts_of(ArrowArrayStream* stream) {
  return *static_cast<StreamParts*>(stream->private_data);
}

}  // namespace arrow_table

/// Returns the stream; ArrowStream takes it over.
inline ArrowArrayStream stream_of(ArrowTestTable table) {
  using namespace arrow_table;
  return {.get_schema =
              [](ArrowArrayStream* stream, ArrowSchema* out) {
                auto parts = std::make_unique<SchemaParts>();
                parts->format = "+s";
                for (const ArrowTestColumn& column : parts_of(stream).table.columns) {
                  auto child = std::make_unique<SchemaParts>();
                  child->format = column.format;
                  child->name = column.name;
                  if (!column.items.empty()) {
                    auto items = std::make_unique<SchemaParts>();
                    items->format = column.items;
                    items->name = "item";
                    child->children.push_back(std::make_unique<ArrowSchema>());
                    fill(*child->children.back(), std::move(items));
                  }
                  parts->children.push_back(std::make_unique<ArrowSchema>());
                  fill(*parts->children.back(), std::move(child));
                }
                fill(*out, std::move(parts));
                return 0;
              },
          .get_next =
              [](ArrowArrayStream* stream, ArrowArray* out) {
                StreamParts& own = parts_of(stream);
                if (own.next > 0 && !own.table.error_after_batches.empty()) {
                  own.error = own.table.error_after_batches;
                  return 5;
                }
                *out = {};
                if (own.next == own.table.rows) return 0;
                const std::int64_t rows = std::min(own.table.batch_rows, own.table.rows - own.next);
                auto parts = std::make_unique<ArrayParts>();
                parts->buffers.emplace_back();
                for (const ArrowTestColumn& column : own.table.columns)
                  parts->children.push_back(array_of(column, own.next, rows));
                fill(*out, std::move(parts), rows, 0, 0);
                own.next += rows;
                return 0;
              },
          .get_last_error = [](ArrowArrayStream* stream) -> const char* {
            const std::string& error = parts_of(stream).error;
            return error.empty() ? nullptr : error.c_str();
          },
          .release =
              [](ArrowArrayStream* stream) {
                delete static_cast<StreamParts*>(stream->private_data);
                stream->release = nullptr;
              },
          .private_data = new StreamParts{.table = std::move(table), .error = {}}};
}

}  // namespace hopfeed::testing
