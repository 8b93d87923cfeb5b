// See shared_tensor.h.
#include "state/owner/shared_tensor.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/base/half_floats.h"

namespace hopfeed {
namespace {

constexpr std::size_t kMostClients = std::size_t{1} << 20;

/// What one number of a type is made of.
template <class Stored, class To, class From>
void add_numbers(std::byte* sum, const std::byte* more, std::int64_t width, To to, From from) {
  for (std::int64_t f = 0; f < width; ++f) {
    Stored a, b;
    std::memcpy(&a, sum + f * static_cast<std::int64_t>(sizeof a), sizeof a);
    std::memcpy(&b, more + f * static_cast<std::int64_t>(sizeof b), sizeof b);
    a = from(to(a) + to(b));
    std::memcpy(sum + f * static_cast<std::int64_t>(sizeof a), &a, sizeof a);
  }
}

}  // namespace

SharedTensor::SharedTensor(const TableSpec& spec, const OwnedRows& rows)
    : spec_(spec),
      rows_(rows),
      store_(rows.count(), static_cast<std::size_t>(spec.row_bytes()), "a table of state",
             "more owners, or a smaller width") {}

void SharedTensor::first_value(std::int64_t row, std::byte* out) const {
  const auto bytes = static_cast<std::size_t>(spec_.row_bytes());
  if (spec_.first_values == TableSpec::FirstValues::kZeros) {
    std::memset(out, 0, bytes);
    return;
  }
  std::vector<float> values(static_cast<std::size_t>(spec_.width));
  first_values(spec_.seed, rows_.original_id(row), std::sqrt(3 / static_cast<float>(spec_.width)),
               spec_.width, values.data());
  if (spec_.dtype == ElementType::kFloat32) {
    std::memcpy(out, values.data(), bytes);
    return;
  }
  for (std::size_t f = 0; f < values.size(); ++f) {
    const std::uint16_t half =
        spec_.dtype == ElementType::kFloat16 ? float16_from(values[f]) : bfloat16_from(values[f]);
    std::memcpy(out + f * sizeof half, &half, sizeof half);
  }
}

void SharedTensor::read(std::span<const std::int64_t> ids, std::byte* out) const {
  require_whole();
  const std::vector<std::int64_t> rows = rows_.rows_of(ids, OwnedRows::Order::kAny);
  const auto bytes = static_cast<std::size_t>(spec_.row_bytes());
  for (std::size_t i = 0; i < rows.size(); ++i, out += bytes) {
    if (i + kIndexAhead < rows.size()) store_.prefetch_index(rows[i + kIndexAhead]);
    if (i + kRowsAhead < rows.size()) store_.prefetch_row(rows[i + kRowsAhead]);
    if (const std::byte* place = store_.find(rows[i]))
      std::memcpy(out, place, bytes);
    else
      first_value(rows[i], out);
  }
}

void SharedTensor::add(std::byte* sum, const std::byte* more) const {
  const auto same = [](auto value) { return value; };
  switch (spec_.dtype) {
    case ElementType::kFloat32:
      return add_numbers<float>(sum, more, spec_.width, same, same);
    case ElementType::kFloat16:
      return add_numbers<std::uint16_t>(sum, more, spec_.width, from_float16, float16_from);
    case ElementType::kBfloat16:
      return add_numbers<std::uint16_t>(sum, more, spec_.width, from_bfloat16, bfloat16_from);
    default:
      return add_numbers<std::uint64_t>(sum, more, spec_.width, same, same);
  }
}

/// All that can go wrong goes wrong before anything is written.
void SharedTensor::write(std::uint64_t client, std::uint64_t number, std::span<const std::int64_t> ids,
                         std::span<const std::byte> values, How how) {
  require_whole();
  const auto known = last_.find(client);
  const std::uint64_t last = known == last_.end() ? 0 : known->second;
  if (number <= last) return;
  require_valid(number == last + 1,
                fmt::format("message {} to table '{}' came before message {}", number, spec_.name, last + 1));
  if (known == last_.end() && last_.size() >= kMostClients)
    throw Error(ErrorCode::kNoSpace,
                fmt::format("{} processes have written to table '{}', as many as it takes", last_.size(),
                            spec_.name));
  const std::vector<std::int64_t> rows = rows_.rows_of(ids, OwnedRows::Order::kAny);
  const auto bytes = static_cast<std::size_t>(spec_.row_bytes());
  if (values.size() / bytes < rows.size())
    throw Error(ErrorCode::kCorrupt,
                fmt::format("a message to table '{}' is too short for its {} rows", spec_.name, rows.size()));
  std::vector<std::byte> first;  // values of rows that nobody has written
  if (how == How::kAdd && spec_.first_values != TableSpec::FirstValues::kZeros) {
    first.resize(rows.size() * bytes);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (store_.find(rows[i]) == nullptr) first_value(rows[i], first.data() + i * bytes);
  }
  std::uint64_t& counted = last_[client];
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i + kIndexAhead < rows.size()) store_.prefetch_index(rows[i + kIndexAhead]);
    if (i + kRowsAhead < rows.size()) store_.prefetch_row(rows[i + kRowsAhead]);
    std::byte* place = store_.find(rows[i]);
    if (place == nullptr) {
      place = store_.make(rows[i]);
      if (!first.empty()) std::memcpy(place, first.data() + i * bytes, bytes);
    }
    const std::byte* const value = values.data() + i * bytes;
    if (how == How::kReplace)
      std::memcpy(place, value, bytes);
    else
      add(place, value);
  }
  counted = number;
}

void SharedTensor::require_whole() const {
  if (whole_) return;
  throw Error(ErrorCode::kStateLost,
              fmt::format("table '{}' went back to a checkpoint and has not all its rows; go back to a "
                          "checkpoint again",
                          spec_.name));
}

void SharedTensor::clear() {
  whole_ = false;
  store_.clear();
  last_.clear();
}

void SharedTensor::restore(std::int64_t row, const std::byte* values) {
  std::byte* place = store_.find(row);
  std::memcpy(place != nullptr ? place : store_.make(row), values, store_.row_bytes());
}

}  // namespace hopfeed
