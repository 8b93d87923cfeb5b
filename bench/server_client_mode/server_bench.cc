// hopfeed-bench server: server-client mode over loopback, held against what this machine allows, measured in
// the same run and by turns: a bare send and receive loop, AES-GCM, an echo, and worker mode.
//
// docs/benchmarks.md says what each key means. Server and client are in this process, the server's workers
// are processes; the CPU of a batch is that of all of them.
#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/bench_data.h"
#include "bench/bench_options.h"
#include "bench/measure.h"
#include "bench/server_client_mode/bare_loop.h"
#include "bench/server_client_mode/beside_others.h"
#include "bench/server_client_mode/cpu_seconds.h"
#include "bench/server_client_mode/idle_clients.h"
#include "bench/server_client_mode/made_certificate.h"
#include "bench/server_client_mode/ready_server.h"
#include "core/base/error.h"
#include "server_client_mode/client/remote_loader.h"
#include "server_client_mode/server/server.h"
#include "worker_mode/loader.h"

namespace hopfeed::bench {
namespace {

constexpr int kRounds = 3;

struct Taken {
  double seconds = 0, cpu = 0, batches = 0, bytes = 0;
  std::vector<double> waits;  // seconds of each next()
  double batches_per_s() const { return batches / seconds; }
  double bytes_per_s() const { return bytes / seconds; }
};

/// Epoch after epoch until the time is over; the first `warm` batches do not count.
Taken take(BatchStream& stream, double seconds, std::int64_t warm, const std::vector<int>& pids = {}) {
  Taken taken;
  double begin = 0, cpu = 0;
  std::int64_t seen = 0;
  for (std::int64_t epoch = 0; begin == 0 || now() - begin < seconds; ++epoch) {
    stream.begin_epoch(epoch);
    for (;;) {
      const double asked = now();
      const std::optional<Batch> batch = stream.next();
      if (!batch) break;
      if ((seen & 63) == 0) stop_if_asked();
      if (++seen > warm) {
        taken.batches += 1;
        taken.bytes += static_cast<double>(batch->view().bytes().size());
        taken.waits.push_back(now() - asked);
      } else if (seen == warm) {
        cpu = cpu_seconds(pids);
        begin = now();
      }
      if (begin != 0 && now() - begin >= seconds) break;
    }
  }
  taken.seconds = now() - begin;
  taken.cpu = cpu_seconds(pids) - cpu;
  return taken;
}

LoaderOptions products(const BenchOptions& options) {
  LoaderOptions loader;
  loader.dataset = dataset_folder(options).string();
  loader.batch = {.fanouts = options.fanouts};
  loader.deal.batch_size = options.batch_size;
  loader.deal.drop_last = true;
  loader.seed = 1;
  loader.execution.num_workers = options.threads;
  loader.execution.huge_pages = options.huge_pages;
  return loader;
}

/// Batches of about 1 KB: one seed, its label, one hop of one.
LoaderOptions small(const BenchOptions& options) {
  LoaderOptions loader = products(options);
  loader.batch.fanouts = {1};
  loader.batch.attrs = std::vector<std::string>{"y"};
  loader.deal.batch_size = 1;
  loader.execution.num_workers = 1;
  return loader;
}

RemoteExecution to(const wire::Address& address) { return {.servers = {address}}; }

// ---- the wire alone

/// Blocks of the products' size that are ready, by turns with the bare loop; plain, then under TLS.
void measure_blocks(const BenchOptions& options, Report& report) {
  const LoaderOptions loader = products(options);
  const MadeCertificate certificate;
  const ReadyServer plain({.loader = loader}), secret({.loader = loader, .tls = certificate.files()});
  RemoteExecution over_tls = to(secret.address());
  over_tls.tls = true;
  over_tls.tls_files.ca = certificate.files().cert;
  RemoteLoader plain_stream(to(plain.address()), loader), tls_stream(over_tls, loader);
  std::vector<double> loops, rates, tls_rates, fractions, tls_fractions;
  std::vector<double> cpu, tls_cpu;
  double cpu_per_byte = 0;
  const double aes = aes_gcm_bytes_per_s(options.seconds / 3);
  for (int round = 0; round < kRounds; ++round) {
    const LoopRate loop = bare_loop(plain.block_bytes(), options.seconds);
    const Taken taken = take(plain_stream, options.seconds, 12),
                encrypted = take(tls_stream, options.seconds, 12);
    loops.push_back(loop.bytes_per_s);
    cpu_per_byte = loop.cpu_s_per_byte();
    rates.push_back(taken.bytes_per_s());
    cpu.push_back(1e3 * taken.cpu / taken.batches);
    tls_cpu.push_back(1e3 * encrypted.cpu / encrypted.batches);
    tls_rates.push_back(encrypted.bytes_per_s());
    fractions.push_back(taken.bytes_per_s() / loop.bytes_per_s);
    tls_fractions.push_back(encrypted.bytes_per_s() / (1 / (1 / loop.bytes_per_s + 1 / aes)));
  }
  report["block_bytes"] = plain.block_bytes();
  report["loop_bytes_per_s"] = median(loops);
  report["loop_cpu_ms_per_block"] = 1e3 * cpu_per_byte * static_cast<double>(plain.block_bytes());
  report["crc_cpu_ms_per_block"] = 2e3 * crc_cpu_s_per_byte() * static_cast<double>(plain.block_bytes());
  report["block_bytes_per_s"] = median(rates);
  report["cpu_ms_per_block"] = median(cpu);
  report["tls_cpu_ms_per_block"] = median(tls_cpu);
  report["fraction_of_loop"] = median(fractions);
  report["aes_gcm_bytes_per_s"] = aes;
  report["tls_bytes_per_s"] = median(tls_rates);
  report["tls_fraction_of_limit"] = median(tls_fractions);
  report["iperf3_bytes_per_s"] = iperf3_bytes_per_s(options.seconds);
}

void measure_small(const BenchOptions& options, Report& report) {
  const LoaderOptions loader = small(options);
  const ReadyServer ready({.loader = loader, .copies = 1024});
  RemoteExecution remote = to(ready.address());
  remote.batches_ahead = 256;
  RemoteLoader stream(remote, loader);
  report["small_batch_bytes"] = ready.block_bytes();
  report["small_batches_per_s"] = take(stream, options.seconds, 1000).batches_per_s();

  // A lone request: nothing is asked for ahead.
  const Server server({.datasets = {loader.dataset}, .listen = wire::parse_address("127.0.0.1:0")});
  RemoteExecution one = to(server.address());
  one.batches_ahead = 1;
  RemoteLoader lone(one, loader);
  LoaderOptions local = loader;
  local.execution.num_slots = 2;
  Loader worker_mode(local);
  const auto lone_us = [&](BatchStream& from) {
    return 1e6 * median(take(from, options.seconds, 100).waits);
  };
  const double remote_us = lone_us(lone), local_us = lone_us(worker_mode),
               echo_us = echo_us_median(ready.block_bytes(), options.seconds / 3),
               wake_us = wake_us_median(options.seconds / 3);
  report["request_us_median"] = remote_us;
  report["request_limit_us"] = echo_us + local_us + 2 * wake_us;
  report["echo_us_median"] = echo_us;
  report["worker_mode_us_median"] = local_us;
  report["wake_us_median"] = wake_us;
  report["request_ratio"] = remote_us / (echo_us + local_us + 2 * wake_us);
}

// ---- whole epochs

/// CPU of a batch, sampled and gathered, by turns: worker mode, and over a server.
void measure_epoch(const BenchOptions& options, Report& report) {
  const LoaderOptions loader = products(options);
  const Server server({.datasets = {loader.dataset},
                       .listen = wire::parse_address("127.0.0.1:0"),
                       .num_workers = options.threads});
  std::vector<double> local_cpu, remote_cpu, local_rate, remote_rate;
  for (int round = 0; round < kRounds; ++round) {
    {
      Loader local(loader);
      const Taken taken = take(local, options.seconds, 12, local.worker_pids());
      local_cpu.push_back(taken.cpu / taken.batches);
      local_rate.push_back(taken.batches_per_s());
    }
    RemoteLoader remote(to(server.address()), loader);
    const Taken taken = take(remote, options.seconds, 12, server.worker_pids());
    remote_cpu.push_back(taken.cpu / taken.batches);
    remote_rate.push_back(taken.batches_per_s());
  }
  const double wire_ms =
      report["loop_cpu_ms_per_block"].get<double>() + report["crc_cpu_ms_per_block"].get<double>();
  report["cpu_ms_per_batch"] = 1e3 * median(remote_cpu);
  report["cpu_ms_per_batch_limit"] = 1e3 * median(local_cpu) + wire_ms;
  report["cpu_ratio"] = 1e3 * median(remote_cpu) / (1e3 * median(local_cpu) + wire_ms);
  report["batches_per_s"] = median(remote_rate);
  report["worker_mode_batches_per_s"] = median(local_rate);
}

// ---- others

/// Four clients that take all they get; then one of them freezes, then one asks for ten times as much.
void measure_sharing(const BenchOptions& options, Report& report) {
  const LoaderOptions loader = small(options);
  LoaderOptions medium = loader, costly = loader;
  medium.deal.batch_size = costly.deal.batch_size = 1024;  // a worker's time is what binds, not the wire
  medium.batch.fanouts = {5, 5};
  costly.batch.fanouts = {50, 5};
  const Server server(
      {.datasets = {loader.dataset}, .listen = wire::parse_address("127.0.0.1:0"), .num_workers = 1});
  // Batches per second of each, in a window in which all of them take what they get.
  const auto run = [&](const std::vector<LoaderOptions>& clients) {
    std::vector<std::atomic<std::int64_t>> taken(clients.size());
    std::atomic<bool> done{false};
    std::vector<std::future<void>> threads;
    for (std::size_t i = 0; i < clients.size(); ++i)
      threads.push_back(std::async(std::launch::async, [&, i] {
        RemoteLoader stream(to(server.address()), clients[i]);
        for (std::int64_t epoch = 0; !done; ++epoch) {
          stream.begin_epoch(epoch);
          while (!done && stream.next()) ++taken[i];
        }
      }));
    const auto nap = [](double seconds) {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    };
    nap(1);
    std::vector<double> rates;
    for (const auto& count : taken) rates.push_back(-static_cast<double>(count));
    nap(options.seconds);
    for (std::size_t i = 0; i < clients.size(); ++i)
      rates[i] = (rates[i] + static_cast<double>(taken[i])) / options.seconds;
    done = true;
    for (std::future<void>& thread : threads) thread.get();
    return rates;
  };
  const double alone = run({medium}).front();
  const double costly_alone = run({costly}).front();
  const std::vector<double> shared = run({medium, medium, medium, costly});
  // Shares of the worker's time, as batches per second against what one client has alone.
  report["share_of_a_quarter_least"] = 4 * std::min({shared[0], shared[1], shared[2]}) / alone;
  report["share_of_a_quarter_costly"] = 4 * shared[3] / costly_alone;

  const std::vector<double> three = run({medium, medium, medium});
  RemoteLoader frozen(to(server.address()), medium);
  frozen.begin_epoch(0);  // asks for batches, and takes none
  const std::vector<double> beside = run({medium, medium, medium});
  double before = 0, after = 0;
  for (int i = 0; i < 3; ++i) before += three[i], after += beside[i];
  report["rate_beside_a_frozen_client"] = after / before;
}

void measure_failover(const BenchOptions& options, Report& report) {
  const LoaderOptions loader = small(options);
  const auto serve = [&] {
    return std::make_unique<Server>(ServerOptions{
        .datasets = {loader.dataset}, .listen = wire::parse_address("127.0.0.1:0"), .num_workers = 1});
  };
  std::vector<double> longest;
  for (int round = 0; round < kRounds; ++round) {
    std::unique_ptr<Server> first = serve(), second = serve();
    RemoteExecution remote{.servers = {first->address(), second->address()}};
    RemoteLoader stream(remote, loader);
    stream.begin_epoch(0);
    double worst = 0;
    for (int i = 0; i < 2000; ++i) {
      if (i == 500) first.reset();
      const double asked = now();
      if (!stream.next()) stream.begin_epoch(i);
      if (i >= 500) worst = std::max(worst, now() - asked);
    }
    longest.push_back(1e3 * worst);
  }
  report["failover_ms"] = median(longest);
}

}  // namespace

Report bench_server(const BenchOptions& options) {
  Report report{{"num_workers", options.threads}};
  const auto wanted = [&](const char* part) { return options.part == "all" || options.part == part; };
  if (wanted("blocks") || wanted("epoch")) measure_blocks(options, report);
  if (wanted("small")) measure_small(options, report);
  if (wanted("epoch")) measure_epoch(options, report);
  if (wanted("sharing")) measure_sharing(options, report);
  if (wanted("floods")) measure_beside_floods(products(options), options.seconds, report);
  if (wanted("large")) measure_beside_large(products(options), options.seconds, report);
  if (wanted("failover")) measure_failover(options, report);
  if (wanted("idle")) measure_idle_clients(small(options), options.seconds, report);
  return report;
}

}  // namespace hopfeed::bench
