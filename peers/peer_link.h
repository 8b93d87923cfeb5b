// One server of partitions, seen from a machine that asks it: connects, asks what it has, sends questions and
// hands out answers, until it is told to end; connects anew whenever the connection is lost. Told to sleep,
// it closes the connection, and opens it when a question comes. All in the thread of peer_network.h.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/partition_peers.h"
#include "peers/answer_times.h"
#include "peers/peer_options.h"
#include "wire/caller.h"
#include "wire/heartbeat.h"

namespace hopfeed {

/// What all connections of a PeerNetwork share.
struct PeerCaller {
  std::string fingerprint;  // of the dataset
  std::uint64_t manifest = 0;
  int num_partitions = 1;
  /// Its frame_deadline is also that of the first answer: a server that hangs in the middle of a frame leaves
  /// time to ask another.
  wire::Caller caller = {};
  /// The frames of questions and answers.
  wire::FrameType ask = wire::FrameType::kAsk, answer = wire::FrameType::kAnswer;
  /// The protocol that has them, and what they are about.
  std::uint16_t least_version = wire::kOldestProtocolVersion;
  std::string_view about = "";
};

class PeerLink {
 public:
  using Clock = std::chrono::steady_clock;
  struct Events {
    std::function<void(PeerLink&)> ready;  // its partitions are known; anew after each connect
    std::function<void(PeerLink&)> lost;   // with what was outstanding; refusal() says why it was never ready
    std::function<void(PeerLink&, PartitionPeers::Ticket, PeerAnswer)> answer;
    std::function<void(PeerLink&, PartitionPeers::Ticket, const Error&)> refused;
  };
  PeerLink(boost::asio::io_context& context, wire::Address address, const PeerCaller& caller, Events events);

  /// Until end(). Never throws.
  wire::asio::awaitable<void> run();
  void end();
  /// Only where ready(). One that sleeps wakes up, and sends it once it is connected.
  void send(PartitionPeers::Ticket ticket, std::shared_ptr<const PeerBytes> question);
  /// Pings and deadlines; now and then.
  void tick(Clock::time_point now);
  /// Closes the connection until wake() or send(); only where open(), with nothing outstanding.
  void sleep();
  void wake();

  /// It is there, as far as is known, and can be asked.
  bool ready() const { return ready_; }
  /// It is ready, and connected: who sleeps is not.
  bool open() const { return open_; }
  bool asleep() const { return asleep_; }
  /// Since when nothing was asked of it, nor outstanding.
  Clock::time_point idle_since() const { return idle_since_; }
  /// Whether it has been asked for once, whatever came of it.
  bool tried() const { return tried_; }
  const std::vector<int>& partitions() const { return partitions_; }
  /// Whether it answers such questions, as it said last: who has partitions need not keep state of them, nor
  /// serve results.
  bool serves() const { return serves_; }
  bool has(int partition) const;
  std::size_t outstanding() const { return outstanding_.size(); }
  /// When the question was sent that is outstanding with the lowest number.
  std::optional<Clock::time_point> oldest_outstanding() const {
    return outstanding_.empty() ? std::nullopt : std::optional(outstanding_.begin()->second);
  }
  /// Empties the list of what was sent and not answered, by ticket, with when it was sent.
  std::map<PartitionPeers::Ticket, Clock::time_point> take_outstanding();
  const AnswerTimes& times() const { return times_; }
  std::string address_text() const { return address_.to_text(); }
  /// Why there is no connection; empty: there is, or was none tried.
  const std::string& last_words() const { return last_words_; }
  ErrorCode last_code() const { return last_code_; }
  /// The server is there, and has said that it is not the right one.
  bool was_refused() const { return refused_; }

 private:
  struct Unsent {
    PartitionPeers::Ticket ticket = 0;
    std::shared_ptr<const PeerBytes> question;
  };
  wire::asio::awaitable<void> connect();
  wire::asio::awaitable<void> ask_partitions();
  wire::asio::awaitable<void> read();
  wire::asio::awaitable<void> read_answer(wire::FrameHeader header);
  wire::asio::awaitable<void> until_woken();
  /// Takes the question off the list, if it is on it, and returns when it was sent.
  std::optional<Clock::time_point> take(PartitionPeers::Ticket ticket);
  void send_now(PartitionPeers::Ticket ticket, std::shared_ptr<const PeerBytes> question);

  boost::asio::steady_timer timer_;
  const wire::Address address_;
  const PeerCaller& caller_;
  const Events events_;
  std::unique_ptr<wire::Connection> connection_;
  std::vector<int> partitions_;
  std::map<PartitionPeers::Ticket, Clock::time_point> outstanding_;
  std::vector<Unsent> unsent_;  // of them: those that wait for the connection
  AnswerTimes times_;
  Clock::time_point idle_since_;
  bool ready_ = false, tried_ = false, ending_ = false, refused_ = false, serves_ = true;
  bool open_ = false, asleep_ = false, closed_to_sleep_ = false;
  std::string last_words_;
  ErrorCode last_code_ = ErrorCode::kPeerDied;
  wire::Heartbeat heartbeat_{wire::Side::kClient, Clock::time_point{}};
};

}  // namespace hopfeed
