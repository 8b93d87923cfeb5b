// See link_choice.h.
#include "partition_tool/link_choice.h"

#include <algorithm>
#include <numeric>

#include "core/base/parallel_ranges.h"
#include "core/draws/keyed_random.h"

namespace hopfeed {
namespace {

/// Calls body(worker, row, sources) for all rows, in ranges of rows by thread.
template <class Body>
void for_rows(const LinkEdges& edges, const Body& body) {
  std::visit(
      [&](const auto& indices) {
        parallel_ranges(edges.threads, edges.csc.num_rows(),
                        [&](int worker, std::int64_t begin, std::int64_t end) {
                          for (std::int64_t v = begin; v < end; ++v)
                            body(worker, v,
                                 std::span(indices).subspan(edges.csc.indptr[v],
                                                            edges.csc.indptr[v + 1] - edges.csc.indptr[v]));
                        });
      },
      edges.csc.indices);
}

/// Positions of a row's links sorted by their source, parallel edges behind each other.
template <class Sources>
void sort_links(const LinkEdges& edges, std::int64_t row, const Sources& sources,
                std::vector<std::int64_t>& order) {
  order.clear();
  for (std::int64_t k = 0; k < std::ssize(sources); ++k)
    if (edges.is_link(sources[k], row)) order.push_back(k);
  const auto before = [&](std::int64_t a, std::int64_t b) { return sources[a] < sources[b]; };
  if (!std::ranges::is_sorted(order, before)) std::ranges::sort(order, before);
}

/// A random word for each pair; the pairs with the smallest words, ties by number, are drawn first.
class PairWords {
 public:
  explicit PairWords(std::uint64_t seed)
      : stream_(node_stream({.purpose = Purpose::kPartition, .seed = seed})) {}
  std::uint64_t word(std::int64_t pair) {  // half a block each
    if (pair >> 1 != block_) {
      block_ = pair >> 1;
      stream_.node = static_cast<std::uint64_t>(block_);
      words_ = stream_.words(0);
    }
    return std::uint64_t{words_.word[pair % 2 * 2]} << 32 | words_.word[pair % 2 * 2 + 1];
  }

 private:
  NodeStream stream_;
  std::int64_t block_ = -1;
  RandomWords words_{};
};

using WordAndPair = std::pair<std::uint64_t, std::int64_t>;

/// What the pairs are below that are drawn first, for each of `counts` (of `all`, or fewer).
std::vector<WordAndPair> first_drawn(std::int64_t all, const std::vector<std::int64_t>& counts,
                                     std::uint64_t seed, int threads) {
  constexpr int kBits = 16;  // of the words: tell most pairs apart
  std::vector<std::vector<std::int64_t>> histograms(std::max(1, threads),
                                                    std::vector<std::int64_t>(1 << kBits));
  const auto pass = [&](const auto& take) {
    parallel_ranges(threads, all, [&](int worker, std::int64_t begin, std::int64_t end) {
      PairWords words(seed);
      for (std::int64_t pair = begin; pair < end; ++pair) take(worker, WordAndPair(words.word(pair), pair));
    });
  };
  pass([&](int worker, const WordAndPair& pair) { ++histograms[worker][pair.first >> (64 - kBits)]; });
  std::vector<std::int64_t> before((1 << kBits) + 1);  // pairs whose words begin with less
  for (std::size_t i = 0; i + 1 < before.size(); ++i) {
    before[i + 1] = before[i];
    for (const auto& histogram : histograms) before[i + 1] += histogram[i];
  }
  // The pair behind those drawn is among the pairs that begin like it.
  std::vector<std::uint64_t> begins;
  for (const std::int64_t count : counts)
    begins.push_back(std::ranges::upper_bound(before, count) - before.begin() - 1);
  std::vector<std::vector<WordAndPair>> found(histograms.size());
  pass([&](int worker, const WordAndPair& pair) {
    if (std::ranges::find(begins, pair.first >> (64 - kBits)) != begins.end()) found[worker].push_back(pair);
  });
  std::vector<WordAndPair> alike;
  for (const auto& part : found) alike.insert(alike.end(), part.begin(), part.end());
  std::ranges::sort(alike);
  std::vector<WordAndPair> ends;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto first = std::ranges::lower_bound(alike, WordAndPair(begins[i] << (64 - kBits), 0));
    ends.push_back(first[counts[i] - before[begins[i]]]);
  }
  return ends;
}

std::uint64_t mixed(std::uint64_t x) {  // the finaliser of splitmix64
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9U;
  x = (x ^ x >> 27) * 0x94D049BB133111EBU;
  return x ^ x >> 31;
}

}  // namespace

std::int64_t count_links(const LinkEdges& edges) {
  if (!edges.undirected) return edges.csc.num_edges();
  std::vector<std::int64_t> counts(std::max(1, edges.threads));
  for_rows(edges, [&](int worker, std::int64_t v, auto sources) {
    counts[worker] += std::ranges::count_if(sources, [&](auto source) { return edges.is_link(source, v); });
  });
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::vector<std::int64_t> count_pairs(const LinkEdges& edges) {
  std::vector<std::int64_t> before(edges.csc.num_rows() + 1);
  for_rows(edges, [&](int, std::int64_t v, auto sources) {
    thread_local std::vector<std::int64_t> order;
    sort_links(edges, v, sources, order);
    std::int64_t pairs = 0;
    for (std::size_t i = 0; i < order.size(); ++i)
      pairs += i == 0 || sources[order[i]] != sources[order[i - 1]];
    before[v + 1] = pairs;
  });
  std::partial_sum(before.begin(), before.end(), before.begin());
  return before;
}

std::vector<std::uint8_t> choose_randomly(const LinkEdges& edges,
                                          const std::vector<std::int64_t>& pairs_before,
                                          const LinkNumbers& numbers, std::uint64_t seed) {
  std::vector<std::uint8_t> parts(edges.csc.num_edges(), kMessagePart);
  const std::int64_t count = pairs_before.back();
  if (count == 0) return parts;
  const std::vector<WordAndPair> ends = first_drawn(
      count, {numbers.test, numbers.test + numbers.valid, numbers.test + numbers.valid + numbers.supervision},
      seed, edges.threads);
  std::vector<PairWords> words(std::max(1, edges.threads), PairWords(seed));
  for_rows(edges, [&](int worker, std::int64_t v, auto sources) {
    thread_local std::vector<std::int64_t> order;
    sort_links(edges, v, sources, order);
    std::int64_t pair = pairs_before[v] - 1;
    LinkPart part = kMessagePart;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i == 0 || sources[order[i]] != sources[order[i - 1]]) {
        ++pair;
        const WordAndPair drawn(words[worker].word(pair), pair);
        part = drawn < ends[0]   ? kTestPart
               : drawn < ends[1] ? kValidPart
               : drawn < ends[2] ? kSupervisionPart
                                 : kMessagePart;
      }
      parts[edges.csc.indptr[v] + order[i]] = part;
    }
  });
  return parts;
}

std::optional<std::int64_t> latest_links_from(const LinkEdges& edges, const ReadTimes& read,
                                              std::int64_t count) {
  constexpr int kDigitBits = 16, kDigits = 64 / kDigitBits;
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  using Histogram = std::vector<std::int64_t>;
  // The time is found digit by digit from the top: `prefix` are its digits so far, `later` the links whose
  // digits are above them.
  std::uint64_t prefix = 0;
  std::int64_t later = 0;
  for (int digit = kDigits - 1; digit >= 0; --digit) {
    const int shift = digit * kDigitBits;
    std::vector<Histogram> counts(std::max(1, edges.threads), Histogram(1 << kDigitBits));
    for_rows(edges, [&](int worker, std::int64_t v, auto sources) {
      thread_local std::vector<std::int64_t> times;
      read(v, times);
      for (std::int64_t k = 0; k < std::ssize(sources); ++k) {
        const std::uint64_t time =
            static_cast<std::uint64_t>(times[k]) ^ kSign;  // in the order of unsigned numbers
        if (!edges.is_link(sources[k], v) || (digit < kDigits - 1 && time >> (shift + kDigitBits) != prefix))
          continue;
        ++counts[worker][time >> shift & ((1 << kDigitBits) - 1)];
      }
    });
    std::int64_t value = (1 << kDigitBits) - 1;
    for (; value > 0; --value) {
      std::int64_t here = 0;
      for (const Histogram& histogram : counts) here += histogram[value];
      if (later + here > count) break;  // the earliest time lies among these
      later += here;
    }
    prefix = prefix << kDigitBits | static_cast<std::uint64_t>(value);
  }
  if (later == 0) return std::nullopt;
  return static_cast<std::int64_t>(prefix ^ kSign) + 1;  // links of the time `prefix` would be too many
}

std::vector<std::uint8_t> choose_by_time(const LinkEdges& edges, const ReadTimes& read,
                                         const LinkTimes& from) {
  std::vector<std::uint8_t> parts(edges.csc.num_edges(), kMessagePart);
  for_rows(edges, [&](int, std::int64_t v, auto sources) {
    thread_local std::vector<std::int64_t> times;
    read(v, times);
    for (std::int64_t k = 0; k < std::ssize(sources); ++k) {
      const LinkPart part = from.part_of(times[k]);
      parts[edges.csc.indptr[v] + k] =
          part == kMessagePart || edges.is_link(sources[k], v) ? part : kMirrorPart;
    }
  });
  return parts;
}

HeldPairs::HeldPairs(const LinkEdges& edges, const std::vector<std::uint8_t>& parts, std::int64_t num_sources)
    : begin_(num_sources + 1) {
  const Csc& csc = edges.csc;
  const auto pass =
      [&](const auto& take) {  // take(source, destination), each source by one thread, destinations rising
        std::visit(
            [&](const auto& indices) {
              parallel_ranges(edges.threads, num_sources, [&](int, std::int64_t begin, std::int64_t end) {
                const auto width = static_cast<std::uint64_t>(end - begin);
                for (std::int64_t v = 0; v < csc.num_rows(); ++v) {
                  for (std::int64_t e = csc.indptr[v]; e < csc.indptr[v + 1]; ++e) {
                    if (parts[e] == kMessagePart || parts[e] == kMirrorPart) continue;
                    if (static_cast<std::uint64_t>(indices[e] - begin) < width) take(indices[e], v);
                  }
                }
              });
            },
            csc.indices);
      };
  pass([&](std::int64_t source, std::int64_t) { ++begin_[source + 1]; });
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  destinations_ = make_id_array(begin_.back(), csc.num_rows());
  std::vector<std::int64_t> next(begin_.begin(), begin_.end() - 1);
  std::visit(
      [&](auto& destinations) {
        pass([&](std::int64_t source, std::int64_t destination) {
          destinations[next[source]++] = static_cast<std::decay_t<decltype(destinations[0])>>(destination);
        });
      },
      destinations_);
}

bool HeldPairs::contains(std::int64_t source, std::int64_t destination) const {
  return std::visit(
      [&](const auto& all) {
        return std::binary_search(all.begin() + begin_[source], all.begin() + begin_[source + 1],
                                  destination);
      },
      destinations_);
}

void mark_mirrors(const LinkEdges& edges, const HeldPairs& held, std::vector<std::uint8_t>& parts) {
  if (!edges.undirected) return;
  for_rows(edges, [&](int, std::int64_t v, auto sources) {
    for (std::int64_t k = 0; k < std::ssize(sources); ++k)
      if (!edges.is_link(sources[k], v) && held.contains(v, sources[k]))
        parts[edges.csc.indptr[v] + k] = kMirrorPart;
  });
}

bool only_loops(const LinkEdges& edges) {
  return std::visit(
      [&](const auto& sources) {
        for (std::int64_t v = 0; v < edges.csc.num_rows(); ++v)
          for (std::int64_t e = edges.csc.indptr[v]; e < edges.csc.indptr[v + 1]; ++e)
            if (sources[e] != v) return false;
        return true;
      },
      edges.csc.indices);
}

std::uint64_t edge_set_sum(const LinkEdges& edges, bool swapped, const ReadTimes& read) {
  std::vector<std::uint64_t> sums(std::max(1, edges.threads));
  for_rows(edges, [&](int worker, std::int64_t v, auto sources) {
    thread_local std::vector<std::int64_t> times, order;
    const auto add = [&](std::int64_t source, std::uint64_t time) {
      const auto from = static_cast<std::uint64_t>(swapped ? v : source),
                 to = static_cast<std::uint64_t>(swapped ? source : v);
      sums[worker] += mixed(mixed(mixed(from + 0x9E3779B97F4A7C15U) + to) + time);
    };
    if (read) {
      read(v, times);
      for (std::int64_t k = 0; k < std::ssize(sources); ++k)
        add(sources[k], static_cast<std::uint64_t>(times[k]));
      return;
    }
    sort_links({.csc = edges.csc}, v, sources, order);
    for (std::size_t i = 0; i < order.size(); ++i)
      if (i == 0 || sources[order[i]] != sources[order[i - 1]]) add(sources[order[i]], 0);
  });
  return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
}

}  // namespace hopfeed
