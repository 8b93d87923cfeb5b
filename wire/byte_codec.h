// Numbers and texts to little-endian bytes and back. The reader checks every length before it uses it, and
// names the message and the field of what it refuses.
#pragma once
#include <fmt/format.h>

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/byte_cursor.h"
#include "core/base/error.h"
#include "core/base/plain_text.h"

namespace hopfeed::wire {

static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian, and so are its machines");

class ByteWriter {
 public:
  explicit ByteWriter(std::size_t expected) { bytes_.reserve(expected); }
  template <std::integral Number>
  void number(Number value) {
    raw(std::as_bytes(std::span(&value, 1)));
  }
  void raw(std::span<const std::byte> more) { bytes_.insert(bytes_.end(), more.begin(), more.end()); }
  void text(std::string_view text) { raw(std::as_bytes(std::span(text))); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class ByteReader {
  auto ends_within(const char* field) const {
    return [this, field] { fail(ErrorCode::kCorrupt, fmt::format("it ends within its {}", field)); };
  }

 public:
  ByteReader(std::span<const std::byte> bytes, const char* message) : left_(bytes), message_(message) {}

  template <std::integral Number>
  Number number(const char* field) {
    return left_.record<Number>(ends_within(field));
  }
  template <std::size_t size>
  std::array<std::byte, size> array(const char* field) {
    return left_.record<std::array<std::byte, size>>(ends_within(field));
  }
  /// Not below zero.
  std::int64_t count(const char* field) {
    const auto value = number<std::int64_t>(field);
    if (value < 0) fail(ErrorCode::kInvalid, fmt::format("its {} is {}", field, value));
    return value;
  }
  bool flag(const char* field) {
    const auto value = number<std::uint8_t>(field);
    if (value > 1) fail(ErrorCode::kCorrupt, fmt::format("its {} is neither 0 nor 1", field));
    return value == 1;
  }
  void zeros(std::size_t size) {
    for (const std::byte byte : raw(size, "reserved bytes"))
      if (byte != std::byte{}) fail(ErrorCode::kCorrupt, "its reserved bytes are not zero");
  }
  /// All that is left, as a line of text.
  std::string line(const char* field, std::size_t max_bytes) { return text(field, max_bytes, Lines::kOne); }
  /// All that is left, as text of several lines.
  std::string lines(const char* field, std::size_t max_bytes) { return text(field, max_bytes, Lines::kMany); }
  std::span<const std::byte> rest() { return raw(left_.left().size(), "rest"); }
  /// Nothing may be left.
  void end() const {
    if (const std::size_t more = left_.left().size(); more > 0)
      fail(ErrorCode::kCorrupt, fmt::format("it has {} bytes too many", more));
  }
  [[noreturn]] void fail(ErrorCode code, const std::string& what) const {
    throw Error(code, fmt::format("{} cannot be read: {}", message_, what));
  }

 private:
  std::span<const std::byte> raw(std::size_t size, const char* field) {
    return left_.take(size, 1, ends_within(field));
  }
  std::string text(const char* field, std::size_t max_bytes, Lines lines) {
    const std::span<const std::byte> bytes = rest();
    if (bytes.size() > max_bytes)
      fail(ErrorCode::kInvalid,
           fmt::format("its {} has {} bytes, and at most {} are taken", field, bytes.size(), max_bytes));
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!is_text(text, lines))
      fail(ErrorCode::kCorrupt,
           fmt::format("its {} is not UTF-8, or has control characters or direction marks", field));
    return text;
  }

  ByteCursor left_;
  const char* const message_;
};

}  // namespace hopfeed::wire
