// Numbers and texts to little-endian bytes and back. The reader checks every length before it uses it, and
// names the message and the field of what it refuses.
#pragma once
#include <fmt/format.h>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
 public:
  ByteReader(std::span<const std::byte> bytes, const char* message) : left_(bytes), message_(message) {}

  template <std::integral Number>
  Number number(const char* field) {
    Number value;
    std::memcpy(&value, raw(sizeof value, field).data(), sizeof value);
    return value;
  }
  template <std::size_t size>
  std::array<std::byte, size> array(const char* field) {
    std::array<std::byte, size> value;
    std::memcpy(value.data(), raw(size, field).data(), size);
    return value;
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
  std::span<const std::byte> rest() { return raw(left_.size(), "rest"); }
  /// Nothing may be left.
  void end() const {
    if (!left_.empty()) fail(ErrorCode::kCorrupt, fmt::format("it has {} bytes too many", left_.size()));
  }
  [[noreturn]] void fail(ErrorCode code, const std::string& what) const {
    throw Error(code, fmt::format("{} cannot be read: {}", message_, what));
  }

 private:
  std::span<const std::byte> raw(std::size_t size, const char* field) {
    if (size > left_.size()) fail(ErrorCode::kCorrupt, fmt::format("it ends within its {}", field));
    const auto part = left_.first(size);
    left_ = left_.subspan(size);
    return part;
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

  std::span<const std::byte> left_;
  const char* const message_;
};

}  // namespace hopfeed::wire
