// See batch_view.h. The block may come from a socket, a file or a slot that a dying process wrote: nothing is
// believed before it is checked, and no size is computed without an overflow check.
#include "core/batch/batch_view.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>
#include <optional>

#include "core/base/limits.h"
#include "core/batch/packed_block.h"

namespace hopfeed {
namespace {

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorCode::kCorrupt, "no valid batch block: " + what);
}

const BlockEntry& entry_at(std::span<const std::byte> block, std::size_t i) {
  return reinterpret_cast<const BlockEntry*>(block.data() + sizeof(BlockHeader))[i];
}

// Checks entry `i`; the arrays lie in table order without overlap, so one running end suffices.
std::uint64_t check_entry(const BlockEntry& entry, std::size_t i, std::uint64_t previous_end,
                          const BlockHeader& header) {
  const auto fail = [&](const char* what) { corrupt(fmt::format("array {} {}", i, what)); };
  if (entry.name[0] == 0 || std::memchr(entry.name, 0, sizeof(entry.name)) == nullptr)
    fail("has no name that ends");
  const auto type = static_cast<ElementType>(entry.element_type);
  if (element_bytes(type) == 0 || (has_scale(type) && header.version < kScaledBlockVersion))
    fail("has an unknown element type");
  if (entry.num_dims > 4) fail("has more than 4 dimensions");
  for (int d = 0; d < 4; ++d) {
    if (d >= entry.num_dims && entry.shape[d] != 0) fail("has a shape beyond its dimensions");
    if (d >= entry.num_dims) continue;
    if (entry.shape[d] < 0) fail("has a negative dimension");
  }
  if (has_scale(type) && entry.num_dims == 0) fail("has no rows, of which each would have a scale");
  const std::optional<std::int64_t> bytes = bytes_of_array(type, {entry.shape, entry.num_dims});
  if (!bytes) fail("has a shape that overflows");
  if (static_cast<std::uint64_t>(*bytes) != entry.bytes)
    fail("has a length that is not the product of its shape");
  const std::uint16_t types = entry.store == static_cast<std::uint16_t>(Store::kNode) ? header.num_node_types
                              : entry.store == static_cast<std::uint16_t>(Store::kEdge)
                                  ? header.num_edge_types
                                  : 1;
  if (entry.store > static_cast<std::uint16_t>(Store::kEdge) || entry.type >= types)
    fail("belongs to no node or edge type");
  std::uint64_t end = 0;
  if (entry.offset % kBlockAlignment != 0 || entry.offset < previous_end ||
      __builtin_add_overflow(entry.offset, entry.bytes, &end) || end > header.bytes) {
    fail("lies outside its place");
  }
  return end;
}

}  // namespace

BatchView::BatchView(std::span<const std::byte> bytes, Form form) {
  if (bytes.size() < sizeof(BlockHeader))
    corrupt(fmt::format("{} bytes are less than a header", bytes.size()));
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % kBlockAlignment != 0)
    throw Error(ErrorCode::kInvalid, "a batch block must begin at a multiple of 64");
  const BlockHeader& header = *reinterpret_cast<const BlockHeader*>(bytes.data());
  if (header.magic != (form == Form::kWhole ? kBlockMagic : kPackedMagic))
    corrupt(fmt::format("it does not begin with {}", form == Form::kWhole ? "HOPBLCK1" : "HOPPACK1"));
  if (header.version != kBlockVersion && header.version != kScaledBlockVersion) {
    throw Error(ErrorCode::kVersion,
                fmt::format("batch block version {}; this hopfeed reads versions {} and {}", header.version,
                            kBlockVersion, kScaledBlockVersion));
  }
  if (header.num_arrays > kMaxBlockArrays || header.bytes > kMaxBlockBytes || header.bytes > bytes.size() ||
      header.bytes % kBlockAlignment != 0) {
    corrupt(fmt::format("{} arrays in {} bytes do not fit {} bytes", header.num_arrays, header.bytes,
                        bytes.size()));
  }
  std::uint64_t end = sizeof(BlockHeader) + std::uint64_t{header.num_arrays} * sizeof(BlockEntry);
  if (end > header.bytes) corrupt("its table is longer than the block");
  bool scaled = false;
  for (std::size_t i = 0; i < header.num_arrays; ++i) {
    end = check_entry(entry_at(bytes, i), i, end, header);
    scaled = scaled || has_scale(static_cast<ElementType>(entry_at(bytes, i).element_type));
  }
  if (header.version == kScaledBlockVersion && !scaled)
    corrupt("its version is another than its arrays need");
  bytes_ = bytes.first(header.bytes);
}

ArrayView BatchView::array(int i) const {
  const BlockEntry& entry = entry_at(bytes_, static_cast<std::size_t>(i));
  return {.name = entry.name,
          .type = static_cast<ElementType>(entry.element_type),
          .store = static_cast<Store>(entry.store),
          .type_number = entry.type,
          .shape = {entry.shape, entry.num_dims},
          .bytes = bytes_.subspan(entry.offset, entry.bytes)};
}

QuantisedRows quantised_rows(const ArrayView& array) {
  if (!has_scale(array.type))
    throw Error(ErrorCode::kInvalid, fmt::format("array '{}' holds {}, whose rows have no scale", array.name,
                                                 to_string(array.type)));
  std::int64_t elements = 1;
  for (const std::int64_t dim : array.shape.subspan(1)) elements *= dim;
  return {.type = array.type,
          .elements = elements,
          .stride_bytes = quantised_row_bytes(array.type, elements),
          .count = array.shape[0],
          .rows = array.bytes.data()};
}

ArrayView BatchView::find(std::string_view name, Store store, int type_number) const {
  for (int i = 0; i < num_arrays(); ++i) {
    const ArrayView view = array(i);
    if (view.name == name && view.store == store && view.type_number == type_number) return view;
  }
  return {};
}

ArrayView BatchView::get(std::string_view name, Store store, int type_number) const {
  const ArrayView view = find(name, store, type_number);
  if (view.name.empty()) throw Error(ErrorCode::kNotFound, fmt::format("the batch has no array '{}'", name));
  return view;
}

std::int64_t BatchView::batch_size() const {
  const auto values = get("batch_size", Store::kNode).as<std::int64_t>();
  if (values.empty()) corrupt("'batch_size' is empty");
  return values[0];
}

namespace {

std::int64_t edges_of(const ArrayView& edge_index) {
  if (edge_index.shape.size() != 2) corrupt("'edge_index' has not two dimensions");
  return edge_index.shape[1];
}

}  // namespace

std::int64_t BatchView::num_edges() const { return edges_of(edge_index()); }

std::int64_t BatchView::total_nodes() const {
  std::int64_t sum = 0;
  for (int t = 0; t < header().num_node_types; ++t)
    sum += static_cast<std::int64_t>(get("n_id", Store::kNode, t).as<std::int64_t>().size());
  return sum;
}

std::int64_t BatchView::total_edges() const {
  std::int64_t sum = 0;
  for (int t = 0; t < header().num_edge_types; ++t) sum += edges_of(get("edge_index", Store::kEdge, t));
  return sum;
}

std::uint64_t BatchView::digest() const { return XXH3_64bits(bytes_.data(), bytes_.size()); }

}  // namespace hopfeed
