// hopfeed-server: samples batches of datasets for trainers that connect to it. `hopfeed-server status ADDR`
// shows what one does.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "core/batch/batch_options.h"
#include "core/program/field_options.h"
#include "core/program/json_report.h"
#include "core/program/patient_write.h"
#include "core/program/program_main.h"
#include "programs/options/loader_arguments.h"
#include "programs/options/of_option.h"
#include "programs/options/partition_arguments.h"
#include "programs/options/server_arguments.h"
#include "server_client_mode/client/remote_loader.h"
#include "server_client_mode/server/server.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

struct ServeArguments {
  ServerOptions options;
  PartitionArguments partitions;
  std::string data, listen = "127.0.0.1:9470", token_file, metrics, json, graph_mode = "cpu";
  std::int64_t batch_deadline = 120, send_deadline = 30, seeds_kept = 600, drain_deadline = 600;  // seconds
};

// ---- signals: the first SIGTERM drains, one that comes kOneWish later ends at once, SIGHUP reads
// certificates again

constexpr std::int64_t kOneWish = 2'000;  // milliseconds: launchers send two signals for one
constexpr unsigned kAtOnce = 10;          // seconds at most, whatever hangs
constexpr int kInterruptedCode = 130, kForEver = -1;
std::atomic<int> reloads{0};
std::atomic<std::int64_t> stop_asked_at{-1};  // milliseconds, of the first signal
std::atomic<bool> stop_at_once{false};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);  // fit for a handler

void note_signal(int signal) {
  if (signal == SIGHUP) {
    ++reloads;
    return;
  }
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::int64_t never = -1;
  const std::int64_t milliseconds = 1'000 * std::int64_t{now.tv_sec} + now.tv_nsec / 1'000'000;
  if (stop_asked_at.compare_exchange_strong(never, milliseconds)) return;
  if (milliseconds - never < kOneWish) return;
  stop_at_once = true;
  alarm(kAtOnce);
}

void give_up(int) { _exit(kInterruptedCode); }

void note_signals() {
  struct sigaction action = {};
  action.sa_handler = note_signal;
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaction(signal, &action, nullptr);
  action.sa_handler = give_up;
  sigaction(SIGALRM, &action, nullptr);
}

/// Each client, job and seed takes a descriptor; what the system lets us have we take.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void print_event(const std::string& line) { write_patiently(STDERR_FILENO, line + "\n", kForEver); }

void take(ServeArguments& arguments) {
  ServerOptions& options = arguments.options;
  options.datasets = parse_names(arguments.data, "data");
  options.listen = of_option("--listen", [&] { return wire::parse_address(arguments.listen); });
  options.token = wire::read_token(arguments.token_file);
  warn_of_secret("--token-file", arguments.token_file);
  warn_of_secret("--tls-key", options.tls.key);
  if (!arguments.metrics.empty())
    options.metrics = of_option("--metrics", [&] { return wire::parse_address(arguments.metrics); });
  options.batch_deadline = std::chrono::seconds(arguments.batch_deadline);
  options.send_deadline = std::chrono::seconds(arguments.send_deadline);
  options.seeds_kept = std::chrono::seconds(arguments.seeds_kept);
  take_graph_mode(arguments.graph_mode, options.datasets, options.num_workers, options.gpu);
  options.partitions = arguments.partitions.take();
  tell_how_features_are_read(options.features.from);
  options.log = print_event;
}

/// Whether `value`, a path or an address, stands in a message by itself.
bool mentions(std::string_view message, const std::string& value) {
  constexpr std::string_view before = " '/", behind = " ',;:/";
  for (std::size_t at = 0; (at = message.find(value, at)) != std::string_view::npos; ++at) {
    const std::size_t end = at + value.size();
    if ((at == 0 || before.find(message[at - 1]) != std::string_view::npos) &&
        (end == message.size() || behind.find(message[end]) != std::string_view::npos))
      return true;
  }
  return false;
}

/// The option whose value the message is about, for its head; "" where it names its option or file itself.
std::string option_in(std::string_view message, const ServerOptions& options) {
  if (message.find("--") != std::string_view::npos) return "";
  if (mentions(message, options.listen.to_text())) return "--listen: ";
  if (options.metrics && mentions(message, options.metrics->to_text())) return "--metrics: ";
  for (const std::string& plugin : options.plugins)
    if (mentions(message, plugin)) return "--plugin: ";
  for (const std::string& folder : options.datasets)
    if (mentions(message, folder)) return "--data: ";
  return "";
}

std::unique_ptr<Server> start_server(const ServerOptions& options) {
  try {
    return std::make_unique<Server>(options);
  } catch (const Error& error) {
    throw Error(error.code(), option_in(error.what(), options) + error.message());
  }
}

/// Until there is nobody left who waits for anything. Throws why the server failed, Interrupted where the
/// operator has no more patience, kTimeout.
void drain(Server& server, std::chrono::seconds deadline) {
  const auto give_up = std::chrono::steady_clock::now() + deadline;
  server.drain();
  while (!server.wait_until_drained(100ms)) {
    if (stop_at_once) throw Interrupted{"batches that clients wait for are theirs to ask others for"};
    if (std::chrono::steady_clock::now() > give_up)
      throw Error(ErrorCode::kTimeout,
                  fmt::format("clients did not take what they had asked for within {} s (--drain-deadline)",
                              deadline.count()));
  }
}

void serve(ServeArguments& arguments) {
  note_signals();
  raise_descriptor_limit();
  take(arguments);
  JsonReport report(arguments.json);
  const std::unique_ptr<Server> started = start_server(arguments.options);
  Server& server = *started;
  fmt::print("listening on {}\n", server.address().to_text());
  if (server.metrics_address()) fmt::print("metrics on {}\n", server.metrics_address()->to_text());
  if (std::fflush(stdout) != 0) throw_errno("cannot write to standard output", errno);
  int reloaded = 0;
  while (stop_asked_at < 0) {
    server.wait_until_drained(100ms);  // throws where the server has failed
    if (reloads == reloaded) continue;
    reloaded = reloads;
    server.reload_tls();
  }
  drain(server, std::chrono::seconds(arguments.drain_deadline));
  report.write(parse_json(server.status_json()));
}

void add_options(CommandLine& line, ServeArguments& a) {
  ServerOptions& o = a.options;
  line.option("--data", a.data, "Dataset folders, separated by commas");
  line.option("--listen", a.listen, "HOST:PORT, or unix:PATH; port 0: any that is free");
  line.option("--num-workers", o.num_workers, "Sampling processes, shared by all clients",
              {.min = 1, .max = kMaxWorkers});
  line.option("--token-file", a.token_file,
              "Clients have to know the token in this file; default: that of HOPFEED_TOKEN, else none");
  line.option("--tls-cert", o.tls.cert, "Certificate of the server (PEM): clients talk TLS 1.3");
  line.option("--tls-key", o.tls.key, "Its key");
  line.option("--tls-client-ca", o.tls.ca, "Clients have to have certificates that this one signed");
  line.option("--metrics", a.metrics,
              "HOST:PORT of /metrics (Prometheus), /healthz and /readyz over HTTP, for all who reach it");
  line.option("--max-clients", o.max_clients, "Clients with a job; more are turned away",
              {.min = 1, .max = 65'536});
  line.size_option("--max-memory", o.max_memory,
                   "Bytes that batches and given seeds may take (4G, 512M); default: a quarter of what is "
                   "available");
  line.size_option("--max-batch-memory", o.max_batch_memory,
                   "Bytes that a worker may sample with; a batch that needs more is refused (4G, 512M); "
                   "default: what is free beside --max-memory, divided by the workers");
  add_graph_mode(line, a.graph_mode, o.gpu.gpu_device);
  add_field_options(line,
                    [&o](FieldVisitor& fields) {
                      o.gpu.visit(fields);
                      o.features.visit(fields);
                      o.partitions.visit(fields);
                    },
                    {"gpu graph cache", "features"});
  a.partitions.add(line);
  line.option("--peer-threads", o.peer_threads, "Threads that answer machines which have other partitions",
              {.min = 1, .max = kMaxWorkers});
  line.option("--state", o.state,
              "Folder for checkpoints of state that training learns or writes, which this server then keeps "
              "for its partitions; several servers may share it; default: it keeps none",
              {.output = true});
  line.size_option("--state-memory", o.max_state_memory,
                   "With --state: bytes that state may take (4G, 512M); default: a quarter of what is "
                   "available");
  line.stands_for("--state-memory", "max_state_memory");
  line.option("--results", o.results,
              "Folder in which an inference computes on this machine (--infer): machines with other "
              "partitions get rows of its layers from here; it need not be there yet; default: none");
  line.repeatable_option("--plugin", "FILE",
                         "Shared library with a sampler that clients may name; may be given again",
                         [&o](const std::string& file) { o.plugins.push_back(file); });
  line.flag("--insecure", o.insecure,
            "Listen beyond this machine without token and TLS all the same, and show metrics there");
  line.option("--batch-deadline", a.batch_deadline, "Seconds that a worker may take for one batch",
              {.min = 1, .max = kMaxDeadlineMs / 1000});
  line.option("--send-deadline", a.send_deadline,
              "Seconds after which a batch that its client does not take is freed",
              {.min = 1, .max = kMaxDeadlineMs / 1000});
  line.option("--seeds-kept", a.seeds_kept, "Seconds that given seeds stay which nobody uses",
              {.min = 1, .max = kMaxDeadlineMs / 1000});
  line.option("--drain-deadline", a.drain_deadline,
              "Seconds that clients have, after SIGTERM, to take what they had asked for",
              {.min = 1, .max = kMaxDeadlineMs / 1000});
  line.option("--json", a.json, "Write the last status to this file", {.output = true});
}

// ---- status

int status_main(int argc, char** argv) {
  CommandLine line("hopfeed-server status",
                   "Logs in to a server and prints what it does as JSON: clients, slots, workers, sums.\n\n"
                   "Example: hopfeed-server status 127.0.0.1:9470 --token-file token");
  std::string address;
  ServerArguments security("DIR");
  line.option("ADDR", address, "HOST:PORT, [IPv6]:PORT or unix:PATH", {.required = true});
  security.add_security(line);
  line.action([&] {
    const std::string status = ask_status(security.options_for(address));
    fmt::print("{}\n", json_text(parse_json(status), 2));
  });
  return program_main(line, argc, argv);
}

}  // namespace
}  // namespace hopfeed

int main(int argc, char** argv) {
  using namespace hopfeed;
  if (argc > 1 && std::string(argv[1]) == "status") return status_main(argc - 1, argv + 1);
  CommandLine line(
      "hopfeed-server",
      "Samples mini-batches for trainers on other machines, which connect to it (--servers of the trainer).\n"
      "SIGTERM: what was promised is delivered, then it ends; one that comes two seconds later or more ends "
      "it\n"
      "at once. SIGHUP: reads the certificates again. Events go to standard error, one line each.\n"
      "hopfeed-server status ADDR shows what one does.\n\n"
      "Example: hopfeed-server --data data --listen 127.0.0.1:9470 --num-workers 4");
  ServeArguments arguments;
  add_options(line, arguments);
  line.action([&] { serve(arguments); });
  return program_main(line, argc, argv);
}
