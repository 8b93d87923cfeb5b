// See hop_over_partitions.h.
#include "core/sampler/hop_over_partitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/sampler/hop_draws.h"

namespace hopfeed {
namespace {

constexpr std::size_t kTogether = 512;  // sources that get local ids in one go: few beside what a batch has
constexpr std::size_t kAhead = 16;

}  // namespace

HopOverPartitions::HopOverPartitions(const Dataset& dataset, const BatchOptions& options)
    : dataset_(dataset),
      options_(options),
      job_(options.hash()),
      node_bits_(node_bits_of(dataset)),
      drawer_(dataset, options),
      told_(static_cast<std::size_t>(dataset.num_parts())),
      asked_(told_.size()),
      parts_(static_cast<std::size_t>(dataset.num_edge_types()) * told_.size()),
      drawn_by_(static_cast<std::size_t>(dataset.num_edge_types())) {
  static_assert(2 * kMaxPartitions <= UINT16_MAX);
  for (int e = 0; e < dataset.num_edge_types(); ++e) {
    csc_.push_back(dataset.csc(e));
    positions_.push_back(std::ranges::any_of(
        dataset.meta().edge_types[static_cast<std::size_t>(e)].attrs,
        [&](const AttrMeta& attr) { return std::ranges::count(options.edge_attrs, attr.name) > 0; }));
  }
}

void HopOverPartitions::draw(const Batch& batch, std::size_t hop, std::span<const Frontier> frontiers) {
  // Copies: new nodes may move the lists that these are views of.
  frontiers_.resize(frontiers.size());
  for (std::size_t e = 0; e < frontiers.size(); ++e)
    frontiers_[e].assign(frontiers[e].begin(), frontiers[e].end());
  for (Asked& asked : asked_) asked.any = false, asked.answer.reset();
  for (std::size_t e = 0; e < frontiers.size(); ++e) route(batch, e, frontiers[e]);
  scratch_ = scratch_bytes();
  ScratchBudget::cover(scratch_, in_budget_);
  try {
    for (std::size_t p = 0; p < asked_.size(); ++p)
      if (asked_[p].any && !dataset_.has_partition(static_cast<int>(p))) ask(batch, hop, p);
    if (dataset_.peers() != nullptr) dataset_.peers()->send_asked();
    for (std::size_t p = 0; p < asked_.size(); ++p) {
      if (!asked_[p].any || !dataset_.has_partition(static_cast<int>(p))) continue;
      asked_[p].own.clear();
      drawer_.answer(static_cast<std::uint32_t>(p), question(batch, hop, p), asked_[p].own);
      read(p, asked_[p].own);
    }
    for (std::size_t p = 0; p < asked_.size(); ++p)
      if (asked_[p].under_way) take(batch, hop, p);
  } catch (...) {
    drop_all();
    throw;
  }
}

void HopOverPartitions::route(const Batch& batch, std::size_t edge_type, Frontier frontier) {
  const CscView& csc = csc_[edge_type];
  const bool trees = options_.trees();
  const bool excludes = batch.excluded && batch.excluded->any(static_cast<int>(edge_type));
  for (std::size_t p = 0; p < asked_.size(); ++p) {
    Part& to = part(edge_type, p);
    to.rows.clear(), to.trees.clear(), to.excluded.clear();
    to.row = to.edge = 0;
  }
  drawn_by_[edge_type].clear();
  for (const std::int64_t id : frontier) {
    const std::int64_t node = node_of(id);
    const auto [p, row] = dataset_.row_place(csc.dst_type, node);
    drawn_by_[edge_type].push_back(static_cast<std::uint16_t>(p));
    Part& to = part(edge_type, static_cast<std::size_t>(p));
    to.rows.push_back(static_cast<std::uint32_t>(row));
    if (trees) to.trees.push_back(static_cast<std::uint32_t>(id >> node_bits_));
    if (!excludes) continue;
    for (const std::int64_t source : batch.excluded->sources_of(static_cast<int>(edge_type), node))
      to.excluded.insert(to.excluded.end(), {row, source});
  }
  for (std::size_t p = 0; p < asked_.size(); ++p) asked_[p].any |= !part(edge_type, p).rows.empty();
}

PeerDrawQuestion HopOverPartitions::question(const Batch& batch, std::size_t hop,
                                             std::size_t partition) const {
  PeerDrawQuestion question{
      .key = batch.key, .hop = static_cast<std::uint32_t>(hop), .first_tree = 0, .times = {}, .sections = {}};
  std::uint32_t first = UINT32_MAX, last = 0;
  for (std::size_t e = 0; e < frontiers_.size(); ++e) {
    const Part& from = part(e, partition);
    if (from.rows.empty()) continue;
    question.sections.push_back({.edge_type = static_cast<std::uint32_t>(e),
                                 .rows = from.rows,
                                 .trees = from.trees,
                                 .excluded = from.excluded});
    if (from.trees.empty()) continue;
    const auto [least, most] = std::ranges::minmax(from.trees);
    first = std::min(first, least), last = std::max(last, most);
  }
  if (batch.seed_times.empty() || first > last) return question;
  question.first_tree = first;
  question.times = batch.seed_times.subspan(first, last - first + 1);
  return question;
}

void HopOverPartitions::ask(const Batch& batch, std::size_t hop, std::size_t p) {
  const auto partition = static_cast<std::uint32_t>(p);
  PeerBytes bytes;
  if (!told_[p]) bytes = write_job(partition, job_, options_.to_json());
  PeerBytes draw =
      write_draw({.ask = PeerAsk::kDraw, .partition = partition, .job = job_}, question(batch, hop, p));
  if (told_[p])
    bytes = std::move(draw);
  else
    bytes.insert(bytes.end(), draw.begin(), draw.end());
  told_[p] = true;
  asked_[p].ticket = dataset_.require_peers(static_cast<int>(p)).ask(static_cast<int>(p), std::move(bytes));
  asked_[p].under_way = true;
}

// An owner knows no options where it was started anew, or where another server of the partition was told.
void HopOverPartitions::take(const Batch& batch, std::size_t hop, std::size_t p) {
  constexpr int kTries = 3;  // it is told with the question, so a second is rarely needed
  for (int tries = 0;; ++tries) {
    asked_[p].under_way = false;
    asked_[p].answer = dataset_.require_peers(static_cast<int>(p)).wait(asked_[p].ticket);
    if (open_answer(*asked_[p].answer, "the answer to a hop").says == PeerSays::kHere) break;
    if (tries == kTries)
      throw Error(ErrorCode::kPeerDied,
                  fmt::format("who has partition {} forgets the batches' options as often as it is told", p));
    told_[p] = false;
    ask(batch, hop, p);
  }
  scratch_ += asked_[p].answer->capacity();
  ScratchBudget::cover(scratch_, in_budget_);
  read(p, *asked_[p].answer);
}

void HopOverPartitions::read(std::size_t p, std::span<const std::byte> answer) {
  PeerReply reply = open_answer(answer, "the answer to a hop");
  for (std::size_t e = 0; e < frontiers_.size(); ++e) {
    Part& of = part(e, p);
    if (of.rows.empty()) continue;
    of.drawn = read_drawn(reply.in, of.rows.size());
    if (of.drawn.sources.width() < 4) reply.in.fail("its sources are too narrow");
    const std::size_t edges = of.drawn.sources.size();
    if (options_.edge_ids && of.drawn.edge_ids.size() != edges) reply.in.fail("it lacks edge ids");
    if (positions_[e] && of.drawn.positions.size() != edges) reply.in.fail("it lacks positions of edges");
  }
  reply.in.end();
}

void HopOverPartitions::drop_all() noexcept {
  for (Asked& asked : asked_) {
    if (asked.under_way) dataset_.peers()->drop(asked.ticket);
    asked.under_way = false;
  }
}

void HopOverPartitions::place(std::size_t edge_type, const Place& place) {
  std::visit([&](auto& relabel) { place_in(edge_type, place, relabel); }, place.relabel);
}

template <class Relabel>
void HopOverPartitions::place_in(std::size_t edge_type, const Place& place, Relabel& relabel) {
  const CscView& csc = csc_[edge_type];
  const Frontier frontier = frontiers_[edge_type];
  EdgeScratch& edges = place.edges;
  std::size_t total = 0;
  for (std::size_t p = 0; p < asked_.size(); ++p)
    if (!part(edge_type, p).rows.empty()) total += part(edge_type, p).drawn.sources.size();
  edges.per_dst.reserve(place.first + frontier.size());
  edges.sources.reserve(edges.num_edges + total + 1);
  if (place.edge_ids) edges.edge_ids.reserve(edges.num_edges + total);
  if (place.positions) edges.positions.reserve(edges.num_edges + total);
  const auto num_src = static_cast<std::uint64_t>(csc.num_src_nodes);
  std::uint64_t ids[kTogether + kAhead];
  std::size_t waiting = 0, at = edges.num_edges;
  const auto flush = [&] {
    relabel.make_room(place.src, waiting);
    typename Relabel::Inserter inserter(relabel, place.src, edges.sources.data());
    for (std::size_t i = 0; i < std::min(waiting, kAhead); ++i) inserter.prefetch(ids[i]);
    for (std::size_t i = 0; i < waiting; ++i) {
      if (i + kAhead < waiting) inserter.prefetch(ids[i + kAhead]);
      inserter.insert(ids[i], at++);
    }
    inserter.close();
    waiting = 0;
  };
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    const std::size_t p = drawn_by_[edge_type][i];
    Part& from = part(edge_type, p);
    const auto count = static_cast<std::size_t>(from.drawn.counts[from.row++]);
    const std::uint64_t tree =
        Relabel::kTrees ? static_cast<std::uint64_t>(frontier[i]) >> node_bits_ << node_bits_ : 0;
    const std::size_t edge = edges.num_edges;
    for (std::size_t j = 0; j < count; ++j) {
      const auto source = static_cast<std::uint64_t>(from.drawn.sources[from.edge + j]);
      if (source >= num_src)
        throw Error(
            ErrorCode::kCorrupt,
            fmt::format("partition {} gave source {} to a row of edge type '{}', and there are {} nodes", p,
                        source, dataset_.meta().edge_types[edge_type].folder(), num_src));
      ids[waiting++] = tree | source;
      if (waiting == kTogether) flush();
    }
    if (place.edge_ids)
      for (std::size_t j = 0; j < count; ++j) edges.edge_ids[edge + j] = from.drawn.edge_ids[from.edge + j];
    if (place.positions)
      for (std::size_t j = 0; j < count; ++j) {
        const std::int64_t position = from.drawn.positions[from.edge + j];
        if (position < 0 || position >= csc.parts[p].num_edges)
          throw Error(ErrorCode::kCorrupt, fmt::format("partition {} gave an edge at {}, and it has {}", p,
                                                       position, csc.parts[p].num_edges));
        edges.positions[edge + j] = csc.parts[p].first_edge + position;
      }
    from.edge += count;
    edges.num_edges += count;
    edges.per_dst[place.first + i] = static_cast<std::uint32_t>(count);
  }
  flush();
}

std::size_t HopOverPartitions::scratch_bytes() const {
  std::size_t bytes = 0;
  for (const std::vector<std::uint16_t>& parts : drawn_by_) bytes += parts.capacity() * sizeof(parts[0]);
  for (const std::vector<std::int64_t>& ids : frontiers_) bytes += ids.capacity() * sizeof(ids[0]);
  for (const Part& part : parts_)
    bytes += (part.rows.capacity() + part.trees.capacity()) * sizeof(std::uint32_t) +
             part.excluded.capacity() * sizeof(std::int64_t);
  for (const Asked& asked : asked_)
    bytes += asked.own.capacity() + (asked.answer ? asked.answer->capacity() : 0);
  return bytes;
}

}  // namespace hopfeed
