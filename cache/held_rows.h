// HeldRows are the feature rows that a consumer of batches holds: the hottest of each node type, a prefix of
// each batch/held_share.h). Whoever/partition's order (core/batch/held_share.h). Whoever/batch/held_share.h).
// Whoever makes its batches leaves them out, and complete() puts them back:
//
//   HeldRows rows(meta, options, share);
//   for (const HeldRows::Run& run : rows.runs()) read(run);        // from wherever rows are to be had
//   rows.complete(BatchView(block, BatchView::Form::kPacked), whole);
//
// They are loaded once and never change, as GNNLab's and SALIENT++'s static caches.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/batch/batch_view.h"
#include "core/batch/block_writer.h"
#include "core/batch/held_share.h"
#include "core/dataset/dataset.h"
#include "core/dataset/dataset_meta.h"

namespace hopfeed {

class HeldRows {
 public:
  /// Makes place for rows of the node attributes that batches of `options` carry, in memory of its own, or in
  /// `memory` of memory_of() bytes at a multiple of 64, which others may share. Throws std::bad_alloc.
  HeldRows(const DatasetMeta& meta, const BatchOptions& options, HeldShare share,
           std::shared_ptr<std::byte[]> memory = nullptr);
  HeldRows(const HeldRows&) = delete;
  HeldRows& operator=(const HeldRows&) = delete;

  /// Returns the bytes that the rows of a share take, at most kFarTooMany.
  static std::size_t bytes_of(const DatasetMeta& meta, const BatchOptions& options, HeldShare share);
  /// Returns the bytes that the rows of a share take with the gaps between attributes.
  static std::size_t memory_of(const DatasetMeta& meta, const BatchOptions& options, HeldShare share);
  /// Returns the largest share up to `wanted` whose rows take at most `bytes` and have numbers in a packed
  /// block (kMaxHeldRows).
  static HeldShare fit(const DatasetMeta& meta, const BatchOptions& options, HeldShare wanted,
                       std::size_t bytes);

  /// A Run is consecutive rows of one attribute that are to be loaded.
  struct Run {
    int node_type = 0;
    std::string attr;
    std::int64_t first = 0, count = 0;  // dataset ids
    std::span<std::byte> rows;          // [count, row bytes], tightly packed
    ElementType type = ElementType::kFloat32;
    /// Returns whether no value of `some` of its rows is NaN or infinite. Whoever promises to find those in
    /// each batch's turn holds nothing where it is false. Give it a piece at a time, as it comes: looking
    /// through tens of GB at once is longer than a server waits for a sign of life.
    bool finite(std::span<const std::byte> some) const;
  };
  /// Returns the runs of every attribute and partition; none is empty.
  std::vector<Run> runs();
  /// Loads all of them from a dataset that is at hand.
  void load(const Dataset& dataset);

  HeldShare share() const { return share_; }
  std::size_t bytes() const;

  /// Throws kCorrupt, saying what is wrong, where a packed block is not one for these rows. complete() trusts
  /// it.
  void check(const BatchView& packed) const;
  /// Returns the bytes of the whole batch's block.
  std::size_t completed_bytes(const BatchView& packed) const;
  /// Writes the whole block, header included, as it would have been made for nobody who holds rows. `out`
  /// begins at a multiple of 64 and has exactly completed_bytes().
  void complete(const BatchView& packed, std::span<std::byte> out) const;

  /// Counts says how many nodes of a block, packed or whole, have attributes, and how many of them are left
  /// out as held.
  struct Counts {
    std::int64_t rows = 0, held = 0;
  };
  Counts count(const BatchView& batch) const;

 private:
  struct Attr {
    int node_type = 0;
    AttrMeta meta;
    std::span<std::byte> rows;  // of all partitions, one behind the other
  };
  struct Type {
    std::vector<std::int64_t> partition_offsets;  // [P + 1]
    std::int64_t held = 0;                        // rows, over all partitions
    bool has_attrs = false;
  };
  const Attr* find(const ArrayView& array) const;
  /// Announces the arrays of the whole batch.
  void lay_out(const BatchView& packed, BlockWriter& whole) const;

  const HeldShare share_;
  // The rows of all attributes lie here. They are not cleared: where they are many, that takes longer than a
  // server waits for a sign of life.
  std::shared_ptr<std::byte[]> memory_;
  std::vector<Type> types_;
  std::vector<Attr> attrs_;
};

/// Names the rows that a share of a dataset is, in their order: two cuts of one graph have other ones. It
/// reads the manifest alone, whose checksums of new_ids.npy name the order: asked of a server each time a job
/// is opened, it must not read the ids of a whole dataset. Throws kInvalid for a manifest that does not list
/// these files.
std::uint64_t held_order(const DatasetMeta& meta, HeldShare share);

}  // namespace hopfeed
