// See results_peers.h.
#include "peers/results_peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "wire/caller.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBlockBytes = std::size_t{8} << 20;  // of rows
constexpr std::size_t kBlocksUnderWay = 4;
constexpr std::chrono::milliseconds kShortestSleep = 10ms, kLongestSleep = 100ms;
constexpr std::chrono::milliseconds kStep = 100ms;  // of `while_waiting`

}  // namespace

/// The questions of one fetch in their order: blocks of its rows. Rows that may not be there yet are not
/// named in vain: a block that is waited for is asked for its last row alone until that is there, and what
/// follows it is asked for ahead only behind blocks that were there.
class ResultsPeers::Blocks {
 public:
  struct Block {
    std::size_t first = 0, count = 0;
    bool last_alone = false;  // is asked for
    PartitionPeers::Ticket ticket = 0;
    Clock::time_point asked;

    std::size_t rows() const { return last_alone ? 1 : count; }
  };
  Blocks(PeerNetwork& network, ResultsQuestion question, std::size_t row_bytes)
      : network_(network),
        question_(std::move(question)),
        rows_(question_.rows),
        height_(std::max<std::size_t>(kBlockBytes / std::max<std::size_t>(row_bytes, 1), 1)) {}
  /// Nobody waits for what is left.
  ~Blocks() {
    for (const Block& block : asked_) network_.drop(block.ticket);
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  /// Asks as far ahead as may be. False: all are there.
  bool ask_ahead() {
    for (; next_ < rows_.size() && asked_.size() < ahead_; next_ += asked_.back().count) {
      asked_.push_back(
          {.first = next_, .count = std::min(height_, rows_.size() - next_), .last_alone = next_ == 0});
      ask(asked_.back());
    }
    return !asked_.empty();
  }
  Block& front() { return asked_.front(); }
  /// Its rows were there.
  void pop() {
    asked_.pop_front();
    ahead_ = std::min(2 * ahead_, kBlocksUnderWay);
  }
  /// The front's last row is there.
  void ask_for_all() {
    front().last_alone = false;
    ask(front());
  }
  /// The front's rows are not there.
  void ask_for_the_last() {
    ahead_ = 1;
    front().last_alone = true;
    ask(front());
  }

 private:
  void ask(Block& block) {
    question_.rows = rows_.subspan(block.first + block.count - block.rows(), block.rows());
    block.asked = Clock::now();
    block.ticket = network_.ask(static_cast<int>(question_.partition), write_results_question(question_));
  }

  PeerNetwork& network_;
  ResultsQuestion question_;
  const std::span<const std::uint32_t> rows_;
  const std::size_t height_;
  std::size_t next_ = 0;  // of rows_
  std::size_t ahead_ = 1;
  std::deque<Block> asked_;
};

ResultsPeers::ResultsPeers(const DatasetMeta& meta, std::vector<int> own, const PeerOptions& options,
                           std::function<void()> while_waiting)
    : own_(std::move(own)),
      options_(options),
      while_waiting_(std::move(while_waiting)),
      network_(meta, own_, options, PeerService::kResults, while_waiting_) {
  network_.wait_until_known();
}

void ResultsPeers::fetch(RunId run, const LayerName& name, int partition, std::span<const std::uint32_t> rows,
                         std::int64_t row_bytes, std::byte* out) try {
  const auto each = static_cast<std::size_t>(row_bytes);
  Blocks blocks(network_,
                {.ask = ResultsAsk::kRows,
                 .partition = static_cast<std::uint32_t>(partition),
                 .run = run,
                 .name = name,
                 .rows = rows},
                each);
  Clock::time_point at_work = Clock::now(), paused = at_work;  // somebody was, there; the end of a pause
  wire::Backoff pause(kShortestSleep, kLongestSleep);
  while (blocks.ask_ahead()) {
    Blocks::Block& block = blocks.front();
    const PeerAnswer bytes = network_.wait(block.ticket);
    const ResultsAnswer answer = read_answer(partition, *bytes, block.rows(), each);
    const Clock::time_point now = Clock::now();
    if (answer.says == ResultsSays::kRows) {
      at_work = now;
      pause.reset();
      if (block.rows() < block.count) {
        blocks.ask_for_all();
        continue;
      }
      std::ranges::copy(answer.rows, out + block.first * each);
      rows_ += static_cast<std::int64_t>(block.count);
      blocks.pop();
      continue;
    }
    if (block.asked >= paused) {  // else it is an old answer
      if (answer.says == ResultsSays::kNotYet) at_work = now;
      if (now - at_work > options_.deadline) throw_nobody(partition, answer.says);
      sleep(pause.next());
      paused = Clock::now();
    }
    blocks.ask_for_the_last();
  }
} catch (const Error& error) {
  if (error.code() != ErrorCode::kPeerDied) throw;
  throw Error(ErrorCode::kTimeout, error.message());
}

/// What makes no sense names who has said it.
ResultsAnswer ResultsPeers::read_answer(int partition, std::span<const std::byte> bytes, std::size_t count,
                                        std::size_t row_bytes) const {
  try {
    return read_results_answer(bytes, count, row_bytes);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("server {}: {}", server_of(partition), error.message()));
  }
}

void ResultsPeers::throw_nobody(int partition, ResultsSays says) const {
  if (says == ResultsSays::kAnotherRun)
    throw Error(
        ErrorCode::kInvalid,
        fmt::format("{} computes another run (model, options, dataset, Torch or processor differ), for "
                    "{} ms ({}); start the same run on all machines",
                    server_of(partition), options_.deadline.count(), marked("peer_deadline")));
  throw Error(ErrorCode::kTimeout,
              fmt::format("nobody computes rows of partition {} at {}, for {} ms ({}); start the same run "
                          "there, on the machine with partition {}, in the folder that its server serves",
                          partition, server_of(partition), options_.deadline.count(), marked("peer_deadline"),
                          partition));
}

bool ResultsPeers::note_fetched(RunId run, const LayerName& name, bool wait) {
  const std::vector<int> servers = network_.servers();
  std::vector<int> told;
  std::vector<std::pair<int, int>> left;  // a partition of each other server, and one of ours
  for (std::size_t p = 0; p < servers.size(); ++p) {
    const bool ours = std::ranges::find(own_, static_cast<int>(p)) != own_.end();
    if (ours || std::ranges::find(told, servers[p]) != told.end()) continue;
    told.push_back(servers[p]);
    for (const int own : own_) left.emplace_back(static_cast<int>(p), own);
  }
  const Clock::time_point begin = Clock::now();
  wire::Backoff pause(kShortestSleep, kLongestSleep);
  while (true) {
    std::vector<PartitionPeers::Ticket> tickets;
    for (const auto& [other, own] : left)
      tickets.push_back(
          network_.ask(other, write_results_question({.ask = ResultsAsk::kFetched,
                                                      .partition = static_cast<std::uint32_t>(own),
                                                      .run = run,
                                                      .name = name})));
    std::vector<std::pair<int, int>> refused;
    for (std::size_t i = 0; i < tickets.size(); ++i)
      if (!is_noted(left[i].first, tickets[i])) refused.push_back(left[i]);
    left = std::move(refused);
    if (left.empty()) return true;
    if (!wait || Clock::now() - begin > options_.deadline) return false;
    sleep(pause.next());
  }
}

/// False: nobody answers, or the server's folder is not the run's.
bool ResultsPeers::is_noted(int partition, PartitionPeers::Ticket ticket) {
  try {
    return read_answer(partition, *network_.wait(ticket), 0, 0).says == ResultsSays::kNoted;
  } catch (const Error&) {
    return false;
  }
}

/// In steps, between which `while_waiting` is called.
void ResultsPeers::sleep(std::chrono::milliseconds time) const {
  const Clock::time_point end = Clock::now() + time;
  for (Clock::time_point now = Clock::now(); now < end; now = Clock::now()) {
    std::this_thread::sleep_until(while_waiting_ ? std::min(end, now + kStep) : end);
    if (while_waiting_) while_waiting_();
  }
}

std::string ResultsPeers::server_of(int partition) const {
  const int server = network_.servers()[static_cast<std::size_t>(partition)];
  return server < 0 ? fmt::format("the server of partition {}", partition)
                    : options_.peers[static_cast<std::size_t>(server)];
}

ResultsPeers::Counts ResultsPeers::counts() const {
  const PeerNetwork::Counts counts = network_.counts();
  return {.questions = counts.questions,
          .rows = rows_,
          .bytes_out = counts.bytes_out,
          .bytes_in = counts.bytes_in};
}

}  // namespace hopfeed
