// See link_trainer.h.
#include "trainer/link_trainer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "trainer/model_description.h"
#include "trainer/roc_auc.h"
#include "worker_mode/local_streams.h"

namespace hopfeed {
namespace {

void check(const LinkTrainingOptions& options) {
  require_valid(options.loader.batch.link.on(), "links are trained on, but no edge type of links is given");
  require_valid(options.epochs > 0,
                marked("epochs") + " is " + std::to_string(options.epochs) + "; use at least 1");
  require_valid(options.checkpoint_every >= 0, "checkpoint-every is " +
                                                   std::to_string(options.checkpoint_every) +
                                                   "; use 0 (after each epoch) or a number of steps");
  require_valid(options.keep >= 0,
                "keep is " + std::to_string(options.keep) + "; use 0 (one, with owners three) or more");
  require_valid(options.max_batches >= 0,
                "max-batches is " + std::to_string(options.max_batches) + "; use 0 (all) or more");
  require_valid(options.lr > 0 && options.embedding_lr > 0, "a learning rate is 0 or less; use one above 0");
  require_valid(options.resume != Resume::kAlways || !options.out.empty(),
                "resume needs an output folder, where the checkpoint lies");
}

/// What the model reads of the nodes' attributes.
std::vector<std::string> read_attrs(const DatasetMeta& meta) {
  const bool features = std::any_of(meta.node_types.begin(), meta.node_types.end(),
                                    [](const NodeTypeMeta& type) { return feature_width(type) > 0; });
  return features ? std::vector<std::string>{"x"} : std::vector<std::string>{};
}

LoaderOptions loader_options(const LinkTrainingOptions& options, const DatasetMeta& dataset,
                             const World& world, const std::string& split) {
  LoaderOptions loader = options.loader;
  loader.batch.attrs = read_attrs(dataset);
  loader.links = split == options.test_split && options.test_pairs ? LinkInput{.pairs = options.test_pairs}
                                                                   : LinkInput{.split = split};
  const int links = dataset.edge_type(loader.batch.link.edge_type);
  if (!loader.links->pairs && dataset.has_labels(dataset.edge_types[static_cast<std::size_t>(links)], split))
    loader.batch.link.negatives = {};  // label 0 says which they are
  loader.seed = options.seed;
  loader.deal.rank = world.rank();
  loader.deal.world_size = world.size();
  if (split == options.train_split) return loader;
  loader.shuffle = false;
  loader.deal.drop_last = false;
  return loader;
}

LinkModelOptions model_options(const LinkTrainingOptions& options, const DatasetMeta& dataset) {
  return {.dataset = dataset,
          .batch = options.loader.batch,
          .edge_type = options.loader.batch.link.edge_type,
          .hidden = options.hidden,
          .dropout = options.dropout,
          .seed = options.seed,
          .embedding_lr = options.embedding_lr,
          .owners = options.owners.of_model(options.name)};
}

/// What decides the result. Epochs, workers and ranks may change between a run and the one that goes on.
Settings settings_of(const LinkTrainingOptions& options, const BatchStream& stream) {
  const auto text = [](const auto& value) { return nlohmann::json(value).dump(); };
  Settings settings = settings_of(stream);
  settings.insert({{"valid split", options.valid_split},
                   {"test split", options.test_split},
                   {"max-batches", text(options.max_batches)},
                   {"hidden", text(options.hidden)},
                   {"dropout", text(options.dropout)},
                   {"lr", text(options.lr)},
                   {"embedding-lr", text(options.embedding_lr)}});
  if (options.precision != Precision::kFloat32) settings["precision"] = to_string(options.precision);
  if (options.test_pairs) {
    const std::vector<std::int64_t>& pairs = *options.test_pairs;
    settings["hash of the test links"] = sha256(std::as_bytes(std::span(pairs)));
  }
  return settings;
}

std::string description_of(const LinkTrainingOptions& options, const DatasetMeta& dataset) {
  ModelDescription made = described(dataset);
  const int links = dataset.edge_type(options.loader.batch.link.edge_type);
  made.kind = "links";
  made.type = dataset.edge_types[static_cast<std::size_t>(links)].folder();
  made.fanouts = options.loader.batch.fanouts;
  made.edge_fanouts = options.loader.batch.edge_fanouts;
  made.hidden = options.hidden;
  made.dropout = options.dropout;
  made.seed = options.seed;
  return made.to_json();
}

EpochLoopOptions loop_options(const LinkTrainingOptions& options, const DatasetMeta& dataset,
                              const BatchStream& stream) {
  return {.settings = settings_of(options, stream),
          .epochs = options.epochs,
          .max_batches = options.max_batches,
          .checkpoint_every = options.checkpoint_every,
          .keep = options.keep,
          .seed = options.seed,
          .out = options.out,
          .name = options.name,
          .resume = options.resume,
          .device = options.device,
          .copy_batches = options.copy_batches,
          .owners = options.owners,
          .dataset = dataset,
          .description = description_of(options, dataset)};
}

std::shared_ptr<const StreamSource> streams_of(const LinkTrainingOptions& options) {
  return options.streams ? options.streams : std::make_shared<const LocalStreams>(options.loader.dataset);
}

class LinkTraining final : public TrainingTask {
 public:
  LinkTraining(World& world, const LinkTrainingOptions& options, const TrainingCallbacks& callbacks)
      : world_(world),
        options_(options),
        streams_(streams_of(options)),
        model_(made_model()),
        adam_(model_->parameters(), torch::optim::AdamOptions(options.lr)),
        stream_(open(options.train_split)),
        loop_(world, loop_options(options, streams_->meta(), *stream_), callbacks, *stream_, *model_, adam_),
        valid_stream_(open_if_there(options.valid_split)),
        test_stream_(open_if_there(options.test_split)) {}

  LinkTrainingResult run() {
    loop_.run(*this);
    return {.rows = loop_.progress().rows,
            .best_epoch = loop_.progress().best_epoch,
            .learned_rows = model_->num_learned_rows() + loop_.learned_rows(),
            .returns = loop_.returns(),
            .stopped = world_.stop_agreed()};
  }

 private:
  LinkModel made_model() const {
    torch::manual_seed(options_.seed);
    LinkModel model(model_options(options_, streams_->meta()));
    model->to(options_.device);
    return model;
  }

  std::unique_ptr<BatchStream> open(const std::string& split) const {
    return streams_->open(loader_options(options_, streams_->meta(), world_, split));
  }
  /// What a rank's meta says decides whether it takes part in the exchange, so they have to be of one
  /// dataset.
  std::unique_ptr<BatchStream> open_if_there(const std::string& split) const {
    require_dataset(streams_->meta(), *stream_);
    if (!has_links(options_, streams_->meta(), split)) return nullptr;
    std::unique_ptr<BatchStream> stream = open(split);
    require_agreement(world_, *stream);
    return stream;
  }

  AnyBatchTensors tensors_of(const Batch& batch, CopyStream* copies) override {
    return to_typed_tensors(batch, streams_->meta(), copies);
  }

  torch::Tensor scores_of(const TypedBatchTensors& batch) {
    const PrecisionScope scope(options_.device.type(), options_.precision);
    return model_->forward(batch).to(torch::kFloat32);
  }

  BatchLoss loss(const AnyBatchTensors& batch) override {
    const auto& tensors = std::get<TypedBatchTensors>(batch);
    const torch::Tensor scores = scores_of(tensors),
                        labels = tensors.links.edge_label.gt(0).to(torch::kFloat32);
    return {.sum = torch::nn::functional::binary_cross_entropy_with_logits(
                scores, labels,
                torch::nn::functional::BinaryCrossEntropyWithLogitsFuncOptions().reduction(torch::kSum)),
            .count = labels.numel()};
  }

  void look(const AnyBatchTensors& batch) override { model_->look(std::get<TypedBatchTensors>(batch)); }

  void after_step() override { model_->step_embeddings(world_); }

  std::optional<double> score(EpochRow& row) override {
    if (valid_stream_) row.valid_auc = auc_of(*valid_stream_);
    if (test_stream_ && !world_.stop_agreed() && !world_.go_back_agreed())
      row.test_auc = auc_of(*test_stream_);
    return valid_stream_ ? std::optional(row.valid_auc) : std::nullopt;
  }

  /// ROC-AUC of a split's links against negatives that are the same in each epoch; every rank scores its
  /// share of the batches.
  double auc_of(BatchStream& stream) {
    std::vector<torch::Tensor> scored{torch::empty({0, 2})};
    loop_.evaluate(*this, stream, [&](const AnyBatchTensors& batch) {
      const auto& tensors = std::get<TypedBatchTensors>(batch);
      scored.push_back(
          torch::stack({scores_of(tensors), tensors.links.edge_label.to(torch::kFloat32)}, 1).cpu());
    });
    const torch::Tensor all = torch::cat(world_.gather_rows(torch::cat(scored)));
    world_.sum({0});  // where somebody was asked to stop, his share is missing and all know it
    return world_.stop_agreed() || world_.go_back_agreed() ? 0 : roc_auc(all.select(1, 0), all.select(1, 1));
  }

  World& world_;
  const LinkTrainingOptions& options_;
  const std::shared_ptr<const StreamSource> streams_;
  LinkModel model_;
  torch::optim::Adam adam_;
  const std::unique_ptr<BatchStream> stream_;  // of the links that are learned from
  EpochLoop loop_;
  const std::unique_ptr<BatchStream> valid_stream_,
      test_stream_;  // none where the edge type has no such split
};

}  // namespace

bool has_links(const LinkTrainingOptions& options, const DatasetMeta& dataset, const std::string& split) {
  const int links = dataset.edge_type(options.loader.batch.link.edge_type);
  return (split == options.test_split && options.test_pairs) ||
         dataset.edge_types[static_cast<std::size_t>(links)].splits.contains(split);
}

LinkTrainingResult train_links(World& world, const LinkTrainingOptions& options,
                               const TrainingCallbacks& callbacks) {
  check(options);
  const DeterministicScope deterministic(options.device, options.deterministic);
  return LinkTraining(world, options, callbacks).run();
}

}  // namespace hopfeed
