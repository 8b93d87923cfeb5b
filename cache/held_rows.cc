// See held_rows.h.
#include "cache/held_rows.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>

#include "core/base/error.h"
#include "core/base/prefetch.h"
#include "core/base/saturating.h"
#include "core/batch/block_writer.h"
#include "core/batch/field_names.h"
#include "core/batch/nonfinite.h"
#include "core/batch/packed_block.h"
#include "core/dataset/row_gather.h"

namespace hopfeed {
namespace {

std::int64_t held_of(std::span<const std::int64_t> partition_offsets, HeldShare share) {
  std::int64_t held = 0;
  for (std::size_t p = 0; p + 1 < partition_offsets.size(); ++p)
    held += share.rows(partition_offsets[p + 1] - partition_offsets[p]);
  return held;
}

bool carried(const BatchOptions& options, const AttrMeta& attr) {
  return !options.attrs || std::ranges::find(*options.attrs, attr.name) != options.attrs->end();
}

bool tells_of_held(const ArrayView& array) {
  return array.store == Store::kNode && (array.name == kHeldBits || array.name == kHeldRows);
}

/// The two arrays of a type; no name: it has no attributes.
struct Told {
  ArrayView bits, held;
  explicit Told(const BatchView& packed, int type)
      : bits(packed.find(kHeldBits, Store::kNode, type)), held(packed.find(kHeldRows, Store::kNode, type)) {}
  bool there() const { return !bits.name.empty(); }
};

constexpr std::size_t kRowsAlignment = 64;

constexpr std::size_t round_up(std::size_t bytes) {
  return (bytes + kRowsAlignment - 1) / kRowsAlignment * kRowsAlignment;
}

std::shared_ptr<std::byte[]> new_memory(std::size_t bytes) {
  constexpr auto alignment = static_cast<std::align_val_t>(kRowsAlignment);
  return {static_cast<std::byte*>(::operator new[](bytes, alignment)),
          [](std::byte* memory) { ::operator delete[](memory, alignment); }};
}

/// Rows that are not near are asked for so many before they are copied.
constexpr std::size_t kAhead = 16;

/// out[i] = the row of node i: the next one that came, or a held one.
void merge(const Told& told, std::span<const std::byte> came, std::span<const std::byte> own,
           std::size_t row_bytes, std::size_t nodes, std::byte* out) {
  const std::span<const std::uint8_t> bits = told.bits.as<std::uint8_t>();
  const std::span<const std::uint32_t> held = told.held.as<std::uint32_t>();
  const std::byte* next = came.data();
  std::size_t h = 0;
  for (std::size_t i = 0; i < nodes; ++i, out += row_bytes) {
    if ((bits[i / 8] >> i % 8 & 1) == 0) {
      std::memcpy(out, next, row_bytes);
      next += row_bytes;
      continue;
    }
    if (h + kAhead < held.size()) {
      const std::byte* const ahead = own.data() + held[h + kAhead] * row_bytes;
      for (std::size_t at = 0; at < row_bytes; at += 64) prefetch_line(ahead + at);
    }
    std::memcpy(out, own.data() + held[h++] * row_bytes, row_bytes);
  }
}

}  // namespace

HeldRows::HeldRows(const DatasetMeta& meta, const BatchOptions& options, HeldShare share,
                   std::shared_ptr<std::byte[]> memory)
    : share_(share), memory_(std::move(memory)) {
  if (!memory_) memory_ = new_memory(memory_of(meta, options, share));
  std::byte* next = memory_.get();
  for (std::size_t t = 0; t < meta.node_types.size(); ++t) {
    const NodeTypeMeta& node = meta.node_types[t];
    types_.push_back(
        {.partition_offsets = node.partition_offsets, .held = held_of(node.partition_offsets, share)});
    for (const AttrMeta& attr : node.attrs) {
      if (!carried(options, attr)) continue;
      Attr& added = attrs_.emplace_back();
      added.node_type = static_cast<int>(t);
      types_[t].has_attrs = true;
      added.meta = attr;
      added.rows = {next, static_cast<std::size_t>(types_[t].held * attr.row_bytes())};
      next += round_up(added.rows.size());
    }
  }
}

std::size_t HeldRows::bytes_of(const DatasetMeta& meta, const BatchOptions& options, HeldShare share) {
  std::int64_t bytes = 0;
  for (const NodeTypeMeta& node : meta.node_types)
    for (const AttrMeta& attr : node.attrs)
      if (carried(options, attr))
        bytes = saturating_sum(bytes,
                               saturating_product(held_of(node.partition_offsets, share), attr.row_bytes()));
  return static_cast<std::size_t>(bytes);
}

std::size_t HeldRows::memory_of(const DatasetMeta& meta, const BatchOptions& options, HeldShare share) {
  std::size_t attrs = 0;
  for (const NodeTypeMeta& node : meta.node_types)
    attrs += static_cast<std::size_t>(
        std::ranges::count_if(node.attrs, [&](const AttrMeta& attr) { return carried(options, attr); }));
  return bytes_of(meta, options, share) + attrs * kRowsAlignment;
}

HeldShare HeldRows::fit(const DatasetMeta& meta, const BatchOptions& options, HeldShare wanted,
                        std::size_t bytes) {
  std::uint32_t fits = 0, too_much = wanted.millionths + 1;  // bytes_of grows with the share, and rows do
  const auto has_room = [&](HeldShare share) {
    return bytes_of(meta, options, share) <= bytes &&
           std::ranges::all_of(meta.node_types, [&](const NodeTypeMeta& node) {
             return held_of(node.partition_offsets, share) <= kMaxHeldRows;
           });
  };
  while (too_much - fits > 1) {
    const std::uint32_t middle = fits + (too_much - fits) / 2;
    (has_room({.millionths = middle}) ? fits : too_much) = middle;
  }
  return {.millionths = fits};
}

std::vector<HeldRows::Run> HeldRows::runs() {
  std::vector<Run> runs;
  for (Attr& attr : attrs_) {
    const std::vector<std::int64_t>& offsets =
        types_[static_cast<std::size_t>(attr.node_type)].partition_offsets;
    std::span<std::byte> left = attr.rows;
    for (std::size_t p = 0; p + 1 < offsets.size(); ++p) {
      const std::int64_t count = share_.rows(offsets[p + 1] - offsets[p]);
      const auto bytes = static_cast<std::size_t>(count * attr.meta.row_bytes());
      if (bytes > 0)
        runs.push_back({.node_type = attr.node_type,
                        .attr = attr.meta.name,
                        .first = offsets[p],
                        .count = count,
                        .rows = left.first(bytes),
                        .type = attr.meta.type});
      left = left.subspan(bytes);
    }
  }
  return runs;
}

void HeldRows::load(const Dataset& dataset) {
  constexpr std::int64_t kRowsAtATime = 4'096;
  std::vector<std::int64_t> ids;
  for (const Run& run : runs()) {
    const AttrView attr = dataset.attr(run.node_type, run.attr);
    for (std::int64_t done = 0; done < run.count; done += kRowsAtATime) {
      ids.resize(static_cast<std::size_t>(std::min(kRowsAtATime, run.count - done)));
      std::iota(ids.begin(), ids.end(), run.first + done);
      gather_rows(attr, ids, run.rows.data() + done * attr.row_bytes);
    }
  }
}

bool HeldRows::Run::finite(std::span<const std::byte> some) const {
  return count_nonfinite(type, some, std::ssize(rows) / count) == 0;
}

std::size_t HeldRows::bytes() const {
  std::size_t bytes = 0;
  for (const Attr& attr : attrs_) bytes += attr.rows.size();
  return bytes;
}

const HeldRows::Attr* HeldRows::find(const ArrayView& array) const {
  if (array.store != Store::kNode) return nullptr;
  for (const Attr& attr : attrs_)
    if (attr.node_type == array.type_number && attr.meta.name == array.name) return &attr;
  return nullptr;
}

void HeldRows::check(const BatchView& packed) const {
  const auto fail = [](const std::string& what) {
    throw Error(ErrorCode::kCorrupt, fmt::format("no valid packed block: {}", what));
  };
  if (packed.header().num_node_types != types_.size()) fail("it has other node types than the dataset");
  std::int64_t attrs_told = 0, attrs_there = 0;
  for (int t = 0; t < packed.header().num_node_types; ++t) {
    const Told told(packed, t);
    if (told.bits.name.empty() != told.held.name.empty()) fail("it has half of what tells of held rows");
    if (!told.there()) continue;
    // complete() goes by the shapes: one with a dimension of 0 has no bytes, and can say any number of nodes.
    const ArrayView n_id = packed.get(batch_field::kNId, Store::kNode, t);
    if (n_id.shape.size() != 1 || told.held.shape.size() != 1) fail("its nodes are no list");
    const std::size_t nodes = n_id.as<std::int64_t>().size();
    const std::span<const std::uint8_t> bits = told.bits.as<std::uint8_t>();
    const std::span<const std::uint32_t> held = told.held.as<std::uint32_t>();
    if (bits.size() != (nodes + 7) / 8) fail("its bits are not one for each node");
    if (nodes % 8 != 0 && bits.back() >> nodes % 8 != 0) fail("it has bits of no node");
    std::size_t set = 0;
    for (const std::uint8_t byte : bits) set += static_cast<std::size_t>(std::popcount(byte));
    if (set != held.size()) fail(fmt::format("{} nodes are held, and {} rows are told", set, held.size()));
    const auto limit = static_cast<std::uint64_t>(types_[static_cast<std::size_t>(t)].held);
    if (std::ranges::any_of(held, [&](std::uint32_t row) { return row >= limit; }))
      fail(fmt::format("it names a row beyond the {} that are held", limit));
    for (const Attr& attr : attrs_) {
      if (attr.node_type != t) continue;
      const ArrayView array = packed.get(attr.meta.name, Store::kNode, t);
      ++attrs_told;
      if (array.type != attr.meta.type || array.shape.size() != attr.meta.shape.size() + 1 ||
          !std::ranges::equal(array.shape.subspan(1), attr.meta.shape))
        fail(fmt::format("attribute '{}' is another than the dataset's", attr.meta.name));
      if (array.shape[0] != static_cast<std::int64_t>(nodes - set))
        fail(fmt::format("attribute '{}' has {} rows for {} nodes", attr.meta.name, array.shape[0],
                         nodes - set));
    }
  }
  for (int i = 0; i < packed.num_arrays(); ++i) {
    const ArrayView array = packed.array(i);
    if (find(array) == nullptr || !Told(packed, array.type_number).there()) continue;
    if (++attrs_there > attrs_told) fail("it has an attribute twice");  // the second was not looked at
  }
}

std::size_t HeldRows::completed_bytes(const BatchView& packed) const {
  BlockWriter writer;
  lay_out(packed, writer);
  return writer.bytes();
}

void HeldRows::lay_out(const BatchView& packed, BlockWriter& whole) const {
  for (int i = 0; i < packed.num_arrays(); ++i) {
    const ArrayView array = packed.array(i);
    if (tells_of_held(array)) continue;
    BlockShape shape;
    if (find(array) != nullptr && Told(packed, array.type_number).there()) {
      shape.append(packed.get(batch_field::kNId, Store::kNode, array.type_number).shape);
      shape.append(array.shape.subspan(1));
    } else {
      shape.append(array.shape);
    }
    whole.add({.name = array.name,
               .store = array.store,
               .type = array.type_number,
               .element = array.type,
               .shape = shape});
  }
}

void HeldRows::complete(const BatchView& packed, std::span<std::byte> out) const {
  BlockWriter writer;
  lay_out(packed, writer);
  BlockHeader header = packed.header();
  header.magic = kBlockMagic;
  writer.begin(header, out);
  int to = 0;
  for (int i = 0; i < packed.num_arrays(); ++i) {
    const ArrayView array = packed.array(i);
    if (tells_of_held(array)) continue;
    auto* const at = writer.data<std::byte>(to++);
    const Attr* const attr = find(array);
    if (attr != nullptr && Told(packed, array.type_number).there()) {
      const Told told(packed, array.type_number);
      const auto nodes =
          static_cast<std::size_t>(packed.get(batch_field::kNId, Store::kNode, array.type_number).shape[0]);
      merge(told, array.bytes, attr->rows, static_cast<std::size_t>(attr->meta.row_bytes()), nodes, at);
    } else if (!array.bytes.empty()) {
      std::memcpy(at, array.bytes.data(), array.bytes.size());
    }
  }
}

HeldRows::Counts HeldRows::count(const BatchView& batch) const {
  Counts counts;  // by the bytes: nobody has checked the shapes of a whole block
  const bool packed = batch.header().magic == kPackedMagic;
  for (std::size_t t = 0; t < types_.size(); ++t) {
    if (!types_[t].has_attrs) continue;
    const int type = static_cast<int>(t);
    counts.rows += std::ssize(batch.find(batch_field::kNId, Store::kNode, type).bytes) /
                   static_cast<std::int64_t>(sizeof(std::int64_t));
    if (packed)  // arrays of such names in a whole one are a sampler's
      counts.held += std::ssize(batch.find(kHeldRows, Store::kNode, type).bytes) /
                     static_cast<std::int64_t>(sizeof(std::uint32_t));
  }
  return counts;
}

std::uint64_t held_order(const DatasetMeta& meta, HeldShare share) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  if (!state) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  const auto add = [&](std::uint64_t number) { XXH3_64bits_update(state.get(), &number, sizeof number); };
  for (const NodeTypeMeta& node : meta.node_types) {
    if (node.attrs.empty()) continue;  // none of its rows is held
    const auto add_file = [&](const std::string& path) {
      const auto file = meta.files.find(path);
      require_valid(file != meta.files.end(),
                    fmt::format("the manifest does not list {}; run hopfeed-partition verify", path));
      add(file->second.xxh3);
    };
    if (!meta.sharded_ids) add_file(new_ids_path(node));
    for (int p = 0; meta.sharded_ids && p < meta.partitions; ++p) add_file(new_ids_shard_path(p, node));
    for (std::size_t p = 0; p + 1 < node.partition_offsets.size(); ++p)
      add(static_cast<std::uint64_t>(share.rows(node.partition_offsets[p + 1] - node.partition_offsets[p])));
  }
  return XXH3_64bits_digest(state.get());
}

}  // namespace hopfeed
