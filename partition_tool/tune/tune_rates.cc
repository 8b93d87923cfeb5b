// See tune_rates.h.
#include "partition_tool/tune/tune_rates.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "cache/held_rows.h"
#include "core/base/error.h"
#include "core/base/memory_limits.h"
#include "core/base/quantised_rows.h"
#include "core/base/thread_annotations.h"
#include "core/batch/aligned_block.h"
#include "core/batch/batch_view.h"
#include "core/batch/deal.h"
#include "core/batch/packed_block.h"
#include "core/maker/batch_maker.h"
#include "core/seeds/node_list.h"

namespace hopfeed {
namespace {

using Clock = std::chrono::steady_clock;

double cpu_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Blocks that each worker has; its first batch in each makes the memory's pages, and is not counted.
constexpr int kBlocks = 2;

struct Block {
  AlignedBlock memory;
  int uses = 0;
  std::size_t worker = 0;
};

/// The way of the blocks: a worker takes an idle one of its own, the consumer what was filled first.
class Hand {
 public:
  explicit Hand(std::size_t workers) : idle_(workers) {}
  /// Null where it is over.
  Block* take_idle(std::size_t worker) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (idle_[worker].empty() && !over_) changed_.wait(lock);
    return over_ ? nullptr : first_of(idle_[worker]);
  }
  Block* take_filled() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (filled_.empty() && !over_) changed_.wait(lock);
    return over_ ? nullptr : first_of(filled_);
  }
  void put_idle(Block* block) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    idle_[block->worker].push_back(block);
    changed_.notify_all();
  }
  void put_filled(Block* block) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    filled_.push_back(block);
    changed_.notify_all();
  }
  void end(const std::exception_ptr& error = {}) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    over_ = true;
    if (error && !error_) error_ = error;
    changed_.notify_all();
  }
  void rethrow() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  static Block* first_of(std::deque<Block*>& blocks) {
    Block* const block = blocks.front();
    blocks.pop_front();
    return block;
  }
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::deque<Block*>> idle_ GUARDED_BY(mutex_);  // of each worker
  std::deque<Block*> filled_ GUARDED_BY(mutex_);
  bool over_ GUARDED_BY(mutex_) = false;
  std::exception_ptr error_ GUARDED_BY(mutex_);
};

struct Worker {
  std::unique_ptr<BatchMaker> maker;
  std::vector<Block> blocks{kBlocks};
  std::vector<double> sample_seconds, gather_rates;
};

struct Consumer {
  std::vector<double> complete_rates, digest_rates;
  std::int64_t batches = 0;
};

/// What all threads of a rehearsal share.
struct Stage {
  const RehearsalOptions& options;
  const Deal& deal;
  HeldShare held;
  Hand hand;
  std::atomic<std::int64_t> next_step{0};
};

void work(Stage& stage, Worker& worker) {
  while (Block* const block = stage.hand.take_idle(worker.blocks.front().worker)) {
    const std::int64_t number = stage.next_step++;
    const Deal::Range range = stage.deal.batch(number % stage.deal.steps());
    const double begin = thread_cpu_seconds();
    const std::size_t bytes = worker.maker->sample(
        {.seed = stage.options.seed, .epoch = 0, .first = range.first, .count = range.count}, stage.held);
    const double sampled = thread_cpu_seconds();
    const std::span<std::byte> to = block->memory.resize(bytes);
    worker.maker->write(to);
    if (block->uses++ > 0) {
      worker.sample_seconds.push_back(sampled - begin);
      worker.gather_rates.push_back(static_cast<double>(bytes) / (thread_cpu_seconds() - sampled));
    }
    stage.hand.put_filled(block);
  }
}

void consume(Stage& stage, Consumer& consumer, std::int64_t least, const HeldRows* rows) {
  AlignedBlock whole;
  const auto begin = Clock::now();
  for (;;) {
    const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
    // At least a few that are counted, however slow they are made.
    if (passed > stage.options.seconds && consumer.batches >= least) break;
    if (stage.options.progress)
      stage.options.progress(std::min(passed, stage.options.seconds), stage.options.seconds);
    Block* const block = stage.hand.take_filled();
    if (block == nullptr) return;
    std::span<const std::byte> bytes = block->memory.bytes();
    if (rows != nullptr && is_packed(bytes)) {
      const BatchView packed(bytes, BatchView::Form::kPacked);
      const std::span<std::byte> to = whole.resize(rows->completed_bytes(packed));
      const double cpu = thread_cpu_seconds();
      rows->complete(packed, to);
      consumer.complete_rates.push_back(static_cast<double>(to.size()) / (thread_cpu_seconds() - cpu));
      bytes = to;
    }
    if (stage.options.digest) {
      const double cpu = thread_cpu_seconds();
      volatile std::uint64_t digest = BatchView(bytes).digest();
      static_cast<void>(digest);
      consumer.digest_rates.push_back(static_cast<double>(bytes.size()) / (thread_cpu_seconds() - cpu));
    }
    ++consumer.batches;
    stage.hand.put_idle(block);
  }
}

/// Threads that make batches: as many as workers, cores and an eighth of the free memory allow.
int rehearsal_workers(const RehearsalOptions& options, std::size_t block_bytes) {
  const std::size_t room = available_memory().bytes / 8 / (kBlocks * std::max<std::size_t>(block_bytes, 1));
  return std::clamp(std::min(options.workers, usable_cores()), 1,
                    static_cast<int>(std::clamp<std::size_t>(room, 1, 1024)));
}

}  // namespace

double thread_cpu_seconds() { return cpu_seconds(CLOCK_THREAD_CPUTIME_ID); }
double process_cpu_seconds() { return cpu_seconds(CLOCK_PROCESS_CPUTIME_ID); }

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

Rehearsal rehearse(const Dataset& dataset, std::span<const std::int64_t> seeds,
                   const RehearsalOptions& options) {
  const NodeList list(seeds, {.node_type = options.node_type});
  const Deal deal({.batch_size = options.batch_size}, list.size());
  const auto maker = [&] {
    return std::make_unique<BatchMaker>(dataset, list, options.batch, nullptr, options.make_source);
  };
  std::unique_ptr<BatchMaker> first = maker();
  const Deal::Range range = deal.batch(0);
  const std::size_t bytes = first->sample({.seed = options.seed, .first = range.first, .count = range.count});
  first->drop();
  std::vector<Worker> workers(static_cast<std::size_t>(rehearsal_workers(options, bytes)));
  Stage stage{.options = options, .deal = deal, .held = {}, .hand = Hand(workers.size())};
  for (std::size_t w = 0; w < workers.size(); ++w) {
    workers[w].maker = w == 0 ? std::move(first) : maker();
    for (Block& block : workers[w].blocks) {
      block.worker = w;
      stage.hand.put_idle(&block);
    }
  }
  std::unique_ptr<HeldRows> rows;
  if (options.held.any())
    stage.held = HeldRows::fit(dataset.meta(), options.batch, options.held, options.held_bytes);
  if (stage.held.any()) {
    rows = std::make_unique<HeldRows>(dataset.meta(), options.batch, stage.held);
    rows->load(dataset);
  }
  Consumer consumer;
  {
    std::vector<std::jthread> threads;
    const auto guarded = [&stage](const auto& body) {
      try {
        body();
        stage.hand.end();
      } catch (...) {
        stage.hand.end(std::current_exception());
      }
    };
    guarded([&] {
      try {
        for (Worker& worker : workers)
          threads.emplace_back([&stage, &worker, guarded] { guarded([&] { work(stage, worker); }); });
      } catch (const std::system_error& error) {
        throw_errno("cannot start a thread that makes batches", error.code().value());
      }
      consume(stage, consumer, 3 * kBlocks * std::ssize(workers), rows.get());
    });
  }
  stage.hand.rethrow();
  Rehearsal result{.batches = consumer.batches};
  std::vector<double> sample_seconds, gather_rates;
  for (const Worker& worker : workers) {
    sample_seconds.insert(sample_seconds.end(), worker.sample_seconds.begin(), worker.sample_seconds.end());
    gather_rates.insert(gather_rates.end(), worker.gather_rates.begin(), worker.gather_rates.end());
  }
  // The first of the consumer's make its memory's pages.
  const auto later = [](std::vector<double> rates) {
    if (rates.size() > 1) rates.erase(rates.begin());
    return median(std::move(rates));
  };
  result.sample_seconds = median(std::move(sample_seconds));
  result.gather_bytes_per_second = median(std::move(gather_rates));
  result.complete_bytes_per_second = later(std::move(consumer.complete_rates));
  result.digest_bytes_per_second = later(std::move(consumer.digest_rates));
  return result;
}

double convert_rate() {
  constexpr std::int64_t kRows = 1 << 17, kElements = 128;  // more than caches hold, as a batch's rows are
  constexpr std::int64_t kRowBytes = quantised_row_bytes(ElementType::kInt8Scaled, kElements);
  const std::vector<std::byte> rows(kRows * kRowBytes, std::byte{1});
  std::vector<float> values(kRows * kElements);  // its pages are made here
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    const double begin = thread_cpu_seconds();
    dequantise({.type = ElementType::kInt8Scaled,
                .elements = kElements,
                .stride_bytes = kRowBytes,
                .count = kRows,
                .rows = rows.data()},
               values.data());
    best =
        std::max(best, static_cast<double>(sizeof(float) * values.size()) / (thread_cpu_seconds() - begin));
  }
  return best;
}

}  // namespace hopfeed
