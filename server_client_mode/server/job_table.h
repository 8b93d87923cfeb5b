// A JobTable has the jobs that a server's clients have open. Jobs of equal specs are one, whoever opened
// them: they have a number of the server's, by which its workers know them. A job that nobody has open stays
// for a while, since clients come back.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/thread_annotations.h"
#include "core/batch/batch_spec.h"
#include "core/maker/batch_source.h"
#include "server_client_mode/server/seed_store.h"
#include "server_client_mode/server/served_datasets.h"
#include "wire/messages.h"
#include "worker_mode/job_files.h"

namespace hopfeed {

struct JobTableOptions {
  std::size_t largest_block = 0;     // no slot is larger
  std::size_t max_jobs = 1'024;      // jobs that are open or kept
  std::chrono::milliseconds kept{};  // without anybody who has it open
  // It is for the trial of a plugin's sampler (worker_mode/plugin_trial.h).
  std::string worker_program = {};
  std::vector<std::string> plugins = {};
  std::chrono::milliseconds start_deadline{30'000};
};

/// Any thread may use it but where it says otherwise.
class JobTable {
 public:
  using Clock = std::chrono::steady_clock;
  /// `datasets` must outlive it.
  JobTable(const ServedDatasets& datasets, JobTableOptions options);
  ~JobTable();

  struct Opened {
    std::uint32_t job = 0;
    wire::Opened answer;
  };
  /// Opens a job for one client, who has to close it. Takes as long as a loader's start, so it runs beside
  /// the event loop, one call at a time. `seeds` are those that the spec names by hash, else null. Throws
  /// kVersion for a spec of other rules, kNotFound for a dataset or sampler that is not served, kInvalid,
  /// kNoSpace where its batches cannot fit, and why the job was refused.
  Opened open(const wire::Open& open, std::shared_ptr<const StoredSeeds> seeds);
  void close(std::uint32_t job);
  /// Finds the files of a job for the workers.
  JobFiles find(std::uint32_t job) const;
  /// Refuses a job whose batches kill workers.
  void refuse(std::uint32_t job, const Error& cause);
  std::optional<Error> why_refused(std::uint32_t job) const;
  /// Forgets jobs that nobody had open for too long; returns their numbers.
  std::vector<std::uint32_t> expire(Clock::time_point now = Clock::now());
  std::size_t size() const;

 private:
  struct Job;
  std::shared_ptr<Job> make(const wire::Open& open, std::shared_ptr<const StoredSeeds> seeds) const;
  void try_plugin_sampler(const wire::Open& open, const Job& job) const;
  std::uint64_t worst_block(Job& job, const wire::Open& open) const;
  void make_room() REQUIRES(mutex_);

  const ServedDatasets& datasets_;
  const JobTableOptions options_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<Job>> by_content_ GUARDED_BY(mutex_);
  std::map<std::uint32_t, std::shared_ptr<Job>> by_number_ GUARDED_BY(mutex_);
  std::vector<std::uint32_t> dropped_ GUARDED_BY(mutex_);  // not told by expire() so far
  std::uint32_t last_number_ GUARDED_BY(mutex_) = 0;
};

}  // namespace hopfeed
