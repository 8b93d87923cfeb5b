// See negative_draws.h.
#include "core/seeds/negative_draws.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/draws/negative_rule.h"
#include "core/sampler/peer_ids.h"
#include "core/seeds/edge_lookup.h"

namespace hopfeed {
namespace {

using Whole = unsigned __int128;

/// An entry of a list, and how far into it.
struct Place {
  std::int64_t index;
  Whole rest;
};

/// Where `at` falls among entries that weigh `weight(i)`; `count` where it lies behind them all.
template <class Weight>
Place place_of(Whole at, std::int64_t count, const Weight& weight) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Whole here = weight(i);
    if (at < here) return {i, at};
    at -= here;
  }
  return {count, at};
}

}  // namespace

NegativeDraws::NegativeDraws(const Dataset& dataset, int edge_type, const BatchOptions& options,
                             KnownLinks links)
    : dataset_(dataset),
      edge_type_(edge_type),
      src_type_(dataset.csc(edge_type).src_type),
      dst_type_(dataset.csc(edge_type).dst_type),
      options_(options.link.negatives),
      dst_by_time_(nodes_by_time(dataset, dst_type_, options.time)),
      src_by_time_(!binary()                ? nullptr
                   : src_type_ == dst_type_ ? dst_by_time_
                                            : nodes_by_time(dataset, src_type_, options.time)),
      src_(dataset, {.node_type = src_type_,
                     .weight = options_.src_weight,
                     .weighed = options_.strict,
                     .by_time = src_by_time_}),
      dst_(dataset, {.node_type = dst_type_,
                     .weight = options_.dst_weight,
                     .weighed = options_.strict,
                     .by_time = dst_by_time_}) {
  if (!options_.strict) return;
  edges_.emplace(dataset, edge_type);
  links_ = std::move(links);
}

std::size_t NegativeDraws::bytes() const {
  std::size_t bytes = src_.bytes() + dst_.bytes() + links_.bytes() + marks_.capacity() / 8;
  if (dst_by_time_) bytes += dst_by_time_->bytes();
  if (src_by_time_ && src_by_time_ != dst_by_time_) bytes += src_by_time_->bytes();
  return bytes;
}

void NegativeDraws::draw(const Links& links, Negatives& out) {
  const std::int64_t positives = links.key.count, count = options_.count(positives);
  out.sources.resize(binary() ? static_cast<std::size_t>(count) : 0);
  out.destinations.resize(static_cast<std::size_t>(count));
  out.retries = 0;
  if (options_.strict && !dataset_.whole()) return draw_together(links, out);
  for (std::int64_t j = 0; j < count; ++j) {
    const Draw draw = draw_of(links, j);
    const Pair pair =
        draw_one(draw, {.source = links.sources[static_cast<std::size_t>(j % positives)]}, out.retries);
    if (binary()) out.sources[static_cast<std::size_t>(j)] = pair.source;
    out.destinations[static_cast<std::size_t>(j)] = pair.destination;
  }
}

// Negative `number` of the batch.
NegativeDraws::Draw NegativeDraws::draw_of(const Links& links, std::int64_t number) const {
  const std::int64_t i = number % links.key.count;
  const auto position = static_cast<std::uint64_t>(links.key.first + i);
  const auto round = static_cast<std::uint32_t>(number / links.key.count);
  const auto link = static_cast<std::size_t>(i);
  Draw draw{.source = negative_stream(links.key, edge_type_, LinkEnd::kSource).of(position, round),
            .destination = negative_stream(links.key, edge_type_, LinkEnd::kDestination).of(position, round),
            .time = {},
            .link = links.input_id[link]};
  if (!links.times.empty()) draw.time = links.times[link];
  draw.sources = src_.existing(draw.time);
  draw.destinations = dst_.existing(draw.time);
  if (binary()) require_nodes(draw, src_, draw.sources);
  require_nodes(draw, dst_, draw.destinations);
  return draw;
}

NegativeDraws::Pair NegativeDraws::attempt(const Draw& draw, Pair pair, std::uint32_t number) const {
  if (binary()) pair.source = src_.draw(draw.source, number, draw.sources);
  pair.destination = dst_.draw(draw.destination, number, draw.destinations);
  return pair;
}

NegativeDraws::Pair NegativeDraws::draw_one(const Draw& draw, Pair pair, std::int64_t& retries) {
  for (std::uint32_t number = 0; number <= kMaxNegativeRetries; ++number) {
    pair = attempt(draw, pair, number);
    if (!options_.strict || !taken(pair)) return pair;
    ++retries;
  }
  if (binary()) return scan_pairs(draw);
  return {.source = pair.source, .destination = scan_destinations(draw, pair.source)};
}

void NegativeDraws::draw_together(const Links& links, Negatives& out) {
  std::vector<std::int64_t> left(out.destinations.size());
  std::iota(left.begin(), left.end(), 0);
  std::vector<Pair> pairs;
  for (std::uint32_t number = 0; !left.empty(); ++number) {
    if (number > kMaxNegativeRetries) {
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("link {} found no strict negative in {} draws, and to look through all nodes reads the "
                      "whole graph, of which this machine has some partitions; leave strict out, or sample "
                      "where all partitions are",
                      links.input_id[static_cast<std::size_t>(left[0] % links.key.count)],
                      kMaxNegativeRetries + 1));
    }
    pairs.clear();
    for (const std::int64_t j : left)
      pairs.push_back(attempt(draw_of(links, j),
                              {.source = links.sources[static_cast<std::size_t>(j % links.key.count)]},
                              number));
    const std::vector<char> is_taken = taken(pairs);
    std::size_t again = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const std::int64_t j = left[i];
      if (binary()) out.sources[static_cast<std::size_t>(j)] = pairs[i].source;
      out.destinations[static_cast<std::size_t>(j)] = pairs[i].destination;
      if (is_taken[i]) left[again++] = j;
    }
    left.resize(again);
    out.retries += static_cast<std::int64_t>(again);
  }
}

std::vector<char> NegativeDraws::taken(std::span<const Pair> pairs) const {
  std::vector<std::int64_t> sources, destinations;
  for (const Pair& pair : pairs) sources.push_back(pair.source), destinations.push_back(pair.destination);
  std::vector<std::int64_t> source_ids(pairs.size()), destination_ids(pairs.size());
  PeerIds ids(dataset_);
  ids.ask_dataset_ids(src_type_, sources, source_ids);
  ids.ask_dataset_ids(dst_type_, destinations, destination_ids);
  ids.take();
  std::vector<EdgeLookup::Edge> edges;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    edges.push_back({.source = source_ids[i], .destination = destination_ids[i]});
  std::vector<char> result = EdgeLookup(dataset_, *edges_).contain(edges);
  for (std::size_t i = 0; i < pairs.size(); ++i)
    result[i] = result[i] || links_.contains(pairs[i].source, pairs[i].destination);
  return result;
}

bool NegativeDraws::taken(const Pair& pair) const {
  return edges_->contains(dataset_.dataset_id(src_type_, pair.source),
                          dataset_.dataset_id(dst_type_, pair.destination)) ||
         links_.contains(pair.source, pair.destination);
}

// ---- what is left, where draws find nothing: looked at twice, so that nothing of the graph's size has to be
// kept

std::int64_t NegativeDraws::scan_destinations(const Draw& draw, std::int64_t source) const {
  const auto weight_left = [&](std::int64_t i) -> std::uint64_t {
    const std::int64_t v = dst_.node(i);
    const std::uint64_t weight = dst_.weight(v);
    return weight > 0 && !taken({.source = source, .destination = v}) ? weight : 0;
  };
  Whole total = 0;
  for (std::int64_t i = 0; i < draw.destinations; ++i) total += weight_left(i);
  if (total == 0)
    refuse(draw,
           fmt::format("node {} has an edge of type '{}', or a link of the list, to every node that could "
                       "be drawn",
                       source, type_name()),
           "leave strict out");
  return dst_.node(place_of(whole_draw(draw.destination, total), draw.destinations, weight_left).index);
}

// Sources (original ids) that the destination has an edge or a link of; some come more than once.
template <class Take>
void NegativeDraws::for_each_taken(std::int64_t destination, const Take& take) const {
  const RowReader& reader = edges_->reader();
  const Row row = reader.row(dataset_.dataset_id(dst_type_, destination));
  for (std::uint64_t i = 0; i < row.degree; ++i)
    take(static_cast<std::size_t>(dataset_.checked_original_id(src_type_, reader.neighbor(row, i))));
  for (const KnownLinks::Link& link : links_.into(destination)) take(static_cast<std::size_t>(link.source));
}

std::uint64_t NegativeDraws::weight_of_sources_left(const Draw& draw, std::int64_t destination) {
  std::uint64_t left = src_.total(draw.sources);
  for_each_taken(destination, [&](std::size_t u) {
    if (!marks_[u]) left -= src_.weight(static_cast<std::int64_t>(u), draw.time);
    marks_[u] = true;
  });
  for_each_taken(destination, [&](std::size_t u) { marks_[u] = false; });
  return left;
}

// Where `at`, below what they weigh, falls among them.
std::int64_t NegativeDraws::source_left(const Draw& draw, std::int64_t destination, Whole at) {
  for_each_taken(destination, [&](std::size_t u) { marks_[u] = true; });
  const Place place = place_of(at, draw.sources, [&](std::int64_t i) -> std::uint64_t {
    const std::int64_t u = src_.node(i);
    return marks_[static_cast<std::size_t>(u)] ? 0 : src_.weight(u);
  });
  if (place.index < draw.sources) return src_.node(place.index);
  throw Error(ErrorCode::kCorrupt,
              fmt::format("{}: the original ids of node type '{}' are not each node's once; run "
                          "hopfeed-partition verify",
                          dataset_.folder().string(), dataset_.meta().node_types[src_type_].name));
}

// Column by column: a destination weighs as much as it does itself times the sources that are left to it.
NegativeDraws::Pair NegativeDraws::scan_pairs(const Draw& draw) {
  marks_.assign(static_cast<std::size_t>(src_.count()), false);
  const auto column = [&](std::int64_t i) {
    const std::int64_t v = dst_.node(i);
    const std::uint64_t weight = dst_.weight(v);
    return weight == 0 ? Whole{0} : Whole{weight} * weight_of_sources_left(draw, v);
  };
  Whole total = 0;
  for (std::int64_t i = 0; i < draw.destinations; ++i) total += column(i);
  if (total == 0)
    refuse(draw,
           fmt::format("edges of type '{}', or links of the list, join every pair of nodes that could be "
                       "drawn",
                       type_name()),
           "leave strict out");
  const Place place = place_of(whole_draw(draw.destination, total), draw.destinations, column);
  const std::int64_t v = dst_.node(place.index);
  return {.source = source_left(draw, v, place.rest / dst_.weight(v)), .destination = v};
}

// ---- links that have none

void NegativeDraws::require_nodes(const Draw& draw, const NegativeNodes& end, std::int64_t existing) const {
  if (end.total(existing) > 0) return;
  const std::string type =
      fmt::format("no node of type '{}'", dataset_.meta().node_types[end.node_type()].name);
  if (existing == 0) refuse(draw, type + " could be drawn", "correct the times");
  refuse(draw, type + " that weighs anything could be drawn", "correct the times or the weights");
}

void NegativeDraws::refuse(const Draw& draw, const std::string& why, const char* advice) const {
  throw Error(ErrorCode::kInvalid,
              fmt::format("link {} has no negative: {}{}; {}, or leave the link out", draw.link, why,
                          draw.time ? fmt::format(" at its time {}", *draw.time) : "", advice));
}

}  // namespace hopfeed
