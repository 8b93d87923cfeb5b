// See idle_clients.h. The server is a process of its own, so that its memory and its CPU are its own too.
#include "bench/server_client_mode/idle_clients.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/measure.h"
#include "core/base/error.h"
#include "server_client_mode/client/remote_loader.h"
#include "worker_mode/worker_process.h"

namespace hopfeed::bench {
namespace {

namespace fs = std::filesystem;
constexpr int kClients = 200, kComings = 1'000, kBatches = 10'000;

/// hopfeed-server beside this program, on a socket file.
class ServerProcess {
 public:
  explicit ServerProcess(const std::string& dataset) {
    std::string name = (fs::temp_directory_path() / "hopfeed-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw_errno("cannot make a folder for a socket", errno);
    folder_ = name;
    process_ = std::make_unique<WorkerProcess>(
        (fs::read_symlink("/proc/self/exe").parent_path() / "hopfeed-server").string(),
        std::vector<std::string>{"--data", dataset, "--listen", address().to_text(), "--num-workers", "1",
                                 "--max-clients", "1000"},
        std::vector<InheritedFd>{});
    const double begin = now();
    while (!fs::exists(address().path)) {
      if (now() - begin > 30) throw Error(ErrorCode::kTimeout, "hopfeed-server does not listen after 30 s");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  ~ServerProcess() {
    process_.reset();
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  wire::Address address() const { return {.host = {}, .port = 0, .path = (folder_ / "socket").string()}; }
  /// Seconds on a core.
  double cpu() const {
    std::ifstream file("/proc/" + std::to_string(process_->pid()) + "/stat");
    std::string word;
    double user = 0, system = 0;
    for (int i = 0; i < 13; ++i) file >> word;
    file >> user >> system;
    return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  /// Bytes that are its own: neither the dataset's nor the slots'.
  double own_bytes() const {
    std::ifstream file("/proc/" + std::to_string(process_->pid()) + "/status");
    for (std::string line; std::getline(file, line);)
      if (line.starts_with("RssAnon:")) return 1024 * std::stod(line.substr(8));
    return 0;
  }

 private:
  fs::path folder_;
  std::unique_ptr<WorkerProcess> process_;
};

}  // namespace

void measure_idle_clients(const LoaderOptions& loader, double seconds, Report& report) {
  const ServerProcess server(loader.dataset);
  LoaderOptions options = loader;
  options.execution.channel_size = 1 << 20;
  const auto connect = [&] {
    return std::make_unique<RemoteLoader>(RemoteExecution{.servers = {server.address()}}, options);
  };
  const auto take = [&](RemoteLoader& stream, int batches) {
    std::int64_t epoch = 0;
    stream.begin_epoch(epoch);
    for (int i = 0; i < batches; ++i)
      if (!stream.next()) stream.begin_epoch(++epoch);
  };
  take(*connect(), 100);
  const double before = server.own_bytes();
  {
    std::vector<std::unique_ptr<RemoteLoader>> clients;
    for (int i = 0; i < kClients; ++i) {
      stop_if_asked();
      clients.push_back(connect());
    }
    const double connected = server.own_bytes(), cpu = server.cpu(), begin = now();
    std::this_thread::sleep_for(std::chrono::duration<double>(std::max(seconds, 3.0)));
    report["idle_client_cpu"] = (server.cpu() - cpu) / (now() - begin);
    report["idle_client_bytes"] = (connected - before) / kClients;
  }
  take(*connect(), 100);
  const double settled = server.own_bytes();
  for (int i = 0; i < kComings; ++i) {
    stop_if_asked();
    take(*connect(), 1);
  }
  take(*connect(), kBatches);
  report["growth_bytes"] = server.own_bytes() - settled;
}

}  // namespace hopfeed::bench
