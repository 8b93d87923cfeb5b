// See job_makers.h.
#include "worker_mode/job_makers.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "cache/dynamic_cache.h"
#include "cache/file_features.h"
#include "channel/futex.h"
#include "core/base/error.h"
#include "core/maker/batch_maker.h"
#include "core/sampler/sampler_registry.h"
#include "gpu/device/gpu_sampling.h"
#include "peers/open_partitions.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kAskForGone = 1'000'000'000;  // nanoseconds

/// Whoever opened the job has named the content; a file that was replaced since then would make other
/// batches.
void require_same_sampler(const BatchSpec& spec) {
  if (sampler_file_sha256(spec.batch.sampler) == spec.sampler_sha256) return;
  throw Error(
      ErrorCode::kNotFound,
      fmt::format("the plugin of sampler '{}' was replaced while it was in use; start the loader, or the "
                  "server, again",
                  spec.batch.sampler));
}

/// The rows of the row cache, and those that a consumer holds, are by the order that it was then in.
void require_same_dataset(const Dataset& dataset, const JobDescription& job) {
  if (manifest_hash(dataset.meta()) != job.manifest) dataset_was_replaced(dataset);
}

}  // namespace

MappedSeeds::MappedSeeds(int fd) {
  if (fd < 0) return;
  struct stat status {};
  if (fstat(fd, &status) != 0) throw_errno("a worker has no seeds", errno);
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* address = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) throw_errno("a worker cannot map its seeds", errno);
  bytes_ = {static_cast<const std::byte*>(address), bytes};
}

MappedSeeds::~MappedSeeds() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string text_of_memfd(int fd, const char* what) {
  struct stat status {};
  if (fstat(fd, &status) != 0) throw_errno(what, errno);
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  if (pread(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) throw_errno(what, errno);
  return text;
}

struct JobMakers::OpenDataset {
  const std::unique_ptr<const Dataset> opened;
  const Dataset& dataset = *opened;
  std::unique_ptr<DynamicCache> row_cache;     // null: none
  const std::unique_ptr<AnnounceOrder> order;  // of all batches that announce to it, of whichever job

  OpenDataset(const std::string& folder, const LocalExecution& execution, int row_cache_fd)
      : opened(open_partitions(folder, execution.partitions, PeersAt::kSoon, execution.huge_pages)),
        row_cache(row_cache_fd < 0 ? nullptr : std::make_unique<DynamicCache>(row_cache_fd)),
        order(row_cache && !dataset.whole() ? std::make_unique<AnnounceOrder>() : nullptr) {}
};

/// Members in the order in which each needs those before it.
struct JobMakers::Job {
  /// One batch is under way in each at a time.
  struct Bench {
    const std::unique_ptr<AnnounceTurn> turn;  // null: batches announce nothing, or are sampled one by one
    std::unique_ptr<BlockMaker> maker;
    BatchFiller filler;
    explicit Bench(const Job& job)
        : turn(job.open->order ? std::make_unique<AnnounceTurn>(*job.open->order) : nullptr),
          maker(make(job)),
          filler(job.port, *maker,
                 {.seed = job.description.spec.seed,
                  .check_finite = job.description.check_finite,
                  .ends_when_broken = true,
                  .samples_in_background = !job.open->dataset.whole(),
                  .turn = turn.get()}) {
      maker->bound_scratch(job.options.budget);
    }
    ~Bench() { filler.note_end(); }

   private:
    std::unique_ptr<BlockMaker> make(const Job& job) {
      const BatchOptions& batch = job.description.spec.batch;
      const LocalExecution& execution = job.options.execution;
      if (job.options.make) return job.options.make(job.open->dataset, *job.source, batch);
      return std::unique_ptr<BlockMaker>(new BatchMaker(job.source->maker(
          job.open->dataset, batch, neighbor_samplers(execution.gpu, SamplerFor::kBatchesOfAWorker),
          feature_sources(execution.features.from, job.open->row_cache.get(), turn.get()))));
    }
  };

  WorkerPort& port;
  const JobMakers::Options& options;
  const JobDescription description;
  std::shared_ptr<const OpenDataset> open;
  MappedSeeds seeds;
  std::unique_ptr<BatchSource> source;
  std::vector<std::unique_ptr<Bench>> benches;
  std::uint64_t last_used = 0;

  Job(WorkerPort& worker_port, const JobMakers::Options& how, std::shared_ptr<const OpenDataset> data,
      const JobDescription& job, MappedSeeds given)
      : port(worker_port),
        options(how),
        description(job),
        open(std::move(data)),
        seeds(std::move(given)),
        source(open_source(open->dataset, description.spec, seeds.bytes())) {
    benches.push_back(std::make_unique<Bench>(*this));
  }

  BatchFiller& idle() {
    for (const std::unique_ptr<Bench>& bench : benches)
      if (!bench->filler.under_way()) return bench->filler;
    benches.push_back(std::make_unique<Bench>(*this));
    return benches.back()->filler;
  }
  bool under_way() const {
    return std::ranges::any_of(benches, [](const auto& bench) { return bench->filler.under_way(); });
  }
};

JobMakers::JobMakers(WorkerPort& port, Options options) : port_(port), options_(std::move(options)) {}
JobMakers::~JobMakers() = default;

std::shared_ptr<const JobMakers::OpenDataset> JobMakers::dataset_in(const std::string& folder,
                                                                    int row_cache_fd) {
  std::weak_ptr<const OpenDataset>& known = datasets_[folder];
  std::shared_ptr<const OpenDataset> open = known.lock();
  if (!open) {
    open = std::make_shared<const OpenDataset>(folder, options_.execution, row_cache_fd);
    known = open;
  }
  return open;
}

void JobMakers::add(std::uint32_t job, const JobDescription& description, MappedSeeds seeds,
                    int row_cache_fd) {
  make_room(nullptr);
  require_same_sampler(description.spec);
  std::shared_ptr<const OpenDataset> open = dataset_in(description.dataset, row_cache_fd);
  require_same_dataset(open->dataset, description);
  auto made = std::make_unique<Job>(port_, options_, std::move(open), description, std::move(seeds));
  last_ = made.get();
  last_job_ = job;
  last_->last_used = ++uses_;
  jobs_[job] = std::move(made);
}

BatchFiller& JobMakers::filler(std::uint32_t job) {
  if (last_ == nullptr || last_job_ != job) {
    const auto found = jobs_.find(job);
    if (found == jobs_.end()) {
      require_valid(options_.ask != nullptr, fmt::format("this worker has no job {}", job));
      const ReceivedJob got = options_.ask(job);
      add(job, JobDescription::from_json(text_of_memfd(got.description.get(), "cannot read a job")),
          MappedSeeds(got.seeds.get()), got.row_cache.get());
    } else {
      last_ = found->second.get();
      last_job_ = job;
    }
  }
  last_->last_used = ++uses_;
  make_room(last_);
  return last_->idle();
}

void JobMakers::drop_gone() {
  if (jobs_.empty() || options_.ask_for_gone == nullptr) return;
  const std::int64_t now = monotonic_now();
  if (now < ask_again_) return;
  ask_again_ = now + kAskForGone;
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, job] : jobs_) numbers.push_back(number);
  for (const std::uint32_t number : options_.ask_for_gone(numbers)) {
    if (jobs_.at(number)->under_way()) continue;
    if (last_job_ == number) last_ = nullptr;
    jobs_.erase(number);
  }
  std::erase_if(datasets_, [](const auto& known) { return known.second.expired(); });
}

const Dataset* JobMakers::dataset() const { return last_ == nullptr ? nullptr : &last_->open->dataset; }

void JobMakers::make_room(const Job* stays) {
  if (options_.max_scratch == 0) return;
  while (options_.budget->taken() > options_.max_scratch) {
    auto oldest = jobs_.end();
    for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
      if (job->second.get() == stays || job->second->under_way()) continue;
      if (oldest == jobs_.end() || job->second->last_used < oldest->second->last_used) oldest = job;
    }
    if (oldest == jobs_.end()) return;
    if (oldest->second.get() == last_) last_ = nullptr;
    jobs_.erase(oldest);
  }
}

}  // namespace hopfeed
