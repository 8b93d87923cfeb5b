// See epoch_loop.h.
#include "trainer/epoch_loop.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <utility>

namespace hopfeed {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Before the ranks exchange anything that depends on them: another count of steps would end in a wait.
EpochLoopOptions agreed(World& world, EpochLoopOptions options, const BatchStream& stream) {
  Settings settings = options.settings;
  settings.insert({{"model", options.name},
                   {"epochs", std::to_string(options.epochs)},
                   {"max-batches", std::to_string(options.max_batches)},
                   {"checkpoint-every", std::to_string(options.checkpoint_every)},
                   {"out", options.out.empty() ? "unset" : "set"},
                   {"world-size", std::to_string(stream.deal().world_size)}});
  require_agreement(world, settings);
  return options;
}

/// In a row, for a sum over all ranks.
std::array<double, 6> numbers_of(const GpuUse& use) {
  return {static_cast<double>(use.gpu_batches),      static_cast<double>(use.cpu_batches),
          static_cast<double>(use.graph_bytes),      static_cast<double>(use.rows_bytes),
          static_cast<double>(use.graph.millionths), static_cast<double>(use.rows.millionths)};
}
/// Batches of all ranks; of their memory the means.
GpuUse mean_of(std::span<const double> sums, double ranks) {
  return {.gpu_batches = static_cast<std::int64_t>(sums[0]),
          .cpu_batches = static_cast<std::int64_t>(sums[1]),
          .graph_bytes = static_cast<std::size_t>(sums[2] / ranks),
          .rows_bytes = static_cast<std::size_t>(sums[3] / ranks),
          .graph = {.millionths = static_cast<std::uint32_t>(sums[4] / ranks)},
          .rows = {.millionths = static_cast<std::uint32_t>(sums[5] / ranks)}};
}

}  // namespace

EpochLoop::EpochLoop(World& world, EpochLoopOptions options, const TrainingCallbacks& callbacks,
                     BatchStream& stream, torch::nn::Module& model, torch::optim::Optimizer& optimizer)
    : world_(world),
      options_(agreed(world, std::move(options), stream)),
      callbacks_(callbacks),
      model_(model),
      optimizer_(optimizer),
      reducer_(world, model.parameters()),
      stream_(stream) {
  progress_.world_size = world.size();
  if (!options_.device.is_cpu() || options_.copy_batches) copies_.emplace(options_.device);
}

BatchPrefetcher EpochLoop::prefetcher(TrainingTask& task, BatchStream& stream, std::int64_t most) {
  return {stream, copies_ ? &*copies_ : nullptr,
          [&task](const Batch& batch, CopyStream* copies) { return task.tensors_of(batch, copies); }, most};
}

void EpochLoop::run(TrainingTask& task) {
  torch::manual_seed(options_.seed + 1 +
                     static_cast<std::uint64_t>(world_.rank()));  // ranks drop different units
  resume();
  while (progress_.epoch < options_.epochs && !world_.stop_agreed()) {
    train_epoch(task);
    if (!world_.stop_agreed()) finish_epoch(task);
  }
  if (world_.stop_agreed()) checkpoint();
}

/// Rank 0 decides for all: only it is sure to see the file.
void EpochLoop::resume() {
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
  progress_ = load_checkpoint(checkpoint_path(), model_, optimizer_, options_.settings, world_);
  progress_.world_size = world_.size();
}

void EpochLoop::checkpoint() {
  if (!options_.out.empty())
    save_checkpoint(checkpoint_path(), model_, optimizer_, progress_, options_.settings, world_);
}

/// How many batches this rank takes, from where the epoch stands; all ranks have as many.
std::int64_t EpochLoop::steps_of_epoch() const {
  const std::int64_t all = stream_.steps();
  if (options_.max_batches == 0) return all;
  const std::int64_t done = progress_.batches / world_.size(),
                     most = (options_.max_batches + world_.size() - 1) / world_.size();
  return std::min(all, std::max<std::int64_t>(most - done, 0));
}

void EpochLoop::train_epoch(TrainingTask& task) {
  model_.train();
  stream_.begin_epoch(progress_.epoch, progress_.position);
  const TrainingProgress before = progress_;
  const StreamStats stats_before = stream_.stats();
  const auto begin = std::chrono::steady_clock::now();
  const std::int64_t steps = steps_of_epoch();
  BatchPrefetcher batches = prefetcher(task, stream_, steps);
  for (std::int64_t step = 1; step <= steps; ++step) {
    const std::optional<PlacedBatch> batch = batches.next();
    if (!batch) break;
    train_batch(task, batch->tensors);
    progress_.position = batch->position;
    progress_.seconds = before.seconds + seconds_since(begin);
    progress_.waited = before.waited;
    const StreamStats stats = stream_.stats();
    progress_.waited += stats.waits - stats_before.waits;
    feature_rows_ = stats.feature_rows - stats_before.feature_rows;
    held_rows_ = stats.held_rows - stats_before.held_rows;
    tiers_ = stats.tiers - stats_before.tiers;
    gpu_ = stats.gpu_use;
    gpu_.gpu_batches -= stats_before.gpu_use.gpu_batches;
    gpu_.cpu_batches -= stats_before.gpu_use.cpu_batches;
    report_step(step, steps);
    if (world_.stop_agreed()) return;
    if (options_.checkpoint_every > 0 && step % options_.checkpoint_every == 0 && step < steps) checkpoint();
  }
}

void EpochLoop::train_batch(TrainingTask& task, const AnyBatchTensors& batch) {
  look_for_stop();
  const BatchLoss mine = task.loss(batch);
  const RoundLoss round = round_loss(world_, mine.sum, mine.count);
  optimizer_.zero_grad();
  reducer_.backward(round.loss);
  optimizer_.step();
  task.after_step();
  progress_.loss_sum += round.sum;
  progress_.loss_seeds += round.seeds;
  progress_.batches += world_.size();
}

void EpochLoop::look_for_stop() {
  if (stop_asked()) world_.wish_to_stop();
}

double EpochLoop::mean_loss() const {
  return progress_.loss_sum / std::max<double>(1, static_cast<double>(progress_.loss_seeds));
}

void EpochLoop::report_step(std::int64_t step, std::int64_t steps) const {
  if (!callbacks_.step) return;
  callbacks_.step({.epoch = progress_.epoch,
                   .step = step,
                   .steps = steps,
                   .loss = mean_loss(),
                   .batches_per_s = static_cast<double>(progress_.batches) / progress_.seconds,
                   .wait_fraction = progress_.waited.trainer() / progress_.seconds});
}

void EpochLoop::evaluate(TrainingTask& task, BatchStream& stream,
                         const std::function<void(const AnyBatchTensors&)>& each) {
  const torch::NoGradGuard no_gradients;
  model_.eval();
  stream.begin_epoch(0);
  BatchPrefetcher batches = prefetcher(task, stream, stream.steps());
  for (std::optional<PlacedBatch> batch; !stop_asked() && (batch = batches.next());) each(batch->tensors);
  look_for_stop();
}

void EpochLoop::finish_epoch(TrainingTask& task) {
  const auto begin = std::chrono::steady_clock::now();
  EpochRow row{.epoch = progress_.epoch, .loss = mean_loss(), .batches = progress_.batches};
  const std::optional<double> score = task.score(row);
  if (world_.stop_agreed()) return;
  measure(row);
  row.valid_seconds = seconds_since(begin);
  progress_.rows.push_back(row);
  if (!score || *score > progress_.best_accuracy) {
    progress_.best_accuracy = score.value_or(0);
    progress_.best_epoch = progress_.epoch;
    task.keep_best();
    if (!options_.out.empty() && world_.rank() == 0) save_model(model_path(), model_);
  }
  progress_ = {.epoch = progress_.epoch + 1,
               .best_accuracy = progress_.best_accuracy,
               .best_epoch = progress_.best_epoch,
               .world_size = world_.size(),
               .rows = std::move(progress_.rows)};
  checkpoint();
  if (callbacks_.epoch) callbacks_.epoch(row);
}

/// Times of the epoch's steps, over all ranks.
void EpochLoop::measure(EpochRow& row) {
  const WaitTimes& mine = progress_.waited;
  std::vector<double> figures{progress_.seconds,
                              mine.for_sampling,
                              mine.for_gather,
                              mine.for_handover,
                              mine.for_slot,
                              mine.for_memory,
                              static_cast<double>(feature_rows_),
                              static_cast<double>(held_rows_)};
  const std::size_t first_tier = figures.size();
  for (const std::int64_t number : tiers_.numbers()) figures.push_back(static_cast<double>(number));
  const std::size_t first_of_gpu = figures.size();
  for (const double number : numbers_of(gpu_)) figures.push_back(number);
  const std::vector<double> sums = world_.sum(figures);
  row.gpu = mean_of(std::span(sums).subspan(first_of_gpu), static_cast<double>(world_.size()));
  TierCounts::Numbers tiers{};
  for (std::size_t i = 0; i < tiers.size(); ++i)
    tiers[i] = static_cast<std::int64_t>(sums[first_tier + i]);  // exact: far below 2^53
  row.tiers = TierCounts::of(tiers);
  const WaitTimes waited{.for_sampling = sums[1],
                         .for_gather = sums[2],
                         .for_handover = sums[3],
                         .for_slot = sums[4],
                         .for_memory = sums[5]};
  row.hit_rate = sums[6] > 0 ? sums[7] / sums[6] : 0;
  row.seconds = std::max(sums[0] / static_cast<double>(world_.size()), 1e-9);
  row.batches_per_s = static_cast<double>(row.batches) / row.seconds;
  row.waits = waited.shares_of(sums[0], sums[0] * static_cast<double>(stream_.stats().workers));
}

}  // namespace hopfeed
