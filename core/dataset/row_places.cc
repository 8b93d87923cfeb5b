// See row_places.h.
#include "core/dataset/row_places.h"

#include <string>

#include "core/base/error.h"

namespace hopfeed {
namespace {

/// Returns the last array that begins at the row or before it. The search has no branch that depends on the
/// row: nobody could foresee it.
std::size_t array_of(const RowTable& table, std::int64_t id) {
  const std::int64_t* first = table.starts.data();
  for (std::size_t left = table.arrays.size(); left > 1;) {
    const std::size_t half = left / 2;
    first = first[half] <= id ? first + half : first;
    left -= half;
  }
  return static_cast<std::size_t>(first - table.starts.data());
}

[[noreturn, gnu::cold, gnu::noinline]] void throw_nowhere(std::int64_t id) {
  throw Error(ErrorCode::kCorrupt, "row " + std::to_string(id) + " was not fetched");
}

}  // namespace

const std::byte* PlaceFinder::look_up(std::int64_t id) {
  const std::size_t array = array_of(table_, id);
  if (table_.arrays[array] != 0) {
    rows_ = table_.rows_of(array);
    begin_ = table_.starts[array];
    end_ = table_.starts[array + 1];
    return rows_ + static_cast<std::size_t>(id - begin_) * table_.stride;
  }
  if (table_.elsewhere == nullptr || !table_.elsewhere->contains(id)) throw_nowhere(id);
  return table_.elsewhere_rows +
         static_cast<std::size_t>(table_.elsewhere->rank(id)) * table_.elsewhere_stride;
}

}  // namespace hopfeed
