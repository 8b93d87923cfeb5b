// ServerOptions say what a sampling server is started with: what it serves and where, and its limits.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cache/feature_tiers.h"
#include "gpu/device/gpu_options.h"
#include "peers/peer_options.h"
#include "wire/address.h"
#include "wire/security.h"

namespace hopfeed {

struct ServerOptions {
  std::vector<std::string> datasets;  // folders; several versions of one are told apart by fingerprint
  wire::Address listen{.host = "127.0.0.1", .port = 9470, .path = {}};
  std::int64_t num_workers = 1;                         // sampling workers (processes), shared by all clients
  std::string token = {};                               // empty: none is asked for
  wire::TlsFiles tls = {};                              // cert empty: plain
  std::optional<wire::Address> metrics = std::nullopt;  // of /metrics, /healthz and /readyz over HTTP
  std::int64_t max_clients = 256;
  std::size_t max_memory =
      0;  // bytes that blocks and given seeds may take in all; 0: a quarter of what is available
  /// LocalExecution::max_batch_memory of each worker.
  std::size_t max_batch_memory = 0;
  std::vector<std::string> plugins =
      {};                 // shared libraries with samplers; clients name samplers, never files
  bool insecure = false;  // listen beyond this machine without token and TLS all the same
  std::chrono::milliseconds batch_deadline{120'000}, start_deadline{30'000};
  std::chrono::milliseconds send_deadline{30'000};  // a block that its client does not take goes after this
  std::chrono::milliseconds seeds_kept{600'000};    // given seeds that no job uses go after this
  int max_worker_deaths = 3;  // by one batch, then it fails; by a job in a row, with the next it is refused
  std::string worker_program = {};  // as LocalExecution::worker_program
  GpuOptions gpu = {};          // where workers sample; batches lie in the host's memory, and are not pinned
  FeatureTiers features = {};   // where workers read rows of features from; each dataset has a row cache
  PeerOptions partitions = {};  // where this machine has some partitions of the datasets only
  std::int64_t peer_threads = 2;  // that answer machines which have other partitions; as many for state,
                                  // and for results
  /// Of state that training learns or writes (state/owner): it is kept in memory, and its checkpoints are
  /// written below this folder, which several servers may share. Empty: the server keeps no state.
  std::string state = {};
  /// Bytes that the state of all datasets may take; each has the same share. 0: a quarter of what is
  /// available.
  std::size_t max_state_memory = 0;
  /// The folder in which an inference of one of the datasets computes on this machine (results), for machines
  /// with other partitions; it need not be there yet. Empty: the server serves no results.
  std::string results = {};
  /// It gets one line for each event, without a line end, on a thread of its own, so that it may wait. It
  /// must not throw. A call that has not come back a second after the server's end is left behind with that
  /// thread.
  std::function<void(const std::string& line)> log = nullptr;

  /// Throws kInvalid naming the option.
  void validate() const;
};

}  // namespace hopfeed
