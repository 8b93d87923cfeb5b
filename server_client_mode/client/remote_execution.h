// Where a client's batches come from.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/cache_size.h"
#include "wire/address.h"
#include "wire/security.h"

namespace hopfeed {

class FieldVisitor;  // core/base/field_visitor.h

/// Putting held rows back is a pass over each batch. So few rows are read too rarely to pay for it: in the
/// model of the tuner (docs/cache.md) a quarter of the reads has to be held for that over loopback.
inline constexpr double kLeastCacheRatio = 0.05;

struct RemoteExecution {
  std::vector<wire::Address> servers;
  /// Name or fingerprint of one that they serve; empty: they have one only. Servers that are updated one
  /// after the other may have different ones under one name: then the fingerprint says which is meant.
  std::string dataset = {};
  std::string token = {};  // empty: none
  bool tls = false;        // with tls_files.ca, else what the system trusts
  wire::TlsFiles tls_files = {};
  /// Each client connects to a contiguous share of the servers (rank and world size of the deal) and moves to
  /// others when it loses its own; true: to all of them.
  bool connect_all = false;
  std::int64_t batches_ahead = 0;  // asked for in advance, over all connections; 0: 4 for each, at least 8
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds batch_deadline{
      120'000};  // for one batch, from asking to its last byte; then ask elsewhere
  std::chrono::milliseconds reconnect_deadline{60'000};  // without any server; then next() throws kTimeout

  /// The hottest feature rows of each node type are loaded once and held in this process's memory, so that
  /// they need not travel with each batch: a share of them, as many as fit into so many bytes, or, automatic,
  /// what fits where it is worth it: nothing below kLeastCacheRatio. They take no more than a quarter of the
  /// memory that is available, shared by the machine's ranks. What does not fit is not held:
  /// StreamStats::held_bytes tells what is. Batches are the same for every size.
  CacheSize cache = {};
  /// Told in a line each: that less than cache.ratio is held for want of memory, and which server is left
  /// alone since it refuses, once for each. Called by the stream's own thread too.
  std::function<void(const std::string& line)> note = {};

  /// Called about ten times a second while servers are waited for before the stream is open, by the thread
  /// that waits. What it throws ends the wait. LoaderOptions::while_waiting where there is none.
  std::function<void()> while_waiting = {};

  /// Hands over every field that Python has; programs take theirs by code of their own.
  void visit(FieldVisitor& fields);
  /// Throws kInvalid naming the option.
  void validate() const;
};

}  // namespace hopfeed
