// See beside_others.h.
#include "bench/server_client_mode/beside_others.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure.h"
#include "bench/server_client_mode/cpu_seconds.h"
#include "bench/server_client_mode/flood.h"
#include "core/dataset/dataset.h"
#include "server_client_mode/client/remote_loader.h"
#include "server_client_mode/server/server.h"

namespace hopfeed::bench {
namespace {

constexpr int kFloodRounds = 3, kLargeClients = 4;
constexpr std::int64_t kLargeBatch = 8'192;

RemoteExecution options_of(const Server& server) { return {.servers = {server.address()}}; }

/// A client that takes epoch after epoch.
class Taker {
 public:
  Taker(const Server& server, const LoaderOptions& loader, std::optional<int> batches_ahead = {})
      : stream_(with(options_of(server), batches_ahead), loader) {
    stream_.begin_epoch(epoch_);
  }
  void take_one() {
    while (!stream_.next()) stream_.begin_epoch(++epoch_);
  }
  struct Taken {
    double batches = 0, seconds = 0, cpu = 0;
    double rate() const { return batches / seconds; }
  };
  Taken take(double seconds, const std::vector<int>& pids) {
    take_one();
    Taken taken;
    const double begin = now(), cpu = cpu_seconds(pids);
    for (; taken.seconds < seconds; taken.seconds = now() - begin, ++taken.batches) {
      stop_if_asked();
      take_one();
    }
    taken.cpu = cpu_seconds(pids) - cpu;
    return taken;
  }

 private:
  static RemoteExecution with(RemoteExecution remote, std::optional<int> batches_ahead) {
    if (batches_ahead) remote.batches_ahead = *batches_ahead;
    return remote;
  }
  RemoteLoader stream_;
  std::int64_t epoch_ = 0;
};

ServerOptions serving(const LoaderOptions& loader) {
  return {.datasets = {loader.dataset},
          .listen = wire::parse_address("127.0.0.1:0"),
          .num_workers = loader.execution.num_workers};
}

}  // namespace

void measure_beside_floods(const LoaderOptions& loader, double seconds, Report& report) {
  const Server server(serving(loader));
  const std::vector<int> workers = server.worker_pids();
  Taker good(server, loader);
  std::map<std::string, std::vector<double>> ratios;
  std::vector<double> alone, frames;
  const std::vector<FloodKind> kinds = flood_kinds(Dataset(loader.dataset).meta().fingerprint);
  for (int round = 0; round < kFloodRounds; ++round) {
    for (const FloodKind& kind : kinds) {
      const Taker::Taken before = good.take(seconds, workers);
      alone.push_back(before.rate());
      std::optional<Flood> flood(std::in_place, server.address(), kind);
      const Taker::Taken flooded = good.take(seconds, workers);
      frames.push_back(flood->frames() / seconds);
      flood.reset();
      const double burnt = flooded.cpu - flooded.batches * before.cpu / before.batches;
      const Burner burner(burnt / flooded.seconds);
      ratios[kind.name].push_back(flooded.rate() / good.take(seconds, workers).rate());
    }
  }
  double least = ratios.begin()->second.front();
  for (const auto& [name, of_kind] : ratios) {
    report["rate_beside_" + name] = median(of_kind);
    least = std::min(least, median(of_kind));
  }
  report["rate_beside_floods_least"] = least;
  report["flood_frames_per_s_least"] = *std::ranges::min_element(frames);
  report["unflooded_batches_per_s"] = median(alone);
}

void measure_beside_large(const LoaderOptions& loader, double seconds, Report& report) {
  LoaderOptions single = loader, large = loader;
  single.batch.fanouts = large.batch.fanouts = {10, 5};
  single.deal.batch_size = 1;
  large.deal.batch_size = kLargeBatch;
  large.deal.drop_last = false;  // whatever the graph's size
  const Server server(serving(loader));
  Taker lone(server, single, 1);
  const auto waits = [&] {
    std::vector<double> all;
    for (const double begin = now(); now() - begin < seconds;) {
      stop_if_asked();
      const double asked = now();
      lone.take_one();
      all.push_back(1e3 * (now() - asked));
    }
    return all;
  };
  report["single_ms_alone"] = median(waits());
  std::atomic<bool> done{false};
  std::atomic<std::int64_t> taken{0};
  std::vector<std::future<void>> clients;
  const double begin = now();
  for (int i = 0; i < kLargeClients; ++i)
    clients.push_back(std::async(std::launch::async, [&] {
      for (Taker client(server, large); !done; ++taken) client.take_one();
    }));
  // From the first large batch on, which is where their memory is new.
  const std::vector<double> beside = waits();
  done = true;
  for (std::future<void>& client : clients) client.get();
  report["large_batches_per_s"] = static_cast<double>(taken) / (now() - begin);
  report["single_ms_median_beside_large"] = median(beside);
  report["single_ms_worst_beside_large"] = *std::ranges::max_element(beside);
}

}  // namespace hopfeed::bench
