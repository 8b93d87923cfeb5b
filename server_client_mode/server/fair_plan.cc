// See fair_plan.h.
#include "server_client_mode/server/fair_plan.h"

#include <algorithm>
#include <bit>

namespace hopfeed {
namespace {

constexpr double kSoon = 50e-6;            // seconds of a batch that is worth staying awake for
constexpr double kUnknownSeconds = 0.001;  // of a batch of a job that nothing is known of
// Seconds that a client may lag behind after a rest: the way to it and back is no rest, and costs it nothing.
constexpr double kCredit = 0.05;
constexpr std::size_t kMaxDebts = 1'024;
// Worker seconds for which a worker is kept free for a client whose last short batch is made.
constexpr double kKeptFree = 2;
// Seeds of a batch that is taken for a short one before anything is known of its job.
constexpr std::int64_t kFewSeeds = 64;
constexpr double kNewest = 0.25;  // weight of the last batch among those before

void learn(double& known, double newest) { known += kNewest * (newest - known); }

}  // namespace

struct FairPlan::Client {
  std::uint64_t name = 0;
  std::string who;
  std::map<std::uint64_t, BatchRequest> waiting;  // by request
  double time = 0;                                // virtual
  double worker_seconds = 0;
  std::int64_t under_way = 0, blocks = 0;
  std::size_t expected_bytes = 0, block_bytes = 0;
  bool resting = true;  // nothing of it was under way or could be
  bool active = false;  // in active_

  std::int64_t slots() const { return under_way + blocks; }
};

FairPlan::FairPlan(const FairPlanOptions& options) : options_(options) {}
FairPlan::~FairPlan() = default;

void FairPlan::join(std::uint64_t client, const std::string& who) {
  auto joined = std::make_unique<Client>();
  joined->name = client;
  joined->who = who;
  if (const auto debt = debts_.find(who); debt != debts_.end()) joined->time = debt->second;
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
  std::erase_if(debts_, [&](const auto& debt) { return debt.second <= now_; });
  if (gone.who.empty() || gone.time <= now_) return;
  double& debt = debts_[gone.who];
  debt = std::max(debt, gone.time);
  if (debts_.size() > kMaxDebts)
    debts_.erase(std::ranges::min_element(debts_, {}, [](const auto& entry) { return entry.second; }));
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

void FairPlan::forget(std::uint32_t job) {
  std::erase_if(costs_, [&](const auto& known) { return known.first.job == job; });
}

FairPlan::Kind FairPlan::kind_of(const BatchRequest& batch) {
  return {.job = batch.job, .seeds = std::bit_width(static_cast<std::uint64_t>(batch.count))};
}

FairPlan::Cost FairPlan::cost_of(const BatchRequest& batch) const {
  const auto known = costs_.find(kind_of(batch));
  return known == costs_.end() ? Cost{.seconds = kUnknownSeconds, .bytes = 0} : known->second;
}

bool FairPlan::is_long(const BatchRequest& batch) const {
  const auto known = costs_.find(kind_of(batch));
  return known == costs_.end() ? batch.count > kFewSeeds : known->second.seconds >= options_.takes_long;
}

/// More would fix the order of what is planned long before it is made. A long batch is planned where a worker
/// is about to be free for it; the others share the workers that no long batch has.
bool FairPlan::room_for(bool is_long) const {
  if (is_long) {
    const bool keeps_one = worked_ - last_short_ < kKeptFree;
    return long_under_way_ < std::max<std::int64_t>(1, options_.workers - (keeps_one ? 1 : 0));
  }
  const std::int64_t workers = options_.workers - long_under_way_, planned = under_way() - long_under_way_;
  if (workers <= 0) return false;
  const double seconds = charged_ahead_ / static_cast<double>(workers);
  if (planned < workers || seconds < options_.ahead) return true;
  return planned < 2 * workers + 2 && seconds < options_.longest_ahead;
}

/// Whether the first batch of its kind is under way, which tells what the others cost. Until it is made they
/// wait: they may be of any size.
bool FairPlan::is_tried(const BatchRequest& batch) const {
  const Kind kind = kind_of(batch);
  return !costs_.contains(kind) &&
         std::ranges::any_of(under_way_, [&](const auto& entry) { return entry.second.kind == kind; });
}

/// Whether one more batch stays within the client's shares. One that has nothing may have one, whatever its
/// size: the lowest unfinished batch of the channel is always given its memory. Of the slots nobody has more
/// than are free (Choudhury, Hahne, "Dynamic Queue Length Thresholds", 1998): n clients that want all get one
/// part in n + 1 each, and whoever comes next finds a free one, also where those before take nothing.
bool FairPlan::may_have(const Client& client, const Cost& cost) const {
  if (client.slots() == 0) return true;
  const std::int64_t free = options_.slots - under_way() - blocks_;
  if (client.slots() >= free) return false;
  const std::size_t share = options_.bytes / (std::max<std::size_t>(1, active_.size()) + 1);
  return client.block_bytes + client.expected_bytes + static_cast<std::size_t>(cost.bytes) <= share;
}

/// Whether there is memory for it in all, or else nothing under way that it would wait for.
bool FairPlan::fits(const Cost& cost) const {
  return under_way_.empty() || bytes_in_use_ + static_cast<std::size_t>(cost.bytes) <= options_.bytes;
}

void FairPlan::drop_idle() {
  std::erase_if(active_, [](Client* client) {
    client->active = !client->waiting.empty() || client->slots() > 0;
    return !client->active;
  });
}

FairPlan::Client* FairPlan::pick() {
  drop_idle();
  Client* first = nullptr;
  double least = 0;
  for (Client* client : active_) {
    if (client->waiting.empty()) continue;
    const BatchRequest& next = client->waiting.begin()->second;
    if (is_tried(next) || !may_have(*client, cost_of(next))) {
      if (client->under_way == 0) client->resting = true;
      continue;
    }
    // Shorter ones may pass it. It never passes them: who has had least of all is next.
    if (is_long(next) && !room_for(true)) continue;
    const double time = client->resting ? std::max(client->time, now_ - kCredit) : client->time;
    if (first != nullptr && time >= least) continue;
    first = client;
    least = time;
  }
  if (first == nullptr || !room_for(is_long(first->waiting.begin()->second))) return nullptr;
  // Who is next and does not fit has others wait for it too: else small batches would never let it.
  if (!fits(cost_of(first->waiting.begin()->second))) return nullptr;
  first->resting = false;
  first->time = least;
  now_ = std::max(now_, least);
  return first;
}

std::optional<PlannedBatch> FairPlan::next() {
  if (waiting_ == 0) return {};
  Client* client = pick();
  if (client == nullptr) return {};
  const auto [request, batch] = *client->waiting.begin();
  client->waiting.erase(client->waiting.begin());
  --waiting_;
  const Cost cost = cost_of(batch);
  const bool takes_long = is_long(batch);
  const auto bytes = static_cast<std::size_t>(cost.bytes);
  client->time += cost.seconds;
  ++client->under_way;
  client->expected_bytes += bytes;
  bytes_in_use_ += bytes;
  if (takes_long) {
    ++long_under_way_;
  } else {
    charged_ahead_ += cost.seconds;
  }
  const std::uint64_t sequence = next_sequence_++;
  under_way_[sequence] = {.client = client->name,
                          .request = request,
                          .kind = kind_of(batch),
                          .charged = cost.seconds,
                          .bytes = bytes,
                          .is_long = takes_long};
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
  if (batch.is_long) {
    --long_under_way_;
  } else {
    const bool last = under_way() - long_under_way_ <= 1;
    charged_ahead_ = last ? 0 : charged_ahead_ - batch.charged;
  }
  rest_if_idle(client);
}

void FairPlan::rest_if_idle(Client& client) {
  if (client.waiting.empty() && client.under_way == 0) client.resting = true;
}

std::optional<FairPlan::Whose> FairPlan::made(const Made& batch) {
  const auto found = under_way_.find(batch.sequence);
  if (found == under_way_.end()) return {};
  const UnderWay under_way = found->second;
  forget_under_way(under_way);
  under_way_.erase(found);
  Client& client = *clients_.at(under_way.client);
  client.time += batch.seconds - under_way.charged;
  client.worker_seconds += batch.seconds;
  worked_ += batch.seconds;
  if (batch.bytes > 0 && batch.seconds < options_.takes_long) last_short_ = worked_;
  if (batch.bytes > 0) {
    const auto bytes = static_cast<double>(batch.bytes);
    const auto [cost, first] =
        costs_.try_emplace(under_way.kind, Cost{.seconds = batch.seconds, .bytes = bytes});
    if (!first) {
      learn(cost->second.seconds, batch.seconds);
      learn(cost->second.bytes, bytes);
    }
  }
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
  return under_way_.size() == 1 && long_under_way_ == 0 && waiting_ == 0 && charged_ahead_ < kSoon;
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
         !may_have(asks, cost_of(asks.waiting.begin()->second));
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
