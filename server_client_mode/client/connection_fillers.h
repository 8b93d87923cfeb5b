// O thread, the only one, takes the place of/ConnectionFillers fill a channel's slots by connections to
// servers. One I/O thread, the only one, takes the place of/O thread, the only one, takes the place of worker
// mode's supervisor: it keeps the slots (SlotKeeper), waits on the fillers' bell beside the sockets, and runs
// a ServerLink (server_link.h) for each connection.
//
// A post is one connection that there should always be: it has a server of its own, goes to others in a ring
// when it loses it, and comes home when that is back. Each post has two records of the channel, since a
// connection that leaves goes on reading what was promised while the next one fills already.
//
// A connection that is lost is a dead worker: once its read has ended its slots are planned again, and
// whoever is there takes them.
#pragma once
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "cache/held_rows.h"
#include "server_client_mode/client/block_check.h"
#include "server_client_mode/client/failed_batches.h"
#include "server_client_mode/client/first_contact.h"
#include "server_client_mode/client/remote_execution.h"
#include "server_client_mode/client/server_link.h"
#include "server_client_mode/client/server_list.h"
#include "server_client_mode/client/server_talk.h"
#include "stream/channel_host.h"
#include "stream/slot_fillers.h"
#include "stream/slot_keeper.h"

namespace hopfeed {

struct ConnectionFillersOptions {
  RemoteExecution remote;
  std::vector<std::size_t> own;  // servers, one for each post
  std::int64_t batches_ahead = 8;
  RemoteJob job;                              // as it is open at the first server
  std::shared_ptr<const HeldRows> held = {};  // null: none
};

class ConnectionFillers final : public SlotFillers {
 public:
  /// Returns the records of the channel that so many posts need.
  static std::int64_t records(std::size_t posts) { return 2 * static_cast<std::int64_t>(posts); }

  /// Starts the thread. `first` is a connection of `context` with the job open.
  ConnectionFillers(std::shared_ptr<ChannelHost> host, std::unique_ptr<wire::asio::io_context> context,
                    Caller caller, FirstContact first, ConnectionFillersOptions options);
  /// Closes the connections; no longer than a second, whatever the servers do.
  ~ConnectionFillers() override;  // NOLINT(bugprone-exception-escape): of no memory to wake the thread

  /// Waits for the first connection: servers may come and go. Throws why the channel has failed, or kTimeout.
  void wait_until_ready() override;
  std::vector<int> pids() const override { return {}; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Post;

  void run();
  void place_first();
  void end();
  bool step();
  void tick(Clock::time_point now);
  std::size_t share() const;
  wire::asio::awaitable<void> watch_bell();
  wire::asio::awaitable<void> keep_post(std::shared_ptr<Post> post);
  wire::asio::awaitable<std::shared_ptr<ServerLink>> connect_any(std::size_t home);
  wire::asio::awaitable<std::shared_ptr<ServerLink>> connect(std::size_t server);
  wire::asio::awaitable<void> serve(std::shared_ptr<ServerLink> link);
  std::shared_ptr<ServerLink> adopt(Contact contact, std::size_t server, const wire::Opened& opened);
  bool may_ask(std::size_t server) const;
  void finish(const std::shared_ptr<ServerLink>& link, const Error& why);
  void wake_posts();
  void tell_once(std::size_t server, const Error& refusal);
  void tell_why_waiting(Clock::time_point now);
  void tell(const std::string& why);
  bool stopped() const { return stopping_ || host_->failure().has_value(); }

  const std::shared_ptr<ChannelHost> host_;
  const ConnectionFillersOptions options_;
  const Caller caller_;
  const BlockCheck check_;
  std::atomic<bool> stopping_{false};

  std::unique_ptr<wire::asio::io_context> context_;  // outlives all that is bound to it
  // What follows is the thread's own.
  SlotKeeper keeper_;
  ServerList servers_;
  FailedBatches failed_;
  std::optional<FirstContact> first_;
  std::vector<bool> told_;       // of which servers it was said that they refuse
  std::int64_t told_since_ = 0;  // which wait of the trainer's was told, or asked about; monotonic_now()
  std::string told_why_;
  std::vector<std::uint32_t> free_records_;
  std::vector<std::shared_ptr<ServerLink>> links_;  // whose connections are open
  std::vector<std::shared_ptr<Post>> posts_;
  int running_ = 0;                 // coroutines
  int lost_in_a_row_ = 0;           // connections with batches, without a batch by anyone in between
  Clock::time_point none_since_{};  // no connection is open
  Clock::time_point next_tick_{};
  bool serve_ = true;
  std::thread thread_;
};

}  // namespace hopfeed
