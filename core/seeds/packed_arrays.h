// Reads a pack of seeds (NodeSet::pack(), LinkSet::pack()), which may come from anybody: a head of int64
// fields, then arrays of 8 bytes an element, and nothing else. What does not fit is kCorrupt, and named.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/byte_cursor.h"
#include "core/base/error.h"

namespace hopfeed {

class PackedArrays {
 public:
  explicit PackedArrays(std::span<const std::byte> packed) : left_(packed) {}

  template <class Head>
  Head head() {
    static_assert(sizeof(Head) % sizeof(std::int64_t) == 0);
    return left_.record<Head>([this] { fail(fmt::format("they have {} bytes", left_.left().size())); });
  }
  /// Returns the next `count` elements, where `field` of the head has said so.
  template <class Element>
  std::span<const Element> take(std::int64_t count, const char* field) {
    static_assert(sizeof(Element) == sizeof(std::int64_t));
    // A count below zero becomes more than can be there.
    return left_.array<Element>(static_cast<std::uint64_t>(count), [&] {
      fail(fmt::format("{} is {}, and {} are there", field, count, left_.left().size() / sizeof(Element)));
    });
  }
  /// Takes an array that is there for each of `all` seeds, or not at all.
  template <class Element>
  std::span<const Element> take_for_each(std::int64_t count, const char* field, std::size_t all) {
    require(count == 0 || (count > 0 && static_cast<std::uint64_t>(count) == all),
            fmt::format("{} is {} for {} seeds", field, count, all));
    return take<Element>(count, field);
  }
  void end() const {
    const std::size_t more = left_.left().size();
    require(more == 0, fmt::format("{} bytes too many follow", more));
  }

  static void require(bool holds, const std::string& why) {
    if (!holds) fail(why);
  }

 private:
  [[noreturn]] static void fail(const std::string& why) {
    throw Error(ErrorCode::kCorrupt, "the given seeds cannot be read: " + why + "; pack them again");
  }

  ByteCursor left_;
};

}  // namespace hopfeed
