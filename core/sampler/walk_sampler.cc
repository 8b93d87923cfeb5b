// See walk_sampler.h.
#include "core/sampler/walk_sampler.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/batch/field_names.h"
#include "core/draws/keyed_random.h"

namespace hopfeed {
namespace {

constexpr std::size_t kGroup =
    64;  // walks whose cache misses are under way together (CustomSamplerAdapter::kRowsTogether)
constexpr double kOne = 4294967296.0;
constexpr std::uint64_t kLongRow = 64;
constexpr std::uint32_t kReadsForASort = 64;  // what sorting a row costs, in reads of it

/// A weight as a multiple of 2^-32 of the largest; positive ones stay so. A division and a product are the
/// same everywhere.
std::uint64_t scaled(double weight, double largest) {
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(weight / largest * kOne));
}

std::vector<int> edge_types_of_steps(const Dataset& dataset, const WalkOptions& options) {
  std::vector<int> path;
  for (const std::string& name : options.metapath) path.push_back(dataset.meta().edge_type(name));
  if (path.empty()) {
    if (dataset.num_edge_types() != 1)
      throw Error(ErrorCode::kInvalid,
                  fmt::format("the dataset has {} edge types: name those that a walk goes by, in turn "
                              "({})",
                              dataset.num_edge_types(), marked("metapath")));
    path.push_back(0);
  }
  std::vector<int> steps;
  for (std::int64_t s = 0; s < options.length; ++s)
    steps.push_back(path[static_cast<std::size_t>(s) % path.size()]);
  for (std::size_t s = 1; s < steps.size(); ++s) {
    const CscView from = dataset.csc(steps[s - 1]), to = dataset.csc(steps[s]);
    if (from.src_type == to.dst_type) continue;
    throw Error(ErrorCode::kInvalid,
                fmt::format("a walk cannot go on from edge type '{}' by '{}': its sources are '{}', and that "
                            "one ends at '{}'",
                            dataset.meta().edge_types[steps[s - 1]].folder(),
                            dataset.meta().edge_types[steps[s]].folder(),
                            dataset.meta().node_types[from.src_type].name,
                            dataset.meta().node_types[to.dst_type].name));
  }
  return steps;
}

}  // namespace

WalkSampler::WalkSampler(const Dataset& dataset, const BatchOptions& options)
    : dataset_(dataset), options_(options.walk), steps_(edge_types_of_steps(dataset, options.walk)) {
  for (int e = 0; e < dataset.num_edge_types(); ++e) readers_.emplace_back(dataset, e);
  for (int t = 0; t < dataset.num_node_types(); ++t) num_nodes_.push_back(dataset.num_nodes(t));
  biased_ = options_.p != 1 || options_.q != 1;
  const CscView& first = readers_[steps_[0]].csc();
  const bool one_type = std::all_of(steps_.begin(), steps_.end(), [&](int e) { return e == steps_[0]; });
  if (biased_ && (!one_type || first.src_type != first.dst_type))
    throw Error(ErrorCode::kInvalid,
                "node2vec's p and q need walks by one edge type between nodes of one type; leave them at 1");
  const double largest = std::max({1 / options_.p, 1.0, 1 / options_.q});
  back_ = scaled(1 / options_.p, largest);
  near_ = scaled(1, largest);
  far_ = scaled(1 / options_.q, largest);
}

void WalkSampler::require_start(int seed_type) const {
  const CscView& csc = readers_[steps_[0]].csc();
  if (csc.dst_type == seed_type) return;
  throw Error(
      ErrorCode::kInvalid,
      fmt::format("walks by this metapath begin at node type '{}', but there are seeds of type '{}'; choose "
                  "another metapath, or seeds of that type alone (of links both ends)",
                  dataset_.meta().node_types[csc.dst_type].name, dataset_.meta().node_types[seed_type].name));
}

SampleBounds WalkSampler::bounds(SeedCounts seeds) const {
  for (const SeedCount& entry : seeds) require_start(entry.node_type);
  const std::int64_t count = total_of(seeds);
  SampleBounds bounds{.nodes = std::vector<std::int64_t>(num_nodes_.size(), 0),
                      .edges = std::vector<std::int64_t>(readers_.size(), 0),
                      .seeds = count,
                      .arrays = {}};
  const std::int64_t walks = saturating_product(count, options_.per_seed);
  bounds.nodes[readers_[steps_[0]].csc().dst_type] = count;
  for (const int e : steps_) {
    bounds.edges[e] = saturating_sum(bounds.edges[e], walks);
    std::int64_t& nodes = bounds.nodes[readers_[e].csc().src_type];
    nodes = saturating_sum(nodes, walks);
  }
  for (std::size_t t = 0; t < num_nodes_.size(); ++t)
    bounds.nodes[t] = std::min(bounds.nodes[t], num_nodes_[t]);
  bounds.arrays.push_back({.name = std::string(batch_field::kWalks),
                           .store = Store::kBatch,
                           .shape = {walks, options_.length + 1}});
  return bounds;
}

std::size_t WalkSampler::max_scratch_bytes(SeedCounts seeds) const {
  const auto walks = static_cast<std::size_t>(saturating_product(total_of(seeds), options_.per_seed));
  const std::size_t sorted = biased_ ? readers_[steps_[0]].greatest_degree() : 0;
  return 2 * hopfeed::max_scratch_bytes(walks * sizeof(std::int64_t)) +
         hopfeed::max_scratch_bytes(sorted * sizeof(std::int64_t));
}

void WalkSampler::sample(const SampleRequest& request, SampleBuilder& out) {
  for (const TypedSeeds& entry : request.seeds) require_start(entry.node_type);
  const std::size_t per_seed = static_cast<std::size_t>(options_.per_seed),
                    walks = request.num_seeds() * per_seed;
  if (walks >> 32 != 0)
    throw Error(ErrorCode::kUnsupported, fmt::format("{} walks in a batch are too many; lower {} or {}",
                                                     walks, marked("batch_size"), marked("walk.per_seed")));
  if (excludes_ || request.excluded) sorted_of_ = -1;  // what is in a row may have changed
  excludes_ = request.excluded != nullptr;
  excluded_.begin(request.excluded);
  const std::span<std::int64_t> ways =
      out.add_array({.name = std::string(batch_field::kWalks),
                     .store = Store::kBatch,
                     .shape = {static_cast<std::int64_t>(walks), options_.length + 1}});
  std::ranges::fill(ways, -1);
  at_.reserve(walks);
  before_.reserve(walks);
  const std::size_t width = steps_.size() + 1;
  for (std::size_t w = 0; w < walks; ++w) {
    const std::uint32_t start = out.seed_locals()[w / per_seed];
    at_[w] = out.nodes(readers_[steps_[0]].csc().dst_type)[start];
    before_[w] = -1;
    ways[w * width] = start;
  }
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    run_step(request, step, ways, out);
    out.end_hop();
  }
}

// Fetches the rows where walks are. A biased walk needs the row that it came from too, which was read a step
// ago but may be forgotten.
void WalkSampler::fetch_rows(const RowReader& reader, std::size_t walks) {
  to_fetch_.clear();
  for (std::size_t w = 0; w < walks; ++w) {
    if (at_[w] < 0) continue;
    to_fetch_.push_back(at_[w]);
    if (biased_ && before_[w] >= 0) to_fetch_.push_back(before_[w]);
  }
  reader.fetch(to_fetch_);
}

void WalkSampler::run_step(const SampleRequest& request, std::size_t step, std::span<std::int64_t> ways,
                           SampleBuilder& out) {
  const RowReader& reader = readers_[steps_[step]];
  const std::size_t width = steps_.size() + 1, walks = ways.size() / width;
  const NodeStream draws = node_stream({.purpose = Purpose::kWalks,
                                        .seed = request.key.seed,
                                        .epoch = request.key.epoch,
                                        .first = request.key.first,
                                        .hop = static_cast<std::uint32_t>(step),
                                        .edge_type = static_cast<std::uint32_t>(steps_[step])});
  fetch_rows(reader, walks);
  for (std::size_t begin = 0; begin < walks; begin += kGroup) {
    const std::size_t end = std::min(walks, begin + kGroup);
    excluded_.make_room();
    Step group[kGroup];
    std::uint64_t picked[kGroup];
    for (std::size_t w = begin; w < end; ++w)
      if (at_[w] >= 0) reader.prefetch(at_[w]);
    for (std::size_t w = begin; w < end; ++w) {
      if (at_[w] < 0) continue;
      Step& s = group[w - begin];
      s.row = reader.row(at_[w], excluded_);
      s.stream = draws.of(static_cast<std::uint64_t>(s.row.original_id), static_cast<std::uint32_t>(w));
      s.before = before_[w];
      if (s.row.degree == 0) {
        at_[w] = -1;
        continue;
      }
      picked[w - begin] = pick(reader, s);
      s.row.prefetch(picked[w - begin]);
    }
    for (std::size_t w = begin; w < end; ++w) {
      if (at_[w] < 0) continue;
      const Row& row = group[w - begin].row;
      const std::int64_t node = reader.neighbor(row, picked[w - begin]);
      const std::uint32_t local = out.add_node(reader.csc().src_type, node);
      out.add_edge(reader.edge_type(), local, static_cast<std::uint32_t>(ways[w * width + step]), row,
                   picked[w - begin]);
      ways[w * width + step + 1] = local;
      before_[w] = at_[w];
      at_[w] = node;
    }
  }
}

namespace {

/// Exact on [0, degree); draw `number` of the stream.
std::uint64_t uniform(const NodeStream& stream, std::uint32_t number, std::uint32_t word,
                      std::uint64_t degree) {
  if (degree >> 32 == 0) return draw_below(stream, number, word, static_cast<std::uint32_t>(degree));
  return draw_below_wide(stream, number, degree);
}

}  // namespace

void WalkSampler::sort_row(const RowReader& reader, std::int64_t before) {
  if (sorted_of_ == before) return;
  const Row row = reader.row(before, excluded_);
  sorted_of_ = -1;
  sorted_.reserve(row.degree);
  for (std::uint64_t i = 0; i < row.degree; ++i) sorted_[i] = reader.neighbor(row, i);
  std::sort(sorted_.data(), sorted_.data() + row.degree);
  sorted_size_ = row.degree;
  sorted_of_ = before;
}

bool WalkSampler::is_in_sorted(std::int64_t node) const {
  return std::binary_search(sorted_.data(), sorted_.data() + sorted_size_, node);
}

// A row is read from end to end, unless walks came from its node so often of late that its order pays.
bool WalkSampler::is_near(const RowReader& reader, std::int64_t before, std::int64_t node) {
  if (sorted_of_ == before) return is_in_sorted(node);
  const Row row = reader.row(before, excluded_);
  if (row.degree >= kLongRow) {
    if (votes_ == 0) candidate_ = before;
    before == candidate_ ? ++votes_ : --votes_;
    if (votes_ > kReadsForASort) {
      votes_ = 0;
      sort_row(reader, before);
      return is_in_sorted(node);
    }
  }
  for (std::uint64_t i = 0; i < row.degree; ++i)
    if (reader.neighbor(row, i) == node) return true;
  return false;
}

// Whether `word` is below the neighbour's weight. Most words are below both of the weights that it may have,
// or above both.
bool WalkSampler::accepts(const RowReader& reader, std::int64_t before, std::int64_t node,
                          std::uint32_t word) {
  if (node == before) return word < back_;
  if (word < std::min(near_, far_)) return true;
  if (word >= std::max(near_, far_)) return false;
  return is_near(reader, before, node) == (near_ > far_);
}

std::uint64_t WalkSampler::pick(const RowReader& reader, const Step& step) {
  if (!biased_ || step.before < 0)
    return uniform(step.stream, 0, step.stream.words(0).word[0], step.row.degree);
  // Proposal a has block a of the stream: its first word proposes (of a row of 2^32 and more the first two),
  // the third accepts.
  for (std::uint32_t a = 0; a < kMaxProposals; ++a) {
    const RandomWords words = step.stream.words(a);
    const std::uint64_t i = uniform(step.stream, a, words.word[0], step.row.degree);
    if (accepts(reader, step.before, reader.neighbor(step.row, i), words.word[2])) return i;
  }
  return pick_of_sums(reader, step);
}

std::uint64_t WalkSampler::pick_of_sums(const RowReader& reader, const Step& step) {
  sort_row(reader, step.before);
  const auto weight_of = [&](std::uint64_t i) {
    const std::int64_t node = reader.neighbor(step.row, i);
    if (node == step.before) return back_;
    return is_in_sorted(node) ? near_ : far_;
  };
  if (step.row.degree >> 31 != 0)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("node2vec's p and q are not drawn from a row of {} neighbours; use p = q = 1",
                            step.row.degree));
  std::uint64_t sum = 0;  // at most 2^31 * 2^32
  for (std::uint64_t i = 0; i < step.row.degree; ++i) sum += weight_of(i);
  std::uint64_t drawn = draw_below_wide(step.stream, kMaxProposals, sum), i = 0;
  for (; drawn >= weight_of(i); ++i) drawn -= weight_of(i);
  return i;
}

}  // namespace hopfeed
