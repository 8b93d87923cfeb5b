// See layerwise_inference.h.
#include "trainer/layerwise_inference.h"

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "trainer/batch_tensors.h"
#include "trainer/dequantised.h"
#include "trainer/mean_aggregation.h"
#include "trainer/tensor_pool.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kChunkRows = 16'384;

/// A run of rows inside one partition; `first` is the dataset id of the first.
struct Chunk {
  int part;
  std::int64_t begin, end, first;
  std::int64_t rows() const { return end - begin; }
  torch::Tensor of(const torch::Tensor& all) const { return all.narrow(0, first, rows()); }
};

template <class Body>
void for_each_chunk(std::span<const std::int64_t> offsets, Body body) {
  for (int part = 0; part + 1 < static_cast<int>(offsets.size()); ++part) {
    const std::int64_t rows = offsets[part + 1] - offsets[part];
    for (std::int64_t begin = 0; begin < rows; begin += kChunkRows) {
      body(Chunk{part, begin, std::min(begin + kChunkRows, rows), offsets[part] + begin});
    }
  }
}

/// An array that lies in a mapped file, as a tensor that owns nothing.
torch::Tensor mapped(const void* data, ElementType type, c10::IntArrayRef shape, c10::IntArrayRef strides) {
  return torch::from_blob(const_cast<void*>(data), shape, strides, torch::TensorOptions(dtype_of(type)));
}

/// Rows with a scale as their values, which are copied.
torch::Tensor attr_rows(const AttrView& attr, const Chunk& chunk) {
  const std::byte* const first = attr.parts[chunk.part] + chunk.begin * attr.stride_bytes;
  if (has_scale(attr.type))
    return dequantised({.type = attr.type,
                        .elements = attr.row_elements,
                        .stride_bytes = attr.stride_bytes,
                        .count = chunk.rows(),
                        .rows = first},
                       {chunk.rows(), attr.row_elements});
  return mapped(first, attr.type, {chunk.rows(), attr.row_elements},
                {attr.stride_bytes / static_cast<std::int64_t>(element_bytes(attr.type)), 1});
}

[[noreturn]] void throw_corrupt(const Chunk& chunk, const char* what) {
  throw Error(ErrorCode::kCorrupt, std::string(what) + " of partition " + std::to_string(chunk.part) +
                                       ", rows " + std::to_string(chunk.begin) + " to " +
                                       std::to_string(chunk.end) +
                                       ": outside the graph; run hopfeed-partition verify");
}

/// The in-edges of the chunk's rows, every offset and id checked before it is used.
CompressedRows read_rows(const CscView& csc, const Chunk& chunk) {
  const CscPart& part = csc.parts[chunk.part];
  const std::int64_t first = part.rows[chunk.begin].offset, last = part.rows[chunk.end].offset;
  CompressedRows rows{torch::empty({chunk.rows() + 1}, torch::kInt64), {}, {}};
  std::int64_t* rowptr = rows.rowptr.mutable_data_ptr<std::int64_t>();
  std::int64_t before = 0;
  for (std::int64_t i = 0; i <= chunk.rows(); ++i) {
    const std::int64_t offset = part.rows[chunk.begin + i].offset;
    if (offset < before || offset > part.num_edges) throw_corrupt(chunk, "row offsets");
    rowptr[i] = offset - first;
    before = offset;
  }
  const auto* ids = static_cast<const std::byte*>(part.indices) +
                    first * static_cast<std::int64_t>(element_bytes(csc.index_type));
  rows.col = mapped(ids, csc.index_type, {last - first}, {1}).to(torch::kInt64);
  const std::int64_t* col = rows.col.const_data_ptr<std::int64_t>();
  const bool fits = std::all_of(col, col + (last - first),
                                [&](std::int64_t id) { return id >= 0 && id < csc.num_src_nodes; });
  if (!fits) throw_corrupt(chunk, "neighbours");
  return rows;
}

class Inference {
 public:
  Inference(const NodeClassifier& model, const Dataset& dataset, const InferenceProgress& progress)
      : model_(model),
        dataset_(dataset),
        progress_(progress),
        layers_(model.layers()),
        dtype_(model.parameters().front().scalar_type()),
        device_(model.parameters().front().device()),
        h_(static_cast<std::size_t>(dataset.num_node_types())) {
    for (const LayerMaps& layer : layers_) {
      for (const LayerMaps::Destination& to : layer.destinations) count(to);
    }
    for (const LayerMaps::Destination& to : layers_.front().destinations) check_widths(to);
  }

  torch::Tensor run() {
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      std::vector<torch::Tensor> next(h_.size());
      for (const LayerMaps::Destination& to : layers_[l].destinations) {
        next[to.node_type] = computed(to);
        if (l + 1 < layers_.size()) next[to.node_type].relu_();
      }
      h_ = std::move(next);
    }
    return h_[layers_.back().destinations.front().node_type];
  }

 private:
  void count(const LayerMaps::Destination& to) {
    const auto nodes = static_cast<std::uint64_t>(dataset_.num_nodes(to.node_type));
    if (!self_goes_along(to)) total_ += nodes;
    for (const LayerMaps::Relation& relation : to.relations)
      total_ += nodes + static_cast<std::uint64_t>(dataset_.csc(relation.edge_type).num_src_nodes);
  }

  void check_widths(const LayerMaps::Destination& to) const {
    check_width(to.node_type, to.weight);
    for (const LayerMaps::Relation& relation : to.relations)
      check_width(dataset_.csc(relation.edge_type).src_type, relation.weight);
  }

  void check_width(int node_type, const torch::Tensor& weight) const {
    if (!model_.learned_rows(node_type).is_empty()) return;
    const std::int64_t width = dataset_.attr(node_type, "x").row_elements;
    if (width == weight.size(1)) return;
    throw Error(ErrorCode::kInvalid, "the model was made for " + std::to_string(weight.size(1)) +
                                         " features, the dataset has " + std::to_string(width) +
                                         " of node type '" + dataset_.meta().node_types[node_type].name +
                                         "'");
  }

  /// Behind the last layer that is done; before the first the features, or what is learned in their place.
  torch::Tensor input(int node_type, const Chunk& chunk) const {
    if (h_[node_type].defined()) return chunk.of(h_[node_type]);
    DistEmbedding embedding = model_.learned_rows(node_type);
    if (embedding.is_empty()) return attr_rows(dataset_.attr(node_type, "x"), chunk).to(dtype_);
    torch::Tensor ids = torch::arange(chunk.first, chunk.first + chunk.rows(), torch::kInt64);
    if (embedding->at_owners()) return embedding->forward(ids).to(dtype_);
    torch::Tensor original = ids.clone();
    dataset_.original_ids(node_type,
                          {ids.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(ids.numel())},
                          original.mutable_data_ptr<std::int64_t>());
    return embedding->forward(original).to(dtype_);
  }

  void advance(const Chunk& chunk) {
    done_ += static_cast<std::uint64_t>(chunk.rows());
    if (progress_) progress_(done_, total_);
  }

  /// Calls body(chunk, input of the chunk's rows) for all nodes of a type.
  template <class Body>
  void for_each_input(int node_type, Body body) {
    for_each_chunk(dataset_.meta().node_types[node_type].partition_offsets, [&](const Chunk& chunk) {
      body(chunk, input(node_type, chunk));
      advance(chunk);
    });
  }

  /// Whether the first relation reads the destination's own type, so that one pass over the input does for
  /// both.
  bool self_goes_along(const LayerMaps::Destination& to) const {
    return !to.relations.empty() && dataset_.csc(to.relations.front().edge_type).src_type == to.node_type;
  }

  torch::Tensor computed(const LayerMaps::Destination& to) {
    torch::Tensor out = torch::empty({dataset_.num_nodes(to.node_type), to.weight.size(0)}, dtype_);
    const auto self = [&](const Chunk& chunk, const torch::Tensor& x) {
      chunk.of(out).copy_(torch::addmm(to.bias, x.to(device_), to.weight.t()));
    };
    bool self_is_due = true;
    if (!self_goes_along(to)) {
      for_each_input(to.node_type, self);
      self_is_due = false;
    }
    for (const LayerMaps::Relation& relation : to.relations) {
      const CscView csc = dataset_.csc(relation.edge_type);
      torch::Tensor messages = torch::empty({csc.num_src_nodes, out.size(1)}, dtype_);
      for_each_input(csc.src_type, [&](const Chunk& chunk, const torch::Tensor& x) {
        chunk.of(messages).copy_(torch::matmul(x.to(device_), relation.weight.t()));
        if (self_is_due) self(chunk, x);
      });
      self_is_due = false;
      for_each_chunk(csc.partition_offsets, [&](const Chunk& chunk) {
        chunk.of(out).add_(mean_aggregate(messages, read_rows(csc, chunk)));
        advance(chunk);
      });
    }
    return out;
  }

  const NodeClassifier& model_;
  const Dataset& dataset_;
  const InferenceProgress& progress_;
  const std::vector<LayerMaps> layers_;
  const torch::Dtype dtype_;
  const torch::Device
      device_;  // of the model: products are computed there, means and all nodes' rows stay here
  std::vector<torch::Tensor> h_;  // by node type
  std::uint64_t done_ = 0, total_ = 0;
};

}  // namespace

torch::Tensor layerwise_inference(NodeClassifier& model, const Dataset& dataset,
                                  const InferenceProgress& progress) {
  release_tensor_pool();  // of the training, which may have kept as much as inference needs
  const torch::NoGradGuard no_gradients;
  const bool was_training = model.is_training();
  model.eval();
  const torch::Tensor logits = Inference(model, dataset, progress).run();
  model.train(was_training);
  return logits;
}

Accuracy accuracy(const torch::Tensor& logits, const torch::Tensor& labels) {
  const torch::Tensor labelled = labels >= 0;
  return {.correct = (logits.argmax(1) == labels).logical_and(labelled).sum().item<std::int64_t>(),
          .total = labelled.sum().item<std::int64_t>()};
}

Accuracy split_accuracy(const torch::Tensor& logits, const Dataset& dataset, const std::string& split,
                        int node_type) {
  const AttrView attr = dataset.attr(node_type, "y");
  const std::span<const std::int64_t> ids = dataset.split(node_type, split);
  torch::Tensor labels = torch::empty({dataset.num_nodes(node_type)}, torch::kInt64);
  for_each_chunk(attr.partition_offsets,
                 [&](const Chunk& chunk) { chunk.of(labels).copy_(attr_rows(attr, chunk).squeeze(1)); });
  torch::Tensor rows = torch::empty({static_cast<std::int64_t>(ids.size())}, torch::kInt64);
  std::transform(ids.begin(), ids.end(), rows.mutable_data_ptr<std::int64_t>(),
                 [&](std::int64_t id) { return dataset.dataset_id(node_type, id); });
  return accuracy(logits.index_select(0, rows), labels.index_select(0, rows));
}

}  // namespace hopfeed
