// A ServerStatus is the picture of a server at one moment, as JSON for `hopfeed-server status` and
// hopfeed-top, and in Prometheus' text format for /metrics. docs/protocol.md has the JSON's fields.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server_client_mode/server/lost_partitions.h"
#include "server_client_mode/server/server_context.h"
#include "server_client_mode/server/session.h"
#include "stream/loader_watch.h"

namespace hopfeed {

struct ServerStatus {
  std::string address, server, software;
  double seconds = 0;  // since it started
  bool draining = false;
  std::optional<std::string> failure;
  std::vector<wire::Offer::Dataset> datasets;
  std::vector<Session::Status> clients;
  std::size_t jobs = 0, seed_bytes = 0, max_memory = 0;
  SamplingPool::Load load;
  LoaderSnapshot channel;  // slots and workers
  ServerTotals totals;
  std::uint64_t accept_pauses = 0;  // for lack of descriptors
  std::vector<LostPartition> lost_partitions;
  /// Peers counts what went to machines that have other partitions; bytes are without headers.
  struct Peers {
    std::int64_t questions = 0, refused = 0, question_bytes = 0, answer_bytes = 0;
    PartitionOwner::Counts of;
  } peers = {};
  /// State of training that lies here; none: the server keeps none.
  struct State {
    std::size_t max_memory = 0;
    std::vector<StateAnswers::ServedTable> tables;
  };
  std::optional<State> state = std::nullopt;
  /// Rows of an inference that computes beside; none: the server serves none.
  struct Results {
    std::string folder;  // as the operator named it
    ServedResults::Counts counts;
  };
  std::optional<Results> results = std::nullopt;
};

std::string status_json(const ServerStatus& status);
/// Returns the text for /metrics. Labels are slot states, numbers of workers and stages, and of state the
/// datasets and tables, of which there are kMaxTables at most (state_owner.cc): no other name that a client
/// chose.
std::string metrics_text(const ServerStatus& status);

}  // namespace hopfeed
