// See loader_source.h.
#include "worker_mode/loader_source.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/sampler/cluster_sampler.h"
#include "core/sampler/sampler_registry.h"
#include "core/seeds/node_set.h"

namespace hopfeed {
namespace {

std::unique_ptr<NodeSet> node_seeds(const LoaderOptions& options, const Dataset& dataset, int node_type) {
  NodeInput input{.split = options.split,
                  .ids = options.seeds,
                  .mask = options.seed_mask,
                  .times = options.seed_times,
                  .weights = options.seed_weights};
  if (options.batch.sampler == BatchOptions::kClusterSampler && !input.ids && !input.mask)
    input.ids = cluster_seeds(dataset, node_type, options.batch.cluster);
  return std::make_unique<NodeSet>(dataset, node_type, input);
}

void refuse_node_options(const LoaderOptions& options) {
  const auto refuse = [](bool given, const char* what) {
    require_valid(!given, fmt::format("the seeds are links, so option {} is not read; leave it out", what));
  };
  refuse(options.seeds || options.seed_mask, "seeds");
  refuse(!options.seed_times.empty(), "seed_times");
  refuse(!options.seed_weights.empty(), "seed_weights");
  refuse(!options.node_type.empty(), "node_type");
  refuse(options.split != LoaderOptions{}.split, "split");
}

}  // namespace

std::unique_ptr<BatchSource> loader_source(const LoaderOptions& options, const Dataset& dataset) {
  if (!options.batch.link.on()) {
    require_valid(!options.links, "links are given, but not of which edge type; name it (batch.link)");
    const int node_type = seed_node_type(dataset.meta(), options.node_type);
    return std::make_unique<BatchSource>(
        node_seeds(options, dataset, node_type),
        NodeSet::ListOptions{.node_type = node_type, .shuffle = options.shuffle});
  }
  refuse_node_options(options);
  const LinkInput links = options.links.value_or(LinkInput{});
  require_valid(links.times.empty() || !options.batch.time.empty(),
                "link times are given, but no time to sample by (time)");
  const int edge_type = dataset.meta().edge_type(options.batch.link.edge_type);
  return std::make_unique<BatchSource>(
      std::make_unique<LinkSet>(dataset, edge_type, links),
      LinkSet::ListOptions{.edge_type = edge_type, .shuffle = options.shuffle});
}

BatchSpec loader_spec(const LoaderOptions& options, const Dataset& dataset, const BatchSource& source) {
  const DatasetMeta& meta = dataset.meta();
  BatchSpec spec{.dataset = meta.name,
                 .fingerprint = meta.fingerprint,
                 .batch = options.batch,
                 .shuffle = options.shuffle,
                 .seed = options.seed,
                 .sampler_sha256 = sampler_file_sha256(options.batch.sampler)};
  if (!options.batch.link.on())
    spec.seeds.node_type =
        meta.node_types[static_cast<std::size_t>(seed_node_type(meta, options.node_type))].name;
  if (source.given()) {
    spec.seeds.sha256 = sha256(source.pack());
  } else {
    spec.seeds.split = options.batch.link.on() ? options.links.value_or(LinkInput{}).split : options.split;
  }
  return spec;
}

void check_batch_options(const BatchOptions& options) {
  require_sampler(options.sampler);  // else its options would be told that it does not know them
  options.validate();
}

void check_deal(const DealOptions& deal, std::int64_t num_seeds) {
  require_valid(
      Deal(deal, num_seeds).steps() > 0,  // more ranks than seeds: Deal says so
      fmt::format("drop_last leaves no batch: {} seeds are less than a round of {} batches of {}; lower "
                  "batch_size or leave drop_last out",
                  num_seeds, deal.world_size, deal.batch_size));
}

}  // namespace hopfeed
