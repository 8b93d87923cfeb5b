// See job_table.h.
#include "server_client_mode/server/job_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/memory_limits.h"
#include "core/sampler/sampler_registry.h"
#include "stream/loader_source.h"
#include "worker_mode/plugin_trial.h"
#include "worker_mode/worker_config.h"
#include "worker_mode/worker_process.h"

namespace hopfeed {
namespace {

constexpr std::size_t kSizesKnown = 16;  // of one job: a client may ask for any number of them

void require_offered_sampler(const BatchSpec& spec) {
  const std::string here = sampler_file_sha256(spec.batch.sampler);
  if (here == spec.sampler_sha256) return;
  throw Error(
      ErrorCode::kNotFound,
      fmt::format("the server has sampler '{}' {}, the client one {}; load the same plugin on both sides",
                  spec.batch.sampler, here.empty() ? "of its own" : "of a plugin with SHA-256 " + here,
                  spec.sampler_sha256.empty() ? "that is hopfeed's own"
                                              : "of a plugin with SHA-256 " + spec.sampler_sha256));
}

}  // namespace

struct JobTable::Job {
  std::uint32_t number = 0;
  std::string content;
  JobDescription description;
  JobFiles files;
  const ServedDataset* dataset = nullptr;
  std::shared_ptr<const StoredSeeds> seeds;  // null: a split
  std::unique_ptr<BatchSource> source;
  // By batch size, of the last few sizes; the opening thread's own.
  std::map<std::int64_t, std::uint64_t> worst_blocks;
  // The table's lock guards these.
  std::int64_t users = 0;
  Clock::time_point last_used;
  std::optional<Error> refused;
};

JobTable::JobTable(const ServedDatasets& datasets, JobTableOptions options)
    : datasets_(datasets), options_(std::move(options)) {}
JobTable::~JobTable() = default;

JobTable::Opened JobTable::open(const wire::Open& open, std::shared_ptr<const StoredSeeds> seeds) {
  open.spec.require_rules();
  require_valid(
      open.batch_size >= 1 && open.batch_size <= kMaxBatchSize,
      fmt::format("{} is {}; between 1 and {}", marked("batch_size"), open.batch_size, kMaxBatchSize));
  const std::string content = open.spec.to_json() + (open.check_finite ? " finite" : "");
  std::shared_ptr<Job> job;
  {
    const MutexLock lock(mutex_);
    if (const auto known = by_content_.find(content); known != by_content_.end()) job = known->second;
    if (job && job->refused) throw *job->refused;
    if (job) ++job->users;
  }
  try {
    if (!job) job = make(open, std::move(seeds));
    const wire::Opened answer{.num_seeds = job->source->size(), .worst_block = worst_block(*job, open)};
    const MutexLock lock(mutex_);
    if (job->number != 0) return {.job = job->number, .answer = answer};
    make_room();
    job->number = ++last_number_;
    job->users = 1;
    job->content = content;
    by_content_[content] = job;
    by_number_[job->number] = job;
    return {.job = job->number, .answer = answer};
  } catch (...) {
    if (job && job->number != 0) close(job->number);
    throw;
  }
}

std::shared_ptr<JobTable::Job> JobTable::make(const wire::Open& open,
                                              std::shared_ptr<const StoredSeeds> seeds) const {
  const BatchSpec& spec = open.spec;
  auto job = std::make_shared<Job>();
  job->dataset = &datasets_.by_fingerprint(spec.fingerprint);
  check_batch_options(spec.batch);
  require_offered_sampler(spec);
  job->seeds = std::move(seeds);
  job->source = open_source(*job->dataset->dataset, spec,
                            job->seeds ? job->seeds->bytes() : std::span<const std::byte>());
  job->description = {.dataset = job->dataset->folder,
                      .manifest = manifest_hash(job->dataset->meta()),
                      .spec = spec,
                      .check_finite = open.check_finite};
  const std::string json = job->description.to_json();
  job->files.description = std::make_shared<const OwnedFd>(memfd_of("hopfeed-job", json.data(), json.size()));
  if (job->seeds) job->files.seeds = job->seeds->fd();
  if (const auto& cache = job->dataset->row_cache)
    job->files.row_cache = std::shared_ptr<const OwnedFd>(cache, &cache->owned_fd());
  if (!spec.sampler_sha256.empty()) try_plugin_sampler(open, *job);
  return job;
}

/// A client's options may be such that a plugin's code ends the process that runs it.
void JobTable::try_plugin_sampler(const wire::Open& open, const Job& job) const {
  WorkerConfig config;
  config.dataset = job.dataset->folder;
  config.spec = open.spec;
  try_sampler({.program = options_.worker_program,
               .plugins = options_.plugins,
               .sampler = open.spec.batch.sampler,
               .config = config.to_json(),
               .seeds_fd = job.seeds ? job.seeds->fd()->get() : -1,
               .batch_size = open.batch_size,
               .deadline = options_.start_deadline});
}

/// The bytes of the largest block at this batch size. Throws kNoSpace where batches are bounded and no slot
/// can be that large; where they are not, the worst case says little, and a batch that is too large is an
/// error when it comes.
std::uint64_t JobTable::worst_block(Job& job, const wire::Open& open) const {
  const auto known = job.worst_blocks.find(open.batch_size);
  if (known != job.worst_blocks.end()) return known->second;
  const BatchMaker maker = job.source->maker(*job.dataset->dataset, open.spec.batch);
  const std::size_t bytes = std::min(maker.max_block_bytes(open.batch_size), kMaxBlockBytes);
  if (open.spec.batch.bounded() && bytes > options_.largest_block) {
    throw Error(ErrorCode::kNoSpace,
                fmt::format("a batch can take {}, more than the {} that the server has for one; lower {} "
                            "or fanouts, or have it started with more (--max-memory)",
                            format_bytes(bytes), format_bytes(options_.largest_block), marked("batch_size")));
  }
  if (job.worst_blocks.size() >= kSizesKnown) job.worst_blocks.clear();
  job.worst_blocks[open.batch_size] = bytes;
  return bytes;
}

void JobTable::make_room() {
  if (by_number_.size() < options_.max_jobs) return;
  auto oldest = by_number_.end();
  for (auto job = by_number_.begin(); job != by_number_.end(); ++job) {
    if (job->second->users > 0) continue;
    if (oldest == by_number_.end() || job->second->last_used < oldest->second->last_used) oldest = job;
  }
  if (oldest == by_number_.end())
    throw Error(ErrorCode::kNoSpace,
                fmt::format("the server has {} jobs open, as many as it takes; use another "
                            "server, or come back later",
                            by_number_.size()));
  dropped_.push_back(oldest->first);
  by_content_.erase(oldest->second->content);
  by_number_.erase(oldest);
}

void JobTable::close(std::uint32_t job) {
  const MutexLock lock(mutex_);
  const auto found = by_number_.find(job);
  if (found == by_number_.end()) return;
  --found->second->users;
  found->second->last_used = Clock::now();
}

JobFiles JobTable::find(std::uint32_t job) const {
  const MutexLock lock(mutex_);
  const auto found = by_number_.find(job);
  return found == by_number_.end() ? JobFiles{} : found->second->files;
}

void JobTable::refuse(std::uint32_t job, const Error& cause) {
  const MutexLock lock(mutex_);
  const auto found = by_number_.find(job);
  if (found != by_number_.end() && !found->second->refused) found->second->refused = cause;
}

std::optional<Error> JobTable::why_refused(std::uint32_t job) const {
  const MutexLock lock(mutex_);
  const auto found = by_number_.find(job);
  return found == by_number_.end() ? std::nullopt : found->second->refused;
}

std::vector<std::uint32_t> JobTable::expire(Clock::time_point now) {
  const MutexLock lock(mutex_);
  std::vector<std::uint32_t> gone = std::exchange(dropped_, {});
  for (auto job = by_number_.begin(); job != by_number_.end();) {
    if (job->second->users > 0 || now - job->second->last_used <= options_.kept) {
      ++job;
      continue;
    }
    gone.push_back(job->first);
    by_content_.erase(job->second->content);
    job = by_number_.erase(job);
  }
  return gone;
}

std::size_t JobTable::size() const {
  const MutexLock lock(mutex_);
  return by_number_.size();
}

}  // namespace hopfeed
