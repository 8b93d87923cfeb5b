// See co_occurrence.h.
#include "partition_tool/co_occurrence.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>

#include "core/base/error.h"
#include "core/base/memory_limits.h"
#include "core/base/parallel_ranges.h"
#include "partition_tool/edges_to_csc.h"
#include "partition_tool/read_dataset.h"

namespace hopfeed {
namespace {

constexpr const char* kUsers = "users";
constexpr const char* kStep = "Counting common users";

/// Users and items whose pairs are counted: items by rank, each once in a user's row.
template <class Id>
struct Ranked {
  std::vector<std::int64_t> users_begin;  // [users + 1]
  std::vector<Id> items;                  // ranks, rising in each user's row
  std::vector<std::int64_t> items_begin;  // [ranks + 1]
  std::vector<Id> users;                  // of each rank
  std::vector<Id> item_of;                // rank -> item
};

/// Rows of the other side, each rising: `ids` has a row for each of `begin`.
template <class Id>
void turn_around(const std::vector<std::int64_t>& begin, const std::vector<Id>& ids, std::int64_t num_out,
                 int threads, std::vector<std::int64_t>& out_begin, std::vector<Id>& out) {
  const auto pass = [&](const auto& take) {  // take(id, row), each id by one thread, rows rising
    parallel_ranges(threads, num_out, [&](int, std::int64_t first, std::int64_t last) {
      const auto width = static_cast<std::uint64_t>(last - first);
      for (std::int64_t row = 0; row + 1 < std::ssize(begin); ++row) {
        for (std::int64_t e = begin[row]; e < begin[row + 1]; ++e)
          if (static_cast<std::uint64_t>(ids[e] - first) < width) take(ids[e], row);
      }
    });
  };
  out_begin.assign(num_out + 1, 0);
  pass([&](Id id, std::int64_t) { ++out_begin[id + 1]; });
  std::partial_sum(out_begin.begin(), out_begin.end(), out_begin.begin());
  out.resize(ids.size());
  std::vector<std::int64_t> next(out_begin.begin(), out_begin.end() - 1);
  pass([&](Id id, std::int64_t row) { out[next[id]++] = static_cast<Id>(row); });
}

/// Drops what cannot count (repeats, users of too many items, items of too few users) and ranks the items by
/// falling number of users.
template <class Id>
Ranked<Id> rank_items(const Csc& csc, const std::vector<Id>& sources, std::int64_t num_users,
                      const CoOccurrenceOptions& options, CoOccurrence& result) {
  const std::int64_t num_items = csc.num_rows();
  // The users of each item, each once.
  std::vector<Id> users(sources);
  std::vector<std::int64_t> degree(num_items);
  parallel_ranges(options.threads, num_items, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const auto first = users.begin() + csc.indptr[item], last = users.begin() + csc.indptr[item + 1];
      if (!std::is_sorted(first, last)) std::sort(first, last);
      degree[item] = std::unique(first, last) - first;
    }
  });
  std::vector<std::int64_t> items_of_user(num_users);
  for (std::int64_t item = 0; item < num_items; ++item)
    for (std::int64_t e = csc.indptr[item]; e < csc.indptr[item] + degree[item]; ++e)
      ++items_of_user[users[e]];
  for (const std::int64_t items : items_of_user) {
    result.users += items > 0;
    result.users_left_out += items > options.max_user_degree;
    result.edges_left_out += items > options.max_user_degree ? items : 0;
  }
  parallel_ranges(options.threads, num_items, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const auto first = users.begin() + csc.indptr[item];
      degree[item] = std::remove_if(first, first + degree[item],
                                    [&](Id user) { return items_of_user[user] > options.max_user_degree; }) -
                     first;
    }
  });
  Ranked<Id> ranked;
  for (std::int64_t item = 0; item < num_items; ++item)
    if (degree[item] >= options.min_users) ranked.item_of.push_back(static_cast<Id>(item));
  std::ranges::sort(ranked.item_of,
                    [&](Id a, Id b) { return degree[a] != degree[b] ? degree[a] > degree[b] : a < b; });
  ranked.items_begin.push_back(0);
  for (const Id item : ranked.item_of) ranked.items_begin.push_back(ranked.items_begin.back() + degree[item]);
  ranked.users.resize(ranked.items_begin.back());
  parallel_ranges(
      options.threads, std::ssize(ranked.item_of), [&](int, std::int64_t begin, std::int64_t end) {
        for (std::int64_t rank = begin; rank < end; ++rank)
          std::copy_n(users.begin() + csc.indptr[ranked.item_of[rank]], degree[ranked.item_of[rank]],
                      ranked.users.begin() + ranked.items_begin[rank]);
      });
  users = {};
  turn_around(ranked.items_begin, ranked.users, num_users, options.threads, ranked.users_begin, ranked.items);
  return ranked;
}

/// The pairs of consecutive ranks with lower ones.
template <class Id>
struct Pairs {
  std::vector<std::int64_t> begin{0};  // of each rank
  std::vector<Id> others;              // ranks, in no order
  std::vector<std::uint32_t> users;
};

/// Pairs of ranks [first, last). `counts` are zeros, as many as ranks, before and after.
template <class Id>
Pairs<Id> count_pairs(const Ranked<Id>& ranked, std::int64_t first, std::int64_t last, std::int64_t min_users,
                      std::vector<std::uint32_t>& counts, std::vector<Id>& touched) {
  Pairs<Id> pairs;
  for (std::int64_t rank = first; rank < last; ++rank) {
    std::int64_t looks = 0;  // bounds what is touched
    for (std::int64_t u = ranked.items_begin[rank]; u < ranked.items_begin[rank + 1]; ++u)
      looks += ranked.users_begin[ranked.users[u] + 1] - ranked.users_begin[ranked.users[u]];
    touched.resize(std::max<std::size_t>(touched.size(), std::min(looks, rank) + 1));
    std::int64_t num_touched = 0;
    for (std::int64_t u = ranked.items_begin[rank]; u < ranked.items_begin[rank + 1]; ++u) {
      const Id* item = ranked.items.data() + ranked.users_begin[ranked.users[u]];
      for (; *item < rank; ++item) {  // the row has this rank itself
        touched[num_touched] = *item;
        num_touched += counts[*item]++ == 0;
      }
    }
    for (std::int64_t i = 0; i < num_touched; ++i) {
      const std::uint32_t users = std::exchange(counts[touched[i]], 0);
      if (users < min_users) continue;
      pairs.others.push_back(touched[i]);
      pairs.users.push_back(users);
    }
    pairs.begin.push_back(std::ssize(pairs.others));
  }
  pairs.others.shrink_to_fit();  // there are very many of these
  pairs.users.shrink_to_fit();
  return pairs;
}

/// The edge type's rows and the users that each edge stands for.
struct Rows {
  Csc csc;
  std::shared_ptr<const std::vector<std::uint32_t>> users;  // [E]
};

/// Both ways by item, each row rising.
template <class Id>
Rows rows_of(const Ranked<Id>& ranked, std::vector<Pairs<Id>> chunks, std::int64_t chunk_ranks,
             std::int64_t num_items, int threads) {
  Rows rows{.csc = {.indptr = std::vector<std::int64_t>(num_items + 1)}, .users = {}};
  std::vector<std::int64_t>& indptr = rows.csc.indptr;
  const auto for_pairs = [&](bool last, const auto& take) {
    for (std::int64_t c = 0; c < std::ssize(chunks); ++c) {
      for (std::int64_t r = 0; r + 1 < std::ssize(chunks[c].begin); ++r) {
        const std::int64_t item = ranked.item_of[c * chunk_ranks + r];
        for (std::int64_t i = chunks[c].begin[r]; i < chunks[c].begin[r + 1]; ++i)
          take(item, std::int64_t{ranked.item_of[chunks[c].others[i]]}, chunks[c].users[i]);
      }
      if (last) chunks[c] = {};
    }
  };
  for_pairs(false, [&](std::int64_t a, std::int64_t b, std::uint32_t) {
    ++indptr[a + 1];
    ++indptr[b + 1];
  });
  std::partial_sum(indptr.begin(), indptr.end(), indptr.begin());
  std::vector<Id> others(indptr.back());
  std::vector<std::uint32_t> users(indptr.back());
  std::vector<std::int64_t> next(indptr.begin(), indptr.end() - 1);
  for_pairs(true, [&](std::int64_t a, std::int64_t b, std::uint32_t count) {
    others[next[a]] = static_cast<Id>(b);
    users[next[a]++] = count;
    others[next[b]] = static_cast<Id>(a);
    users[next[b]++] = count;
  });
  parallel_ranges(threads, num_items, [&](int, std::int64_t begin, std::int64_t end) {
    std::vector<std::pair<Id, std::uint32_t>> row;
    for (std::int64_t v = begin; v < end; ++v) {
      row.clear();
      for (std::int64_t e = indptr[v]; e < indptr[v + 1]; ++e) row.emplace_back(others[e], users[e]);
      std::ranges::sort(row);
      for (std::int64_t e = indptr[v]; e < indptr[v + 1]; ++e)
        std::tie(others[e], users[e]) = row[e - indptr[v]];
    }
  });
  rows.csc.indices = std::move(others);
  rows.csc.edge_id_kind = EdgeIds::kPositions;
  rows.users = std::make_shared<const std::vector<std::uint32_t>>(std::move(users));
  return rows;
}

template <class Id>
Rows count(const Csc& csc, const std::vector<Id>& sources, std::int64_t num_users,
           const CoOccurrenceOptions& options, CoOccurrence& result, const Progress& progress) {
  constexpr std::int64_t kChunkRanks = 1 << 10;
  const Ranked<Id> ranked = rank_items(csc, sources, num_users, options, result);
  const std::int64_t num_ranks = std::ssize(ranked.item_of),
                     num_chunks = (num_ranks + kChunkRanks - 1) / kChunkRanks;
  std::vector<Pairs<Id>> chunks(num_chunks);
  std::atomic<std::int64_t> next = 0, kept = 0;
  const std::uint64_t available = available_memory().bytes;
  parallel_ranges(options.threads, options.threads, [&](int worker, std::int64_t, std::int64_t) {
    std::vector<std::uint32_t> counts(num_ranks);
    std::vector<Id> touched;
    try {
      for (std::int64_t c; (c = next++) < num_chunks;) {
        if (worker == 0)
          progress({kStep, "items", static_cast<std::uint64_t>(c * kChunkRanks),
                    static_cast<std::uint64_t>(num_ranks)});
        chunks[c] = count_pairs(ranked, c * kChunkRanks, std::min(num_ranks, (c + 1) * kChunkRanks),
                                options.min_users, counts, touched);
        // Here once, in the rows twice, each with a number of users.
        const std::uint64_t bytes =
            static_cast<std::uint64_t>(kept += std::ssize(chunks[c].others)) * 3 * (sizeof(Id) + 4);
        if (bytes > available / 10 * 9)
          throw Error(
              ErrorCode::kNoSpace,
              fmt::format("more than {} pairs of items share {} users, which do not fit into memory; raise "
                          "--min-users or lower --max-user-degree",
                          kept.load(), options.min_users));
      }
    } catch (...) {
      next = num_chunks;  // the others need not go on
      throw;
    }
  });
  progress({kStep, "items", static_cast<std::uint64_t>(num_ranks), static_cast<std::uint64_t>(num_ranks)});
  result.pairs = kept;
  return rows_of(ranked, std::move(chunks), kChunkRanks, csc.num_rows(), options.threads);
}

int counted_type(const DatasetMeta& meta, const CoOccurrenceOptions& options) {
  const int type = meta.edge_type(options.edge_type);
  const EdgeTypeMeta& edge = meta.edge_types[type];
  if (!edge.splits.contains("train") && !options.all_edges)
    throw Error(
        ErrorCode::kInvalid,
        fmt::format("edge type {} has no edge split 'train', so that links held out later would count; run "
                    "hopfeed-partition split-links first, or give --all-edges",
                    edge.folder()));
  check_name(options.rel, "relation");
  const std::string made = edge.dst + "__" + options.rel + "__" + edge.dst;
  if (std::ranges::find(meta.edge_types, made, &EdgeTypeMeta::folder) != meta.edge_types.end())
    throw Error(ErrorCode::kInvalid,
                fmt::format("there is an edge type {} already; give another --rel", made));
  return type;
}

}  // namespace

CoOccurrence co_occurrence(const Dataset& dataset, const CoOccurrenceOptions& options,
                           const Progress& progress) {
  const int type = counted_type(dataset.meta(), options);
  CoOccurrence result{.graph = read_dataset(dataset, options.threads, progress)};
  RawGraph& graph = result.graph;
  const RawEdges& edges = graph.edges[type];
  progress({kStep, "items", 0, static_cast<std::uint64_t>(edges.csc.num_rows())});
  Rows rows = std::visit(
      [&](const auto& sources) {
        return count(edges.csc, sources, graph.nodes[edges.src_type].count, options, result, progress);
      },
      edges.csc.indices);
  RawEdges made{.src_type = edges.dst_type,
                .dst_type = edges.dst_type,
                .rel = options.rel,
                .csc = std::move(rows.csc),
                .attrs = {},
                .weights = options.weighted ? std::vector<std::string>{kUsers} : std::vector<std::string>{},
                .times = {}};
  made.attrs.push_back(
      {.name = kUsers,
       .type = ElementType::kInt64,
       .shape = {},
       .read_rows = [users = rows.users](std::int64_t, std::span<const std::int64_t> edge_ids,
                                         std::span<std::byte> out) {
         for (std::size_t i = 0; i < edge_ids.size(); ++i) {
           const std::int64_t number = (*users)[edge_ids[i]];
           std::memcpy(out.data() + i * sizeof number, &number, sizeof number);
         }
       }});
  graph.edges.push_back(std::move(made));
  return result;
}

}  // namespace hopfeed
