// Reads a pack of seeds (NodeSet::pack(), LinkSet::pack()), which may come from anybody: a head of int64
// fields, then arrays of 8 bytes an element, and nothing else. What does not fit is kCorrupt, and named.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "core/base/error.h"

namespace hopfeed {

class PackedArrays {
 public:
  explicit PackedArrays(std::span<const std::byte> packed) : left_(packed) {}

  template <class Head>
  Head head() {
    static_assert(sizeof(Head) % sizeof(std::int64_t) == 0);
    Head head;
    require(left_.size() >= sizeof(head), fmt::format("they have {} bytes", left_.size()));
    std::memcpy(&head, left_.data(), sizeof(head));
    left_ = left_.subspan(sizeof(head));
    return head;
  }
  /// The next `count` elements, where `field` of the head has said so.
  template <class Element>
  std::span<const Element> take(std::int64_t count, const char* field) {
    static_assert(sizeof(Element) == sizeof(std::int64_t));
    const std::size_t there = left_.size() / sizeof(Element);
    require(count >= 0 && static_cast<std::uint64_t>(count) <= there,
            fmt::format("{} is {}, and {} are there", field, count, there));
    const auto elements = static_cast<std::size_t>(count);
    const std::span<const Element> array(reinterpret_cast<const Element*>(left_.data()), elements);
    left_ = left_.subspan(array.size_bytes());
    return array;
  }
  /// Takes an array that is there for each of `all` seeds, or not at all.
  template <class Element>
  std::span<const Element> take_for_each(std::int64_t count, const char* field, std::size_t all) {
    require(count == 0 || (count > 0 && static_cast<std::uint64_t>(count) == all),
            fmt::format("{} is {} for {} seeds", field, count, all));
    return take<Element>(count, field);
  }
  void end() const { require(left_.empty(), fmt::format("{} bytes too many follow", left_.size())); }

  static void require(bool holds, const std::string& why) {
    if (!holds)
      throw Error(ErrorCode::kCorrupt, "the given seeds cannot be read: " + why + "; pack them again");
  }

 private:
  std::span<const std::byte> left_;
};

}  // namespace hopfeed
