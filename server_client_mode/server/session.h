// One client of a server: login, questions, batches, until its connection ends. All calls come from the event
// loop's thread; one coroutine reads, whatever is sent is queued.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "server_client_mode/server/server_context.h"
#include "server_client_mode/server/strangers.h"
#include "wire/connection.h"
#include "wire/heartbeat.h"

namespace hopfeed {

class Session : public std::enable_shared_from_this<Session> {
 public:
  using Clock = std::chrono::steady_clock;
  /// `peer`: its address, for people; `stranger`: its place until it has logged in. `server` must outlive it.
  Session(ServerContext& server, std::uint64_t id, std::unique_ptr<wire::Connection> connection,
          std::string peer, Strangers::Place stranger);

  /// Serves the client until the connection ends, which frees all that it had. Never throws.
  wire::asio::awaitable<void> run();
  /// Tells it that there are too many, and ends the connection. In place of run().
  wire::asio::awaitable<void> turn_away();

  // ---- by the server
  /// A batch that it asked for, which it owns from here on.
  void deliver(const SamplingPool::Block& block);
  /// Batches of the job kill workers.
  void fail_job(std::uint32_t job, const Error& cause);
  /// Nothing new is taken from here on.
  void start_draining();
  /// Once a second: pings, deadlines of blocks.
  void tick(Clock::time_point now);
  /// Frees the highest block that waits for its grant where what was asked for before it has no slot for
  /// that reason, to be made again: else the client would wait for itself.
  void relieve();
  void close() { connection_->close(); }

  std::uint64_t id() const { return id_; }
  bool logged_in() const { return role_ != Role::kStranger; }
  /// Whether nothing that it asked for is outstanding, and the answers have left; whatever else it goes on to
  /// ask is nobody's concern while the server drains.
  bool settled() const {
    if (connection_->closed()) return requests_.empty();
    return requests_.empty() && owed_answers_ == 0 && connection_->bytes_out() >= owed_until_;
  }
  struct Status {
    std::uint64_t id = 0;
    std::string name, peer;
    bool encrypted = false;
    double seconds = 0;  // connected
    std::int64_t jobs = 0, batches = 0;
    std::int64_t waiting_for_grant = 0, sending = 0;
    std::uint64_t bytes_in = 0, bytes_out = 0;
    FairPlan::ClientLoad load;
  };
  Status status(Clock::time_point now = Clock::now()) const;

 private:
  struct Request {
    enum class State {
      kAsked,   // waits for a slot, or is made
      kWaits,   // made, larger than granted: SIZE was sent, the block is in its slot
      kParked,  // the same without the block; it is made again when the GRANT comes
      kSending
    } state = State::kAsked;
    BatchRequest batch;
    std::uint64_t granted = 0, size_told = 0;
    std::optional<SamplingPool::Block> block;
    Clock::time_point since;  // of kWaits
  };
  struct OpenJob {
    std::uint32_t job = 0;  // the server's number
    std::int64_t batch_size = 0, num_seeds = 0;
    HeldShare held;  // by the client, of the rows
  };

  wire::asio::awaitable<void> log_in();
  /// Whether it brings a batch about: asks for one that will be made, grants its memory, asks as a peer; or a
  /// step of training.
  wire::asio::awaitable<bool> handle(const wire::FrameHeader& header);
  wire::asio::awaitable<bool> answer(const wire::FrameHeader& header);
  // Questions. What they throw is the answer, but for a frame that cannot be read (not `understood`).
  wire::asio::awaitable<void> answer_question(const wire::FrameHeader& header, const wire::Bytes& payload,
                                              bool& understood);
  wire::asio::awaitable<void> work_beside(wire::asio::any_io_executor where, std::function<void()> work);
  wire::asio::awaitable<void> open_job(std::uint64_t question, const wire::Open& open, std::string content);
  wire::asio::awaitable<void> take_seeds(const wire::FrameHeader& header);
  wire::asio::awaitable<void> send_clusters(std::uint64_t question, const wire::GetClusters& asked);
  wire::asio::awaitable<void> send_rows(std::uint64_t question, const wire::GetRows& asked);
  // For machines that have other partitions, and for those who learn.
  void answer_peer(wire::FrameType type, std::uint64_t question, wire::Bytes payload);
  wire::asio::awaitable<void> wait_for_answers();
  bool asks_too_much() const;
  wire::asio::awaitable<void> take_state(const wire::FrameHeader& header);
  class Opening;
  enum class Role { kStranger, kOnlooker, kClient, kMachine };
  void become(Role role);
  std::int64_t& count_of(Role role);
  void close_job(std::uint32_t number);
  // Batches.
  bool ask(std::uint64_t number, const wire::BatchAsked& asked);
  void check(const wire::BatchAsked& asked, const OpenJob& job) const;
  bool grant(std::uint64_t number, std::uint64_t bytes);
  void cancel(std::uint64_t number);
  void send_block(std::uint64_t number, Request& request);
  void sent(std::uint64_t number, bool whole);
  bool takes_in_time(Clock::time_point now) const;
  void free_block(Request& request);
  void park(Request& request);
  void fail(std::uint64_t number, const Error& error);
  void drop(std::uint64_t number);
  void note_owed();
  void leave();

  ServerContext& server_;
  const std::uint64_t id_;
  const std::unique_ptr<wire::Connection> connection_;
  const std::string peer_;
  const Clock::time_point start_ = Clock::now();
  std::string name_;
  Role role_ = Role::kStranger;
  Strangers::Place stranger_;              // until it has logged in
  std::map<std::uint32_t, OpenJob> jobs_;  // by the client's number
  std::unordered_map<std::uint64_t, Request> requests_;
  std::int64_t batches_ = 0, waits_ = 0;
  std::uint64_t owed_until_ = 0;             // of what it is sent, in bytes: what it has a right to
  const ServedDataset* asked_of_ = nullptr;  // the dataset of its questions about partitions
  std::int64_t answering_ = 0;               // of these, under way
  std::int64_t owed_answers_ = 0;            // of those, asked before the server drained
  std::uint64_t asked_bytes_ = 0;            // of their bytes
  bool asks_state_ = false;                  // has asked about state that is here
  std::uint64_t state_bytes_ = 0;            // of such questions that their owner has not taken yet
  std::unique_ptr<boost::asio::steady_timer> answered_;  // cancelled after each, where somebody waits
  // Blocks that are being sent, in this order, and when the first had its turn.
  std::deque<std::uint64_t> in_turn_;
  Clock::time_point turn_began_;
  wire::Heartbeat heartbeat_{wire::Side::kServer, start_};
};

}  // namespace hopfeed
