// See results_answers.h.
#include "results/results_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace hopfeed {
namespace {

constexpr std::size_t kMostShards = 64;     // some 32 MiB each, and each is read once for its checksum
constexpr std::uint64_t kLooksOfRest = 10;  // of let_go(): then who asked goes on elsewhere

/// Returns the number in `firsts` of the shard that has the row, where it is long enough; -1: there is none.
std::ptrdiff_t shard_of(std::span<const std::int64_t> firsts, std::uint32_t row) {
  return std::ranges::upper_bound(firsts, std::int64_t{row}) - firsts.begin() - 1;
}

/// Returns how many of the rows follow on each other from the first on.
std::size_t together(std::span<const std::uint32_t> rows) {
  std::size_t count = 1;
  while (count < rows.size() && rows[count] == rows[count - 1] + 1) ++count;
  return count;
}

/// Copies the rows that the shard has, which are the first ones; returns how many.
std::size_t copy_rows(const LayerShard& shard, std::span<const std::uint32_t> rows, std::byte* out) {
  const auto first = static_cast<std::uint64_t>(shard.first());
  const auto end = first + static_cast<std::uint64_t>(shard.rows());
  const auto row_bytes = static_cast<std::size_t>(shard.row_bytes());
  const auto here = static_cast<std::size_t>(std::ranges::lower_bound(rows, end) - rows.begin());
  for (std::size_t i = 0, count = 0; i < here; i += count) {
    count = together(rows.subspan(i, here - i));
    std::memcpy(out + i * row_bytes, shard.bytes().data() + (rows[i] - first) * row_bytes, count * row_bytes);
  }
  return here;
}

}  // namespace

/// A shard that is opened by the first who asks for it, while others who do wait.
struct ResultsAnswers::Kept {
  Mutex mutex;
  std::shared_ptr<const LayerShard> shard GUARDED_BY(mutex);
  std::uint64_t used = 0, looked = 0;  // of uses_ and looks_, when it was asked for last; by their mutex
};

ResultsAnswers::ResultsAnswers(std::filesystem::path folder) : folder_(std::move(folder)) {}
ResultsAnswers::~ResultsAnswers() = default;

PeerBytes ResultsAnswers::answer(const ResultsQuestion& question) {
  ++questions_;
  // Before the rows are looked for: what the run has renamed by then is seen.
  if (question.ask == ResultsAsk::kFetched && has_ended(folder_, question.run))
    return write_results_answer(ResultsSays::kNoted);
  const RunState state = state_of(question.run);
  if (state == RunState::kAnother) return write_results_answer(ResultsSays::kAnotherRun);
  if (state == RunState::kAnotherIsOver) return write_results_answer(ResultsSays::kNobody);
  if (question.ask == ResultsAsk::kFetched) {
    if (!has_run(folder_, question.run)) return write_results_answer(ResultsSays::kNobody);
    const MutexLock lock(noting_);  // of two notes at a time neither might see that it is the last one
    note_fetched(folder_, question.run, question.name, static_cast<int>(question.partition));
    remove_if_fetched(folder_);
    return write_results_answer(ResultsSays::kNoted);
  }
  if (std::optional<PeerBytes> rows = rows_of(question)) return std::move(*rows);
  // Looked at in this order: a run's word goes first, and the next one's comes last.
  if (was_removed(folder_, question.run, question.name) && has_run(folder_, question.run))
    throw Error(
        ErrorCode::kNotFound,
        fmt::format("{} has no rows of '{}' any more, since all had fetched them; remove the folders of "
                    "--results on all machines, and start the run again",
                    folder_.string(), question.name.table));
  if (state != RunState::kComputing) return write_results_answer(ResultsSays::kNobody);
  ++not_yet_;
  return write_results_answer(ResultsSays::kNotYet);
}

RunState ResultsAnswers::state_of(RunId run) const {
  try {
    return run_state(folder_, run);
  } catch (const Error& error) {  // no folder, or its run has just gone
    if (error.code() != ErrorCode::kNotFound) throw;
    return RunState::kNobody;
  }
}

/// None where some are not there.
std::optional<PeerBytes> ResultsAnswers::rows_of(const ResultsQuestion& question) {
  const auto partition = static_cast<int>(question.partition);
  const LayerFolder layers = layers_of(folder_, question.run);
  const std::vector<std::int64_t> firsts = layers.firsts(question.name, partition);
  const auto open = [&](std::uint32_t row) -> std::shared_ptr<const LayerShard> {
    const std::ptrdiff_t at = shard_of(firsts, row);
    if (at < 0) return nullptr;
    auto found = shard(layers, question.name, partition, firsts[static_cast<std::size_t>(at)]);
    return found && row - found->first() < found->rows() ? found : nullptr;
  };
  // A run goes forward, so of what is not yet there the last row tells soonest.
  const std::shared_ptr<const LayerShard> last = open(question.rows.back());
  if (!last) return std::nullopt;
  const auto row_bytes = static_cast<std::size_t>(last->row_bytes());
  ResultsRoom room = write_results_rows(question.rows.size(), row_bytes);
  for (std::size_t done = 0; done < question.rows.size();) {
    const std::shared_ptr<const LayerShard> here = open(question.rows[done]);
    if (!here) return std::nullopt;
    if (here->row_bytes() != last->row_bytes())
      throw Error(
          ErrorCode::kCorrupt,
          fmt::format("{} has shards with rows of {} bytes, and of {}; remove it, and it is computed again",
                      layers.table_folder(question.name).string(), here->row_bytes(), row_bytes));
    done += copy_rows(*here, question.rows.subspan(done), room.rows.data() + done * row_bytes);
  }
  rows_ += std::ssize(question.rows);
  bytes_ += std::ssize(room.rows);
  return std::move(room.bytes);
}

/// Null: the run has just removed it, or is about to, where it is another run's.
std::shared_ptr<const LayerShard> ResultsAnswers::shard(const LayerFolder& layers, const LayerName& name,
                                                        int partition, std::int64_t first) {
  const std::filesystem::path path = layers.shard_path(name, partition, first);
  const Key key{layers.run.high, layers.run.low, path};
  const std::shared_ptr<Kept> entry = kept(key);
  const MutexLock lock(entry->mutex);
  if (entry->shard) return entry->shard;
  try {
    auto opened = std::make_shared<const LayerShard>(path, layers.run);
    if (opened->first() != first)
      throw Error(ErrorCode::kCorrupt,
                  fmt::format("{} has rows from row {} on; remove it, and it is computed again",
                              path.string(), opened->first()));
    entry->shard = std::move(opened);
  } catch (const Error& error) {
    forget(key);
    if (error.code() != ErrorCode::kNotFound && error.code() != ErrorCode::kInvalid) throw;
  }
  return entry->shard;
}

std::shared_ptr<ResultsAnswers::Kept> ResultsAnswers::kept(const Key& key) {
  const MutexLock lock(mutex_);
  std::shared_ptr<Kept>& entry = kept_[key];
  if (!entry) entry = std::make_shared<Kept>();
  entry->used = ++uses_;
  entry->looked = looks_;
  const std::shared_ptr<Kept> found = entry;
  while (kept_.size() > kMostShards)
    kept_.erase(std::ranges::min_element(kept_, {}, [](const auto& one) { return one.second->used; }));
  return found;
}

void ResultsAnswers::forget(const Key& key) {
  const MutexLock lock(mutex_);
  kept_.erase(key);
}

void ResultsAnswers::let_go() {
  std::vector<std::shared_ptr<Kept>> gone;  // unmapped without the mutex
  const MutexLock lock(mutex_);
  const std::uint64_t looks = ++looks_;
  std::erase_if(kept_, [&](auto& entry) {
    std::error_code error;
    const bool stays = looks - entry.second->looked <= kLooksOfRest &&
                       std::filesystem::exists(std::get<2>(entry.first), error);
    if (!stays) gone.push_back(std::move(entry.second));
    return !stays;
  });
}

ResultsAnswers::Counts ResultsAnswers::counts() const {
  const MutexLock lock(mutex_);
  return {.questions = questions_,
          .not_yet = not_yet_,
          .rows = rows_,
          .bytes = bytes_,
          .shards = std::ssize(kept_)};
}

}  // namespace hopfeed
