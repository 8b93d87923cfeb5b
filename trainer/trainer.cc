// See trainer.h.
#include "trainer/trainer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/sampler/peer_ids.h"
#include "core/seeds/node_set.h"
#include "core/seeds/split_by_partition.h"
#include "peers/open_partitions.h"
#include "trainer/hetero_sage.h"
#include "trainer/layerwise_inference.h"
#include "trainer/model.h"
#include "trainer/model_description.h"
#include "worker_mode/local_streams.h"

namespace hopfeed {
namespace {

template <class T>
std::string to_text(const T& value) {
  return nlohmann::json(value).dump();
}
std::string to_text(double value) {  // JSON has no NaN
  return std::isfinite(value) ? nlohmann::json(value).dump() : std::to_string(value);
}

/// Layers read, of each node that they compute, in-neighbours; the loss is that of the seeds.
void check_sampling(const BatchOptions& batch) {
  require_valid(
      batch.sampler != BatchOptions::kClusterSampler,
      "batches of whole clusters have nodes of every split and no training nodes as seeds; write a loop of "
      "your own around GraphSage (examples/own_training_loop.cc), with the loss of the training nodes");
  require_valid(
      batch.sampler != BatchOptions::kWalkSampler || batch.subgraph == Subgraph::kInduced,
      "a walk's edges are steps and not neighbourhoods, which layers average; sample with subgraph induced");
  require_valid(
      batch.subgraph != Subgraph::kBidirectional,
      "bidirectional batches do not tell hop by hop what layers compute; sample with subgraph directional "
      "or induced");
}

void check(const TrainingOptions& options) {
  const auto require = [](bool holds, const std::string& name, const auto& value, const char* what) {
    if (!holds) throw Error(ErrorCode::kInvalid, name + " is " + to_text(value) + "; use " + what);
  };
  require(options.epochs > 0, marked("epochs"), options.epochs, "at least 1");
  require(options.lr > 0, marked("lr"), options.lr, "a number above 0");
  require(options.weight_decay >= 0, "weight-decay", options.weight_decay, "0 or more");
  require(options.resume != Resume::kAlways || !options.out.empty(), marked("resume"), true,
          "it with an output folder, where the checkpoint lies");
  require(options.checkpoint_every >= 0, "checkpoint-every", options.checkpoint_every,
          "0 (after each epoch) or a number of steps");
  require(options.keep >= 0, "keep", options.keep, "0 (one, with owners three) or a number of checkpoints");
  check_sampling(options.loader.batch);
  if (options.local_seeds && options.streams)
    throw Error(ErrorCode::kInvalid,
                "seeds of the partition that a trainer is beside are of a dataset folder (--data), and "
                "servers are named; "
                "deal them evenly");
}

LoaderOptions loader_options(const TrainingOptions& options, const World& world, const std::string& split) {
  LoaderOptions loader = options.loader;
  loader.split = split;
  loader.seed = options.seed;
  loader.deal.rank = world.rank();
  loader.deal.world_size = world.size();
  if (options.trace != nullptr) loader.observer = options.trace->observer(options.name + " " + split);
  return loader;
}

/// The options of the training loader. With local_seeds it deals a rank's own seeds, as a world of one.
LoaderOptions train_loader_options(const TrainingOptions& options, const World& world) {
  LoaderOptions loader = loader_options(options, world, options.train_split);
  if (!options.local_seeds) return loader;
  const std::unique_ptr<Dataset> dataset =
      open_partitions(loader.dataset, loader.execution.partitions, PeersAt::kSoon);
  const int type = seed_node_type(dataset->meta(), loader.node_type);
  const std::vector<std::int64_t> all =
      loader.seeds ? *loader.seeds : original_ids_of_split(*dataset, type, loader.split);
  loader.seeds =
      node_split(*dataset, type, all, {.rank = world.rank(), .world_size = world.size(), .same_count = true});
  loader.deal.rank = 0;
  loader.deal.world_size = 1;
  return loader;
}

LoaderOptions valid_loader_options(const TrainingOptions& options, const World& world) {
  LoaderOptions loader = loader_options(options, world, options.valid_split);
  loader.seeds.reset();  // what is given in place of a split is for training
  loader.seed_mask.reset();
  loader.seed_times.clear();
  loader.seed_weights.clear();
  loader.shuffle = false;
  loader.deal.drop_last = false;
  return loader;
}

bool is_typed(const DatasetMeta& dataset) {
  return dataset.node_types.size() > 1 || dataset.edge_types.size() > 1;
}

/// Number of the labelled type.
int seed_type(const TrainingOptions& options, const DatasetMeta& dataset) {
  return seed_node_type(dataset, options.loader.node_type);
}

/// What decides the result. Epochs, workers and ranks may change between a run and the one that goes on.
Settings settings_of(const TrainingOptions& options, const BatchStream& stream, std::int64_t trainers) {
  Settings settings = settings_of(stream);
  settings.insert({{"valid split", options.valid_split},
                   {"hidden", to_text(options.hidden)},
                   {"dropout", to_text(options.dropout)},
                   {"lr", to_text(options.lr)},
                   {"weight-decay", to_text(options.weight_decay)}});
  if (options.local_seeds) {  // each trainer's are others
    for (auto& [name, value] : settings)
      if (name.ends_with("sha256") && name.starts_with("seeds")) value = kSeedsOfPartition;
    settings["trainers"] = std::to_string(trainers);
  }
  if (options.precision != Precision::kFloat32) settings["precision"] = to_string(options.precision);
  if (options.exact_validation) settings["validate"] = "exact";  // epochs of both kinds have no best one
  return settings;
}

std::string description_of(const TrainingOptions& options, const DatasetMeta& dataset) {
  ModelDescription made = described(dataset);
  const NodeTypeMeta& nodes = dataset.node_types[static_cast<std::size_t>(seed_type(options, dataset))];
  made.kind = "nodes";
  made.type = nodes.name;
  made.fanouts = options.loader.batch.fanouts;
  made.edge_fanouts = options.loader.batch.edge_fanouts;
  made.hidden = options.hidden;
  made.classes = nodes.num_classes;
  made.dropout = options.dropout;
  made.seed = options.seed;
  return made.to_json();
}

EpochLoopOptions loop_options(const TrainingOptions& options, const DatasetMeta& dataset,
                              const BatchStream& stream, std::int64_t trainers) {
  return {.settings = settings_of(options, stream, trainers),
          .epochs = options.epochs,
          .checkpoint_every = options.checkpoint_every,
          .keep = options.keep,
          .restores_best = true,
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

std::shared_ptr<const StreamSource> streams_of(const TrainingOptions& options) {
  return options.streams ? options.streams : std::make_shared<const LocalStreams>(options.loader.dataset);
}

class NodeTraining final : public TrainingTask {
 public:
  NodeTraining(World& world, const TrainingOptions& options, const TrainingCallbacks& callbacks)
      : world_(world),
        options_(options),
        streams_(streams_of(options)),
        model_(make_model(options, streams_->meta())),
        adam_(model_->parameters(), torch::optim::AdamOptions(options.lr).weight_decay(options.weight_decay)),
        stream_(streams_->open(train_loader_options(options, world))),
        loop_(world, loop_options(options, streams_->meta(), *stream_, world.size()), callbacks, *stream_,
              *model_, adam_) {
    const DatasetMeta& meta = streams_->meta();
    require_dataset(meta, *stream_);
    if (meta.node_types[seed_type(options, meta)].splits.contains(options.valid_split))
      valid_stream_ = opened_together(valid_loader_options(options, world));
  }

  TrainingResult run() {
    loop_.run(*this);
    const bool stopped = world_.stop_agreed();
    if (!stopped) loop_.restore_best();
    return {.model = model_,
            .rows = loop_.progress().rows,
            .best_accuracy = loop_.progress().best_accuracy,
            .best_epoch = loop_.progress().best_epoch,
            .returns = loop_.returns(),
            .stopped = stopped};
  }

 private:
  std::unique_ptr<BatchStream> opened_together(const LoaderOptions& options) {
    std::unique_ptr<BatchStream> stream = streams_->open(options);
    require_agreement(world_, *stream);
    return stream;
  }

  AnyBatchTensors tensors_of(const Batch& batch, CopyStream* copies) override {
    return model_->tensors_of(batch, copies);
  }

  SeedLogits at_seeds(const AnyBatchTensors& batch) {
    const PrecisionScope scope(options_.device.type(), options_.precision);
    SeedLogits seeds = model_->at_seeds(batch);
    if (options_.precision != Precision::kFloat32) seeds.logits = seeds.logits.to(torch::kFloat32);
    return seeds;
  }

  BatchLoss loss(const AnyBatchTensors& batch) override {
    const auto [logits, labels] = at_seeds(batch);
    const torch::Tensor on_host = labels.cpu();  // one wait for the device instead of four
    check_labels(on_host);
    return {.sum = torch::nn::functional::cross_entropy(
                logits, labels,
                torch::nn::functional::CrossEntropyFuncOptions().ignore_index(-1).reduction(torch::kSum)),
            .count = (on_host >= 0).sum().item<std::int64_t>()};
  }

  /// Torch's own complaint would name neither dataset nor way out.
  void check_labels(const torch::Tensor& labels) const {
    if (labels.numel() == 0) return;
    const auto [low, high] = labels.aminmax();
    const std::int64_t classes = model_->num_classes();
    if (low.item<std::int64_t>() >= -1 && high.item<std::int64_t>() < classes) return;
    const std::int64_t bad =
        low.item<std::int64_t>() < -1 ? low.item<std::int64_t>() : high.item<std::int64_t>();
    throw Error(ErrorCode::kCorrupt, "a node of " + streams_->title() + " has label " + std::to_string(bad) +
                                         ", but there are " + std::to_string(classes) +
                                         " classes; hopfeed-partition verify names the file");
  }

  /// Accuracy on the validation split, sampled with the training's fanouts, the same samples each epoch.
  std::optional<double> score(EpochRow& row) override {
    if (loop_.progress().loss_seeds == 0) {
      throw Error(ErrorCode::kInvalid, "no node of split '" + options_.train_split + "' of " +
                                           streams_->title() +
                                           " has a label, so nothing can be learned; import it with labels");
    }
    if (!valid_stream_) return {};
    if (options_.exact_validation) return row.valid_accuracy = options_.exact_validation(*model_);
    Accuracy sum;
    loop_.evaluate(*this, *valid_stream_, [&](const AnyBatchTensors& batch) {
      const auto [logits, labels] = at_seeds(batch);
      const Accuracy part = accuracy(logits, labels);
      sum.correct += part.correct;
      sum.total += part.total;
    });
    const auto all = world_.sum({static_cast<double>(sum.correct), static_cast<double>(sum.total)});
    sum = {.correct = static_cast<std::int64_t>(all[0]), .total = static_cast<std::int64_t>(all[1])};
    return row.valid_accuracy = sum.value();
  }

  void look(const AnyBatchTensors& batch) override { model_->look(batch); }

  void after_step() override { model_->step_learned_rows(world_); }

  World& world_;
  const TrainingOptions& options_;
  const std::shared_ptr<const StreamSource> streams_;
  std::shared_ptr<NodeClassifier> model_;
  torch::optim::Adam adam_;
  const std::unique_ptr<BatchStream> stream_;  // of the batches that are learned from
  EpochLoop loop_;
  std::unique_ptr<BatchStream> valid_stream_;  // none where the dataset has no such split
};

}  // namespace

std::string model_title(const TrainingOptions& options, const DatasetMeta& dataset) {
  if (options.loader.batch.fanouts.empty()) return "features alone";
  return is_typed(dataset) ? "HeteroSage" : "GraphSAGE";
}

namespace {

/// On the CPU, so that the first values are the same on every device.
std::shared_ptr<NodeClassifier> make_model_on_cpu(const TrainingOptions& options,
                                                  const DatasetMeta& dataset) {
  torch::manual_seed(options.seed);
  const BatchOptions& batch = options.loader.batch;
  const int type = seed_type(options, dataset);
  if (!batch.fanouts.empty() && is_typed(dataset)) {
    return HeteroSage(HeteroOptions{.dataset = dataset,
                                    .batch = batch,
                                    .seed_type = type,
                                    .hidden = options.hidden,
                                    .dropout = options.dropout,
                                    .seed = options.seed,
                                    .embedding_lr = options.lr,
                                    .owners = options.owners.of_model(options.name)})
        .ptr();
  }
  const NodeTypeMeta& nodes = dataset.node_types[type];
  return GraphSage(ModelOptions{.hops = std::ssize(batch.fanouts),
                                .features = feature_width(nodes),
                                .hidden = options.hidden,
                                .classes = nodes.num_classes,
                                .dropout = options.dropout,
                                .node_type = type})
      .ptr();
}

}  // namespace

std::shared_ptr<NodeClassifier> make_model(const TrainingOptions& options, const DatasetMeta& dataset) {
  std::shared_ptr<NodeClassifier> model = make_model_on_cpu(options, dataset);
  model->to(options.device);
  return model;
}

TrainingResult train(World& world, const TrainingOptions& options, const TrainingCallbacks& callbacks) {
  check(options);
  const DeterministicScope deterministic(options.device, options.deterministic);
  return NodeTraining(world, options, callbacks).run();
}

}  // namespace hopfeed
