// See peer_network.h.
#include "peers/peer_network.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "core/base/limits.h"
#include "core/base/quiet_thread.h"
#include "peers/peer_link.h"
#include "server_client_mode/wire/checked_bytes.h"

namespace hopfeed {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick = 200ms;

std::string name_of_this_process() {
  std::array<char, 65> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("{}/{} peer", host[0] == '\0' ? "machine" : host.data(), getpid()).substr(0, 48);
}

PeerCaller caller_of(const DatasetMeta& meta, const PeerOptions& options) {
  return {.fingerprint = meta.fingerprint,
          .manifest = manifest_hash(meta),
          .num_partitions = meta.partitions,
          .token = options.token,
          .name = name_of_this_process(),
          .tls = options.tls ? wire::TlsContext::client(
                                   {.cert = options.tls_cert, .key = options.tls_key, .ca = options.tls_ca})
                             : nullptr,
          .connect_timeout = options.connect_timeout,
          .deadline = options.deadline};
}

}  // namespace

struct PeerNetwork::Impl {
  /// A question that somebody waits for.
  struct Asked {
    int partition = 0;
    std::shared_ptr<const PeerBytes> question;
    Clock::time_point since;
    bool sent = false;
    std::vector<const PeerLink*> refused_by;  // each is asked once
    std::optional<Error> refusal;             // what they said, if no other answers
    PeerAnswer answer;
    std::optional<Error> error;
    bool done() const { return answer || error; }
    bool was_refused_by(const PeerLink& link) const {
      return std::ranges::find(refused_by, &link) != refused_by.end();
    }
  };

  const PeerOptions options;
  const PeerCaller caller;
  const std::vector<int> own;
  const std::size_t num_partitions;
  asio::io_context context;
  std::vector<std::unique_ptr<PeerLink>> links;  // the thread's alone, as `waiting` is
  std::vector<Ticket> waiting;                   // of questions that no server was there for
  std::size_t next_replica = 0;

  std::atomic<Ticket> last{0};

  mutable std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::unordered_map<Ticket, Asked> asked;
  Counts counts;
  std::uint64_t news = 0;  // grows where a link has come or gone
  std::vector<std::string> said;
  std::vector<int> servers;  // [P] that have it now
  std::vector<char> tried, refused;
  std::vector<ErrorCode> codes;
  bool stopping = false;
  std::thread thread;

  Impl(const DatasetMeta& meta, std::vector<int> own_partitions, const PeerOptions& given)
      : options(given),
        caller(caller_of(meta, given)),
        own(std::move(own_partitions)),
        num_partitions(static_cast<std::size_t>(meta.partitions)),
        servers(num_partitions) {
    const auto events = [this] {
      return PeerLink::Events{.ready = [this](PeerLink& link) { on_ready(link); },
                              .lost = [this](PeerLink& link) { on_lost(link); },
                              .answer = [this](PeerLink&, Ticket ticket,
                                               PeerAnswer answer) { on_answer(ticket, std::move(answer)); },
                              .refused = [this](PeerLink& link, Ticket ticket,
                                                const Error& error) { on_refused(link, ticket, error); }};
    };
    std::vector<wire::Address> addresses;
    for (const std::string& text : options.peers) {
      wire::Address address = wire::parse_address(text);
      require_valid(std::ranges::find(addresses, address) == addresses.end(),
                    fmt::format("machine {} is named twice (peers); name each once", text));
      addresses.push_back(address);
      links.push_back(std::make_unique<PeerLink>(context, std::move(address), caller, events()));
    }
    said.resize(links.size());
    tried.resize(links.size());
    refused.resize(links.size());
    codes.resize(links.size(), ErrorCode::kTimeout);
    for (const auto& link : links) asio::co_spawn(context, link->run(), asio::detached);
    asio::co_spawn(context, tick(), asio::detached);
    thread = start_quiet_thread("cannot start a thread for the other machines", [this] { context.run(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    asio::post(context, [this] {
      ticking.cancel();
      for (const auto& link : links) link->end();
    });
    thread.join();
  }

  // ---- the thread

  asio::steady_timer ticking{context};
  asio::awaitable<void> tick() {
    for (;;) {
      boost::system::error_code cancelled;
      ticking.expires_after(kTick);
      co_await ticking.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
      const std::unique_lock lock(mutex);
      if (stopping) co_return;
      const Clock::time_point now = Clock::now();
      for (auto& [ticket, question] : asked)
        if (!question.done() && now - question.since > options.deadline) give_up(question);
      for (const auto& link : links) link->tick(now);
    }
  }

  void give_up(Asked& question) {
    fail(question,
         Error(ErrorCode::kPeerDied,
               fmt::format("partition {} gave no answer within {} ms ({}); start hopfeed-server there again",
                           question.partition, options.deadline.count(), told_of(question))));
  }

  /// What refused the question, and why those gave no answer that did not.
  std::string told_of(const Asked& question) const {
    std::string told = question.refusal ? question.refusal->what() : "";
    for (std::size_t i = 0; i < links.size(); ++i) {
      const auto& has = links[i]->partitions();
      if (!has.empty() && std::ranges::find(has, question.partition) == has.end()) continue;
      if (question.was_refused_by(*links[i])) continue;
      told += fmt::format("{}{}: {}", told.empty() ? "" : "; ", links[i]->address_text(),
                          said[i].empty() ? "it does not answer" : said[i]);
    }
    return told;
  }

  void note(const PeerLink& link) {
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < links.size(); ++i) {
      if (links[i].get() != &link) continue;
      said[i] = link.last_words();
      tried[i] = link.tried();
      refused[i] = link.was_refused();
      codes[i] = link.last_code();
    }
    std::ranges::fill(servers, 0);
    for (const auto& other : links)
      if (other->ready())
        for (const int p : other->partitions()) ++servers[static_cast<std::size_t>(p)];
    ++news;
    changed.notify_all();
  }

  void on_ready(PeerLink& link) {
    note(link);
    dispatch_waiting();
  }

  void on_lost(PeerLink& link) {
    note(link);
    for (const Ticket ticket : link.take_outstanding()) dispatch(ticket);
    dispatch_waiting();  // a refusal may have waited for this one's first try
  }

  void on_answer(Ticket ticket, PeerAnswer answer) {
    const std::lock_guard lock(mutex);
    const auto found = asked.find(ticket);
    if (found == asked.end() || found->second.done()) return;
    ++counts.answers, counts.bytes_in += answer->size();
    found->second.answer = std::move(answer);
    found->second.question.reset();
    changed.notify_all();
  }

  /// What is wrong there (a damaged file, no memory) need not be with another server of the partition.
  void on_refused(const PeerLink& link, Ticket ticket, const Error& error) {
    {
      const std::lock_guard lock(mutex);
      const auto found = asked.find(ticket);
      if (found == asked.end() || found->second.done()) return;
      Asked& question = found->second;
      question.refused_by.push_back(&link);
      const std::string before = question.refusal ? fmt::format("{}; ", question.refusal->what()) : "";
      question.refusal.emplace(error.code(), before + error.what());
    }
    dispatch(ticket);
  }

  /// The server of its partition that has the fewest, of those that have not refused it; null: none is there.
  PeerLink* server_for(const Asked& question) const {
    PeerLink* best = nullptr;
    for (std::size_t i = 0; i < links.size(); ++i) {
      PeerLink& link = *links[(next_replica + i) % links.size()];
      if (!link.ready() ||
          std::ranges::find(link.partitions(), question.partition) == link.partitions().end() ||
          question.was_refused_by(link))
        continue;
      if (best == nullptr || link.outstanding() < best->outstanding()) best = &link;
    }
    return best;
  }

  /// Sends a question to a server, or keeps it until there is one. What was refused waits for nobody who is
  /// away, but for those who have not been reached for the first time: a worker has just begun to connect.
  void dispatch(Ticket ticket) {
    std::shared_ptr<const PeerBytes> bytes;
    PeerLink* link = nullptr;
    {
      const std::lock_guard lock(mutex);
      const auto found = asked.find(ticket);
      if (found == asked.end() || found->second.done()) return;
      Asked& question = found->second;
      link = server_for(question);
      if (link == nullptr && question.refusal &&
          std::ranges::all_of(links, [](const auto& other) { return other->tried(); }))
        return fail(question, Error(question.refusal->code(), told_of(question)));
      if (link != nullptr) {
        if (question.sent)
          ++counts.asked_again;
        else
          ++next_replica;  // once a question: else one that refuses all would always be the next one
        question.sent = true;
        bytes = question.question;
      }
    }
    if (link == nullptr)
      waiting.push_back(ticket);
    else
      link->send(ticket, std::move(bytes));
  }

  void dispatch_waiting() {
    for (const Ticket ticket : std::exchange(waiting, {})) dispatch(ticket);
  }

  /// With the mutex.
  void fail(Asked& question, const Error& error) {
    question.error = error;
    question.question.reset();
    changed.notify_all();
  }

  // ---- any thread

  /// The first partition that no server has; none where all have one.
  std::optional<int> missing() const {
    for (std::size_t p = 0; p < servers.size(); ++p)
      if (servers[p] == 0 && std::ranges::find(own, static_cast<int>(p)) == own.end())
        return static_cast<int>(p);
    return {};
  }

  void check_replicas() const {
    for (std::size_t p = 0; p < servers.size(); ++p)
      require_valid(
          servers[p] <= options.replicas,
          fmt::format("partition {} is served by {} machines of those named (peers); leave some out, or say "
                      "how many may (replicas)",
                      p, servers[p]));
  }

  [[noreturn]] void throw_missing(int partition) const {
    std::string silent;
    for (std::size_t i = 0; i < links.size(); ++i) {
      if (refused[i]) throw Error(codes[i], said[i]);
      if (said[i].empty() && tried[i]) continue;
      silent += fmt::format("{}{}: {}", silent.empty() ? "" : "; ", options.peers[i],
                            said[i].empty() ? "it does not answer" : said[i]);
    }
    if (silent.empty())
      throw Error(
          ErrorCode::kNotFound,
          fmt::format(
              "partition {} is neither on this machine nor served by one of those named (peers); name "
              "the machine that has it, or push it to one",
              partition));
    throw Error(
        ErrorCode::kTimeout,
        fmt::format(
            "nobody serves partition {} within {} ms ({}); start hopfeed-server there, or name others",
            partition, options.connect_timeout.count(), silent));
  }
};

PeerNetwork::PeerNetwork(const DatasetMeta& meta, std::vector<int> own, const PeerOptions& options)
    : impl_(std::make_unique<Impl>(meta, std::move(own), options)) {}
PeerNetwork::~PeerNetwork() = default;

void PeerNetwork::wait_until_known() {
  Impl& s = *impl_;
  const Clock::time_point give_up = Clock::now() + s.options.connect_timeout;
  std::unique_lock lock(s.mutex);
  const auto all_tried = [&s] { return std::ranges::all_of(s.tried, [](char tried) { return tried != 0; }); };
  // Those that do not answer are waited for, since one of them may be a partition's second server; who said
  // that it is the wrong one is not.
  const auto settled = [&] {
    if (!all_tried()) return false;
    return !s.missing() || std::ranges::none_of(s.said, [&](const std::string& said) {
      return !said.empty() && s.refused[static_cast<std::size_t>(&said - s.said.data())] == 0;
    });
  };
  s.changed.wait_until(lock, give_up, settled);
  if (const std::optional<int> partition = s.missing()) s.throw_missing(*partition);
  s.check_replicas();
}

PartitionPeers::Ticket PeerNetwork::ask(int partition, PeerBytes question) {
  Impl& s = *impl_;
  if (question.size() > kMaxPeerQuestion)
    throw Error(
        ErrorCode::kNoSpace,
        fmt::format("a question of {} bytes to another machine is too large; use smaller batches or fanouts",
                    question.size()));
  const std::size_t bytes = question.size();
  const Ticket ticket = ++s.last;
  wire::add_checksum(question, ticket);
  {
    const std::lock_guard lock(s.mutex);
    ++s.counts.questions;
    s.counts.bytes_out += bytes;
    s.asked.emplace(ticket, Impl::Asked{.partition = partition,
                                        .question = std::make_shared<const PeerBytes>(std::move(question)),
                                        .since = Clock::now(),
                                        .refused_by = {},
                                        .refusal = {},
                                        .answer = {},
                                        .error = {}});
  }
  asio::post(s.context, [&s, ticket] { s.dispatch(ticket); });
  return ticket;
}

PeerAnswer PeerNetwork::wait(Ticket ticket) {
  Impl& s = *impl_;
  std::unique_lock lock(s.mutex);
  const auto found = s.asked.find(ticket);
  require_valid(found != s.asked.end(), "an answer to another machine's question is taken twice");
  Impl::Asked& question = found->second;  // stays where it is while others come and go
  // The thread gives up questions after their deadline, so this ends.
  s.changed.wait(lock, [&question] { return question.done(); });
  const Impl::Asked asked = std::move(question);
  s.asked.erase(ticket);
  if (asked.error) throw *asked.error;
  return asked.answer;
}

void PeerNetwork::drop(Ticket ticket) noexcept {
  const std::lock_guard lock(impl_->mutex);
  impl_->asked.erase(ticket);
}

PeerNetwork::Counts PeerNetwork::counts() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->counts;
}

}  // namespace hopfeed
