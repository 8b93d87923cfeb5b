// See link_trainer.h.
#include "trainer/link_trainer.h"

#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "trainer/gradient_reducer.h"
#include "trainer/roc_auc.h"

namespace hopfeed {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void check(const LinkTrainingOptions& options) {
  require_valid(options.loader.batch.link.on(), "links are trained on, but no edge type of links is given");
  require_valid(options.epochs > 0, "epochs is " + std::to_string(options.epochs) + "; use at least 1");
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

LoaderOptions loader_options(const LinkTrainingOptions& options, const Dataset& dataset, const World& world,
                             const std::string& split) {
  LoaderOptions loader = options.loader;
  loader.batch.attrs = read_attrs(dataset.meta());
  loader.links = split == options.test_split && options.test_pairs ? LinkInput{.pairs = options.test_pairs}
                                                                   : LinkInput{.split = split};
  const int links = dataset.meta().edge_type(loader.batch.link.edge_type);
  if (!loader.links->pairs && !dataset.edge_split(links, split).labels.empty())
    loader.batch.link.negatives = {};  // label 0 says which they are
  loader.seed = options.seed;
  loader.rank = world.rank();
  loader.world_size = world.size();
  if (split == options.train_split) return loader;
  loader.shuffle = false;
  loader.drop_last = false;
  return loader;
}

LinkModelOptions model_options(const LinkTrainingOptions& options, const Dataset& dataset) {
  return {.dataset = dataset.meta(),
          .batch = options.loader.batch,
          .edge_type = options.loader.batch.link.edge_type,
          .hidden = options.hidden,
          .dropout = options.dropout,
          .seed = options.seed,
          .embedding_lr = options.embedding_lr};
}

/// What decides the result. Epochs, workers and ranks may change between a run and the one that goes on.
Settings settings_of(const LinkTrainingOptions& options, const Dataset& dataset) {
  const auto text = [](const auto& value) { return nlohmann::json(value).dump(); };
  Settings settings{{"dataset", dataset.meta().fingerprint},
                    {"split", options.train_split},
                    {"valid split", options.valid_split},
                    {"test split", options.test_split},
                    {"batch-size", text(options.loader.batch_size)},
                    {"max-batches", text(options.max_batches)},
                    {"seed", text(options.seed)},
                    {"hidden", text(options.hidden)},
                    {"dropout", text(options.dropout)},
                    {"lr", text(options.lr)},
                    {"embedding-lr", text(options.embedding_lr)}};
  if (options.test_pairs) {
    const std::vector<std::int64_t>& pairs = *options.test_pairs;
    settings["hash of the test links"] = text(XXH3_64bits(pairs.data(), pairs.size() * sizeof(pairs[0])));
  }
  const nlohmann::json sampling = nlohmann::json::parse(options.loader.batch.to_json());
  for (const auto& [name, value] : sampling.items()) settings[name] = value.dump();
  return settings;
}

class LinkTraining {
 public:
  LinkTraining(World& world, const LinkTrainingOptions& options, const TrainingCallbacks& callbacks)
      : world_(world),
        options_(options),
        callbacks_(callbacks),
        dataset_(options.loader.dataset),
        settings_(settings_of(options, dataset_)),
        model_(made_model()),
        reducer_(world, model_->parameters()),
        adam_(model_->parameters(), torch::optim::AdamOptions(options.lr)),
        train_loader_(loader_options(options, dataset_, world, options.train_split)) {
    open(valid_loader_, options.valid_split);
    open(test_loader_, options.test_split);
    torch::manual_seed(options.seed + 1 +
                       static_cast<std::uint64_t>(world.rank()));  // ranks drop different units
    resume();
  }

  LinkTrainingResult run() {
    while (progress_.epoch < options_.epochs && !world_.stop_agreed()) {
      train_epoch();
      if (!world_.stop_agreed()) finish_epoch();
    }
    if (world_.stop_agreed()) checkpoint();
    return {.rows = progress_.rows,
            .best_epoch = progress_.best_epoch,
            .learned_rows = model_->num_learned_rows(),
            .stopped = world_.stop_agreed()};
  }

 private:
  LinkModel made_model() const {
    torch::manual_seed(options_.seed);
    return LinkModel(model_options(options_, dataset_));
  }

  void open(std::optional<Loader>& loader, const std::string& split) {
    if (has_links(options_, dataset_, split))
      loader.emplace(loader_options(options_, dataset_, world_, split));
  }

  std::filesystem::path model_path() const { return options_.out / (options_.name + ".pt"); }
  std::filesystem::path checkpoint_path() const { return options_.out / (options_.name + ".checkpoint"); }

  /// Rank 0 decides for all: only it is sure to see the file.
  void resume() {
    progress_.world_size = world_.size();
    if (options_.out.empty()) return;
    double found = 0;
    if (world_.rank() == 0) {
      std::filesystem::create_directories(options_.out);
      const bool wanted = options_.resume == Resume::kAlways || world_.restart_count() > 0;
      if (!wanted && std::filesystem::exists(checkpoint_path()))
        std::filesystem::rename(checkpoint_path(), checkpoint_path().string() + ".old");
      found = wanted && std::filesystem::exists(checkpoint_path()) ? 1 : 0;
    }
    if (world_.sum({found})[0] == 0) return;
    progress_ = load_checkpoint(checkpoint_path(), *model_, adam_, settings_, world_);
    progress_.world_size = world_.size();
  }

  void checkpoint() {
    if (!options_.out.empty())
      save_checkpoint(checkpoint_path(), *model_, adam_, progress_, settings_, world_);
  }

  /// Of this rank in an epoch from its start; all ranks have as many.
  std::int64_t steps_of_epoch() const {
    const std::int64_t all = train_loader_.steps();
    if (options_.max_batches == 0) return all;
    const std::int64_t done = progress_.batches / world_.size(),
                       most = (options_.max_batches + world_.size() - 1) / world_.size();
    return std::min(all, std::max<std::int64_t>(most - done, 0));
  }

  void train_epoch() {
    model_->train();
    train_loader_.begin_epoch(progress_.epoch, progress_.position);
    const TrainingProgress before = progress_;
    const WaitTimes waited_before = train_loader_.stats().waits;
    const auto begin = std::chrono::steady_clock::now();
    const std::int64_t steps = steps_of_epoch();
    for (std::int64_t step = 1; step <= steps; ++step) {
      const std::optional<Batch> batch = train_loader_.next();
      if (!batch) break;
      train_batch(*batch);
      progress_.position = train_loader_.next_position();
      progress_.seconds = before.seconds + seconds_since(begin);
      progress_.waited = before.waited;
      progress_.waited += train_loader_.stats().waits - waited_before;
      report_step(step, steps);
      if (world_.stop_agreed()) return;
    }
  }

  void train_batch(const Batch& batch) {
    look_for_stop();
    const TypedBatchTensors tensors = to_typed_tensors(batch, dataset_.meta());
    const torch::Tensor scores = model_->forward(tensors),
                        labels = tensors.links.edge_label.gt(0).to(torch::kFloat32);
    const torch::Tensor loss_sum = torch::nn::functional::binary_cross_entropy_with_logits(
        scores, labels,
        torch::nn::functional::BinaryCrossEntropyWithLogitsFuncOptions().reduction(torch::kSum));
    const RoundLoss round = round_loss(world_, loss_sum, labels.numel());
    adam_.zero_grad();
    reducer_.backward(round.loss);
    adam_.step();
    model_->step_embeddings(world_);
    progress_.loss_sum += round.sum;
    progress_.loss_seeds += round.seeds;
    progress_.batches += world_.size();
  }

  void look_for_stop() {
    if (callbacks_.stop && callbacks_.stop()) world_.wish_to_stop();
  }

  double mean_loss() const {
    return progress_.loss_sum / std::max<double>(1, static_cast<double>(progress_.loss_seeds));
  }

  void report_step(std::int64_t step, std::int64_t steps) const {
    if (!callbacks_.step) return;
    callbacks_.step({.epoch = progress_.epoch,
                     .step = step,
                     .steps = steps,
                     .loss = mean_loss(),
                     .batches_per_s = static_cast<double>(progress_.batches) / progress_.seconds,
                     .wait_fraction = progress_.waited.trainer() / progress_.seconds});
  }

  /// ROC-AUC of a split's links against negatives that are the same in each epoch; every rank scores its share of the batches.
  double auc_of(std::optional<Loader>& loader) {
    if (!loader) return 0;
    const torch::NoGradGuard no_gradients;
    model_->eval();
    std::vector<torch::Tensor> scored{torch::empty({0, 2})};
    loader->begin_epoch(0);
    for (std::optional<Batch> batch; !(callbacks_.stop && callbacks_.stop()) && (batch = loader->next());) {
      const TypedBatchTensors tensors = to_typed_tensors(*batch, dataset_.meta());
      scored.push_back(
          torch::stack({model_->forward(tensors), tensors.links.edge_label.to(torch::kFloat32)}, 1));
    }
    look_for_stop();
    const torch::Tensor all = torch::cat(world_.gather_rows(torch::cat(scored)));
    world_.sum({0});  // where somebody was asked to stop, his share is missing and all know it
    return world_.stop_agreed() ? 0 : roc_auc(all.select(1, 0), all.select(1, 1));
  }

  void finish_epoch() {
    const auto begin = std::chrono::steady_clock::now();
    const double valid = auc_of(valid_loader_);
    const double test = world_.stop_agreed() ? 0 : auc_of(test_loader_);
    if (world_.stop_agreed()) return;
    const WaitTimes& mine = progress_.waited;
    const auto sums = world_.sum({progress_.seconds, mine.for_sampling, mine.for_gather, mine.for_handover,
                                  mine.for_slot, mine.for_memory});
    const WaitTimes waited{.for_sampling = sums[1],
                           .for_gather = sums[2],
                           .for_handover = sums[3],
                           .for_slot = sums[4],
                           .for_memory = sums[5]};
    const double seconds = std::max(sums[0] / static_cast<double>(world_.size()), 1e-9);
    const EpochRow row{
        .epoch = progress_.epoch,
        .loss = mean_loss(),
        .valid_auc = valid,
        .test_auc = test,
        .seconds = seconds,
        .valid_seconds = seconds_since(begin),
        .batches = progress_.batches,
        .batches_per_s = static_cast<double>(progress_.batches) / seconds,
        .waits = waited.shares_of(sums[0], sums[0] * static_cast<double>(options_.loader.num_workers))};
    progress_.rows.push_back(row);
    if (!valid_loader_ || valid > progress_.best_accuracy) {
      progress_.best_accuracy = valid;
      progress_.best_epoch = progress_.epoch;
      if (!options_.out.empty() && world_.rank() == 0) save_model(model_path(), *model_);
    }
    progress_ = {.epoch = progress_.epoch + 1,
                 .best_accuracy = progress_.best_accuracy,
                 .best_epoch = progress_.best_epoch,
                 .world_size = world_.size(),
                 .rows = std::move(progress_.rows)};
    checkpoint();
    if (callbacks_.epoch) callbacks_.epoch(row);
  }

  World& world_;
  const LinkTrainingOptions& options_;
  const TrainingCallbacks& callbacks_;
  Dataset dataset_;
  Settings settings_;
  LinkModel model_;
  GradientReducer reducer_;
  torch::optim::Adam adam_;
  Loader train_loader_;
  std::optional<Loader> valid_loader_, test_loader_;
  TrainingProgress progress_;
};

}  // namespace

bool has_links(const LinkTrainingOptions& options, const Dataset& dataset, const std::string& split) {
  const int links = dataset.meta().edge_type(options.loader.batch.link.edge_type);
  return (split == options.test_split && options.test_pairs) ||
         dataset.meta().edge_types[static_cast<std::size_t>(links)].splits.contains(split);
}

LinkTrainingResult train_links(World& world, const LinkTrainingOptions& options,
                               const TrainingCallbacks& callbacks) {
  check(options);
  return LinkTraining(world, options, callbacks).run();
}

}  // namespace hopfeed
