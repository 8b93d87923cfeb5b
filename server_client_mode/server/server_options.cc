// See server_options.h.
#include "server_client_mode/server/server_options.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/memory_limits.h"

namespace hopfeed {
namespace {

constexpr std::size_t kLeastMemory = std::size_t{16} << 20;
constexpr std::int64_t kMaxClients = 65'536;

void check_deadline(const char* field, std::chrono::milliseconds value) {
  require_valid(value.count() >= 1 && value.count() <= kMaxDeadlineMs,
                fmt::format("{} is {} ms; between 1 and {}", marked(field), value.count(), kMaxDeadlineMs));
}

/// What leaves the machine is neither for everyone nor for everyone to read.
void check_exposure(const ServerOptions& options) {
  if (options.insecure) return;
  if (options.metrics && !options.metrics->is_local())
    throw Error(
        ErrorCode::kInvalid,
        fmt::format("the metrics would be on {}, beyond this machine, plain and for everyone (--metrics); "
                    "give an address of this machine, or --insecure where the network is trusted",
                    options.metrics->to_text()));
  if (options.listen.is_local()) return;
  const bool token = !options.token.empty(), tls = !options.tls.cert.empty();
  if (token && tls) return;
  const char* lack = token ? "TLS (--tls-cert, --tls-key)"
                     : tls ? "a token (--token-file)"
                           : "a token (--token-file) and TLS (--tls-cert, --tls-key)";
  throw Error(ErrorCode::kInvalid,
              fmt::format("the server would listen on {}, beyond this machine, without {}; give them, or "
                          "--insecure where the network is trusted",
                          options.listen.to_text(), lack));
}

}  // namespace

void ServerOptions::validate() const {
  require_valid(!datasets.empty(), "there is no dataset to serve; name its folder (--data)");
  require_valid(num_workers >= 1 && num_workers <= kMaxWorkers,
                fmt::format("{} is {}; between 1 and {}", marked("num_workers"), num_workers, kMaxWorkers));
  require_valid(max_clients >= 1 && max_clients <= kMaxClients,
                fmt::format("{} is {}; between 1 and {}", marked("max_clients"), max_clients, kMaxClients));
  require_valid(max_memory == 0 || max_memory >= kLeastMemory,
                fmt::format("{} is {}; at least {}", marked("max_memory"), format_bytes(max_memory),
                            format_bytes(kLeastMemory)));
  require_valid(max_state_memory == 0 || max_state_memory >= kLeastMemory,
                fmt::format("{} is {}; at least {}", marked("max_state_memory"),
                            format_bytes(max_state_memory), format_bytes(kLeastMemory)));
  require_valid(max_state_memory == 0 || !state.empty(),
                fmt::format("{} is of a server that keeps state; give {} too", marked("max_state_memory"),
                            marked("state")));
  require_valid(tls.cert.empty() == tls.key.empty(),
                "a certificate and its key go together (--tls-cert, --tls-key); give both or none");
  require_valid(tls.ca.empty() || !tls.cert.empty(),
                "certificates of clients (--tls-client-ca) are of TLS; give --tls-cert and --tls-key too");
  require_valid(max_worker_deaths >= 0,
                fmt::format("max_worker_deaths is {}; at least 0", max_worker_deaths));
  gpu.validate(num_workers);
  require_valid(
      !gpu.device_batches && !gpu.pin_slots,
      fmt::format("{} and {} are of batches for a GPU of this machine, and a server sends its batches "
                  "to others; leave them out",
                  marked("device_batches"), marked("pin_slots")));
  features.validate(partitions.on());
  partitions.validate();
  require_valid(peer_threads >= 1 && peer_threads <= kMaxWorkers,
                fmt::format("{} is {}; between 1 and {}", marked("peer_threads"), peer_threads, kMaxWorkers));
  check_deadline("batch_deadline", batch_deadline);
  check_deadline("start_deadline", start_deadline);
  check_deadline("send_deadline", send_deadline);
  check_deadline("seeds_kept", seeds_kept);
  require_valid(!metrics || metrics->port == 0 || *metrics != listen,
                fmt::format("{} is the address of clients and of metrics (--listen, --metrics); give two",
                            listen.to_text()));
  check_exposure(*this);
}

}  // namespace hopfeed
