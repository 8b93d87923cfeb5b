// See link_model.h.
#include "trainer/link_model.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "trainer/hetero_sage.h"

namespace hopfeed {
namespace {

void check(const LinkModelOptions& options) {
  options.batch.validate();
  require_ids_of_rows(options.owners, options.batch, "a link model");
  require_valid(options.hidden > 0 && options.hidden <= kMaxHidden,
                marked("hidden") + " is " + std::to_string(options.hidden) + "; use 1 to " +
                    std::to_string(kMaxHidden));
  require_valid(options.dropout >= 0 && options.dropout < 1,
                marked("dropout") + " is " + std::to_string(options.dropout) + "; use 0 up to below 1");
}

std::vector<int> ends(int src_type, int dst_type) {
  return src_type == dst_type ? std::vector{src_type} : std::vector{src_type, dst_type};
}

}  // namespace

LinkModelImpl::LinkModelImpl(const LinkModelOptions& options)
    : options_(options), link_type_(options.dataset.edge_type(options.edge_type)) {
  check(options);
  options_.dataset.files.clear();
  const EdgeTypeMeta& links = options_.dataset.edge_types[static_cast<std::size_t>(link_type_)];
  src_type_ = options_.dataset.edge_src_type(links);
  dst_type_ = options_.dataset.edge_dst_type(links);
  const std::vector<int> seed_types = ends(src_type_, dst_type_);
  HopTypes types = hop_types(options_.dataset, options_.batch, seed_types);
  make_embeddings(types);
  const std::vector<std::int64_t> widths = input_widths(options_.dataset, options_.hidden);
  const auto width_of = [&](int type) {
    return types.hops() > 0 ? options_.hidden : widths[static_cast<std::size_t>(type)];
  };
  const std::int64_t both = width_of(src_type_) + width_of(dst_type_);
  encoder_.emplace(*this, options_.dataset, std::move(types),
                   HeteroEncoderOptions{.seed_types = seed_types,
                                        .input_widths = widths,
                                        .hidden = options_.hidden,
                                        .out = options_.hidden,
                                        .dropout = options_.dropout});
  both_ = register_module("both", torch::nn::Linear(both, options_.hidden));
  score_ = register_module("score", torch::nn::Linear(options_.hidden, 1));
}

void LinkModelImpl::make_embeddings(const HopTypes& types) {
  const std::vector<NodeTypeMeta>& nodes = options_.dataset.node_types;
  embeddings_.assign(nodes.size(), DistEmbedding(nullptr));
  for (std::size_t t = 0; t < nodes.size(); ++t) {
    if (!types.reaches(static_cast<int>(t)) || feature_width(nodes[t]) > 0) continue;
    embeddings_[t] = register_module("embedding_" + module_name(nodes[t].name),
                                     learned_rows_of(options_.owners, nodes[t], options_.hidden,
                                                     options_.seed + t, options_.embedding_lr));
  }
}

torch::Tensor LinkModelImpl::input(int node_type, const NodeTensors& nodes) {
  DistEmbedding& embedding = embeddings_[static_cast<std::size_t>(node_type)];
  if (!embedding.is_empty()) return embedding->forward(ids_of_rows(embedding, nodes));
  return input_features(options_.dataset.node_types[static_cast<std::size_t>(node_type)], nodes,
                        torch::kFloat32);
}

torch::Tensor LinkModelImpl::forward(const TypedBatchTensors& batch) {
  require_valid(
      batch.links.edge_type == link_type_,
      "the batch's seeds are not links of type '" + options_.edge_type + "', which the model was made for");
  require_valid(batch.links.edge_label_index.defined() && batch.links.edge_label.defined(),
                "a link model learns from labelled pairs; draw negatives of kind binary, or give labels");
  std::vector<torch::Tensor> h(batch.nodes.size());
  for (std::size_t t = 0; t < batch.nodes.size(); ++t) {
    if (encoder_->types().reaches(static_cast<int>(t)) && batch.nodes[t].num_nodes() > 0)
      h[t] = input(static_cast<int>(t), batch.nodes[t]);
  }
  h = encoder_->forward(batch, std::move(h), is_training());
  if (encoder_->types().hops() > 0) {
    for (const int type : ends(src_type_, dst_type_)) h[type] = torch::relu(h[type]);
  }
  const torch::Tensor pairs = torch::cat({h[src_type_].index_select(0, batch.links.edge_label_index[0]),
                                          h[dst_type_].index_select(0, batch.links.edge_label_index[1])},
                                         1);
  return score_->forward(torch::relu(both_->forward(pairs))).squeeze(1);
}

std::vector<int> LinkModelImpl::end_types() const { return ends(src_type_, dst_type_); }

std::int64_t LinkModelImpl::num_learned_rows() const {
  std::int64_t rows = 0;
  for (const DistEmbedding& embedding : embeddings_) {
    if (!embedding.is_empty() && !embedding->at_owners()) rows += embedding->table().num_learned();
  }
  return rows;
}

}  // namespace hopfeed
