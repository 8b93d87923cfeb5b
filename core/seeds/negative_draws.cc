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

std::size_t NegativeDraws::Negatives::bytes() const {
  return sizeof(std::int64_t) * (sources.capacity() + destinations.capacity() + tries.left.capacity() +
                                 tries.sources.capacity() + tries.destinations.capacity() +
                                 tries.source_ids.capacity() + tries.destination_ids.capacity()) +
         sizeof(EdgeMembership::Edge) * tries.edges.capacity() + tries.taken.capacity();
}

std::size_t NegativeDraws::Negatives::max_bytes(std::int64_t count, bool strict) {
  const std::size_t each =
      2 * sizeof(std::int64_t) + (strict ? 5 * sizeof(std::int64_t) + sizeof(EdgeMembership::Edge) + 1 : 0);
  return 2 * each * static_cast<std::size_t>(count);  // vectors that grew
}

void NegativeDraws::draw(const Links& links, Negatives& out) {
  const std::int64_t count = options_.count(links.key.count);
  sources_ = negative_stream(links.key, edge_type_, LinkEnd::kSource);
  destinations_ = negative_stream(links.key, edge_type_, LinkEnd::kDestination);
  out.sources.resize(binary() ? static_cast<std::size_t>(count) : 0);
  out.destinations.resize(static_cast<std::size_t>(count));
  out.retries = 0;
  if (options_.strict) return draw_strict(links, out);
  for (std::int64_t j = 0; j < count; ++j) attempt(links, j, 0, out);
}

// Negative `number` of the batch.
NegativeDraws::Draw NegativeDraws::draw_of(const Links& links, std::int64_t number) const {
  const std::int64_t i = number % links.key.count;
  const auto position = static_cast<std::uint64_t>(links.key.first + i);
  const auto round = static_cast<std::uint32_t>(number / links.key.count);
  const auto link = static_cast<std::size_t>(i);
  Draw draw{.source = sources_.of(position, round),
            .destination = destinations_.of(position, round),
            .time = {},
            .link = links.input_id[link]};
  if (!links.times.empty()) draw.time = links.times[link];
  draw.sources = src_.existing(draw.time);
  draw.destinations = dst_.existing(draw.time);
  if (binary()) require_nodes(draw, src_, draw.sources);
  require_nodes(draw, dst_, draw.destinations);
  return draw;
}

NegativeDraws::Pair NegativeDraws::attempt(const Links& links, std::int64_t negative, std::uint32_t number,
                                           Negatives& out) const {
  const Draw draw = draw_of(links, negative);
  const auto j = static_cast<std::size_t>(negative);
  Pair pair{.source = links.sources[j % static_cast<std::size_t>(links.key.count)],
            .destination = dst_.draw(draw.destination, number, draw.destinations)};
  if (binary()) pair.source = out.sources[j] = src_.draw(draw.source, number, draw.sources);
  out.destinations[j] = pair.destination;
  return pair;
}

// Attempt by attempt of all that are left: so the reads of many rows are under way at once, and machines that
// have rows are asked once for all of theirs.
void NegativeDraws::draw_strict(const Links& links, Negatives& out) {
  Negatives::Tries& tries = out.tries;
  tries.left.resize(out.destinations.size());
  std::iota(tries.left.begin(), tries.left.end(), 0);
  for (std::uint32_t number = 0; number <= kMaxNegativeRetries && !tries.left.empty(); ++number) {
    tries.sources.clear();
    tries.destinations.clear();
    for (const std::int64_t j : tries.left) {
      const Pair pair = attempt(links, j, number, out);
      tries.sources.push_back(pair.source);
      tries.destinations.push_back(pair.destination);
    }
    find_taken(tries);
    std::size_t again = 0;
    for (std::size_t i = 0; i < tries.left.size(); ++i)
      if (tries.taken[i]) tries.left[again++] = tries.left[i];
    tries.left.resize(again);
    out.retries += static_cast<std::int64_t>(again);
  }
  for (const std::int64_t j : tries.left) scan(links, j, out);
}

void NegativeDraws::find_taken(Negatives::Tries& tries) const {
  const std::size_t count = tries.left.size();
  tries.source_ids.resize(count);
  tries.destination_ids.resize(count);
  PeerIds ids(dataset_);
  ids.ask_dataset_ids(src_type_, tries.sources, tries.source_ids);
  ids.ask_dataset_ids(dst_type_, tries.destinations, tries.destination_ids);
  ids.take();
  tries.edges.clear();
  for (std::size_t i = 0; i < count; ++i)
    tries.edges.push_back({.source = tries.source_ids[i], .destination = tries.destination_ids[i]});
  tries.taken.resize(count);
  for (const std::int64_t node : tries.destinations) links_.prefetch_place(node);
  EdgeLookup(dataset_, *edges_).contain(tries.edges, tries.taken.data());
  for (const std::int64_t node : tries.destinations) links_.prefetch_links(node);
  for (std::size_t i = 0; i < count; ++i)
    tries.taken[i] = tries.taken[i] || links_.contains(tries.sources[i], tries.destinations[i]);
}

bool NegativeDraws::taken(const Pair& pair) const {
  return edges_->contains(dataset_.dataset_id(src_type_, pair.source),
                          dataset_.dataset_id(dst_type_, pair.destination)) ||
         links_.contains(pair.source, pair.destination);
}

// ---- what is left, where draws find nothing: looked at twice, so that nothing of the graph's size has to be
// kept

void NegativeDraws::scan(const Links& links, std::int64_t negative, Negatives& out) {
  if (!dataset_.whole())
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("link {} found no strict negative in {} draws, and to look through all nodes reads the "
                    "whole graph, of which this machine has some partitions; leave strict out, or sample "
                    "where all partitions are",
                    links.input_id[static_cast<std::size_t>(negative % links.key.count)],
                    kMaxNegativeRetries + 1));
  const Draw draw = draw_of(links, negative);
  const auto j = static_cast<std::size_t>(negative);
  if (!binary()) {
    out.destinations[j] =
        scan_destinations(draw, links.sources[j % static_cast<std::size_t>(links.key.count)]);
    return;
  }
  const Pair pair = scan_pairs(draw);
  out.sources[j] = pair.source;
  out.destinations[j] = pair.destination;
}

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
