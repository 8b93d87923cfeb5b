// See peer_network.h.
#include "peers/peer_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/notes.h"
#include "core/base/quiet_thread.h"
#include "peers/peer_link.h"
#include "peers/replica_choice.h"
#include "peers/second_asks.h"
#include "wire/checked_bytes.h"

namespace hopfeed {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick = 200ms, kLook = 100ms;
/// A server that has just come back is found within it (peer_link.cc pauses for a second at most).
constexpr std::chrono::milliseconds kFoundAgain = 1'500ms;

/// What a service has on the wire.
struct Frames {
  wire::FrameType ask, answer;
  std::uint16_t least_version;
  std::string_view about;
};
constexpr Frames kPartitionFrames{wire::FrameType::kAsk, wire::FrameType::kAnswer,
                                  wire::kOldestProtocolVersion, "partitions"};
constexpr Frames kStateFrames{wire::FrameType::kState, wire::FrameType::kStateAnswer, 3, "state"};
constexpr Frames kResultsFrames{wire::FrameType::kResults, wire::FrameType::kResultsAnswer, 4,
                                "an inference"};

const Frames& frames_of(PeerService service) {
  return service == PeerService::kState     ? kStateFrames
         : service == PeerService::kResults ? kResultsFrames
                                            : kPartitionFrames;
}

/// A question about state waits anew each time that its connection is lost, unless what comes makes no sense
/// so often.
constexpr int kMostSenseless = 20;

PeerOptions options_for(PeerOptions options, PeerService service) {
  if (service != PeerService::kPartitions) options.replicas = 1;
  return options;
}

/// Sharded ids are asked for since protocol 5, by questions about partitions.
constexpr std::uint16_t kIdsVersion = 5;

PeerCaller caller_of(const DatasetMeta& meta, const PeerOptions& options, PeerService service) {
  const Frames& frames = frames_of(service);
  const bool asks_ids = service == PeerService::kPartitions && meta.sharded_ids;
  return {.fingerprint = meta.fingerprint,
          .manifest = manifest_hash(meta),
          .num_partitions = meta.partitions,
          .caller = {.token = options.token,
                     .name = wire::name_of_this_process("machine", " peer"),
                     .tls = options.tls ? wire::TlsContext::client({.cert = options.tls_cert,
                                                                    .key = options.tls_key,
                                                                    .ca = options.tls_ca})
                                        : nullptr,
                     .connect_timeout = options.connect_timeout,
                     .frame_deadline =
                         std::clamp<std::chrono::milliseconds>(options.deadline / 4, 500ms, 30'000ms),
                     .token_field = "peer_token_file",
                     .does = "draws",
                     .since = ""},
          .ask = frames.ask,
          .answer = frames.answer,
          .least_version = asks_ids ? kIdsVersion : frames.least_version,
          .about = asks_ids ? "a cut with sharded ids" : frames.about};
}

}  // namespace

struct PeerNetwork::Impl {
  /// A question that somebody waits for.
  struct Question {
    int partition = 0;
    std::shared_ptr<const PeerBytes> question;
    Clock::time_point since;
    bool sent = false;                        // once at least
    bool dropped = false;                     // nobody waits for its answer; it goes once it is sent
    int senseless = 0;                        // times that its connection was ended for what came over it
    std::vector<const PeerLink*> with;        // sent to, and not lost since; nor has it refused
    Clock::time_point late_at;                // when another is asked too
    bool twice = false;                       // it was
    std::vector<const PeerLink*> refused_by;  // each is asked once
    std::optional<Error> refusal;             // what they said, if no other answers
    PeerAnswer answer;
    std::optional<Error> error;
    bool done() const { return answer || error; }
    bool was_refused_by(const PeerLink& link) const {
      return std::ranges::find(refused_by, &link) != refused_by.end();
    }
    bool is_with(const PeerLink& link) const { return std::ranges::find(with, &link) != with.end(); }
  };

  const PeerService service;
  const PeerOptions options;
  const PeerCaller caller;
  const std::function<void()> while_waiting;
  const PeerPatience patience;
  asio::io_context context;
  // The thread's alone:
  std::vector<std::unique_ptr<PeerLink>> links;
  std::vector<Ticket> waiting;  // of questions that no server was there for
  std::size_t next_replica = 0;
  SecondAskBudget budget;
  LateQuestions<Ticket> late;

  std::atomic<Ticket> last{0};

  mutable std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::unordered_map<Ticket, Question> asked;
  std::vector<Ticket> unsent;  // of those that the thread does not know of
  bool told = false;           // the thread is about to look
  Counts counts;
  PartitionPeers::Asked counted;  // that take_counts() has told
  std::size_t open_links = 0;
  PartitionServers servers;
  bool stopping = false;
  std::thread thread;

  Impl(const DatasetMeta& meta, std::vector<int> own_partitions, const PeerOptions& given,
       PeerService asked_for, std::function<void()> called_while_waiting, PeerPatience how_patient)
      : service(asked_for),
        options(options_for(given, asked_for)),
        caller(caller_of(meta, given, asked_for)),
        while_waiting(std::move(called_while_waiting)),
        patience(how_patient),
        servers(static_cast<std::size_t>(meta.partitions), std::move(own_partitions), options, asked_for) {
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
                    fmt::format("machine {} is named twice ({}); name each once", text, marked("peers")));
      addresses.push_back(address);
      links.push_back(std::make_unique<PeerLink>(context, std::move(address), caller, events()));
    }
    for (const auto& link : links) asio::co_spawn(context, link->run(), asio::detached);
    asio::co_spawn(context, tick(), asio::detached);
    thread = start_quiet_thread("cannot start a thread for the other machines", [this] { context.run(); });
  }

  // Without memory to post there is no way to end, and the process does.
  ~Impl() {  // NOLINT(bugprone-exception-escape)
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    asio::post(context, [this] {
      ticking.cancel();
      becoming_late.cancel();
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
      std::vector<std::string> lines;
      {
        const std::unique_lock lock(mutex);
        if (stopping) co_return;
        const Clock::time_point now = Clock::now();
        for (auto& [ticket, question] : asked)
          if (!question.done() && is_overdue(question, now)) give_up(question);
        std::erase_if(asked, [](const auto& entry) { return entry.second.dropped && entry.second.done(); });
        for (const auto& link : links) link->tick(now);
        let_sleep(now);
        if (notes_are_taken()) lines = servers.new_losses(now);
      }
      for (const std::string& line : lines) give_note(line);
    }
  }

  /// It has waited for the deadline; or others have, for a server that was lost and has not come back.
  bool is_overdue(const Question& question, Clock::time_point now) const {
    if (service == PeerService::kState && !question.with.empty()) return false;
    const Clock::duration waited = now - question.since;
    return waited > options.deadline ||
           (waited > kFoundAgain && servers.is_given_up(static_cast<std::size_t>(question.partition), now));
  }

  void give_up(Question& question) {
    fail(question,
         Error(ErrorCode::kPeerDied,
               fmt::format("partition {} gave no answer within {} ms ({}); start hopfeed-server there again",
                           question.partition, options.deadline.count(), told_of(question))));
  }

  /// What refused the question, and why those gave no answer that did not. With the mutex.
  std::string told_of(const Question& question) const {
    const std::string refusals = question.refusal ? question.refusal->message() : "";
    const std::string others = servers.why_silent(
        question.partition, [&](std::size_t i) { return question.was_refused_by(*links[i]); });
    return refusals + (refusals.empty() || others.empty() ? "" : "; ") + others;
  }

  void note(const PeerLink& link) {
    const auto found = std::ranges::find(links, &link, [](const auto& one) { return one.get(); });
    const std::lock_guard lock(mutex);
    servers.note(static_cast<std::size_t>(found - links.begin()), {.ready = link.ready(),
                                                                   .tried = link.tried(),
                                                                   .refused = link.was_refused(),
                                                                   .serves = link.serves(),
                                                                   .partitions = link.partitions(),
                                                                   .said = link.last_words(),
                                                                   .code = link.last_code()});
    count_open_links();
    changed.notify_all();
  }

  void on_ready(PeerLink& link) {
    note(link);
    dispatch_waiting();
  }

  void on_lost(PeerLink& link) {
    note(link);
    wake_others(link);
    std::vector<Ticket> lost;  // with no other server either
    {
      const std::lock_guard lock(mutex);
      for (const auto& [ticket, sent] : link.take_outstanding()) {
        const auto found = asked.find(ticket);
        if (found == asked.end()) continue;
        std::erase(found->second.with, &link);
        if (!found->second.with.empty()) continue;
        lost.push_back(ticket);
        const bool lost_alone = link.last_code() == ErrorCode::kPeerDied ||
                                link.last_code() == ErrorCode::kIo || link.last_code() == ErrorCode::kTimeout;
        if (!lost_alone) ++found->second.senseless;
        if (service == PeerService::kState && found->second.senseless < kMostSenseless)
          found->second.since = Clock::now();  // until then it did not wait
      }
    }
    for (const Ticket ticket : lost) dispatch(ticket);
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
      Question& question = found->second;
      question.refused_by.push_back(&link);
      std::erase(question.with, &link);
      const std::string before = question.refusal ? fmt::format("{}; ", question.refusal->message()) : "";
      question.refusal.emplace(error.code(), before + error.message());
      if (!question.with.empty() && server_for(question) == nullptr) return;  // one of them has it still
    }
    dispatch(ticket);
  }

  /// The server of its partition to ask next, of those that neither have it nor have refused it; null: none
  /// is there. One that sleeps is as quick as it was: it is woken where the others are busy, and not by time.
  PeerLink* server_for(const Question& question) const {
    const Clock::time_point now = Clock::now();
    std::vector<PeerLink*> there;
    std::vector<Replica> replicas;
    for (std::size_t i = 0; i < links.size(); ++i) {
      PeerLink& link = *links[(next_replica + i) % links.size()];
      if (!link.ready() || !link.serves() || !link.has(question.partition) || question.is_with(link) ||
          question.was_refused_by(link))
        continue;
      there.push_back(&link);
      replicas.push_back({.recent = link.open() ? recent_time(link.times(), link.oldest_outstanding(), now)
                                                : link.times().mean(),
                          .open = link.outstanding()});
    }
    return there.empty() ? nullptr : there[least_loaded(replicas)];
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
      Question& question = found->second;
      link = server_for(question);
      if (link == nullptr && question.refusal &&
          std::ranges::all_of(links, [](const auto& other) { return other->tried(); }))
        return fail(question, Error(question.refusal->code(), told_of(question)));
      if (link != nullptr) {
        if (question.sent)
          ++counts.asked_again;
        else
          ++next_replica, budget.note_question();
        question.sent = true;
        bytes = question.question;
        question.with.push_back(link);
        may_be_late(ticket, question);
        if (question.dropped) asked.erase(found);
      }
    }
    if (link == nullptr)
      waiting.push_back(ticket);
    else
      link->send(ticket, std::move(bytes));
  }

  /// What was asked since it was told last.
  void dispatch_unsent() {
    std::vector<Ticket> tickets;
    {
      const std::lock_guard lock(mutex);
      tickets.swap(unsent);
      told = false;
    }
    for (const Ticket ticket : tickets) dispatch(ticket);
  }

  void dispatch_waiting() {
    for (const Ticket ticket : std::exchange(waiting, {})) dispatch(ticket);
  }

  /// Has the thread look for what was asked, if it is not about to. With the mutex.
  void tell() {
    if (unsent.empty() || told) return;
    asio::post(context, [this] { dispatch_unsent(); });
    told = true;
    ++counts.wakeups;
  }

  /// Waits until `holds`, or until then. `lock` is given up meanwhile.
  template <class Holds>
  void wait_until(std::unique_lock<std::mutex>& lock, Clock::time_point end, Holds holds) {
    if (!while_waiting && end == Clock::time_point::max()) return changed.wait(lock, holds);
    while (!holds() && Clock::now() < end) {
      changed.wait_until(lock, while_waiting ? std::min(end, Clock::now() + kLook) : end, holds);
      if (!while_waiting || holds()) continue;
      lock.unlock();
      while_waiting();
      lock.lock();
    }
  }

  /// With the mutex.
  void fail(Question& question, const Error& error) {
    question.error = error;
    question.question.reset();
    changed.notify_all();
  }

  // ---- the thread: answers that are late

  asio::steady_timer becoming_late{context};
  std::optional<Clock::time_point> looks_at;  // becoming_late is set for then

  /// It was just sent to the last of `with`. With the mutex.
  void may_be_late(Ticket ticket, Question& question) {
    if (service != PeerService::kPartitions || question.twice || options.replicas == 1) return;
    question.late_at =
        Clock::now() + std::max<Clock::duration>(patience.late, question.with.back()->times().p99());
    late.add(question.late_at, ticket);
    look_when_late();
  }

  /// Still out with the server that it will be late at.
  bool is_out(Ticket ticket) const {
    const auto found = asked.find(ticket);
    return found != asked.end() && !found->second.done() && !found->second.twice &&
           !found->second.with.empty();
  }

  /// Sets the timer for the first that will be late. With the mutex.
  void look_when_late() {
    const std::optional<Clock::time_point> next = late.next([this](Ticket ticket) { return is_out(ticket); });
    if (!next || stopping || (looks_at && *looks_at <= *next)) return;  // it looks anew when it fires
    looks_at = next;
    becoming_late.expires_at(*next);
    becoming_late.async_wait([this](const boost::system::error_code& cancelled) {
      if (!cancelled) ask_late_ones_twice();
    });
  }

  void ask_late_ones_twice() {
    struct Second {
      PeerLink* link;
      Ticket ticket;
      std::shared_ptr<const PeerBytes> bytes;
    };
    std::vector<Second> seconds;
    {
      const std::lock_guard lock(mutex);
      if (stopping) return;
      looks_at.reset();
      const Clock::time_point now = Clock::now();
      for (const Ticket ticket : late.take(now)) {
        if (!is_out(ticket)) continue;
        Question& question = asked.at(ticket);
        if (question.late_at > now) continue;  // it was sent anew meanwhile
        PeerLink* const other = server_for(question);
        if (other == nullptr) continue;
        if (!budget.take()) {  // more is allowed as more is asked
          may_be_late(ticket, question);
          continue;
        }
        question.twice = true;
        question.with.push_back(other);
        ++counts.asked_twice;
        seconds.push_back({.link = other, .ticket = ticket, .bytes = question.question});
      }
      look_when_late();
    }
    for (Second& second : seconds) second.link->send(second.ticket, std::move(second.bytes));
  }

  // ---- the thread: connections that are not needed

  /// Has those sleep that nothing was asked of for long, where another is connected for each partition that
  /// is not on this machine. So who has one is always watched, and its loss noticed. With the mutex.
  void let_sleep(Clock::time_point now) {
    std::map<int, int> open;  // servers of each partition
    const auto count = [&](const PeerLink& link, int by) {
      if (link.open() && link.serves())
        for (const int partition : link.partitions()) open[partition] += by;
    };
    for (const auto& link : links) count(*link, 1);
    for (const auto& link : links) {
      if (!link->open() || link->outstanding() > 0 || now - link->idle_since() < patience.idle) continue;
      count(*link, -1);
      const bool spared = std::ranges::all_of(link->partitions(), [&](int partition) {
        return servers.is_own(partition) || open[partition] > 0;
      });
      spared ? link->sleep() : count(*link, 1);
    }
    count_open_links();
  }

  /// Whether these are there is to be known, now that `lost` is gone.
  void wake_others(const PeerLink& lost) {
    for (const auto& link : links)
      if (link->asleep() && std::ranges::any_of(lost.partitions(), [&](int p) { return link->has(p); }))
        link->wake();
  }

  /// With the mutex.
  void count_open_links() {
    open_links =
        static_cast<std::size_t>(std::ranges::count_if(links, [](const auto& link) { return link->open(); }));
  }
};

PeerNetwork::PeerNetwork(const DatasetMeta& meta, std::vector<int> own, const PeerOptions& options,
                         PeerService service, std::function<void()> while_waiting, PeerPatience patience)
    : impl_(std::make_unique<Impl>(meta, std::move(own), options, service, std::move(while_waiting),
                                   patience)) {}
PeerNetwork::~PeerNetwork() = default;

void PeerNetwork::wait_until_known() {
  Impl& s = *impl_;
  const Clock::time_point give_up = Clock::now() + s.options.connect_timeout;
  std::unique_lock lock(s.mutex);
  s.wait_until(lock, give_up, [&s] { return s.servers.settled(); });
  s.servers.require_all();
}

std::vector<int> PeerNetwork::servers() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->servers.by_partition();
}

PartitionPeers::Ticket PeerNetwork::ask(int partition, PeerBytes question) {
  Impl& s = *impl_;
  if (question.size() > (s.service == PeerService::kState ? kMaxStateMessage : kMaxPeerQuestion))
    throw Error(ErrorCode::kNoSpace,
                fmt::format("a question of {} bytes to another machine is too large; use smaller batches{}",
                            question.size(), s.service == PeerService::kState ? "" : " or fanouts"));
  const std::size_t bytes = question.size();
  const Ticket ticket = ++s.last;
  wire::add_checksum(question, ticket);
  {
    const std::lock_guard lock(s.mutex);
    ++s.counts.questions;
    s.counts.bytes_out += bytes;
    s.asked.emplace(ticket, Impl::Question{.partition = partition,
                                           .question = std::make_shared<const PeerBytes>(std::move(question)),
                                           .since = Clock::now(),
                                           .with = {},
                                           .late_at = {},
                                           .refused_by = {},
                                           .refusal = {},
                                           .answer = {},
                                           .error = {}});
    s.unsent.push_back(ticket);
  }
  if (s.service != PeerService::kPartitions) send_asked();
  return ticket;
}

void PeerNetwork::send_asked() {
  const std::lock_guard lock(impl_->mutex);
  impl_->tell();
}

PeerAnswer PeerNetwork::wait(Ticket ticket) {
  Impl& s = *impl_;
  std::unique_lock lock(s.mutex);
  const auto found = s.asked.find(ticket);
  require_valid(found != s.asked.end(), "an answer to another machine's question is taken twice");
  Impl::Question& question = found->second;  // stays where it is while others come and go
  s.tell();
  // The thread gives up questions after their deadline, so this ends.
  s.wait_until(lock, Clock::time_point::max(), [&question] { return question.done(); });
  const Impl::Question asked = std::move(question);
  s.asked.erase(ticket);
  if (asked.error) throw *asked.error;
  return asked.answer;
}

/// What is said to owners of state has its effect, whether somebody waits for the answer or not.
void PeerNetwork::drop(Ticket ticket) noexcept {
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->asked.find(ticket);
  if (found == impl_->asked.end()) return;
  if (impl_->service == PeerService::kState && !found->second.sent && !found->second.done())
    found->second.dropped = true;
  else
    impl_->asked.erase(found);
}

std::vector<MissingPartition> PeerNetwork::missing() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->servers.missing(Clock::now());
}

PeerNetwork::Counts PeerNetwork::counts() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->counts;
}

PartitionPeers::Asked PeerNetwork::take_counts() noexcept {
  const std::lock_guard lock(impl_->mutex);
  const Asked before = std::exchange(
      impl_->counted, {.questions = impl_->counts.questions, .twice = impl_->counts.asked_twice});
  return {.questions = impl_->counted.questions - before.questions,
          .twice = impl_->counted.twice - before.twice};
}

std::size_t PeerNetwork::open_connections() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->open_links;
}

}  // namespace hopfeed
