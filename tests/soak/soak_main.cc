// hopfeed-soak: a loader and whole sampling processes under thousands of random faults: workers killed,
// several at once, stopped; samplers killed with all they have; a consumer that dawdles, holds batches,
// leaves epochs. Every batch is held against the serial oracle, and how long each fault is felt is measured.
// The seed of the faults comes first.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/program/json_report.h"
#include "core/program/program_main.h"
#include "core/program/progress_bar.h"
#include "tests/soak/server_soak.h"
#include "tests/soak/soak_report.h"
#include "tests/support/processes.h"
#include "tests/support/tiny_dataset.h"
#include "tests/worker_mode/oracle.h"
#include "worker_mode/loader.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using soak::Clock;
using soak::require;
using soak::Times;

constexpr std::int64_t kEpochs = 12;  // of which the oracle knows the batches
constexpr auto kHung = 200ms;         // a stopped worker is killed after that long
constexpr auto kGiveUp = 60s;         // for what must come soon

struct SoakArguments {
  std::int64_t kills = 1'000;
  std::uint64_t seed = 0;
  std::int64_t workers = 3;
  std::string json;
};

class Soak {
 public:
  explicit Soak(const SoakArguments& arguments) : arguments_(arguments), random_(arguments.seed) {
    const testing::TinyGraph graph =
        testing::random_graph({.num_nodes = 400, .num_edges = 4'000, .x_width = 9, .num_train = 230});
    testing::write_tiny_dataset(data(), graph, testing::random_cut(graph, 2, 5));
    options_.dataset = data();
    options_.batch.fanouts = {8, 8};
    options_.deal.batch_size = 16;
    options_.seed = 11;
    options_.execution.num_workers = arguments.workers;
    options_.execution.channel_size = 1 << 20;
    options_.execution.batch_deadline = kHung;
    options_.execution.start_deadline = 10s;
    options_.execution.max_worker_restarts = 1'000'000'000;
    for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch)
      oracle_.push_back(expected(options_, {.epoch = epoch}));
  }

  nlohmann::json run() {
    const testing::Leftovers before = testing::Leftovers::now();
    const auto begin = Clock::now();
    {
      Loader loader(options_);
      std::thread consumer([&] { guarded([&] { consume(loader); }); });
      guarded([&] { make_faults(loader); });
      consumer.join();
      const StreamStats stats = loader.stats();
      deaths_ = stats.worker_deaths;
      remade_ = stats.batches_remade;
    }
    if (interrupted_) throw Interrupted{};
    if (!failure_.empty())
      throw Error(ErrorCode::kCorrupt, fmt::format("{} (--seed {})", failure_, arguments_.seed));
    if (const testing::Leftovers after = testing::Leftovers::now(); !(after == before))
      throw Error(
          ErrorCode::kCorrupt,
          fmt::format("children, descriptors or shared memory are left (--seed {})", arguments_.seed));
    return {{"seed", arguments_.seed},
            {"faults", faults_},
            {"kills", kills_},
            {"worker_deaths", deaths_},
            {"batches", batches_.load()},
            {"batches_remade", remade_},
            {"epochs", epochs_},
            {"wrong_batches", 0},
            {"worker_killed_until_its_batch_is_planned_again", reclaimed_.summary()},
            {"longest_pause_of_the_trainer_after_one_worker_was_killed", paused_.summary()},
            {"worker_stopped_until_its_batch_is_planned_again", unhung_.summary()},
            {"sampler_killed_until_nothing_is_left", gone_.summary()},
            {"trainer_waited_for_a_batch", waited_.summary()},
            {"seconds", std::chrono::duration<double>(Clock::now() - begin).count()}};
  }

 private:
  std::string data() const { return (folder_.path() / "data").string(); }

  /// The first thing that goes wrong, or a signal, ends both threads.
  template <class Body>
  void guarded(Body body) {
    try {
      body();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      if (failure_.empty()) failure_ = error.what();
    } catch (const Interrupted&) {
      interrupted_ = true;
    }
    done_ = true;
  }

  // ---- the consumer

  void consume(Loader& loader) {
    std::mt19937_64 random(arguments_.seed + 1);
    while (!done_) {
      const auto epoch = static_cast<std::int64_t>(random() % kEpochs);
      const std::vector<std::string>& want = oracle_[static_cast<std::size_t>(epoch)];
      const std::size_t first = random() % 4 == 0 ? random() % want.size() : 0;  // a resumed epoch
      const std::size_t leave = random() % 4 == 0 ? first + random() % (want.size() - first) : want.size();
      loader.begin_epoch(epoch, static_cast<std::int64_t>(first) * options_.deal.batch_size);
      std::deque<Batch> held;
      for (std::size_t i = first; i < leave && !done_; ++i) {
        const auto asked = Clock::now();
        std::optional<Batch> batch = loader.next();
        note_wait(Clock::now() - asked);
        require(batch.has_value(), fmt::format("epoch {} ended before batch {}", epoch, i));
        const std::string line = line_of(batch->view());
        require(line == want[i],
                fmt::format("batch {} of epoch {} is '{}', must be '{}'", i, epoch, line, want[i]));
        ++batches_;
        if (random() % 8 == 0) held.push_back(std::move(*batch));
        if (held.size() > 2) held.pop_front();
        if (random() % 200 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
      }
      for (const Batch& batch : held)
        require(find(want, line_of(batch.view())), "a batch changed while it was held");
      if (leave == want.size() && !done_)
        require(!loader.next(), fmt::format("epoch {} has a batch too many", epoch));
      ++epochs_;
    }
  }
  void note_wait(Clock::duration wait) {
    waited_.add(wait);
    for (auto longest = longest_wait_.load();
         longest < wait && !longest_wait_.compare_exchange_weak(longest, wait);) {
    }
  }

  static bool find(const std::vector<std::string>& lines, const std::string& line) {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
  }

  // ---- the faults

  void make_faults(Loader& loader) {
    ProgressBar bar("soak", static_cast<std::uint64_t>(arguments_.kills), {.unit = "kills"});
    while (kills_ < arguments_.kills && !done_) {
      stop_if_asked();
      nap();
      switch (const auto choice = random_() % 100; choice) {
        case 0 ... 4:
          kill_sampler();
          break;
        case 5 ... 9:
          kill_workers(loader, arguments_.workers);
          break;
        case 10:
          stop_worker(loader);
          break;
        default:
          kill_workers(loader, 1);
      }
      bar.note(fmt::format("{} batches, none wrong", batches_.load()));
      bar.set(static_cast<std::uint64_t>(kills_));
    }
  }

  /// Mostly until a few batches have gone by: a worker that is killed before it is up tests nothing new.
  void nap() {
    const std::int64_t go_on = batches_ + static_cast<std::int64_t>(random_() % 8);
    const auto give_up = Clock::now() + 2s;
    while (batches_ < go_on && !done_ && Clock::now() < give_up) std::this_thread::sleep_for(50us);
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 2'000));
  }

  void wait_for_deaths(const Loader& loader, std::int64_t deaths, const char* what) {
    const auto give_up = Clock::now() + kGiveUp;
    while (loader.stats().worker_deaths < deaths && !done_) {
      require(Clock::now() < give_up, fmt::format("{} is not noticed within a minute", what));
      std::this_thread::sleep_for(50us);
    }
  }

  /// As many as may have been planned: the killed worker's was among them. False where the soak ended before.
  bool wait_for_batches(std::int64_t batches) {
    const auto give_up = Clock::now() + kGiveUp;
    while (batches_ < batches && !done_) {
      require(Clock::now() < give_up, "no batch comes within a minute of a kill");
      std::this_thread::sleep_for(50us);
    }
    return !done_;
  }

  void kill_workers(const Loader& loader, std::int64_t count) {
    std::vector<int> pids = loader.worker_pids();
    std::shuffle(pids.begin(), pids.end(), random_);
    pids.resize(std::min<std::size_t>(pids.size(), static_cast<std::size_t>(count)));
    const std::int64_t before = loader.stats().worker_deaths;
    const auto killed = Clock::now();
    const std::int64_t at = batches_;
    longest_wait_ = Clock::duration{};
    for (const int pid : pids) ::kill(pid, SIGKILL);
    wait_for_deaths(loader, before + std::ssize(pids), "a killed worker");
    if (pids.size() == 1) {
      reclaimed_.add(Clock::now() - killed);
      if (random_() % 2 == 0 && wait_for_batches(at + arguments_.workers * 2 + 2))
        paused_.add(longest_wait_.load());
    }
    count_kills(pids.size() > 1 ? "workers killed together" : "worker killed", std::ssize(pids));
  }

  void stop_worker(const Loader& loader) {
    const std::vector<int> pids = loader.worker_pids();
    if (pids.empty()) return;
    const std::int64_t before = loader.stats().worker_deaths;
    const auto stopped = Clock::now();
    ::kill(pids[random_() % pids.size()], SIGSTOP);
    wait_for_deaths(loader, before + 1, "a stopped worker");
    unhung_.add(Clock::now() - stopped);
    count_kills("worker stopped", 1);
  }

  /// A sampling process of its own, killed at any moment of its life; what it printed until then is right.
  void kill_sampler() {
    const std::string mark = testing::new_mark();
    testing::BackgroundProgram sampler(
        {testing::program("hopfeed-sample"), data(), "--fanouts", "8,8", "--batch-size", "16", "--seed", "11",
         "--num-workers", "2", "--channel-size", "1M", "--epochs", std::to_string(kEpochs)},
        {mark});
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 60'000));
    const auto killed = Clock::now();
    sampler.signal(SIGKILL);
    require(testing::none_marked(mark, kGiveUp), "a killed sampler left processes behind");
    gone_.add(Clock::now() - killed);
    std::string want;
    for (const std::vector<std::string>& epoch : oracle_) {
      for (const std::string& line : epoch) want += line + "\n";
    }
    const std::string said = sampler.read_rest();
    require(want.starts_with(said), "a killed sampler had printed other batches");
    count_kills("sampler killed", 1);
  }

  void count_kills(const std::string& what, std::int64_t count) {
    faults_[what] += count;
    kills_ += count;
  }

  const SoakArguments arguments_;
  const testing::TempFolder folder_;
  LoaderOptions options_;
  std::vector<std::vector<std::string>> oracle_;  // by epoch
  std::mt19937_64 random_;                        // of the faults
  std::atomic<bool> done_{false}, interrupted_{false};
  std::mutex mutex_;
  std::string failure_;
  std::atomic<std::int64_t> batches_{0};
  std::int64_t epochs_ = 0, kills_ = 0, deaths_ = 0, remade_ = 0;
  std::map<std::string, std::int64_t> faults_;
  std::atomic<Clock::duration> longest_wait_{Clock::duration{}};  // since the last kill
  Times reclaimed_, paused_, unhung_, gone_, waited_;
};

}  // namespace
}  // namespace hopfeed

int main(int argc, char** argv) {
  using namespace hopfeed;
  CommandLine line(
      "hopfeed-soak",
      "Runs a loader under random faults (workers killed and stopped, samplers killed, a slow consumer) and "
      "compares every\n"
      "batch with the serial oracle; prints its seed first and ends with what each fault cost.\n\n"
      "Example: hopfeed-soak --kills 10000 --json soak.json");
  SoakArguments arguments;
  std::optional<std::int64_t> seed;
  soak::ServerSoakOptions servers{.servers = 0};
  line.option("--kills", arguments.kills, "Faults to make", {.min = 1});
  line.option("--seed", seed, "Of the faults; default: another each time", {.min = 0});
  line.option("--num-workers", arguments.workers, "Workers of the loader", {.min = 1, .max = 64});
  line.option("--servers", servers.servers,
              "Soak that many servers in place of workers: killed, stopped, drained, cut off, with clients "
              "that come and go",
              {.min = 1, .max = 16});
  line.flag("--machines", servers.machines,
            "With --servers: each has a partition of the graph and asks the others; half of the clients are "
            "trainers beside one");
  line.option("--clients", servers.clients, "With --servers: clients", {.min = 1, .max = 64});
  line.option("--seconds", servers.seconds, "With --servers: how long", {.positive = true});
  line.option("--json", arguments.json, "Write the report to this file too", {.output = true});
  stop_on_signals();
  line.action([&] {
    arguments.seed = static_cast<std::uint64_t>(seed.value_or(std::random_device{}()));
    std::printf("seed %lu\n", arguments.seed);
    std::fflush(stdout);
    JsonReport report(arguments.json);
    servers.seed = arguments.seed;
    const nlohmann::json result = servers.servers > 0 ? soak::soak_servers(servers) : Soak(arguments).run();
    report.write(result);
    std::printf("%s\n", result.dump(1).c_str());
  });
  return program_main(line, argc, argv);
}
