// See link_negatives.h. Where a hundred draws in a row are edges, one of the pairs that are none is drawn by
// its number (free_pairs.h), so that none is found only where there is none. A draw is looked up in the row
// of its destination from front to back: with destinations drawn evenly that is the mean in-degree, whatever
// hubs there are.
#include "partition_tool/link_negatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "core/base/error.h"
#include "core/base/parallel_ranges.h"
#include "core/draws/keyed_random.h"
#include "partition_tool/free_pairs.h"

namespace hopfeed {
namespace {

constexpr std::uint32_t kMaxDraws = 100;
// Hops of streams are ours apart from a loader's negatives, whose hops are the ends 0 and 1
// (core/draws/negative_rule.h): the same seed, edge type and epoch would give its negatives the numbers of a
// split's.
constexpr std::uint32_t kHop = 2;
constexpr std::int64_t kTogether = 64;  // draws whose rows are fetched at the same time

bool has_edge(const Csc& csc, std::int64_t source, std::int64_t destination) {
  return std::visit(
      [&](const auto& sources) {
        const auto end = sources.begin() + csc.indptr[destination + 1];
        using Id = std::decay_t<decltype(sources[0])>;
        return std::find(sources.begin() + csc.indptr[destination], end, static_cast<Id>(source)) != end;
      },
      csc.indices);
}

/// The negatives of a split, each by its number. Any thread may draw any of them.
class SplitNegatives {
 public:
  using Known = std::vector<std::pair<std::int64_t, std::int64_t>>;
  struct Ends {
    std::int64_t source, destination;
  };
  SplitNegatives(const Csc& csc, const Known& known, const NegativeLinkOptions& options)
      : csc_(csc),
        known_(known),
        options_(options),
        draws_(node_stream({.purpose = Purpose::kNegatives,
                            .seed = options.seed,
                            .epoch = options.split,
                            .hop = kHop,
                            .edge_type = options.edge_type})) {}

  /// The `i`-th draw of a number; it may be an edge.
  Ends draw(std::int64_t number, std::uint32_t i) const {
    const NodeStream stream = draws_.of(static_cast<std::uint64_t>(number));
    const auto num_sources = static_cast<std::uint64_t>(options_.num_sources),
               num_destinations = static_cast<std::uint64_t>(csc_.num_rows());
    return {.source = static_cast<std::int64_t>(draw_below_wide(stream, 2 * i, num_sources)),
            .destination = static_cast<std::int64_t>(draw_below_wide(stream, 2 * i + 1, num_destinations))};
  }
  /// The first draw of a number that is a negative; `pair` is its draw 0.
  Ends settle(std::int64_t number, Ends pair) {
    for (std::uint32_t i = 1; i < kMaxDraws; ++i) {
      if (is_negative(pair)) return pair;
      pair = draw(number, i);
    }
    return is_negative(pair) ? pair : draw_free(number);
  }

 private:
  bool is_negative(const Ends& pair) const {
    return !(options_.square && pair.source == pair.destination) &&
           !has_edge(csc_, pair.source, pair.destination) &&
           !std::ranges::binary_search(known_, std::pair(pair.source, pair.destination));
  }
  Ends draw_free(std::int64_t number) {
    std::call_once(counted_, [&] {
      free_.emplace(
          csc_, known_,
          FreePairs::Options{
              .num_sources = options_.num_sources, .square = options_.square, .threads = options_.threads});
    });
    if (free_->count() == 0)
      throw Error(
          ErrorCode::kInvalid,
          fmt::format("{}: there is no negative: every pair of nodes is an edge or a link of a split; use "
                      "--neg-sampling-ratio 0",
                      options_.origin));
    const NodeStream stream = draws_.of(static_cast<std::uint64_t>(number));
    const auto [source, destination] = free_->pair(static_cast<std::int64_t>(
        draw_below_wide(stream, 2 * kMaxDraws, static_cast<std::uint64_t>(free_->count()))));
    return {.source = source, .destination = destination};
  }

  const Csc& csc_;
  const Known& known_;
  const NegativeLinkOptions& options_;
  const NodeStream draws_;
  std::once_flag counted_;  // which takes a pass over all edges, and few graphs need
  std::optional<FreePairs> free_;
};

}  // namespace

IdArray draw_negative_links(const Csc& csc, const std::vector<std::pair<std::int64_t, std::int64_t>>& known,
                            std::int64_t count, const NegativeLinkOptions& options) {
  SplitNegatives negatives(csc, known, options);
  IdArray pairs = make_id_array(2 * count, std::max<std::int64_t>(options.num_sources, csc.num_rows()));
  std::visit(
      [&](auto& out, const auto& sources) {
        parallel_ranges(options.threads, count, [&](int, std::int64_t begin, std::int64_t end) {
          SplitNegatives::Ends drawn[kTogether];
          for (std::int64_t first = begin; first < end; first += kTogether) {
            const std::int64_t number = std::min<std::int64_t>(kTogether, end - first);
            for (std::int64_t i = 0; i < number; ++i) {
              drawn[i] = negatives.draw(first + i, 0);
              __builtin_prefetch(csc.indptr.data() + drawn[i].destination);
            }
            for (std::int64_t i = 0; i < number; ++i)
              __builtin_prefetch(sources.data() + csc.indptr[drawn[i].destination]);
            for (std::int64_t i = 0; i < number; ++i) {
              const auto [source, destination] = negatives.settle(first + i, drawn[i]);
              out[2 * (first + i)] = static_cast<std::decay_t<decltype(out[0])>>(source);
              out[2 * (first + i) + 1] = static_cast<std::decay_t<decltype(out[0])>>(destination);
            }
          }
        });
      },
      pairs, csc.indices);
  return pairs;
}

}  // namespace hopfeed
