// See hetero_sage.h.
#include "trainer/hetero_sage.h"

#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

void check(const HeteroOptions& options) {
  options.batch.validate();
  const auto hops = options.batch.fanouts.size();
  require_valid(hops > 0, "HeteroSage needs a hop at least; give fanouts");
  require_ids_of_rows(options.owners, options.batch, "HeteroSage");
  require_valid(options.hidden > 0 && options.hidden <= kMaxHidden,
                marked("hidden") + " is " + std::to_string(options.hidden) + "; use 1 to " +
                    std::to_string(kMaxHidden));
  require_valid(options.dropout >= 0 && options.dropout < 1,
                marked("dropout") + " is " + std::to_string(options.dropout) + "; use 0 up to below 1");
  const NodeTypeMeta& seeds = options.dataset.node_types.at(static_cast<std::size_t>(options.seed_type));
  require_valid(seeds.num_classes > 1, "the model needs at least 2 classes, not " +
                                           std::to_string(seeds.num_classes) + "; does node type '" +
                                           seeds.name + "' have labels 'y'?");
}

}  // namespace

std::vector<std::int64_t> input_widths(const DatasetMeta& dataset, std::int64_t learned) {
  std::vector<std::int64_t> widths;
  for (const NodeTypeMeta& type : dataset.node_types)
    widths.push_back(feature_width(type) > 0 ? feature_width(type) : learned);
  return widths;
}

torch::Tensor input_features(const NodeTypeMeta& type, const NodeTensors& nodes, torch::Dtype dtype) {
  const std::int64_t width = feature_width(type);
  require_valid(nodes.x.defined() && nodes.x.dim() == 2 && nodes.x.size(1) == width,
                "the batch's x of node type '" + type.name + "' does not have the " + std::to_string(width) +
                    " features that the model was made for");
  return nodes.x.to(dtype);
}

HeteroSageImpl::HeteroSageImpl(const HeteroOptions& options) : options_(options) {
  check(options);
  options_.dataset.files.clear();
  HopTypes types = hop_types(options_.dataset, options_.batch, {options_.seed_type});
  make_embeddings(types);
  encoder_.emplace(*this, options_.dataset, std::move(types),
                   HeteroEncoderOptions{.seed_types = {options_.seed_type},
                                        .input_widths = input_widths(options_.dataset, options_.hidden),
                                        .hidden = options_.hidden,
                                        .out = num_classes(),
                                        .dropout = options_.dropout});
}

void HeteroSageImpl::make_embeddings(const HopTypes& reach) {
  const std::size_t types = options_.dataset.node_types.size();
  embeddings_.assign(types, DistEmbedding(nullptr));
  for (std::size_t t = 0; t < types; ++t) {
    const NodeTypeMeta& type = options_.dataset.node_types[t];
    if (!reach.reaches(static_cast<int>(t)) || feature_width(type) > 0) continue;
    require_valid(
        options_.owners.network != nullptr || type.count <= kMaxEmbeddingElements / options_.hidden,
        "node type '" + type.name + "' has no features 'x' and " + std::to_string(type.count) +
            " nodes, too many to learn " + std::to_string(options_.hidden) +
            " numbers for each in one place; import it with features, give them owners, or leave the edge "
            "types to it out by fanouts of 0");
    embeddings_[t] = register_module(
        "embedding_" + module_name(type.name),
        learned_rows_of(options_.owners, type, options_.hidden, options_.seed + t, options_.embedding_lr));
  }
}

torch::Tensor HeteroSageImpl::input(int node_type, const NodeTensors& in) {
  const torch::Dtype dtype = parameters().front().scalar_type();
  DistEmbedding& embedding = embeddings_[static_cast<std::size_t>(node_type)];
  if (!embedding.is_empty()) return embedding->forward(ids_of_rows(embedding, in)).to(dtype);
  return input_features(nodes(node_type), in, dtype);
}

torch::Tensor HeteroSageImpl::forward(const TypedBatchTensors& batch) {
  require_valid(batch.seed_type == options_.seed_type && !batch.links.any(),
                "the batch's seeds are not of node type '" + nodes(options_.seed_type).name +
                    "', which the model was made for");
  std::vector<torch::Tensor> h(batch.nodes.size());
  for (int t = 0; t < static_cast<int>(batch.nodes.size()); ++t) {
    if (encoder_->types().reaches(t) && batch.nodes[t].num_nodes() > 0) h[t] = input(t, batch.nodes[t]);
  }
  return encoder_->forward(batch, std::move(h), is_training())[options_.seed_type];
}

SeedLogits HeteroSageImpl::at_seeds(const AnyBatchTensors& batch) {
  const auto& tensors = std::get<TypedBatchTensors>(batch);
  return {.logits = tensors.at_seeds(forward(tensors)),
          .labels = tensors.at_seeds(tensors.nodes[options_.seed_type].y)};
}

}  // namespace hopfeed
