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
constexpr std::uint32_t kHop = 2, kRetryHop = (1U << 18) + kHop;
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

}  // namespace

IdArray draw_negative_links(const Csc& csc, const std::vector<std::pair<std::int64_t, std::int64_t>>& known,
                            std::int64_t count, const NegativeLinkOptions& options) {
  const StreamOptions named{.purpose = Purpose::kNegatives,
                            .seed = options.seed,
                            .epoch = options.split,
                            .hop = kHop,
                            .edge_type = options.edge_type};
  StreamOptions retries = named;
  retries.purpose = Purpose::kRetries;
  retries.hop = kRetryHop;
  const NodeStream keys{.key = stream_key(named), .retry_key = stream_key(retries), .node = 0, .tree = 0};
  const auto num_sources = static_cast<std::uint64_t>(options.num_sources),
             num_destinations = static_cast<std::uint64_t>(csc.num_rows());
  IdArray pairs = make_id_array(2 * count, std::max<std::int64_t>(options.num_sources, csc.num_rows()));
  struct Draw {
    std::int64_t source, destination;
  };
  const auto draw = [&](std::int64_t number, std::uint32_t i) -> Draw {
    NodeStream stream = keys;
    stream.node = static_cast<std::uint64_t>(number);
    return {.source = static_cast<std::int64_t>(draw_below_wide(stream, 2 * i, num_sources)),
            .destination = static_cast<std::int64_t>(draw_below_wide(stream, 2 * i + 1, num_destinations))};
  };
  const auto is_negative = [&](const Draw& pair) {
    return !(options.square && pair.source == pair.destination) &&
           !has_edge(csc, pair.source, pair.destination) &&
           !std::ranges::binary_search(known, std::pair(pair.source, pair.destination));
  };
  std::once_flag counted;  // which takes a pass over all edges, and few graphs need
  std::optional<FreePairs> free;
  const auto draw_free = [&](std::int64_t number) -> Draw {
    std::call_once(counted, [&] {
      free.emplace(
          csc, known,
          FreePairs::Options{
              .num_sources = options.num_sources, .square = options.square, .threads = options.threads});
    });
    if (free->count() == 0)
      throw Error(
          ErrorCode::kInvalid,
          fmt::format("{}: there is no negative: every pair of nodes is an edge or a link of a split; use "
                      "--neg-sampling-ratio 0",
                      options.origin));
    NodeStream stream = keys;
    stream.node = static_cast<std::uint64_t>(number);
    const auto [source, destination] = free->pair(static_cast<std::int64_t>(
        draw_below_wide(stream, 2 * kMaxDraws, static_cast<std::uint64_t>(free->count()))));
    return {.source = source, .destination = destination};
  };
  const auto settle = [&](std::int64_t number, Draw pair) {
    for (std::uint32_t i = 1; i < kMaxDraws; ++i) {
      if (is_negative(pair)) return pair;
      pair = draw(number, i);
    }
    return is_negative(pair) ? pair : draw_free(number);
  };
  std::visit(
      [&](auto& out, const auto& sources) {
        parallel_ranges(options.threads, count, [&](int, std::int64_t begin, std::int64_t end) {
          Draw drawn[kTogether];
          for (std::int64_t first = begin; first < end; first += kTogether) {
            const std::int64_t number = std::min<std::int64_t>(kTogether, end - first);
            for (std::int64_t i = 0; i < number; ++i) {
              drawn[i] = draw(first + i, 0);
              __builtin_prefetch(csc.indptr.data() + drawn[i].destination);
            }
            for (std::int64_t i = 0; i < number; ++i)
              __builtin_prefetch(sources.data() + csc.indptr[drawn[i].destination]);
            for (std::int64_t i = 0; i < number; ++i) {
              const auto [source, destination] = settle(first + i, drawn[i]);
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
