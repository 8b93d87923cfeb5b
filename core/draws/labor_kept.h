// LaborKept keeps what rows have taken in a hop of layer-dependent sampling, for batches that share its
// variates: under the same variates a row takes the same edges, and the frontiers of such batches have most
// rows in common, which is why they are made alike (dependent minibatches: Balin, LaSalle & Catalyurek,
// "Cooperative Minibatching in Graph Neural Networks", 2023). A row whose list is kept is not read again.
//
// A list stays where it was put until the variates change, so that the stages behind the draw
// (row_pipeline.h) read it there. When there is no room for one more, rows are read as if nothing were kept.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/base/element_type.h"
#include "core/base/prefetch.h"
#include "core/base/scratch.h"
#include "core/dataset/graph_view.h"
#include "core/draws/relabel_table.h"

namespace hopfeed {

class LaborKept {
 public:
  /// Returns whether each destination of an edge type can have a place in a table.
  static bool has_places(const CscView& csc) { return csc.num_dst_nodes <= kMaxDirectNodes; }
  /// Returns how many sources a batch must look at under the same variates: emptying the table for them costs
  /// less than that.
  static std::uint64_t looks_that_pay(const CscView& csc) {
    return static_cast<std::uint64_t>(csc.num_dst_nodes) / kNodesForALook;
  }

  /// Taken is the edges that a row has taken: addresses of their sources, as `indices` has them, and of their
  /// positions in the row.
  struct Taken {
    std::uint64_t count, sources_at, positions_at;
  };

  /// From now on the rows are of `csc`, the same at every call, and draw by the variates under this key.
  void begin(const CscView& csc, std::uint64_t key) {
    if (key == key_ && words_.data()) return;
    index_bytes_ = element_bytes(csc.index_type);
    most_words_ = most_words(csc);
    num_words_ = 0;
    places_.reserve(static_cast<std::size_t>(csc.num_dst_nodes));
    words_.reserve(most_words_);
    std::fill_n(places_.data(), csc.num_dst_nodes, 0u);
    key_ = key;  // last: where memory was short, the next call begins anew
  }

  void prefetch(std::int64_t node) const { prefetch_line(places_.data() + node); }

  /// Returns the address of a node's list, or 0; it is prefetched.
  std::uint64_t find(std::int64_t node) const {
    const std::uint32_t place = places_[static_cast<std::size_t>(node)];
    if (place == 0) return 0;
    const std::uint64_t* list = words_.data() + (place - 1);
    prefetch_line(list);
    return reinterpret_cast<std::uint64_t>(list);
  }
  Taken read(std::uint64_t list) const {
    const std::uint64_t count = *reinterpret_cast<const std::uint64_t*>(list), sources_at = list + kWord;
    return {.count = count, .sources_at = sources_at, .positions_at = sources_at + count * index_bytes_};
  }

  /// Keeps what a node that has no list yet has taken.
  void keep(std::int64_t node, const Taken& taken) {
    const std::size_t sources = taken.count * index_bytes_, positions = taken.count * sizeof(std::uint32_t),
                      words = 1 + (sources + positions + kWord - 1) / kWord;
    if (words > most_words_ - num_words_) return;
    std::uint64_t* list = words_.data() + num_words_;
    *list = taken.count;
    auto* out = reinterpret_cast<std::byte*>(list + 1);
    std::memcpy(out, reinterpret_cast<const void*>(taken.sources_at), sources);
    std::memcpy(out + sources, reinterpret_cast<const void*>(taken.positions_at), positions);
    places_[static_cast<std::size_t>(node)] = static_cast<std::uint32_t>(num_words_ + 1);
    num_words_ += words;
  }

  std::size_t scratch_bytes() const { return places_.bytes() + words_.bytes(); }
  static std::size_t max_scratch_bytes(const CscView& csc) {
    if (!has_places(csc)) return 0;
    return hopfeed::max_scratch_bytes(static_cast<std::size_t>(csc.num_dst_nodes) * sizeof(std::uint32_t)) +
           hopfeed::max_scratch_bytes(most_words(csc) * kWord);
  }

 private:
  static constexpr std::size_t kWord = sizeof(std::uint64_t);
  static constexpr std::size_t kMostWords = std::size_t{1} << 23;  // 64 MiB, touched as lists come
  static constexpr std::uint64_t kNodesForALook = 8;               // emptying so many places takes longer

  // All rows together do not need more words.
  static std::size_t most_words(const CscView& csc) {
    const auto rows = static_cast<std::size_t>(csc.num_dst_nodes),
               edges = static_cast<std::size_t>(csc.num_edges);
    return std::min(kMostWords, 2 * (rows + edges));
  }

  ScratchArray<std::uint32_t>
      places_;  // by node: where its list begins in words_, counted from 1; 0: it has none
  ScratchArray<std::uint64_t> words_;  // lists: how many, sources, positions
  std::size_t num_words_ = 0, most_words_ = 0;
  std::size_t index_bytes_ = 0;
  std::uint64_t key_ = 0;
};

}  // namespace hopfeed
