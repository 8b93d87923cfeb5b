// See fair_plan.h.
#include "server_client_mode/server/fair_plan.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace hopfeed {
namespace {

constexpr double kSoon = 50e-6;  // seconds of a batch that is worth staying awake for
constexpr std::size_t kMaxDebts = 1'024;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

struct FairPlan::Client {
  std::uint64_t name = 0;
  std::string who;
  std::map<std::uint64_t, BatchRequest> waiting;  // by request
  OfQueues<Turn> turns;                           // within each queue
  Queue last = kShort;                            // that it was served from
  double worker_seconds = 0;
  std::int64_t under_way = 0, blocks = 0;
  std::size_t expected_bytes = 0, block_bytes = 0;
  bool active = false;  // in active_

  std::int64_t slots() const { return under_way + blocks; }
  /// Nothing of it is under way, or could be.
  void rest() {
    for (Turn& turn : turns) turn.resting = true;
  }
};

FairPlan::FairPlan(const FairPlanOptions& options) : options_(options), costs_(options.takes_long) {}
FairPlan::~FairPlan() = default;

void FairPlan::join(std::uint64_t client, const std::string& who) {
  auto joined = std::make_unique<Client>();
  joined->name = client;
  joined->who = who;
  if (const auto debt = debts_.find(who); debt != debts_.end())
    for (const Queue queue : {kShort, kLong}) joined->turns[queue].time = debt->second[queue];
  clients_[client] = std::move(joined);
}

std::vector<std::uint64_t> FairPlan::leave(std::uint64_t client) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return {};
  std::vector<std::uint64_t> sequences;
  for (const auto& [sequence, batch] : under_way_) {
    if (batch.client == client) sequences.push_back(sequence);
  }
  for (std::uint64_t sequence : sequences) {
    forget_under_way(under_way_.at(sequence));
    under_way_.erase(sequence);
  }
  Client& gone = *found->second;
  remember_debt(gone);
  waiting_ -= std::ssize(gone.waiting);
  bytes_in_use_ -= gone.block_bytes;
  blocks_ -= gone.blocks;
  std::erase(active_, &gone);
  if (asked_short_[1].client == client) asked_short_[1] = {};
  if (asked_short_[0].client == client) asked_short_[0] = std::exchange(asked_short_[1], {});
  clients_.erase(found);
  return sequences;
}

void FairPlan::push(std::uint64_t client, std::uint64_t request, const BatchRequest& batch) {
  Client& asks = *clients_.at(client);
  if (asks.waiting.insert_or_assign(request, batch).second) ++waiting_;
  if (asks.active) return;
  asks.active = true;
  active_.push_back(&asks);
}

/// What is owed as long as the others have not caught up with it. Of too many the oldest debts, which are the
/// smallest, go first.
void FairPlan::remember_debt(const Client& gone) {
  const auto owed = [&](const OfQueues<double>& times) {
    return std::max(times[kShort] - within_[kShort].now(), times[kLong] - within_[kLong].now());
  };
  std::erase_if(debts_, [&](const auto& debt) { return owed(debt.second) <= 0; });
  const OfQueues<double> times{gone.turns[kShort].time, gone.turns[kLong].time};
  if (gone.who.empty() || owed(times) <= 0) return;
  OfQueues<double>& debt = debts_.try_emplace(gone.who, times).first->second;
  for (const Queue queue : {kShort, kLong}) debt[queue] = std::max(debt[queue], times[queue]);
  if (debts_.size() > kMaxDebts)
    debts_.erase(std::ranges::min_element(debts_, {}, [&](const auto& entry) { return owed(entry.second); }));
}

void FairPlan::withdraw(std::uint64_t client, std::uint64_t request) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  if (found->second->waiting.erase(request) > 0) {
    --waiting_;
    return;
  }
  for (auto& [sequence, batch] : under_way_) {
    if (batch.client == client && batch.request == request) batch.withdrawn = true;
  }
}

std::vector<std::uint64_t> FairPlan::refuse(std::uint32_t job) {
  for (const auto& [name, client] : clients_)
    waiting_ -= static_cast<std::int64_t>(
        std::erase_if(client->waiting, [&](const auto& entry) { return entry.second.job == job; }));
  std::vector<std::uint64_t> sequences;
  for (const auto& [sequence, batch] : under_way_) {
    if (batch.kind.job == job) sequences.push_back(sequence);
  }
  for (std::uint64_t sequence : sequences) {
    forget_under_way(under_way_.at(sequence));
    under_way_.erase(sequence);
  }
  return sequences;
}

// ---- planning

double FairPlan::now() const { return options_.clock ? options_.clock() : steady_seconds(); }

void FairPlan::note_short(const Client& client) {
  if (asked_short_[0].client != client.name) asked_short_[1] = asked_short_[0];
  asked_short_[0] = {.client = client.name, .when = now()};
}

/// Whether others asked for short batches lately.
bool FairPlan::leaves_one_free(const Client& client) const {
  const AskedShort& other = asked_short_[asked_short_[0].client == client.name ? 1 : 0];
  return now() - other.when < options_.kept_free;
}

/// More would fix the order of what is planned long before it is made: a long batch is planned where a worker
/// is about to be free for it, and the short ones share the workers that no long one has.
bool FairPlan::room_for_long(const Client& client) const {
  const std::int64_t workers = options_.workers - (leaves_one_free(client) ? 1 : 0);
  return under_way_of_[kLong] < std::max<std::int64_t>(1, workers);
}

bool FairPlan::room_for_short() const {
  const std::int64_t workers = options_.workers - under_way_of_[kLong], planned = under_way_of_[kShort];
  if (workers <= 0) return false;
  const double seconds = charged_ahead_[kShort] / static_cast<double>(workers);
  if (planned < workers || seconds < options_.ahead) return true;
  return planned < 2 * workers + 2 && seconds < options_.longest_ahead;
}

/// Whether the first batch of its kind is under way, which tells what the others cost. Until it is made they
/// wait: they may be of any size.
bool FairPlan::is_tried(const BatchRequest& batch) const {
  const BatchCosts::Kind kind = BatchCosts::kind_of(batch);
  return !costs_.knows(kind) &&
         std::ranges::any_of(under_way_, [&](const auto& entry) { return entry.second.kind == kind; });
}

/// Whether one more batch stays within the client's shares. One that has nothing may have one, whatever its
/// size: the lowest unfinished batch of the channel is always given its memory. Of the slots nobody has more
/// than are free (Choudhury, Hahne, "Dynamic Queue Length Thresholds", 1998): n clients that want all get one
/// part in n + 1 each, and whoever comes next finds a free one, also where those before take nothing.
bool FairPlan::may_have(const Client& client, const BatchCosts::Cost& cost) const {
  if (client.slots() == 0) return true;
  const std::int64_t free = options_.slots - under_way() - blocks_;
  if (client.slots() >= free) return false;
  const std::size_t share = options_.bytes / (std::max<std::size_t>(1, active_.size()) + 1);
  return client.block_bytes + client.expected_bytes + static_cast<std::size_t>(cost.bytes) <= share;
}

/// Whether there is memory for it in all, or else nothing under way that it would wait for.
bool FairPlan::fits(const BatchCosts::Cost& cost) const {
  return under_way_.empty() || bytes_in_use_ + static_cast<std::size_t>(cost.bytes) <= options_.bytes;
}

void FairPlan::drop_idle() {
  std::erase_if(active_, [](Client* client) {
    client->active = !client->waiting.empty() || client->slots() > 0;
    return !client->active;
  });
}

/// Who is next in each queue, and how many clients each has. In the long one only who has room.
FairPlan::OfQueues<FairPlan::Picked> FairPlan::least_of_queues() {
  OfQueues<Picked> least;
  clients_of_ = {};
  for (Client* client : active_) {
    if (client->waiting.empty()) {
      if (client->under_way > 0) ++clients_of_[client->last];
      continue;
    }
    const BatchRequest& next = client->waiting.begin()->second;
    const Picked candidate{.client = client, .cost = costs_.of(next)};
    const Queue queue = candidate.queue();
    const bool can_be = !is_tried(next) && may_have(*client, candidate.cost);
    if (!can_be && client->under_way == 0) client->rest();
    if (can_be || client->under_way > 0) ++clients_of_[queue];
    if (!can_be || (queue == kLong && !room_for_long(*client))) continue;
    const auto start = [&](const Client* one) { return within_[queue].start(one->turns[queue]); };
    if (least[queue].client == nullptr || start(client) < start(least[queue].client))
      least[queue] = candidate;
  }
  return least;
}

std::optional<FairPlan::Picked> FairPlan::pick() {
  drop_idle();
  const OfQueues<Picked> least = least_of_queues();
  std::optional<Queue> first;
  for (const Queue queue : {kShort, kLong}) {
    if (least[queue].client == nullptr) {
      queues_[queue].resting = true;  // what it cannot use now is the other's
    } else if (!first || between_.start(queues_[queue]) < between_.start(queues_[*first])) {
      first = queue;
    }
  }
  // Long ones never pass the short: else these would not get their share where they are many.
  if (!first || (*first == kShort && !room_for_short())) return {};
  const Picked& picked = least[*first];
  // Who is next and does not fit has others wait for it too: else small batches would never let it.
  if (!fits(picked.cost)) return {};
  between_.serve(queues_[*first]);
  within_[*first].serve(picked.client->turns[*first]);
  picked.client->turns[*first == kShort ? kLong : kShort].resting = true;
  picked.client->last = *first;
  if (*first == kShort) note_short(*picked.client);
  return picked;
}

void FairPlan::charge(Client& client, Queue queue, double seconds) {
  client.turns[queue].time += seconds;
  queues_[queue].time += seconds / static_cast<double>(std::max<std::int64_t>(1, clients_of_[queue]));
}

std::optional<PlannedBatch> FairPlan::next() {
  if (waiting_ == 0) return {};
  const std::optional<Picked> picked = pick();
  if (!picked) return {};
  Client& client = *picked->client;
  const auto [request, batch] = *client.waiting.begin();
  client.waiting.erase(client.waiting.begin());
  --waiting_;
  const auto bytes = static_cast<std::size_t>(picked->cost.bytes);
  charge(client, picked->queue(), picked->cost.seconds);
  ++client.under_way;
  client.expected_bytes += bytes;
  bytes_in_use_ += bytes;
  ++under_way_of_[picked->queue()];
  charged_ahead_[picked->queue()] += picked->cost.seconds;
  const std::uint64_t sequence = next_sequence_++;
  under_way_[sequence] = {.client = client.name,
                          .request = request,
                          .kind = BatchCosts::kind_of(batch),
                          .queue = picked->queue(),
                          .charged = picked->cost.seconds,
                          .bytes = bytes};
  return PlannedBatch{.sequence = sequence,
                      .epoch = batch.epoch,
                      .first = batch.first,
                      .count = batch.count,
                      .job = batch.job,
                      .held = batch.held,
                      .expected_bytes = bytes};
}

// ---- what became of it

/// It is no longer under way. The charge stays: what was made of it by now took its time.
void FairPlan::forget_under_way(const UnderWay& batch) {
  Client& client = *clients_.at(batch.client);
  --client.under_way;
  client.expected_bytes -= batch.bytes;
  bytes_in_use_ -= batch.bytes;
  charged_ahead_[batch.queue] =
      --under_way_of_[batch.queue] == 0 ? 0 : charged_ahead_[batch.queue] - batch.charged;
  rest_if_idle(client);
}

void FairPlan::rest_if_idle(Client& client) {
  if (client.waiting.empty() && client.under_way == 0) client.rest();
}

std::optional<FairPlan::Whose> FairPlan::made(const Made& batch) {
  const auto found = under_way_.find(batch.sequence);
  if (found == under_way_.end()) return {};
  const UnderWay under_way = found->second;
  forget_under_way(under_way);
  under_way_.erase(found);
  Client& client = *clients_.at(under_way.client);
  charge(client, under_way.queue, batch.seconds - under_way.charged);
  client.worker_seconds += batch.seconds;
  if (batch.bytes > 0) costs_.learn(under_way.kind, batch.seconds, batch.bytes);
  if (under_way.withdrawn) return {};
  if (batch.bytes > 0) {
    ++client.blocks;
    ++blocks_;
    client.block_bytes += batch.bytes;
    bytes_in_use_ += batch.bytes;
  }
  return Whose{.client = under_way.client, .request = under_way.request, .job = under_way.kind.job};
}

bool FairPlan::expects_soon() const {
  return under_way_.size() == 1 && under_way_of_[kShort] == 1 && waiting_ == 0 &&
         charged_ahead_[kShort] < kSoon;
}

void FairPlan::freed(std::uint64_t client, std::size_t bytes) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  --found->second->blocks;
  --blocks_;
  found->second->block_bytes -= bytes;
  bytes_in_use_ -= bytes;
}

bool FairPlan::held_back(std::uint64_t client) const {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return false;
  const Client& asks = *found->second;
  return !asks.waiting.empty() && asks.under_way == 0 && asks.blocks > 0 &&
         !may_have(asks, costs_.of(asks.waiting.begin()->second));
}

std::optional<std::uint64_t> FairPlan::lowest(std::uint64_t client) const {
  const auto found = clients_.find(client);
  if (found == clients_.end() || found->second->waiting.empty()) return {};
  return found->second->waiting.begin()->first;
}

FairPlan::ClientLoad FairPlan::load(std::uint64_t client) const {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return {};
  const Client& asks = *found->second;
  return {.waiting = std::ssize(asks.waiting),
          .under_way = asks.under_way,
          .blocks = asks.blocks,
          .block_bytes = asks.block_bytes,
          .worker_seconds = asks.worker_seconds};
}

}  // namespace hopfeed
