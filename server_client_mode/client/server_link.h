// One connection to one server, as a filler of slots: it claims planned slots, asks the server for their
// batches, reads each block straight into its slot and publishes it. All in the I/O thread of
// connection_fillers.h, which tells it to look around after each event; its reader is a coroutine.
//
// A batch's way:  claimed -> BATCH -> [SIZE -> asked of the channel, granted -> GRANT ->] BLOCK -> published
//
// A claim stays this connection's until it is published or the connection is buried: nobody else may get the
// slot while a read into it is under way.
#pragma once
#include <array>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "channel/worker_port.h"
#include "server_client_mode/client/block_check.h"
#include "server_client_mode/client/failed_batches.h"
#include "server_client_mode/client/server_talk.h"
#include "stream/channel_host.h"
#include "wire/heartbeat.h"

namespace hopfeed {

struct ServerLinkOptions {
  std::uint32_t record = 0;  // of the channel, that it fills under; welcomed already
  std::size_t server = 0;    // number of the server
  HeldShare held = {};       // rows that it may leave out
  std::chrono::milliseconds batch_deadline{};
  std::function<void(const PlannedBatch&)> published;  // after each batch
  /// The answer to ask_status(): JSON.
  std::function<void(const std::string& status)> status;
  /// What to do with a batch that the server has failed.
  std::function<AfterFailure(const PlannedBatch&, ErrorCode)> failed;
};

/// What SlotRecord::worker says of a batch: server and worker of it.
inline constexpr std::uint32_t kWorkersOfServer = 1 << 16;

class ServerLink {
 public:
  using Clock = std::chrono::steady_clock;

  /// `contact`: with the job open. `check` must outlive it.
  ServerLink(ChannelHost& host, Contact contact, const BlockCheck& check, ServerLinkOptions options);

  /// Reads until the connection ends, and throws why. Once.
  wire::asio::awaitable<void> read();
  /// Whatever there is to do: claims up to `share` batches, tells the server what was granted and what nobody
  /// wants any more. Returns whether the channel should be served.
  bool look(std::size_t share);
  /// Looks at deadlines and signs of life. Called now and then.
  void tick(Clock::time_point now);
  /// Asks the server what it does.
  void ask_status();
  /// No new claims; ends once what was asked for has come.
  void leave();
  void close(std::string why);

  std::size_t server() const { return options_.server; }
  std::uint32_t record() const { return options_.record; }
  bool leaving() const { return leaving_; }
  const std::string& peer() const { return connection_.peer(); }
  bool ended() const { return contact_.connection->closed(); }
  /// The server has said that it is about to leave.
  bool draining() const { return draining_; }
  /// The server has failed a batch that others may be able to make, and is left for it.
  bool faulty() const { return faulty_; }
  /// The most urgent of its batches; nothing where it has none.
  std::optional<std::uint64_t> first_asked() const;
  /// Batches that it has claimed and not published.
  std::size_t num_claimed() const;
  /// Why this side has closed it; empty: it has not.
  const std::string& why_closed() const { return why_closed_; }

 private:
  struct Asked {
    Claim claim;
    std::uint64_t told = 0;    // bytes granted, as the server knows
    std::uint64_t wanted = 0;  // bytes of the block, once it has told
    std::int64_t sampled = 0;  // when it told (monotonic_now); 0: it did not
    bool waits_for_grant = false;
    bool cancelled = false;
    bool finished = false;  // published; only the server's last word is awaited
    bool dropped = false;   // the server will not make it
    int drops = 0;
    Clock::time_point since{};  // the server's turn since then
  };
  using AskedMap = std::map<std::uint64_t, Asked>;  // by request: the lowest is the most urgent

  void ask(Claim claim);
  void look_at(std::uint64_t request, Asked& asked);
  void note_waiting_for_slot(bool waits);
  /// Nothing where the frame is of a batch that is done with, which may come twice.
  std::optional<AskedMap::iterator> find(const wire::FrameHeader& header);
  void done(AskedMap::iterator at);
  wire::asio::awaitable<void> read_block(wire::FrameHeader header);
  void on_frame(const wire::FrameHeader& header, const wire::Bytes& payload);
  void on_size(AskedMap::iterator at, std::uint64_t bytes);
  void on_dropped(AskedMap::iterator at);
  void on_failed(AskedMap::iterator at, const wire::Refusal& refusal);
  void note_times(const Asked& asked, const wire::BlockHead& head, std::int64_t arrived);
  void cancel(std::uint64_t request, Asked& asked);
  void end_if_left();

  ChannelHost& host_;
  Contact contact_;
  wire::Connection& connection_;
  const BlockCheck& check_;
  const ServerLinkOptions options_;
  WorkerPort port_;
  AskedMap asked_;
  std::array<std::uint64_t, 256> recent_{};  // requests that are done with, in a ring
  std::size_t num_done_ = 0;
  int status_asked_ = 0;  // not answered so far
  bool leaving_ = false, draining_ = false, faulty_ = false, serve_ = false;
  std::string why_closed_;
  wire::Heartbeat heartbeat_{wire::Side::kClient, Clock::now()};
};

}  // namespace hopfeed
