// See epoch_loop.h.
#include "trainer/epoch_loop.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <utility>

namespace hopfeed {
namespace {

constexpr std::int64_t kReturnsInVain = 10;

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
      stream_(stream),
      state_(world, model, options_.owners.network, options_.dataset) {
  require_valid(!state_.any() || !options_.out.empty(),
                "learned rows lie at owners, and no output folder is given, where checkpoints of them are "
                "committed; give one");
  progress_.world_size = world.size();
  if (!options_.device.is_cpu() || options_.copy_batches || state_.any()) copies_.emplace(options_.device);
}

/// Rows of a batch that is learned from are asked for as soon as there is the batch.
BatchPrefetcher EpochLoop::prefetcher(TrainingTask& task, BatchStream& stream, std::int64_t most,
                                      Batches batches) {
  return {stream, copies_ ? &*copies_ : nullptr,
          [this, &task, batches](const Batch& batch, CopyStream* copies) {
            AnyBatchTensors tensors = task.tensors_of(batch, copies);
            if (state_.any() && batches == Batches::kLearned) unless_lost([&] { task.look(tensors); });
            return tensors;
          },
          most};
}

/// Where an owner has lost what was learned, this rank does nothing more than to tell the others, in the next
/// sum; so none waits for it.
template <class Body>
void EpochLoop::unless_lost(const Body& body) {
  if (lost_) return;
  try {
    body();
  } catch (const StateLost& lost) {
    lost_ = true;
    why_lost_ = lost.message();
    state_.abandon();
    world_.wish_to_go_back();
  }
}

void EpochLoop::run(TrainingTask& task) {
  torch::manual_seed(options_.seed + 1 +
                     static_cast<std::uint64_t>(world_.rank()));  // ranks drop different units
  resume();
  while (progress_.epoch < options_.epochs && !world_.stop_agreed()) {
    train_epoch(task);
    if (!world_.stop_agreed() && !world_.go_back_agreed()) finish_epoch(task);
    if (world_.go_back_agreed() && !world_.stop_agreed()) go_back();
  }
  if (world_.stop_agreed() && !world_.go_back_agreed()) checkpoint();
}

/// 0: the last one.
std::filesystem::path EpochLoop::older_checkpoint(std::int64_t age) const {
  std::filesystem::path path = checkpoint_path();
  return age == 0 ? path : path += "." + std::to_string(age);
}

/// Rank 0 decides for all: only it is sure to see the file.
void EpochLoop::resume() {
  if (options_.out.empty()) return;
  double found = 0;
  if (world_.rank() == 0) {
    std::filesystem::create_directories(options_.out);
    const bool wanted = options_.resume == Resume::kAlways || world_.restart_count() > 0;
    found = wanted && std::filesystem::exists(checkpoint_path()) ? 1 : 0;
  }
  if (world_.sum({found})[0] == 0) return begin_afresh();
  load(checkpoint_path());
}

void EpochLoop::load(const std::filesystem::path& path) {
  LoadedCheckpoint loaded = load_checkpoint(path, model_, optimizer_, options_.settings, world_);
  progress_ = std::move(loaded.progress);
  progress_.world_size = world_.size();
  if (!state_.any()) return;
  manifest_ = StateManifest::from_json(loaded.state);
  state_.go_back(manifest_, manifest_.now);
  if (world_.rank() == 0) remove_old_state();  // a checkpoint that was not committed
}

/// What an earlier run has left steps aside, and what it has learned at owners goes with the run before it.
void EpochLoop::begin_afresh() {
  state_.begin();
  if (world_.rank() == 0) {
    const std::filesystem::path old = checkpoint_path().string() + ".old";
    if (state_.any() && std::filesystem::exists(old) && std::filesystem::exists(checkpoint_path())) {
      const std::string state = state_of_checkpoint(old);
      if (!state.empty()) state_.keep(StateManifest::from_json(state).run, {});
    }
    if (std::filesystem::exists(checkpoint_path())) std::filesystem::rename(checkpoint_path(), old);
    for (std::int64_t age = 1; std::filesystem::remove(older_checkpoint(age)); ++age) {
    }
  }
  if (state_.any()) checkpoint();  // there is always one to go back to
}

/// Has owners write their shards. Returns whether there is now a checkpoint to commit.
bool EpochLoop::save_state() {
  if (!state_.any() || world_.rank() != 0) return !lost_;
  unless_lost([&] {
    manifest_.now = state_.save();
    manifest_.run = state_.run();
    manifest_.attempt = state_.attempt();
    if (progress_.best_epoch >= 0 && progress_.best_epoch == progress_.epoch - 1 && progress_.position == 0)
      manifest_.best = manifest_.now;
  });
  return !lost_;
}

/// The renaming of the file is the commit, of what lies at owners too.
void EpochLoop::checkpoint() {
  if (options_.out.empty()) return;
  const bool whole = save_state();
  if (world_.rank() == 0 && whole && std::filesystem::exists(checkpoint_path())) {
    for (std::int64_t age = options_.keep - 1; age > 1; --age)
      if (std::filesystem::exists(older_checkpoint(age - 1)))
        std::filesystem::rename(older_checkpoint(age - 1), older_checkpoint(age));
    if (options_.keep > 1) {
      std::filesystem::remove(older_checkpoint(1));
      std::filesystem::create_hard_link(checkpoint_path(), older_checkpoint(1));
    }
  }
  save_checkpoint(whole ? checkpoint_path() : "", model_, optimizer_, progress_, options_.settings, world_,
                  state_.any() ? manifest_.to_json() : "");
  if (!whole) return;
  returns_in_vain_ = 0;
  if (state_.any() && world_.rank() == 0) remove_old_state();
}

/// Shards to which no file goes back. Where an owner is gone, they go with the next checkpoint.
void EpochLoop::remove_old_state() {
  std::vector<std::uint64_t> kept{manifest_.now.number};
  if (manifest_.best) kept.push_back(manifest_.best->number);
  for (std::int64_t age = 1; std::filesystem::exists(older_checkpoint(age)); ++age) {
    const std::string state = state_of_checkpoint(older_checkpoint(age));
    if (!state.empty()) kept.push_back(StateManifest::from_json(state).now.number);
  }
  unless_lost([&] { state_.keep(kept); });
}

/// All ranks together, in the same processes.
void EpochLoop::go_back() {
  const std::string why = std::exchange(why_lost_, "");
  if (++returns_in_vain_ > kReturnsInVain)
    throw Error(ErrorCode::kPeerDied, "the trainers went back to the last checkpoint " +
                                          std::to_string(kReturnsInVain) +
                                          " times and came to no other; the last reason on this rank: " +
                                          (why.empty() ? "another rank's" : why));
  lost_ = false;
  world_.gone_back();
  const std::int64_t before = batches_so_far();
  load(checkpoint_path());
  ++returns_.times;
  returns_.batches += before - batches_so_far();
}

std::int64_t EpochLoop::batches_so_far() const {
  std::int64_t batches = progress_.batches;
  for (const EpochRow& row : progress_.rows) batches += row.batches;
  return batches;
}

/// Rank 0's word, since it alone has the manifest of this process.
void EpochLoop::restore_best_rows() {
  if (!state_.any()) return;
  const bool other = world_.rank() == 0 && manifest_.best && !(*manifest_.best == manifest_.now);
  if (world_.sum({other ? 1.0 : 0.0})[0] == 0) return;
  state_.go_back(manifest_, manifest_.best.value_or(StateCheckpoint{}));
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
  BatchPrefetcher batches = prefetcher(task, stream_, steps, Batches::kLearned);
  for (std::int64_t step = 1; step <= steps; ++step) {
    const std::optional<PlacedBatch> batch = batches.next();
    if (!batch) break;
    train_batch(task, batch->tensors);
    if (world_.go_back_agreed()) return;
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
  BatchLoss mine{.sum = torch::zeros({}, torch::TensorOptions(options_.device)), .count = 0};
  unless_lost([&] { mine = task.loss(batch); });
  const RoundLoss round = round_loss(world_, mine.sum, mine.count);
  if (world_.go_back_agreed()) return;
  optimizer_.zero_grad();
  reducer_.backward(round.loss);
  optimizer_.step();
  unless_lost([&] { task.after_step(); });
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
  BatchPrefetcher batches = prefetcher(task, stream, stream.steps(), Batches::kEvaluated);
  for (std::optional<PlacedBatch> batch; !stop_asked() && !lost_ && (batch = batches.next());)
    unless_lost([&] { each(batch->tensors); });
  look_for_stop();
}

void EpochLoop::finish_epoch(TrainingTask& task) {
  const auto begin = std::chrono::steady_clock::now();
  EpochRow row{.epoch = progress_.epoch, .loss = mean_loss(), .batches = progress_.batches};
  const std::optional<double> score = task.score(row);
  if (world_.stop_agreed() || world_.go_back_agreed()) return;
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
