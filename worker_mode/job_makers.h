// What a sampling worker makes batches with: a maker for each job, and further ones where it samples ahead
// (batch_window.h), each with a scratch of its own. A loader's worker has one job from the
// start; a server's has as many as its clients have open, each made when its first batch is claimed. The
// least recently used go when all of them together hold too much memory, and are made again when they are
// asked for; those that the server has no more go within a second or so.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "channel/worker_port.h"
#include "core/base/scratch_budget.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_source.h"
#include "stream/local_execution.h"
#include "worker_mode/batch_filler.h"
#include "worker_mode/job_files.h"

namespace hopfeed {

/// Packed seeds of a memfd, mapped for as long as somebody uses them.
class MappedSeeds {
 public:
  MappedSeeds() = default;
  /// Throws kIo. Negative: none, an empty span.
  explicit MappedSeeds(int fd);
  ~MappedSeeds();
  MappedSeeds(MappedSeeds&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedSeeds& operator=(MappedSeeds&&) = delete;
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// All of a memfd as text. Throws kIo with `what`.
std::string text_of_memfd(int fd, const char* what);

class JobMakers {
 public:
  /// Asks for a job that is not known. Throws.
  using Ask = std::function<ReceivedJob(std::uint32_t job)>;
  /// Those of these jobs that are gone for good.
  using AskForGone = std::function<std::vector<std::uint32_t>(std::span<const std::uint32_t> jobs)>;
  /// What writes the blocks of a job.
  using Make = std::function<std::unique_ptr<BlockMaker>(const Dataset& dataset, const BatchSource& source,
                                                         const BatchOptions& options)>;
  struct Options {
    LocalExecution execution = {};
    std::shared_ptr<ScratchBudget> budget;  // of the scratch of all makers; never null
    std::size_t max_scratch = 0;            // bytes that makers may keep when a batch is begun; 0: any
    Ask ask = nullptr;                      // none: all jobs are added
    AskForGone ask_for_gone = nullptr;      // none: all of them stay
    Make make = nullptr;                    // none: a BatchMaker
  };
  /// `port` must outlive it.
  JobMakers(WorkerPort& port, Options options);
  ~JobMakers();

  /// Makes what a job's batches are made with; `row_cache_fd` of its dataset, -1 where it has none. Throws
  /// kInvalid where the dataset or the plugin on disk is not the job's any more, and what Dataset,
  /// DynamicCache, open_source and BatchMaker throw.
  void add(std::uint32_t job, const JobDescription& description, MappedSeeds seeds, int row_cache_fd = -1);
  /// One with nothing under way, for claims of that job, which it asks for where it has to. Throws as add(),
  /// and what Ask throws; other jobs stay.
  BatchFiller& filler(std::uint32_t job);
  /// Asks which jobs are gone, no more than once a second, and lets go of their makers, of their seeds and of
  /// datasets that no other job reads; those with a batch under way stay. Throws what AskForGone throws.
  void drop_gone();
  /// Dataset of the job that was asked for last; null where that is gone.
  const Dataset* dataset() const;

 private:
  struct Job;
  struct OpenDataset;
  std::shared_ptr<const OpenDataset> dataset_in(const std::string& folder, int row_cache_fd);
  /// Makers of jobs with nothing under way go until no more is kept than may be; those of `stays` stay.
  void make_room(const Job* stays);

  WorkerPort& port_;
  const Options options_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Job>> jobs_;
  std::map<std::string, std::weak_ptr<const OpenDataset>> datasets_;  // by folder: jobs of one share it
  Job* last_ = nullptr;
  std::uint32_t last_job_ = 0;
  std::uint64_t uses_ = 0;
  std::int64_t ask_again_ = 0;  // monotonic_now()
};

}  // namespace hopfeed
