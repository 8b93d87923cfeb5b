// Which partitions of a dataset a machine has, and who answers for the others. It changes speed and patience,
// and no byte of a batch (docs/partitions.md).
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace hopfeed {

class FieldVisitor;  // core/base/field_visitor.h

struct PeerOptions {
  /// On this machine; empty, where peers are named: those whose folders are in the dataset's.
  std::vector<int> own = {};
  /// "HOST:PORT" of the servers (hopfeed-server) that have the others; this machine's own may be among them.
  /// Empty: the dataset is here as a whole.
  std::vector<std::string> peers = {};
  /// Servers that a partition may have at most. Of several, the quickest is asked (replica_choice.h), and one
  /// takes over from another that is late or lost.
  std::int64_t replicas = 1;
  std::string token = {};  // that the servers want; empty: none
  bool tls = false;
  std::string tls_ca = {}, tls_cert = {}, tls_key = {};  // PEM files, as those of a client
  /// For all servers together to answer at the start.
  std::chrono::milliseconds connect_timeout{5'000};
  /// A question that nobody has answered for so long is an error; until then a server that was lost is waited
  /// for.
  std::chrono::milliseconds deadline{60'000};
  /// Batches that a worker has under way at a time, so that answers come while it samples others.
  std::int64_t concurrency = 4;

  /// Whether the dataset is opened with some partitions.
  bool on() const { return !peers.empty() || !own.empty(); }
  void visit(FieldVisitor& fields);
  /// Throws kInvalid naming the option.
  void validate() const;
};

inline constexpr std::int64_t kMaxPeerConcurrency = 16;

}  // namespace hopfeed
