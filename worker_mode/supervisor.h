// A Supervisor keeps processes that fill slots alive: it starts them from one thread that lives as long as
// the loader (the kernel's death signal fires when the starting thread ends), hears of deaths through pidfds,
// has the dead worker's batches given back before its replacement is started (on a GPU once its kernels are
// gone), kills what hangs, and gives up after too many deaths in a row without a finished batch. Its thread
// is also the one that keeps the channel's slots. For a server it says what the jobs of its workers are, and
// leaves it to the server what is done about batches that kill.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "channel/bell.h"
#include "core/base/thread_annotations.h"
#include "stream/channel_host.h"
#include "stream/slot_fillers.h"
#include "stream/slot_keeper.h"
#include "worker_mode/job_files.h"
#include "worker_mode/worker_config.h"
#include "worker_mode/worker_process.h"

namespace hopfeed {

/// A WorkerDeath is a worker that died, and what it was at.
struct WorkerDeath {
  std::uint32_t worker = 0;
  std::string cause;  // how it ended, and what it said before
  std::vector<PlannedBatch>
      claims;  // the batches that it was at; what else it had is made again and nobody's fault
};

struct SupervisorOptions {
  std::string program;                  // path of hopfeed-worker
  WorkerConfig config;                  // worker and cores are filled in per worker
  std::vector<std::vector<int>> cores;  // [num_workers]
  std::vector<std::string> plugins;     // absolute paths
  int seeds_fd = -1;                    // set where the spec names given seeds
  int row_cache_fd = -1;                // set where there is a row cache, and jobs do not bring it
  std::chrono::milliseconds batch_deadline{};
  std::chrono::milliseconds start_deadline{};
  int max_restarts = 0;
  /// Where it is false, another thread waits on the channel's doorbell and calls ChannelHost::service() when
  /// it was rung.
  bool answers_doorbell = true;
  /// It serves workers that ask for jobs (WorkerConfig::asks_for_jobs). The supervisor's thread calls it.
  FindJob find_job = nullptr;
  /// The supervisor's thread calls it for each death, before the dead worker's batches are planned again.
  /// With it the channel fails only where workers cannot start: what is done about batches that kill is
  /// decided there. It returns how many workers in a row what this one was filling has killed: the more, the
  /// later its replacement starts. It must not throw.
  std::function<int(const WorkerDeath& death)> on_death = nullptr;
};

class Supervisor final : public SlotFillers {
 public:
  /// Starts the thread, which starts the workers.
  Supervisor(std::shared_ptr<ChannelHost> host, SupervisorOptions options);
  /// Ends the workers: asked first, killed after half a second.
  ~Supervisor() override;

  /// Waits until every worker is ready. Throws what a worker reported, kPeerDied or kTimeout.
  void wait_until_ready() override;
  std::vector<int> pids() const override;

 private:
  using Clock = std::chrono::steady_clock;
  /// Activity is what a worker was seen doing; the same thing for too long means that it hangs.
  struct Activity {
    enum class Kind { kStarting, kFilling, kWaiting } kind = Kind::kStarting;
    std::uint32_t slot = 0, generation = 0;  // the slot that it fills
    std::uint32_t heartbeat = 0;             // of its claims, and while it waits for work or for memory
    friend bool operator==(const Activity&, const Activity&) = default;
  };
  struct Worker {
    std::unique_ptr<WorkerProcess> process;  // none: waits for its burial or its restart
    bool unburied = false;                   // dead, and what it asked of a device may not have ended
    std::string cause;                       // of its death
    OwnedFd jobs;                            // on which it asks for them; none: it does not
    Clock::time_point start_at;              // of the next start
    int deaths_in_a_row = 0;                 // without a batch published in between, by whichever worker
    Activity activity;
    Clock::time_point active_since;
  };

  void run();
  void wait_for_events();
  Clock::duration next_deadline() const;
  void start(std::size_t number);
  void start_due_workers();
  void answer_questions();
  void reap_the_dead();
  void bury_the_dead();
  bool work_ended(std::size_t number) const;
  WorkerDeath death_of(std::size_t number, const std::string& cause) const;
  /// Counts a death; `deaths_of_batch` is what on_death says, where there is one.
  void count_death(std::size_t number, const WorkerDeath& death, int deaths_of_batch);
  void kill_the_hung();
  Clock::duration patience_with(const Activity& activity) const;
  Activity activity_of(std::size_t number, const std::vector<SlotPool::Filling>& filling) const;
  void end_workers();
  void forget_pid(std::size_t number) EXCLUDES(mutex_);

  const std::shared_ptr<ChannelHost> host_;
  const SupervisorOptions options_;
  std::atomic<bool> stopping_{false};
  const Bell stop_bell_;
  SlotKeeper keeper_;  // the thread's own, as all below
  std::vector<Worker> workers_;
  std::uint64_t published_at_death_ = 0;
  mutable Mutex mutex_;
  std::vector<int> pids_ GUARDED_BY(mutex_);  // [num_workers] of workers_[].process; -1: none
  std::thread thread_;
};

}  // namespace hopfeed
