// See fingerprint.h.
#include "core/dataset/fingerprint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hopfeed {
namespace {

// The seed of each contribution separates kinds and types, so that equal bytes in different places do not
// look alike.
enum Kind : std::uint64_t {
  kAttr = 1,
  kRow = 2,
  kEdgeIds = 3,
  kSplit = 4,
  kFinish = 5,
  kEdgeAttr = 6,
  kLinks = 7
};

std::uint64_t domain(Kind kind, int type, std::int64_t id, int number) {
  const std::uint64_t parts[4] = {kind, static_cast<std::uint64_t>(type), static_cast<std::uint64_t>(id),
                                  static_cast<std::uint64_t>(number)};
  return XXH3_64bits(parts, sizeof(parts));
}

template <class T>
XXH128_hash_t hash_of(std::span<const T> items, std::uint64_t seed) {
  return XXH3_128bits_withSeed(items.data(), items.size_bytes(), seed);
}

}  // namespace

void Fingerprint::add_attr(int node_type, std::int64_t original_id, int attr,
                           std::span<const std::byte> row) {
  add(hash_of(row, domain(kAttr, node_type, original_id, attr)));
}

void Fingerprint::add_row(int edge_type, std::int64_t original_id,
                          std::span<const std::int64_t> original_sources,
                          std::span<const std::int64_t> edge_ids) {
  if (original_sources.empty()) return;
  add(hash_of(original_sources, domain(kRow, edge_type, original_id, 0)));
  if (!edge_ids.empty()) add(hash_of(edge_ids, domain(kEdgeIds, edge_type, original_id, 0)));
}

void Fingerprint::add_edge_attr(int edge_type, std::int64_t original_id, int attr,
                                std::span<const std::byte> rows) {
  if (rows.empty()) return;
  add(hash_of(rows, domain(kEdgeAttr, edge_type, original_id, attr)));
}

void Fingerprint::add_split(int node_type, const std::string& name,
                            std::span<const std::int64_t> original_ids) {
  add(hash_of(original_ids, domain(kSplit, node_type, 0, 0) ^ XXH3_64bits(name.data(), name.size())));
}

void Fingerprint::add_links(int edge_type, const std::string& name, LinkArray array, XXH128_hash_t digest) {
  const std::uint64_t words[2] = {digest.low64, digest.high64};
  add(hash_of(std::span<const std::uint64_t>(words),
              domain(kLinks, edge_type, 0, static_cast<int>(array)) ^ XXH3_64bits(name.data(), name.size())));
}

std::string Fingerprint::finish(const DatasetMeta& meta) const {
  std::string text;
  for (const NodeTypeMeta& node : meta.node_types) {
    text += fmt::format("node {} {} {}\n", node.name, node.count, node.num_classes);
    if (node.has_keys()) text += fmt::format("keys {} {}\n", to_string(node.keys.type), node.keys.digest);
    for (const AttrMeta& attr : node.attrs)
      text += fmt::format("attr {} {} {}\n", attr.name, to_string(attr.type), fmt::join(attr.shape, ","));
    for (const auto& [name, count] : node.splits) text += fmt::format("split {} {}\n", name, count);
  }
  for (const EdgeTypeMeta& edge : meta.edge_types) {
    text += fmt::format("edge {} {} {}\n", edge.folder(), edge.count, edge.has_edge_ids);
    for (const AttrMeta& attr : edge.attrs)
      text +=
          fmt::format("edge attr {} {} {}\n", attr.name, to_string(attr.type), fmt::join(attr.shape, ","));
    if (!edge.rev_of.empty()) text += fmt::format("reverse of {}\n", edge.rev_of);
    for (const auto& [name, count] : edge.splits) text += fmt::format("edge split {} {}\n", name, count);
  }
  const XXH128_hash_t words = hash_of(std::span<const char>(text), domain(kFinish, 0, 0, 0));
  return fmt::format("{:016x}{:016x}", high_ + words.high64, low_ + words.low64);
}

}  // namespace hopfeed
