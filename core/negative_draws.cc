// See negative_draws.h.
#include "core/negative_draws.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/alias_table.h"
#include "core/error.h"
#include "core/limits.h"
#include "core/negative_rule.h"

namespace hopfeed {
namespace {

using Whole = unsigned __int128;

/// Where the values of one node lie.
const std::byte* row_of(const AttrView& attr, std::int64_t node) {
  const int p = attr.parts.size() == 1 ? 0 : partition_of(attr.partition_offsets, node);
  return attr.parts[p] + (node - attr.partition_offsets[p]) * attr.stride_bytes;
}

template <class T>
T value_of(const AttrView& attr, std::int64_t node) {
  T value;
  std::memcpy(&value, row_of(attr, node), sizeof(value));
  return value;
}

bool is_scalar(const AttrView& attr) {
  return attr.row_bytes == static_cast<std::int64_t>(element_bytes(attr.type));
}

/// Of every node, by original id.
std::vector<AliasEntry> table_of(const Dataset& dataset, int node_type, const std::string& name) {
  const AttrView attr = dataset.attr(node_type, name);
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kInvalid, fmt::format("negatives cannot be drawn by attribute '{}' of node type "
                                                 "'{}': {}",
                                                 name, dataset.meta().node_types[node_type].name, why));
  };
  std::vector<double> weights(static_cast<std::size_t>(dataset.num_nodes(node_type)));
  const auto read = [&]<class T>(T) {
    for (std::size_t v = 0; v < weights.size(); ++v)
      weights[v] =
          static_cast<double>(value_of<T>(attr, dataset.dataset_id(node_type, static_cast<std::int64_t>(v))));
  };
  if (!is_scalar(attr)) refuse("it is not one number per node");
  switch (attr.type) {
    case ElementType::kFloat32:
      read(float{});
      break;
    case ElementType::kFloat64:
      read(double{});
      break;
    case ElementType::kInt32:
      read(std::int32_t{});
      break;
    case ElementType::kInt64:
      read(std::int64_t{});
      break;
    default:
      refuse("it is neither float32, float64, int32 nor int64");
  }
  try {
    return alias_table(weights);
  } catch (const Error& error) {
    refuse(error.what());
  }
  return {};
}

}  // namespace

NegativeDraws::NegativeDraws(const Dataset& dataset, int edge_type, const BatchOptions& options)
    : dataset_(dataset), edge_type_(edge_type), options_(options.link.negatives) {
  const CscView csc = dataset.csc(edge_type);
  src_ = end_of(csc.src_type, options_.src_weight, options);
  dst_ = end_of(csc.dst_type, options_.dst_weight, options);
  if (options_.strict) edges_.emplace(dataset, edge_type);
}

NegativeDraws::End NegativeDraws::end_of(int node_type, const std::string& weight,
                                         const BatchOptions& options) const {
  End end{.node_type = node_type, .count = dataset_.num_nodes(node_type), .table = {}, .time = {}};
  if (!weight.empty()) end.table = table_of(dataset_, node_type, weight);
  if (options.time.empty()) return end;
  const std::vector<AttrMeta>& attrs = dataset_.meta().node_types[node_type].attrs;
  if (std::ranges::find(attrs, options.time, &AttrMeta::name) == attrs.end()) return end;
  end.time = dataset_.attr(node_type, options.time);
  require_valid(end.time->type == ElementType::kInt64 && is_scalar(*end.time),
                fmt::format("attribute '{}' of node type '{}' is no time: it is not one int64 per node",
                            options.time, dataset_.meta().node_types[node_type].name));
  return end;
}

std::size_t NegativeDraws::bytes() const {
  return (src_.table.size() + dst_.table.size()) * sizeof(AliasEntry);
}

void NegativeDraws::draw(const Links& links, Negatives& out) const {
  const std::int64_t positives = links.key.count, count = options_.count(positives);
  const bool pairs = options_.mode == NegativeMode::kBinary;
  out.sources.resize(pairs ? static_cast<std::size_t>(count) : 0);
  out.destinations.resize(static_cast<std::size_t>(count));
  out.retries = 0;
  const NegativeStream sources = negative_stream(links.key, edge_type_, LinkEnd::kSource),
                       destinations = negative_stream(links.key, edge_type_, LinkEnd::kDestination);
  for (std::int64_t j = 0; j < count; ++j) {
    const std::int64_t i = j % positives, position = links.key.first + i, number = j / positives;
    const auto link = static_cast<std::size_t>(i);
    Draw draw{.source = sources.of(position, number),
              .destination = destinations.of(position, number),
              .time = {},
              .link = links.input_id[link]};
    if (!links.times.empty()) draw.time = links.times[link];
    const Pair pair = draw_one(draw, {.source = links.sources[link]}, out.retries);
    if (pairs) out.sources[static_cast<std::size_t>(j)] = pair.source;
    out.destinations[static_cast<std::size_t>(j)] = pair.destination;
  }
}

NegativeDraws::Pair NegativeDraws::draw_one(const Draw& draw, Pair pair, std::int64_t& retries) const {
  const auto node = [](const End& end, const NodeStream& stream, std::uint32_t attempt) {
    return end.table.empty() ? draw_node(stream, attempt, end.count) : draw_node(stream, attempt, end.table);
  };
  for (std::uint32_t attempt = 0; attempt <= kMaxNegativeRetries; ++attempt) {
    if (options_.mode == NegativeMode::kBinary) pair.source = node(src_, draw.source, attempt);
    pair.destination = node(dst_, draw.destination, attempt);
    if (can_be(pair, draw.time)) return pair;
    ++retries;
  }
  return scan(draw, pair);
}

bool NegativeDraws::exists(const End& end, std::int64_t node, std::optional<std::int64_t> time) const {
  return !end.time || !time ||
         value_of<std::int64_t>(*end.time, dataset_.dataset_id(end.node_type, node)) <= *time;
}

bool NegativeDraws::joined(const Pair& pair) const {
  return edges_->contains(dataset_.dataset_id(src_.node_type, pair.source),
                          dataset_.dataset_id(dst_.node_type, pair.destination));
}

bool NegativeDraws::can_be(const Pair& pair, std::optional<std::int64_t> time) const {
  // The source of a triplet is its link's, of which nobody asks whether it exists.
  if (options_.mode == NegativeMode::kBinary && !exists(src_, pair.source, time)) return false;
  return exists(dst_, pair.destination, time) && !(edges_ && joined(pair));
}

// ---- what is left, where draws find nothing

NegativeDraws::Pair NegativeDraws::scan(const Draw& draw, const Pair& pair) const {
  if (options_.mode == NegativeMode::kBinary) return scan_pairs(draw);
  return {.source = pair.source, .destination = scan_destinations(draw, pair.source)};
}

std::vector<std::uint64_t> NegativeDraws::weights_at(const End& end, std::optional<std::int64_t> time) const {
  std::vector<std::uint64_t> weights(static_cast<std::size_t>(end.count), 1);
  if (!end.table.empty()) alias_weights(end.table, weights.data());
  for (std::size_t v = 0; v < weights.size(); ++v)
    if (!exists(end, static_cast<std::int64_t>(v), time)) weights[v] = 0;
  return weights;
}

std::int64_t NegativeDraws::scan_destinations(const Draw& draw, std::int64_t source) const {
  std::vector<std::uint64_t> weights = weights_at(dst_, draw.time);
  if (std::ranges::all_of(weights, [](std::uint64_t weight) { return weight == 0; }))
    refuse(draw, fmt::format("no node of type '{}'", dataset_.meta().node_types[dst_.node_type].name));
  for (std::size_t v = 0; v < weights.size(); ++v)
    if (weights[v] > 0 && edges_ && joined({source, static_cast<std::int64_t>(v)})) weights[v] = 0;
  const Whole total = std::accumulate(weights.begin(), weights.end(), Whole{0});
  if (total == 0)
    refuse(draw, fmt::format("node {} has an edge of type '{}' to every node that", source,
                             dataset_.meta().edge_types[edge_type_].folder()));
  Whole at = whole_draw(draw.destination, total);
  std::size_t v = 0;
  while (at >= weights[v]) at -= weights[v++];
  return static_cast<std::int64_t>(v);
}

// Each once, by original id.
std::vector<std::int64_t> NegativeDraws::sources_joined_to(std::int64_t destination) const {
  if (!edges_) return {};
  const RowReader& reader = edges_->reader();
  const Row row = reader.row(dataset_.dataset_id(dst_.node_type, destination));
  std::vector<std::int64_t> sources;
  for (std::uint64_t i = 0; i < row.degree; ++i)
    sources.push_back(dataset_.original_id(src_.node_type, reader.neighbor(row, i)));
  std::ranges::sort(sources);
  sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
  return sources;
}

// Column by column: a destination weighs as much as it does itself times the sources that are not joined to it.
NegativeDraws::Pair NegativeDraws::scan_pairs(const Draw& draw) const {
  const std::vector<std::uint64_t> sources = weights_at(src_, draw.time),
                                   destinations = weights_at(dst_, draw.time);
  const Whole all_sources = std::accumulate(sources.begin(), sources.end(), Whole{0});
  std::vector<Whole> columns(destinations.size());
  Whole total = 0;
  for (std::size_t v = 0; v < columns.size(); ++v) {
    if (destinations[v] == 0) continue;
    Whole left = all_sources;
    for (const std::int64_t u : sources_joined_to(static_cast<std::int64_t>(v)))
      left -= sources[static_cast<std::size_t>(u)];
    columns[v] = left * destinations[v];
    total += columns[v];
  }
  if (total == 0) {
    const bool some = all_sources > 0 && std::ranges::any_of(destinations, [](auto w) { return w > 0; });
    refuse(draw, some ? fmt::format("edge type '{}' joins every pair of nodes that",
                                    dataset_.meta().edge_types[edge_type_].folder())
                      : "no pair of nodes");
  }
  Whole at = whole_draw(draw.destination, total);
  std::size_t v = 0;
  while (at >= columns[v]) at -= columns[v++];
  at /= destinations[v];
  std::vector<std::uint64_t> left = sources;
  for (const std::int64_t u : sources_joined_to(static_cast<std::int64_t>(v)))
    left[static_cast<std::size_t>(u)] = 0;
  std::size_t u = 0;
  while (at >= left[u]) at -= left[u++];
  return {.source = static_cast<std::int64_t>(u), .destination = static_cast<std::int64_t>(v)};
}

void NegativeDraws::refuse(const Draw& draw, const std::string& what) const {
  const std::string when = draw.time ? fmt::format(" at its time {}", *draw.time) : "";
  throw Error(ErrorCode::kInvalid,
              fmt::format("link {} has no negative: {} could be drawn{}; {}", draw.link, what, when,
                          options_.strict ? "leave strict out, or leave the link out"
                                          : "correct the times, or leave the link out"));
}

}  // namespace hopfeed
