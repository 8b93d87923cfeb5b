// Any bytes as packed seeds, of nodes and of links: what is read is packed again the same, and drawn from
// within its bounds.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/seeds/link_set.h"
#include "core/seeds/node_set.h"

namespace {

using namespace hopfeed;

/// Batches of an epoch of a list, if not all.
template <class List, class Take>
void read(const List& list, Take take) {
  const std::int64_t count = std::min<std::int64_t>(list.size(), 4'096);
  take(BatchKey{.seed = 7, .epoch = 0, .first = 0, .count = count});
  take(BatchKey{.seed = 7, .epoch = 1, .first = list.size() - count, .count = count});
}

template <class Set, class Use>
void try_as(std::span<const std::byte> bytes, Use use) {
  try {
    const Set set(bytes);
    if (!std::ranges::equal(set.pack(), bytes)) std::abort();
    use(set);
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::int64_t> aligned(size / 8 + 1);
  if (size > 0) std::memcpy(aligned.data(), data, size);
  const auto bytes = std::as_bytes(std::span(aligned)).first(size);
  try_as<NodeSet>(bytes, [](const NodeSet& set) {
    const NodeList list = set.list({});
    NodeList::Positions out;
    read(list, [&](const BatchKey& key) { list.seeds(key, out); });
  });
  try_as<LinkSet>(bytes, [](const LinkSet& set) {
    const LinkList list = set.list({});
    LinkList::Positions out;
    read(list, [&](const BatchKey& key) { list.links(key, out); });
  });
  return 0;
}
