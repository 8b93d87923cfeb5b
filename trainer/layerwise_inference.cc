// See layerwise_inference.h.
#include "trainer/layerwise_inference.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <system_error>

#include "core/base/temporary_owner.h"
#include "core/sampler/peer_ids.h"

namespace hopfeed {
namespace {

/// Scores in the host's memory, in the order of the dataset.
class ScoresInMemory final : public ResultSink {
 public:
  ScoresInMemory(const Dataset& dataset, std::int64_t classes) : dataset_(dataset), classes_(classes) {}
  Kind kind() const override { return Kind::kScores; }
  void take(const ResultRows& rows) override {
    if (!all_.defined()) all_ = torch::empty({dataset_.num_nodes(rows.node_type), classes_});
    const auto& offsets =
        dataset_.meta().node_types[static_cast<std::size_t>(rows.node_type)].partition_offsets;
    const std::int64_t first = offsets[static_cast<std::size_t>(rows.partition)] + rows.first;
    std::copy_n(rows.rows, rows.count * rows.width, all_.mutable_data_ptr<float>() + first * rows.width);
  }
  void finish() override {}
  torch::Tensor all() const { return all_.defined() ? all_ : torch::empty({0, classes_}); }

 private:
  const Dataset& dataset_;
  const std::int64_t classes_;
  torch::Tensor all_;
};

/// The label of row `row` of a partition; -1: none.
std::int64_t label(const AttrView& labels, int part, std::int64_t row) {
  return *reinterpret_cast<const std::int64_t*>(labels.parts[static_cast<std::size_t>(part)] +
                                                row * labels.stride_bytes);
}

/// The class of a node's scores; none (-1), which is no node's, where one of them is NaN.
std::int64_t class_of(const float* scores, std::int64_t count) {
  const bool nan = std::any_of(scores, scores + count, [](float score) { return std::isnan(score); });
  return nan ? -1 : std::max_element(scores, scores + count) - scores;
}

}  // namespace

TemporaryLayers::TemporaryLayers() {
  const std::filesystem::path target = std::filesystem::temp_directory_path() / "hopfeed-layers";
  sweep_abandoned(target);
  static std::atomic<int> number{0};  // several at a time in one process
  path_ = temporary_beside(target);
  std::filesystem::create_directories(path_);
  path_ /= std::to_string(number++);
}

TemporaryLayers::~TemporaryLayers() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  std::filesystem::remove(path_.parent_path(), ignored);  // where nobody else has one in it
}

torch::Tensor layerwise_inference(NodeClassifier& model, const Dataset& dataset,
                                  const InferenceProgress& progress) {
  const TemporaryLayers folder;
  FullInference inference(inferred(model, dataset, "node classifier"), dataset,
                          {.folder = folder.path(),
                           .sync = Sync::kNo,
                           .threads = at::get_num_threads(),
                           .device = model.parameters().front().device(),
                           .progress = progress});
  ScoresInMemory scores(dataset, model.num_classes());
  inference.run({&scores});
  return scores.all();
}

SplitAccuracies::SplitAccuracies(const Dataset& dataset, int node_type)
    : labels_(dataset.attr(node_type, "y")), rows_(dataset, node_type) {
  for (const auto& [name, count] : dataset.meta().node_types[static_cast<std::size_t>(node_type)].splits) {
    std::vector<bool>& nodes = nodes_[name];
    nodes.resize(static_cast<std::size_t>(rows_.count()));
    for (const std::int64_t id : dataset_ids_of_split(dataset, node_type, name))
      if (const std::int64_t row = rows_.row_of(id); row >= 0) nodes[static_cast<std::size_t>(row)] = true;
    by_split_[name];
  }
}

void SplitAccuracies::take(const ResultRows& rows) {
  const std::int64_t begin =
      rows_.row_of(labels_.partition_offsets[static_cast<std::size_t>(rows.partition)] + rows.first);
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const std::int64_t wanted = label(labels_, rows.partition, rows.first + i);
    if (wanted < 0) continue;
    const float* const scores = rows.rows + i * rows.width;
    const bool right = class_of(scores, rows.width) == wanted;
    for (auto& [name, nodes] : nodes_) {
      if (!nodes[static_cast<std::size_t>(begin + i)]) continue;
      ++by_split_[name].total;
      by_split_[name].correct += right ? 1 : 0;
    }
  }
}

Accuracy accuracy(const torch::Tensor& logits, const torch::Tensor& labels) {
  const torch::Tensor labelled = labels >= 0, classified = logits.isnan().any(1).logical_not();
  return {.correct = (logits.argmax(1) == labels)
                         .logical_and(labelled)
                         .logical_and(classified)
                         .sum()
                         .item<std::int64_t>(),
          .total = labelled.sum().item<std::int64_t>()};
}

Accuracy split_accuracy(const torch::Tensor& logits, const Dataset& dataset, const std::string& split,
                        int node_type) {
  const AttrView labels = dataset.attr(node_type, "y");
  const std::span<const std::int64_t> ids = dataset.split(node_type, split);
  torch::Tensor rows = torch::empty({std::ssize(ids)}, torch::kInt64), wanted = torch::empty_like(rows);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t id = dataset.dataset_id(node_type, ids[i]);
    const int part = partition_of(labels.partition_offsets, id);
    rows.mutable_data_ptr<std::int64_t>()[i] = id;
    wanted.mutable_data_ptr<std::int64_t>()[i] =
        label(labels, part, id - labels.partition_offsets[static_cast<std::size_t>(part)]);
  }
  return accuracy(logits.index_select(0, rows), wanted);
}

}  // namespace hopfeed
