// What a client says to a server before batches come: connect, log in, ask questions, open a job. Coroutines
// of one thread.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/batch/batch_spec.h"
#include "core/dataset/dataset_meta.h"
#include "server_client_mode/client/remote_execution.h"
#include "wire/caller.h"

namespace hopfeed {

using wire::Caller;
using wire::Contact;

Caller caller_of(const RemoteExecution& remote);

/// What is asked of every server that makes batches of a stream.
struct RemoteJob {
  BatchSpec spec;
  std::vector<std::byte> packed = {};  // seeds that are given in place of a split
  std::int64_t batch_size = 1;
  bool check_finite = false;
  HeldShare held = {};       // rows that this client holds, or will
  wire::Opened opened = {};  // as the first server answered
};

/// Its number; a connection has one.
inline constexpr std::uint32_t kJob = 1;

/// Questions to one server, one after the other; each waits for its answer. Throws what the server refuses,
/// naming it.
class Questions {
 public:
  /// `contact` must outlive it.
  explicit Questions(Contact& contact) : connection_(*contact.connection) {}

  /// The metadata of a dataset by name or fingerprint; empty: the server has one only.
  wire::asio::awaitable<DatasetMeta> meta(std::string dataset);
  wire::asio::awaitable<std::vector<std::int64_t>> clusters(wire::GetClusters which);
  wire::asio::awaitable<std::string> status();
  /// Sends given seeds where the server has not got them.
  wire::asio::awaitable<wire::Opened> open(const RemoteJob& job);
  /// Rows of an attribute, as many as `to` has room for.
  wire::asio::awaitable<void> rows(wire::GetRows which, std::span<std::byte> to);
  /// The server has said that it is about to leave.
  bool draining() const { return draining_; }

 private:
  struct Answer {
    wire::FrameType type{};
    wire::Bytes payload;
  };
  /// An answer of the type that is expected, or `or_else`.
  wire::asio::awaitable<Answer> ask(wire::FrameType type, std::span<const std::byte> payload,
                                    wire::FrameType expected, wire::FrameType or_else);

  wire::Connection& connection_;
  std::uint64_t last_ = 0;
  bool draining_ = false;
};

}  // namespace hopfeed
