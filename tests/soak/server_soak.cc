// See server_soak.h.
#include "tests/soak/server_soak.h"

#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/program/progress_bar.h"
#include "core/program/stop_signals.h"
#include "server_client_mode/client/remote_loader.h"
#include "tests/soak/soak_report.h"
#include "tests/support/processes.h"
#include "tests/support/tiny_dataset.h"
#include "tests/wire/proxy.h"
#include "tests/worker_mode/oracle.h"
#include "worker_mode/loader.h"

namespace hopfeed::soak {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kEpochs = 12;  // of which the oracle knows the batches

/// hopfeed-server, started again on the port that it had.
class ServerProcess {
 public:
  explicit ServerProcess(std::string data) : data_(std::move(data)) { start(); }
  /// Sets the options of the next start.
  void set_options(std::vector<std::string> more) { more_ = std::move(more); }
  void start() {
    std::vector<std::string> command{testing::program("hopfeed-server"),   "--data",        data_, "--listen",
                                     "127.0.0.1:" + std::to_string(port_), "--num-workers", "2"};
    command.insert(command.end(), more_.begin(), more_.end());
    process_ = std::make_unique<testing::BackgroundProgram>(command);
    const std::string said = process_->read_line();
    const std::size_t colon = said.rfind(':');
    require(colon != std::string::npos, "hopfeed-server said '" + said + "' in place of its port");
    port_ = std::stoi(said.substr(colon + 1));
  }
  void kill() {
    if (process_) process_->kill();
    process_.reset();
  }
  /// False where it does not end by itself.
  bool drain() {
    if (!process_) return true;
    process_->signal(SIGTERM);
    const bool ended = process_->wait(60s) == 0;
    process_.reset();
    return ended;
  }
  bool runs() const { return process_ != nullptr; }
  int pid() const { return process_->pid(); }
  wire::Address address() const {
    return {.host = "127.0.0.1", .port = static_cast<std::uint16_t>(port_), .path = {}};
  }

 private:
  const std::string data_;
  std::vector<std::string> more_;
  int port_ = 0;
  std::unique_ptr<testing::BackgroundProgram> process_;
};

class ServerSoak {
 public:
  explicit ServerSoak(const ServerSoakOptions& options) : options_(options), random_(options.seed) {
    const testing::TinyGraph graph =
        testing::random_graph({.num_nodes = 400, .num_edges = 4'000, .x_width = 9, .num_train = 230});
    testing::write_tiny_dataset(data(), graph,
                                testing::random_cut(graph, options.machines ? options.servers : 2, 5));
    loader_.dataset = data();
    loader_.batch.fanouts = {8, 8};
    loader_.deal.batch_size = 16;
    loader_.seed = 11;
    loader_.execution.channel_size = 1 << 20;
    for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch)
      oracle_.push_back(expected(loader_, {.epoch = epoch}));
  }

  nlohmann::json run() {
    const testing::Leftovers before = testing::Leftovers::now();
    const auto begin = Clock::now();
    {
      for (int i = 0; i < options_.servers; ++i) {
        servers_.push_back(std::make_unique<ServerProcess>(data()));
        proxies_.push_back(std::make_unique<testing::Proxy>(
            servers_.back()->address(), testing::ProxyOptions{.seed = options_.seed + i}));
      }
      if (options_.machines) part_servers();
      std::vector<std::thread> clients;
      for (int i = 0; i < options_.clients; ++i)
        clients.emplace_back([this, i] { guarded([&] { consume(i); }); });
      guarded([&] { make_faults(); });
      for (std::thread& client : clients) client.join();
      for (const std::unique_ptr<ServerProcess>& server : servers_)
        if (failure_.empty() && !interrupted_ && !server->drain())
          failure_ = "a server did not end when it was asked to";
      proxies_.clear();
      servers_.clear();
    }
    if (interrupted_) throw Interrupted{};
    require(failure_.empty(), fmt::format("{} (--seed {})", failure_, options_.seed));
    const testing::Leftovers after = testing::Leftovers::now();
    require(after == before,
            fmt::format("children, descriptors or shared memory are left (--seed {})", options_.seed));
    return {{"seed", options_.seed},
            {"servers", options_.servers},
            {"clients", options_.clients},
            {"machines", options_.machines},
            {"faults", faults_},
            {"batches", batches_.load()},
            {"epochs", epochs_.load()},
            {"wrong_batches", 0},
            {"client_waited_for_a_batch", waited_.summary()},
            {"seconds", std::chrono::duration<double>(Clock::now() - begin).count()}};
  }

 private:
  std::string data() const { return (folder_.path() / "data").string(); }

  /// The first thing that goes wrong, or a signal, ends all threads.
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

  /// They know each other by the proxies, which exist now.
  void part_servers() {
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      servers_[i]->kill();
      servers_[i]->set_options({"--partitions", std::to_string(i), "--peers", peers()});
      servers_[i]->start();
    }
  }
  std::string peers() const {
    std::string list;
    for (const std::unique_ptr<testing::Proxy>& proxy : proxies_)
      list += (list.empty() ? "" : ",") + proxy->address().to_text();
    return list;
  }

  // ---- clients

  /// Over the servers, or with workers beside a partition.
  std::unique_ptr<BatchStream> open(int client) const {
    if (!options_.machines || client % 2 == 0) return std::make_unique<RemoteLoader>(remote(client), loader_);
    LoaderOptions options = loader_;
    options.execution.num_workers = 1;
    options.execution.partitions.own = {client / 2 % options_.servers};
    options.execution.partitions.peers = parse_names(peers(), "peers");
    options.execution.partitions.connect_timeout = 60s;
    return std::make_unique<Loader>(options);
  }

  RemoteExecution remote(int client) const {
    RemoteExecution remote;
    for (const std::unique_ptr<testing::Proxy>& proxy : proxies_) remote.servers.push_back(proxy->address());
    remote.connect_all = client % 2 == 1;
    remote.reconnect_deadline = 60s;
    return remote;
  }

  void consume(int client) {
    std::mt19937_64 random(options_.seed + 1 + static_cast<std::uint64_t>(client));
    while (!done_) {  // a client that comes and goes
      const std::unique_ptr<BatchStream> stream = open(client);
      for (int epochs = static_cast<int>(1 + random() % 50); epochs > 0 && !done_; --epochs)
        consume_epoch(*stream, random);
    }
  }

  void consume_epoch(BatchStream& loader, std::mt19937_64& random) {
    const auto epoch = static_cast<std::int64_t>(random() % kEpochs);
    const std::vector<std::string>& want = oracle_[static_cast<std::size_t>(epoch)];
    const std::size_t first = random() % 4 == 0 ? random() % want.size() : 0;  // a resumed epoch
    const std::size_t leave = random() % 4 == 0 ? first + random() % (want.size() - first) : want.size();
    const bool slow = random() % 20 == 0;
    loader.begin_epoch(epoch, static_cast<std::int64_t>(first) * loader_.deal.batch_size);
    for (std::size_t i = first; i < leave && !done_; ++i) {
      const auto asked = Clock::now();
      const std::optional<Batch> batch = loader.next();
      note_wait(Clock::now() - asked);
      require(batch.has_value(), fmt::format("epoch {} ended before batch {}", epoch, i));
      const std::string line = line_of(batch->view());
      require(line == want[i],
              fmt::format("batch {} of epoch {} is '{}', must be '{}'", i, epoch, line, want[i]));
      ++batches_;
      if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 200));
    }
    if (leave == want.size() && !done_)
      require(!loader.next(), fmt::format("epoch {} has a batch too many", epoch));
    ++epochs_;
  }

  void note_wait(Clock::duration wait) {
    const std::lock_guard lock(mutex_);
    waited_.add(wait);
  }

  // ---- faults

  void make_faults() {
    ProgressBar bar("soak", static_cast<std::uint64_t>(options_.seconds), {.unit = "s"});
    const auto begin = Clock::now();
    for (double seconds = 0; seconds < options_.seconds && !done_;
         seconds = std::chrono::duration<double>(Clock::now() - begin).count()) {
      stop_if_asked();
      bar.note(fmt::format("{} batches, none wrong", batches_.load()));
      bar.set(static_cast<std::uint64_t>(seconds));
      sleep(random_() % 400);
      const std::size_t which = random_() % servers_.size();
      switch (random_() % 9) {
        case 0:
        case 1:
          kill_server(which);
          break;
        case 2:
          kill_worker(*servers_[which]);
          break;
        case 3:
          stop_server(*servers_[which]);
          break;
        case 4:
          roll(which);
          break;
        case 5:
          kill_client();
          break;
        case 6:
          proxies_[which]->cut();
          count("connections cut");
          break;
        case 7:
          worsen(*proxies_[which]);
          break;
        default:
          proxies_[which]->stall(std::chrono::milliseconds(random_() % 1'000));
          count("connections stalled");
      }
    }
  }

  void sleep(std::uint64_t milliseconds) const {
    for (std::uint64_t i = 0; i < milliseconds && !done_; i += 10) std::this_thread::sleep_for(10ms);
  }
  void count(const std::string& what) { ++faults_[what]; }

  void kill_server(std::size_t which) {
    servers_[which]->kill();
    sleep(random_() % 500);
    servers_[which]->start();
    count("server killed");
  }
  /// A rolling restart: what was promised is delivered first.
  void roll(std::size_t which) {
    require(servers_[which]->drain(), "a server did not end when it was asked to");
    servers_[which]->start();
    count("server drained");
  }
  void kill_worker(const ServerProcess& server) {
    const std::vector<int> workers = testing::children_of(server.pid());
    if (workers.empty()) return;
    ::kill(workers[random_() % workers.size()], SIGKILL);
    count("worker killed");
  }
  void stop_server(const ServerProcess& server) {
    ::kill(server.pid(), SIGSTOP);
    sleep(random_() % 2'000);
    ::kill(server.pid(), SIGCONT);
    count("server stopped");
  }
  /// Connections to come are split into small pieces, late, cut in the middle, or have frames twice.
  void worsen(testing::Proxy& proxy) {
    testing::PassingOn on;
    if (random_() % 2 == 0) on.most_at_once = 1 + random_() % 1'000;
    if (random_() % 4 == 0) on.jitter = std::chrono::milliseconds(random_() % 5);
    if (random_() % 4 == 0) on.replay = 0.05;
    if (random_() % 2 == 0) on.cut_after = random_() % 2'000'000;
    proxy.set({}, on);
    proxy.cut();
    count("connections worsened");
  }
  /// A client of its own, killed at any moment; what it printed until then is right.
  void kill_client() {
    std::string servers;
    for (const std::unique_ptr<ServerProcess>& server : servers_)
      servers += (servers.empty() ? "" : ",") + server->address().to_text();
    std::vector<std::string> command{testing::program("hopfeed-sample"),
                                     "--fanouts",
                                     "8,8",
                                     "--batch-size",
                                     "16",
                                     "--seed",
                                     "11",
                                     "--channel-size",
                                     "1M",
                                     "--epochs",
                                     std::to_string(kEpochs)};
    if (options_.machines && random_() % 2 == 0)
      command.insert(command.end(), {data(), "--partitions", "0", "--peers", peers()});
    else
      command.insert(command.end(), {"--servers", servers});
    testing::BackgroundProgram client(command);
    sleep(random_() % 300);
    client.signal(SIGKILL);
    std::string want;
    for (const std::vector<std::string>& epoch : oracle_)
      for (const std::string& line : epoch) want += line + "\n";
    require(want.starts_with(client.read_rest()), "a killed client had printed other batches");
    count("client killed");
  }

  const ServerSoakOptions options_;
  const testing::TempFolder folder_;
  LoaderOptions loader_;
  std::vector<std::vector<std::string>> oracle_;  // by epoch
  std::mt19937_64 random_;                        // of the faults
  std::vector<std::unique_ptr<ServerProcess>> servers_;
  std::vector<std::unique_ptr<testing::Proxy>> proxies_;  // one before each
  std::atomic<bool> done_{false}, interrupted_{false};
  std::mutex mutex_;
  std::string failure_;
  std::atomic<std::int64_t> batches_{0}, epochs_{0};
  std::map<std::string, std::int64_t> faults_;
  Times waited_;
};

}  // namespace

nlohmann::json soak_servers(const ServerSoakOptions& options) { return ServerSoak(options).run(); }

}  // namespace hopfeed::soak
