// See layerwise_inference.h.
#include "trainer/layerwise_inference.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "trainer/batch_tensors.h"
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

std::int64_t width_of(const AttrView& attr) {
  return attr.row_bytes / static_cast<std::int64_t>(element_bytes(attr.type));
}

/// An array that lies in a mapped file, as a tensor that owns nothing.
torch::Tensor mapped(const void* data, ElementType type, c10::IntArrayRef shape, c10::IntArrayRef strides) {
  return torch::from_blob(const_cast<void*>(data), shape, strides, torch::TensorOptions(dtype_of(type)));
}

torch::Tensor mapped_rows(const AttrView& attr, const Chunk& chunk) {
  return mapped(attr.parts[chunk.part] + chunk.begin * attr.stride_bytes, attr.type,
                {chunk.rows(), width_of(attr)},
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
  CompressedRows rows{torch::empty({chunk.rows() + 1}, torch::kInt64), {}};
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
  Inference(GraphSageImpl& model, const Dataset& dataset, const InferenceProgress& progress)
      : model_(model),
        dataset_(dataset),
        progress_(progress),
        features_(dataset.attr(0, "x")),
        nodes_(dataset.num_nodes(0)),
        dtype_(model.parameters().front().scalar_type()) {
    const std::int64_t hops = model.options().hops;
    total_ = static_cast<std::uint64_t>(nodes_ * (hops > 0 ? 2 * hops : 1));
    if (width_of(features_) != model.options().features) {
      throw Error(ErrorCode::kInvalid, "the model was made for " + std::to_string(model.options().features) +
                                           " features, the dataset has " +
                                           std::to_string(width_of(features_)));
    }
    if (hops > 0 && (dataset.num_edge_types() != 1 || dataset.num_node_types() != 1)) {
      throw Error(ErrorCode::kUnsupported,
                  "layer-wise inference takes a graph of one node type and one edge type");
    }
  }

  torch::Tensor run() {
    const ModelOptions& options = model_.options();
    if (options.hops == 0) return perceptron();
    for (std::int64_t l = 0; l < options.hops; ++l) {
      const bool last = l + 1 == options.hops;
      h_ = layer(model_.conv(l), last ? options.classes : options.hidden,
                 last ? Activation::kNone : Activation::kRelu);
    }
    return h_;
  }

 private:
  enum class Activation { kNone, kRelu };

  torch::Tensor input(const Chunk& chunk) const {
    return (h_.defined() ? chunk.of(h_) : mapped_rows(features_, chunk)).to(dtype_);
  }

  void advance(const Chunk& chunk) {
    done_ += static_cast<std::uint64_t>(chunk.rows());
    if (progress_) progress_(done_, total_);
  }

  torch::Tensor perceptron() {
    torch::Tensor logits = torch::empty({nodes_, model_.options().classes}, dtype_);
    for_each_chunk(features_.partition_offsets, [&](const Chunk& chunk) {
      chunk.of(logits).copy_(model_.perceptron(input(chunk)));
      advance(chunk);
    });
    return logits;
  }

  torch::Tensor layer(SageConvImpl& conv, std::int64_t width, Activation activation) {
    torch::Tensor messages = torch::empty({nodes_, width}, dtype_),
                  out = torch::empty({nodes_, width}, dtype_);
    for_each_chunk(features_.partition_offsets, [&](const Chunk& chunk) {
      const torch::Tensor x = input(chunk);
      chunk.of(messages).copy_(conv.message(x));
      chunk.of(out).copy_(conv.self(x));
      advance(chunk);
    });
    const CscView csc = dataset_.csc(0);
    for_each_chunk(csc.partition_offsets, [&](const Chunk& chunk) {
      torch::Tensor rows = chunk.of(out).add_(mean_aggregate(messages, read_rows(csc, chunk)));
      if (activation == Activation::kRelu) rows.relu_();
      advance(chunk);
    });
    return out;
  }

  GraphSageImpl& model_;
  const Dataset& dataset_;
  const InferenceProgress& progress_;
  AttrView features_;
  std::int64_t nodes_;
  torch::Dtype dtype_;
  torch::Tensor h_;  // behind the last layer that is done; undefined: the features
  std::uint64_t done_ = 0, total_ = 0;
};

}  // namespace

torch::Tensor layerwise_inference(GraphSage model, const Dataset& dataset,
                                  const InferenceProgress& progress) {
  release_tensor_pool();  // of the training, which may have kept as much as inference needs
  const torch::NoGradGuard no_gradients;
  const bool was_training = model->is_training();
  model->eval();
  const torch::Tensor logits = Inference(*model, dataset, progress).run();
  model->train(was_training);
  return logits;
}

Accuracy accuracy(const torch::Tensor& logits, const torch::Tensor& labels) {
  const torch::Tensor labelled = labels >= 0;
  return {.correct = (logits.argmax(1) == labels).logical_and(labelled).sum().item<std::int64_t>(),
          .total = labelled.sum().item<std::int64_t>()};
}

Accuracy split_accuracy(const torch::Tensor& logits, const Dataset& dataset, const std::string& split) {
  const AttrView attr = dataset.attr(0, "y");
  const std::span<const std::int64_t> ids = dataset.split(0, split);
  torch::Tensor labels = torch::empty({dataset.num_nodes(0)}, torch::kInt64);
  for_each_chunk(attr.partition_offsets,
                 [&](const Chunk& chunk) { chunk.of(labels).copy_(mapped_rows(attr, chunk).squeeze(1)); });
  torch::Tensor rows = torch::empty({static_cast<std::int64_t>(ids.size())}, torch::kInt64);
  std::transform(ids.begin(), ids.end(), rows.mutable_data_ptr<std::int64_t>(),
                 [&](std::int64_t id) { return dataset.dataset_id(0, id); });
  return accuracy(logits.index_select(0, rows), labels.index_select(0, rows));
}

}  // namespace hopfeed
