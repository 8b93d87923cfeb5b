// See batch_maker.h.
#include "core/maker/batch_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/batch/block_writer.h"
#include "core/batch/packed_block.h"
#include "core/dataset/partition_peers.h"
#include "core/maker/batch_features.h"
#include "core/maker/block_arrays.h"
#include "core/sampler/peer_ids.h"
#include "core/seeds/link_fields.h"
#include "core/seeds/node_fields.h"

namespace hopfeed {
namespace {

void fill_edge_index(const SampledEdges& edges, std::int64_t* out) {
  std::int64_t* sources = out;
  for (std::uint32_t source : edges.sources) *sources++ = source;
  std::int64_t* targets = out + edges.sources.size();
  if (!edges.targets.empty()) std::ranges::copy(edges.targets, targets);
  for (std::size_t dst = 0; dst < edges.per_dst.size(); ++dst)
    targets = std::fill_n(targets, edges.per_dst[dst], static_cast<std::int64_t>(dst));
}

}  // namespace

struct BatchMaker::Impl {
  const Dataset& dataset;
  const BatchOptions options;
  const std::unique_ptr<Sampler> sampler;
  const bool beside_gpu;     // neighbours are sampled on one, where it can
  std::int64_t sampled = 0;  // batches
  const std::unique_ptr<SeedFields> seeds;
  BatchFeatures features;
  const BlockArrays layout;
  PeerIds peer_ids;  // of the nodes of the batch under way, where ids are sharded:
  std::vector<std::vector<std::int64_t>> n_ids;
  std::size_t tables = 0;  // what the sampler may hold whatever its batches are
  std::optional<ScratchBudget::Share> share;
  std::size_t of_seeds = 0;  // of the share, for batches of
  std::int64_t covered = 0;  // so many positions
  PartitionPeers::Asked asked;

  // The batch under way.
  BatchKey key;
  const Sample* sample = nullptr;
  BlockWriter writer;
  BlockArrays::Counts counts;
  BlockArrays::Places arrays;

  template <class Fields, class List>
  Impl(std::in_place_type_t<Fields>, const Dataset& data, const List& list, const BatchOptions& opts,
       const NeighborSamplerFactory& make_neighbors, const FeatureSourceFactory& make_source)
      : dataset(data),
        options(opts),
        sampler(make_sampler(data, opts, make_neighbors)),
        beside_gpu(make_neighbors != nullptr),
        seeds(std::make_unique<Fields>(data, list, opts)),
        features(data, opts, make_source),
        layout(data, options, *seeds, features, sampler->num_hops()),
        peer_ids(data),
        n_ids(data.has_all_ids() ? 0 : static_cast<std::size_t>(data.num_node_types())) {
    layout.require_names_of_their_own(worst_case(1));
    tables = sampler->scratch_bytes() + sampler->later_table_bytes() + seeds->table_bytes();
  }

  std::size_t run(const BatchKey& batch_key, HeldShare held) {
    key = batch_key;
    const ScratchBudget::Scope scope(share ? &*share : nullptr);
    if (share && key.count > covered) {
      ScratchBudget::cover(seeds->scratch_bytes(most_positions(key.count)), of_seeds);
      covered = key.count;
    }
    const std::span<const TypedSeeds> typed = seeds->seeds(key);
    sample = &sampler->sample({.key = key, .seeds = typed, .excluded = seeds->excluded()});
    ++sampled;
    ask_n_ids();
    BlockArrays::count(*sample, key, counts);
    features.prepare(*sample, held, counts.feature_rows);
    layout.lay_out(counts, writer, arrays);
    if (features.packed()) features.lay_out_held(writer, arrays.held);
    for (std::size_t a = 0; a < arrays.sampled.size(); ++a)  // its bounds may have told of others
      if (!writer.is_unique(arrays.sampled[a]) || is_packing_field(sample->arrays[a].spec.name))
        throw Error(
            ErrorCode::kInvalid,
            fmt::format(
                "sampler '{}' added array '{}', a name that is the batch's own; let it have another name",
                options.sampler, sample->arrays[a].spec.name));
    return writer.bytes();
  }

  void write(std::span<std::byte> block, const std::function<void()>& nearly_done) {
    BlockHeader header = layout.header(key);
    if (features.packed()) header.magic = kPackedMagic;
    writer.begin(header, block);
    peer_ids.take();
    for (int t = 0; t < dataset.num_node_types(); ++t) write_nodes(t);
    seeds->write(*sample, arrays.seeds, writer);
    for (int e = 0; e < dataset.num_edge_types(); ++e) {
      const SampledEdges& edges = sample->edges[e];
      fill_edge_index(edges, writer.data<std::int64_t>(arrays.edge_index[e]));
      if (options.hops_told())
        std::ranges::copy(edges.per_hop, writer.data<std::int64_t>(arrays.num_sampled_edges[e]));
      if (options.edge_ids) std::ranges::copy(edges.edge_ids, writer.data<std::int64_t>(arrays.e_id[e]));
    }
    for (std::size_t a = 0; a < sample->arrays.size(); ++a)
      std::ranges::copy(sample->arrays[a].values, writer.data<std::int64_t>(arrays.sampled[a]));
    features.gather(counts.feature_rows, arrays.features, writer,
                    {.last_bytes = kLastBytes, .tell = nearly_done});
    if (features.packed()) features.write_held(arrays.held, writer);
    if (dataset.peers() == nullptr) return;
    const PartitionPeers::Asked more = dataset.peers()->take_counts();
    asked.questions += more.questions, asked.twice += more.twice;
  }

  TierCounts tier_counts() const {
    TierCounts all = features.counts();
    all.peer_questions = asked.questions;
    all.peer_asked_twice = asked.twice;
    return all;
  }

  // They come while the features do.
  void ask_n_ids() {
    peer_ids.drop();
    for (std::size_t t = 0; t < n_ids.size(); ++t) {
      const std::span<const std::int64_t> ids = sample->nodes[t].dataset_ids;
      n_ids[t].resize(ids.size());
      peer_ids.ask_original_ids(static_cast<int>(t), ids, n_ids[t].data());
    }
  }

  void write_nodes(int t) {
    const SampledNodes& nodes = sample->nodes[t];
    std::int64_t* out = writer.data<std::int64_t>(arrays.n_id[t]);
    if (!n_ids.empty()) {
      std::ranges::copy(n_ids[static_cast<std::size_t>(t)], out);
    } else {
      std::ranges::copy(nodes.original_ids, out);  // those whose rows the sampler has read anyway
      const std::size_t known = nodes.original_ids.size();
      dataset.original_ids(t, nodes.dataset_ids.subspan(known), out + known);
    }
    if (options.dataset_ids)
      std::ranges::copy(nodes.dataset_ids, writer.data<std::int64_t>(arrays.dataset_id[t]));
    if (options.trees()) seeds->write_owners(nodes.trees, writer.data<std::int64_t>(arrays.batch[t]));
    if (options.hops_told())
      std::ranges::copy(nodes.per_hop, writer.data<std::int64_t>(arrays.num_sampled_nodes[t]));
  }

  /// Samplers that know no GPU tell nothing: what no GPU sampled the CPU did.
  GpuUse gpu_use() const {
    if (!beside_gpu) return {};
    GpuUse use = sampler->gpu_use();
    use.cpu_batches = sampled - use.gpu_batches;
    return use;
  }

  std::size_t n_id_bytes() const {
    std::size_t numbers = 0;
    for (const std::vector<std::int64_t>& ids : n_ids) numbers += ids.capacity();
    return numbers * sizeof(std::int64_t);
  }

  /// What they come to in vectors that grew.
  std::size_t max_n_id_bytes(const SampleBounds& most) const {
    std::size_t numbers = 0;
    for (std::size_t t = 0; t < n_ids.size(); ++t) numbers += static_cast<std::size_t>(most.nodes[t]);
    return 2 * numbers * sizeof(std::int64_t);
  }

  std::int64_t most_positions(std::int64_t batch_size) const { return std::min(batch_size, seeds->size()); }

  BlockArrays::Counts worst_case(std::int64_t batch_size) const {
    const std::int64_t positions = most_positions(batch_size);
    BlockArrays::Counts most{.of = sampler->bounds(seeds->most_seeds(positions)),
                             .seeds = {.positions = positions, .seeds_repeat = true},
                             .feature_rows = {}};
    features.most_rows(most.of, most.feature_rows);
    return most;
  }
};

BatchMaker::BatchMaker(const Dataset& dataset, const NodeList& seeds, const BatchOptions& options,
                       const NeighborSamplerFactory& make_neighbors, const FeatureSourceFactory& make_source)
    : impl_(std::make_unique<Impl>(std::in_place_type<NodeFields>, dataset, seeds, options, make_neighbors,
                                   make_source)) {}
BatchMaker::BatchMaker(const Dataset& dataset, const LinkList& links, const BatchOptions& options,
                       const NeighborSamplerFactory& make_neighbors, const FeatureSourceFactory& make_source)
    : impl_(std::make_unique<Impl>(std::in_place_type<LinkFields>, dataset, links, options, make_neighbors,
                                   make_source)) {}
BatchMaker::~BatchMaker() = default;

void BatchMaker::bound_scratch(std::shared_ptr<ScratchBudget> budget) {
  impl_->share.emplace(std::move(budget));
  impl_->share->take(scratch_bytes());
  impl_->of_seeds = 0;
  impl_->covered = 0;
}
std::size_t BatchMaker::sample(const BatchKey& key, HeldShare held) { return impl_->run(key, held); }
void BatchMaker::write(std::span<std::byte> block, const std::function<void()>& nearly_done) {
  impl_->write(block, nearly_done);
}
void BatchMaker::drop() {
  impl_->features.drop();
  impl_->peer_ids.drop();
}
TierCounts BatchMaker::tier_counts() const { return impl_->tier_counts(); }
GpuUse BatchMaker::gpu_use() const { return impl_->gpu_use(); }
BatchMaker::Parts BatchMaker::parts() {
  return {.seeds = *impl_->seeds, .features = impl_->features, .layout = impl_->layout};
}

std::size_t BatchMaker::max_block_bytes(std::int64_t batch_size) const {
  if (batch_size < 1 || batch_size > kMaxBatchSize)
    throw Error(ErrorCode::kInvalid,
                fmt::format("batch size {} is not between 1 and {}", batch_size, kMaxBatchSize));
  BlockWriter block;
  BlockArrays::Places arrays;
  impl_->layout.lay_out(impl_->worst_case(batch_size), block, arrays);
  return block.bytes();
}

std::size_t BatchMaker::scratch_bytes() const {
  return impl_->sampler->scratch_bytes() + impl_->seeds->bytes() + impl_->features.split_bytes() +
         impl_->n_id_bytes();
}

BatchMaker::Scratch BatchMaker::scratch(std::int64_t batch_size, HeldShare held) const {
  const std::int64_t positions = impl_->most_positions(batch_size);
  const std::size_t splits =
      held.any() ? impl_->features.max_split_bytes(impl_->worst_case(batch_size).of) : std::size_t{0};
  const std::size_t n_ids =
      impl_->n_ids.empty() ? std::size_t{0} : impl_->max_n_id_bytes(impl_->worst_case(batch_size).of);
  return {.tables = impl_->tables,
          .at_most = impl_->seeds->table_bytes() + impl_->seeds->scratch_bytes(positions) + splits + n_ids +
                     impl_->sampler->max_scratch_bytes(impl_->seeds->most_seeds(positions))};
}

}  // namespace hopfeed
