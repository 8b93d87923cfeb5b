// See epoch_loop.h.
#include "trainer/epoch_loop.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/notes.h"
#include "trainer/earlier_run.h"

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
                   {"learned rows", options.owners.network ? "at owners, " + options.owners.tables : "whole"},
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
      state_(world, model, options_.owners.network, options_.dataset),
      files_(options_.out / (options_.name + ".checkpoint"), kept()) {
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

/// Rank 0 decides for all: only it is sure to see the file.
void EpochLoop::resume() {
  if (options_.out.empty()) return;
  double found = 0;
  on_rank_0("looking for a checkpoint", [&] {
    std::filesystem::create_directories(options_.out);
    found = options_.resume == Resume::kAlways ? std::filesystem::exists(files_.last())
                                               : is_of_this_run(files_.last(), world_);
  });
  if (world_.sum({found})[0] == 0) return begin_afresh();
  if (state_.any() && world_.rank() == 0)
    for (const std::filesystem::path& path : files_.older()) older_.push_back(manifest_in(path));
  load();
  remove_old_state();
}

/// What an earlier run has left steps aside, and what it has learned at owners goes with the run before it.
void EpochLoop::begin_afresh() {
  std::uint64_t before_the_earlier = 0;
  on_rank_0("putting an earlier run's checkpoint aside", [&] {
    files_.set_aside();  // programs have done so before (earlier_run.h)
    before_the_earlier = manifest_in(files_.before_earlier_run()).run;
    if (!state_.any()) std::filesystem::remove(files_.before_earlier_run());
  });
  if (!state_.any()) return;
  // There is always a checkpoint to go back to.
  for (std::int64_t tries = 0; tries == 0 || world_.go_back_agreed(); ++tries) {
    require_tries(tries);
    found_again();
    state_.begin();
    checkpoint();
  }
  on_rank_0("removing checkpoints", [&] {
    if (before_the_earlier != 0) state_.keep(before_the_earlier, {});
    std::filesystem::remove(files_.before_earlier_run());
  });
}

/// What the file says of owners; of one that is missing or damaged, nothing.
StateManifest EpochLoop::manifest_in(const std::filesystem::path& path) const {
  if (!state_.any() || !std::filesystem::exists(path)) return {};
  try {
    const std::string state = state_of_checkpoint(path);
    return state.empty() ? StateManifest{} : StateManifest::from_json(state);
  } catch (const Error&) {
    return {};
  }
}

WorkTold EpochLoop::told(std::string what) const {
  if (!callbacks_.long_work) return {};
  return [this, what = std::move(what)](std::chrono::seconds so_far) { callbacks_.long_work(what, so_far); };
}

/// What fails there, all ranks hear.
void EpochLoop::on_rank_0(const std::string& what, const std::function<void()>& work) {
  do_together(world_, world_.rank() == 0 ? work : std::function<void()>(), told(what));
}

/// Has owners write their shards. Returns the manifest of a checkpoint to commit, on rank 0; none where one
/// of them has lost its state.
std::optional<StateManifest> EpochLoop::save_state() {
  if (!state_.any()) return {};
  const std::uint64_t number = state_.new_number();
  std::optional<StateCheckpoint> saved;
  std::optional<StateLost> lost;
  const auto save = [&] {
    try {
      saved = state_.save(number);
    } catch (const StateLost& why) {
      lost = why;
    }
  };
  const std::string what = "writing checkpoint " + std::to_string(number);
  do_together(world_, world_.rank() == 0 && !lost_ ? save : std::function<void()>(), told(what));
  if (lost) unless_lost([&] { throw StateLost(*lost); });
  if (!saved) return {};
  StateManifest next{.run = state_.run(), .attempt = state_.attempt(), .now = *saved, .best = manifest_.best};
  if (progress_.best_epoch >= 0 && progress_.best_epoch == progress_.epoch - 1 && progress_.position == 0)
    next.best = next.now;
  return next;
}

/// The renaming of the file is the commit, of what lies at owners too.
void EpochLoop::checkpoint() {
  if (options_.out.empty()) return;
  const std::optional<StateManifest> next = save_state();
  const bool whole = !lost_;
  const auto commit = [&] {
    files_.commit();
    if (next && next->best == next->now && !best_model_.empty()) save_model_bytes(model_path(), best_model_);
  };
  save_checkpoint(whole ? files_.next() : "", model_, optimizer_, progress_, options_.settings, world_,
                  {.manifest = next ? next->to_json() : "", .best_model = state_.any() ? best_model_ : ""},
                  commit, told("writing a checkpoint"));
  if (!state_.any()) return;
  if (next) {
    older_.push_front(std::exchange(manifest_, *next));
    while (std::ssize(older_) >= kept()) older_.pop_back();
  }
  world_.sum({0});  // all know whether there is a new one
  if (world_.go_back_agreed()) return;
  returns_in_vain_ = 0;
  remove_old_state();
}

std::int64_t EpochLoop::kept() const {
  if (options_.keep > 0) return options_.keep;
  return state_.any() ? 3 : 1;
}

/// Shards to which no file goes back. Where an owner cannot now, they go with a later checkpoint.
void EpochLoop::remove_old_state() {
  if (!state_.any()) return;
  std::set<std::uint64_t> numbers{manifest_.now.number};
  if (manifest_.best) numbers.insert(manifest_.best->number);
  for (const StateManifest& older : older_) {
    numbers.insert(older.now.number);
    if (older.best) numbers.insert(older.best->number);
  }
  on_rank_0("removing checkpoints", [&] { state_.keep(state_.run(), {numbers.begin(), numbers.end()}); });
}

void EpochLoop::found_again() {
  lost_ = false;
  world_.gone_back();
}

void EpochLoop::require_tries(std::int64_t tries) const {
  if (tries <= kReturnsInVain) return;
  throw Error(ErrorCode::kPeerDied, "the trainers went back to the last checkpoint " +
                                        std::to_string(kReturnsInVain) +
                                        " times and came to no other; the last reason on this rank: " +
                                        (why_lost_.empty() ? "another rank's" : why_lost_));
}

/// All ranks together, in the same processes.
void EpochLoop::go_back() {
  require_tries(++returns_in_vain_);
  found_again();
  const std::int64_t before = batches_so_far();
  load();
  ++returns_.times;
  returns_.batches += before - batches_so_far();
}

/// Goes on from the last checkpoint.
void EpochLoop::load() {
  LoadedCheckpoint loaded = load_checkpoint(files_.last(), model_, optimizer_, options_.settings, world_);
  progress_ = std::move(loaded.progress);
  progress_.world_size = world_.size();
  if (!state_.any()) return;
  if (loaded.state.manifest.empty())
    throw Error(ErrorCode::kInvalid,
                "checkpoint '" + files_.last().string() +
                    "' was made with whole rows at each trainer, and this run has owners; "
                    "use the same, or start afresh without resuming");
  manifest_ = StateManifest::from_json(loaded.state.manifest);
  best_model_ = std::move(loaded.state.best_model);
  on_rank_0("writing the best epoch's model", [&] {
    if (!best_model_.empty()) save_model_bytes(model_path(), best_model_);
  });
  state_.go_back(manifest_, manifest_.now,
                 told("going back to checkpoint " + std::to_string(manifest_.now.number)));
}

std::int64_t EpochLoop::batches_so_far() const {
  std::int64_t batches = progress_.batches;
  for (const EpochRow& row : progress_.rows) batches += row.batches;
  return batches;
}

/// With owners the file follows the commit: an epoch that is lost before it, and computed again on a device
/// whose bits do not repeat, may be no longer the best.
void EpochLoop::keep_best() {
  if (state_.any() || options_.restores_best) best_model_ = model_bytes(model_, options_.description);
  if (state_.any() || options_.out.empty()) return;
  on_rank_0("writing the best epoch's model",
            [&] { save_model(model_path(), model_, options_.description); });
}

void EpochLoop::restore_best() {
  if (!best_model_.empty())
    load_model_bytes(best_model_, model_);
  else if (!options_.out.empty() && world_.rank() == 0)
    load_model(model_path(), model_);
  restore_best_rows();
}

/// Rank 0's word, since it alone has the manifest of this process.
void EpochLoop::restore_best_rows() {
  if (!state_.any()) return;
  const bool other = world_.rank() == 0 && manifest_.best && *manifest_.best != manifest_.now;
  if (world_.sum({other ? 1.0 : 0.0})[0] == 0) return;
  state_.go_back(manifest_, manifest_.best.value_or(StateCheckpoint{}), told("going back to the best epoch"));
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
    if (world_.stop_agreed() || world_.go_back_agreed()) return;
  }
}

void EpochLoop::train_batch(TrainingTask& task, const AnyBatchTensors& batch) {
  look_for_stop();
  BatchLoss mine{.sum = torch::zeros({}, torch::TensorOptions(options_.device)), .count = 0};
  unless_lost([&] { mine = task.loss(batch); });
  const RoundLoss round = round_loss(world_, mine.sum, mine.count);
  if (world_.go_back_agreed()) return;
  tell_of_nonfinite(round.sum);
  optimizer_.zero_grad();
  reducer_.backward(round.loss);
  optimizer_.step();
  unless_lost([&] { task.after_step(); });
  progress_.loss_sum += round.sum;
  progress_.loss_seeds += round.seeds;
  progress_.batches += world_.size();
}

/// The run goes on: some losses come back.
void EpochLoop::tell_of_nonfinite(double loss) const {
  if (std::isfinite(loss) || world_.rank() != 0) return;
  give_warning_once("loss of " + options_.name,
                    "the loss of '" + options_.name + "' is " + std::to_string(loss) + " in epoch " +
                        std::to_string(progress_.epoch) + "; lower " + marked("lr") +
                        ", or look for NaN and infinity in the features: " + marked("check_finite") +
                        " names the node, and hopfeed-partition's imports refuse them with "
                        "--reject-nonfinite");
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
  if (world_.go_back_agreed()) return;
  row.valid_seconds = seconds_since(begin);
  progress_.rows.push_back(row);
  if (!score || *score > progress_.best_accuracy) {
    progress_.best_accuracy = score.value_or(0);
    progress_.best_epoch = progress_.epoch;
    keep_best();
  }
  progress_ = {.epoch = progress_.epoch + 1,
               .best_accuracy = progress_.best_accuracy,
               .best_epoch = progress_.best_epoch,
               .world_size = world_.size(),
               .rows = std::move(progress_.rows)};
  checkpoint();
  if (world_.go_back_agreed()) return;
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
