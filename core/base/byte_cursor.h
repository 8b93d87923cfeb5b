// ByteCursor takes bytes that anybody may have sent or written, from front to back: every reader of such
// bytes stands on it. A length is compared with what is left before anything is taken, and no product of a
// count and a size overflows. The reader says what is wrong with bytes that are too few: `fail` throws it,
// and never returns.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace hopfeed {

class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes) : left_(bytes) {}

  std::span<const std::byte> left() const { return left_; }

  /// Takes the next `count` elements of `each` bytes, at least one.
  template <std::invocable Fail>
  std::span<const std::byte> take(std::uint64_t count, std::size_t each, Fail fail) {
    if (count > left_.size() / each) fail();
    const auto taken = left_.first(static_cast<std::size_t>(count) * each);
    left_ = left_.subspan(taken.size());
    return taken;
  }
  /// Takes the next `count` elements, where they are: `left()` is aligned for them.
  template <class Element, std::invocable Fail>
  std::span<const Element> array(std::uint64_t count, Fail fail) {
    static_assert(std::is_trivially_copyable_v<Element>);
    const std::span<const std::byte> taken = take(count, sizeof(Element), fail);
    return {reinterpret_cast<const Element*>(taken.data()), static_cast<std::size_t>(count)};
  }
  /// Takes a copy of the next record, wherever it is.
  template <class Record, std::invocable Fail>
  Record record(Fail fail) {
    static_assert(std::is_trivially_copyable_v<Record>);
    Record record;
    std::memcpy(&record, take(1, sizeof record, fail).data(), sizeof record);
    return record;
  }

 private:
  std::span<const std::byte> left_;
};

}  // namespace hopfeed
