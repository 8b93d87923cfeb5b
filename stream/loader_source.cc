// See loader_source.h.
#include "stream/loader_source.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/sampler/cluster_sampler.h"
#include "core/sampler/sampler_registry.h"
#include "core/seeds/node_set.h"

namespace hopfeed {
namespace {

/// `cluster_seeds`: those of the cluster sampler, where it takes its own.
NodeInput node_input(const LoaderOptions& options,
                     const std::function<std::vector<std::int64_t>()>& cluster_seeds) {
  NodeInput input{.split = options.split,
                  .ids = options.seeds,
                  .mask = options.seed_mask,
                  .times = options.seed_times,
                  .weights = options.seed_weights};
  if (options.batch.sampler == BatchOptions::kClusterSampler && !input.ids && !input.mask)
    input.ids = cluster_seeds();
  return input;
}

void refuse_node_options(const LoaderOptions& options) {
  const auto refuse = [](bool given, const char* field) {
    require_valid(!given,
                  fmt::format("the seeds are links, so option {} is not read; leave it out", marked(field)));
  };
  refuse(options.seeds || options.seed_mask, "seeds");
  refuse(!options.seed_times.empty(), "seed_times");
  refuse(!options.seed_weights.empty(), "seed_weights");
  refuse(!options.node_type.empty(), "node_type");
  refuse(options.split != LoaderOptions{}.split, "split");
}

/// The links of a loader's options. Throws kInvalid for options that loaders of nodes alone have.
LinkInput link_input(const LoaderOptions& options) {
  refuse_node_options(options);
  LinkInput links = options.links.value_or(LinkInput{});
  require_valid(links.times.empty() || !options.batch.time.empty(),
                fmt::format("link times are given, but no time to sample by ({})", marked("time")));
  return links;
}

void refuse_links(const LoaderOptions& options) {
  require_valid(!options.links, fmt::format("links are given, but not of which edge type; name it ({})",
                                            marked("batch.link")));
}

/// How many a split has. Throws kNotFound naming those that there are.
std::int64_t split_size(const std::map<std::string, std::int64_t>& splits, const std::string& name,
                        const std::string& owner, const char* given) {
  const auto found = splits.find(name);
  std::string known;
  for (const auto& [other, count] : splits) known += (known.empty() ? "" : ", ") + other;
  if (found == splits.end())
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} has no split '{}'; it has: {} ({}), or give the {}", owner, name,
                            known.empty() ? "none; choose another" : known + "; choose one of them",
                            marked("split"), given));
  require_valid(found->second > 0,
                fmt::format("split '{}' of {} is empty; choose another ({})", name, owner, marked("split")));
  return found->second;
}

JobSource given_source(const BatchSource& source) { return {.size = source.size(), .packed = source.pack()}; }

JobSource link_job_source(const LoaderOptions& options, const DatasetMeta& meta) {
  const LinkInput links = link_input(options);
  const int edge_type = meta.edge_type(options.batch.link.edge_type);
  if (links.pairs || !links.labels.empty() || !links.times.empty())
    return given_source({std::make_unique<LinkSet>(meta, edge_type, links),
                         LinkSet::ListOptions{.edge_type = edge_type, .shuffle = options.shuffle}});
  const EdgeTypeMeta& edge = meta.edge_types[static_cast<std::size_t>(edge_type)];
  return {.size = split_size(edge.splits, links.split,
                             fmt::format("edge type {} of dataset {}", edge.folder(), meta.name), "links")};
}

}  // namespace

std::unique_ptr<BatchSource> loader_source(const LoaderOptions& options, const Dataset& dataset) {
  if (!options.batch.link.on()) {
    refuse_links(options);
    const int node_type = seed_node_type(dataset.meta(), options.node_type);
    const NodeInput input =
        node_input(options, [&] { return cluster_seeds(dataset, node_type, options.batch.cluster); });
    return std::make_unique<BatchSource>(
        std::make_unique<NodeSet>(dataset, node_type, input),
        NodeSet::ListOptions{.node_type = node_type, .shuffle = options.shuffle});
  }
  const LinkInput links = link_input(options);
  const int edge_type = dataset.meta().edge_type(options.batch.link.edge_type);
  return std::make_unique<BatchSource>(
      std::make_unique<LinkSet>(dataset, edge_type, links),
      LinkSet::ListOptions{.edge_type = edge_type, .shuffle = options.shuffle});
}

JobSource job_source(const LoaderOptions& options, const DatasetMeta& meta,
                     const std::function<std::vector<std::int64_t>(int node_type)>& cluster_seeds) {
  if (options.batch.link.on()) return link_job_source(options, meta);
  refuse_links(options);
  const int node_type = seed_node_type(meta, options.node_type);
  const NodeInput input = node_input(options, [&] { return cluster_seeds(node_type); });
  if (input.ids || input.mask || !input.times.empty() || !input.weights.empty())
    return given_source({std::make_unique<NodeSet>(meta, node_type, input),
                         NodeSet::ListOptions{.node_type = node_type, .shuffle = options.shuffle}});
  const NodeTypeMeta& type = meta.node_types[static_cast<std::size_t>(node_type)];
  return {.size = split_size(type.splits, input.split,
                             fmt::format("node type '{}' of dataset {}", type.name, meta.name), "nodes")};
}

BatchSpec loader_spec(const LoaderOptions& options, const Dataset& dataset, const BatchSource& source) {
  std::vector<std::byte> packed;
  if (source.given()) packed = source.pack();
  return job_spec(options, dataset.meta(), sampler_file_sha256(options.batch.sampler), packed);
}

BatchSpec job_spec(const LoaderOptions& options, const DatasetMeta& meta, std::string sampler_sha256,
                   std::span<const std::byte> packed) {
  BatchSpec spec{.dataset = meta.name,
                 .fingerprint = meta.fingerprint,
                 .batch = options.batch,
                 .shuffle = options.shuffle,
                 .seed = options.seed,
                 .sampler_sha256 = std::move(sampler_sha256)};
  if (!options.batch.link.on())
    spec.seeds.node_type =
        meta.node_types[static_cast<std::size_t>(seed_node_type(meta, options.node_type))].name;
  if (!packed.empty()) {
    spec.seeds.sha256 = sha256(packed);
  } else {
    spec.seeds.split = options.batch.link.on() ? options.links.value_or(LinkInput{}).split : options.split;
  }
  return spec;
}

void check_batch_options(const BatchOptions& options) {
  require_sampler(options.sampler);  // else its options would be told that it does not know them
  options.validate();
}

void check_deal(const LoaderOptions& options, std::int64_t num_seeds) {
  const DealOptions& deal = options.deal;
  const std::int64_t steps = Deal(deal, num_seeds).steps();  // more ranks than seeds: Deal says so
  require_valid(steps > 0 || options.empty_epochs == EmptyEpochs::kAllowed,
                fmt::format("{} leaves no batch: {} seeds are less than a round of {} batches of {}; lower "
                            "{} or leave {} out",
                            marked("drop_last"), num_seeds, deal.world_size, deal.batch_size,
                            marked("batch_size"), marked("drop_last")));
}

}  // namespace hopfeed
