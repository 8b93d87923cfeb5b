// See session.h. Answers all questions but those of peers. What is long is done beside the event loop.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "cache/held_rows.h"
#include "core/base/failpoint.h"
#include "core/base/limits.h"
#include "core/dataset/row_gather.h"
#include "core/sampler/cluster_sampler.h"
#include "server_client_mode/server/session.h"

namespace hopfeed {
namespace {

using wire::FrameType;

constexpr std::uint64_t kFirstOfSeeds = 64 << 10, kStepOfSeeds = 4 << 20;  // memory for them, as they come
constexpr std::size_t kSeedsInOneTurn = 256 << 10;

Error too_many_clients(std::int64_t clients) {
  return {
      ErrorCode::kNoSpace,
      fmt::format("the server has {} clients, as many as it takes (--max-clients); use another one, or come "
                  "back later",
                  clients)};
}

}  // namespace

wire::asio::awaitable<void> Session::answer_question(const wire::FrameHeader& header,
                                                     const wire::Bytes& payload, bool& understood) {
  if (header.type == FrameType::kGetMeta) {
    const auto title = wire::from_bytes<std::string>(payload);
    understood = true;
    const ServedDataset& dataset = server_.datasets.by_title(title);
    std::shared_ptr<const wire::Bytes>& meta = server_.metas[&dataset];
    if (!meta) meta = std::make_shared<const wire::Bytes>(wire::to_bytes(dataset.meta_text));
    connection_->send(FrameType::kMeta, header.request, meta);
  } else if (header.type == FrameType::kGetPartitions) {
    const auto fingerprint = wire::from_bytes<std::string>(payload);
    understood = true;
    asked_of_ = &server_.peers.dataset(fingerprint);
    if (role_ == Role::kOnlooker) become(Role::kMachine);
    wire::Partitions told = PeerAnswers::partitions_of(*asked_of_);
    told.keeps_state = server_.state != nullptr;
    told.keeps_results = server_.results != nullptr;
    connection_->send(FrameType::kPartitions, header.request, wire::to_bytes(told));
  } else if (header.type == FrameType::kOpen) {
    wire::Open open;
    std::string content;
    // It may be long, and reading it take milliseconds.
    co_await work_beside(server_.beside.get_executor(), [&payload, &open, &content] {
      FAILPOINT("server.read_open");
      open = wire::from_bytes<wire::Open>(payload);
      content = open.spec.to_json();
    });
    understood = true;
    co_await open_job(header.request, open, std::move(content));
  } else if (header.type == FrameType::kGetRows) {
    const auto asked = wire::from_bytes<wire::GetRows>(payload);
    understood = true;
    co_await send_rows(header.request, asked);
  } else {
    const auto asked = wire::from_bytes<wire::GetClusters>(payload);
    understood = true;
    co_await send_clusters(header.request, asked);
  }
}

/// Meanwhile nothing is read, so silence of the client means nothing; tick() sends it signs of life.
wire::asio::awaitable<void> Session::work_beside(wire::asio::any_io_executor where,
                                                 std::function<void()> work) {
  heartbeat_.set_deaf(true);
  std::exception_ptr failure;
  try {
    co_await run_on(where, std::move(work));
  } catch (...) {
    failure = std::current_exception();
  }
  heartbeat_.set_deaf(false);
  if (failure) std::rethrow_exception(failure);
}

std::int64_t& Session::count_of(Role role) {
  return role == Role::kClient    ? server_.clients
         : role == Role::kMachine ? server_.machines
                                  : server_.onlookers;
}

void Session::become(Role role) {
  if (role_ != Role::kStranger) --count_of(role_);
  role_ = role;
  ++count_of(role_);
}

/// Takes a client's place while a job is opened. Who gets none goes on as what it was.
class Session::Opening {
 public:
  explicit Opening(Session& session) : session_(session), before_(session.role_) {
    ServerContext& server = session.server_;
    if (before_ == Role::kClient) return;
    if (server.clients >= server.options.max_clients) {
      ++server.totals.refused_connections;
      throw too_many_clients(server.clients);
    }
    session.become(Role::kClient);
  }
  ~Opening() {
    if (!done_) session_.become(before_);
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
  void done() { done_ = true; }

 private:
  Session& session_;
  const Role before_;
  bool done_ = false;
};

wire::asio::awaitable<void> Session::open_job(std::uint64_t question, const wire::Open& open,
                                              std::string content) {
  require_valid(!jobs_.contains(open.job), fmt::format("job {} is open already; close it first", open.job));
  require_valid(std::ssize(jobs_) < kMaxJobsPerClient,
                fmt::format("{} jobs are open; close some first", jobs_.size()));
  Opening opening(*this);
  std::shared_ptr<const StoredSeeds> seeds;
  if (!open.spec.seeds.sha256.empty()) {
    seeds = server_.seeds.find(open.spec.seeds.sha256);
    if (!seeds) {
      connection_->send(FrameType::kUnknownSeeds, question);
      co_return;
    }
  }
  JobTable::Opened opened;
  const auto turn = server_.openers.turn(content, open.spec.sampler_sha256.empty());
  co_await work_beside(*turn, [this, &opened, &open, &seeds] {
    opened = server_.jobs.open(open, std::move(seeds));
    if (open.held.any())
      opened.answer.held_order =
          held_order(server_.datasets.by_fingerprint(open.spec.fingerprint).dataset->meta(), open.held);
  });
  opening.done();
  jobs_[open.job] = {.job = opened.job,
                     .batch_size = open.batch_size,
                     .num_seeds = opened.answer.num_seeds,
                     .held = open.held};
  server_.log.add("job_opened", {{"client", name_},
                                 {"job", std::to_string(opened.job)},
                                 {"dataset", open.spec.dataset},
                                 {"sampler", open.spec.batch.sampler},
                                 {"batch_size", std::to_string(open.batch_size)}});
  connection_->send(FrameType::kOpened, question, wire::to_bytes(opened.answer));
}

void Session::close_job(std::uint32_t number) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return;
  server_.jobs.close(found->second.job);
  jobs_.erase(found);
}

wire::asio::awaitable<void> Session::take_seeds(const wire::FrameHeader& header) {
  std::shared_ptr<StoredSeeds> seeds;
  std::optional<Error> refusal;
  const std::uint64_t bytes = header.bytes;
  // Memory is taken step by step, each no larger than what has come before it.
  for (std::uint64_t come = 0, step = 0; come < bytes; come += step) {
    step = std::min(bytes - come, std::clamp(come, kFirstOfSeeds, kStepOfSeeds));
    try {
      if (!seeds) seeds = server_.seeds.make(bytes);
      co_await work_beside(server_.beside.get_executor(),
                           [this, &seeds, come, step] { server_.seeds.grow(*seeds, come + step); });
    } catch (const Error& error) {
      refusal = error;
    }
    if (refusal) {
      seeds.reset();
      co_await connection_->skip(bytes - come);
      break;
    }
    for (std::span<std::byte> rest = seeds->bytes().subspan(come, step); !rest.empty();) {
      const std::size_t part = std::min(rest.size(), kSeedsInOneTurn);
      co_await connection_->read(rest.first(part));
      rest = rest.subspan(part);
    }
  }
  if (!seeds && !refusal) refusal.emplace(ErrorCode::kInvalid, "the given seeds are empty; give some");
  if (refusal) {
    connection_->send_refusal(FrameType::kRefused, header.request, server_.datasets.told(*refusal));
    co_return;
  }
  std::string sha256;
  co_await work_beside(server_.beside.get_executor(),
                       [this, &seeds, &sha256] { sha256 = server_.seeds.keep(seeds); });
  server_.log.add("seeds_kept", {{"client", name_}, {"bytes", std::to_string(bytes)}, {"sha256", sha256}});
  connection_->send(FrameType::kSeedsKept, header.request);
}

wire::asio::awaitable<void> Session::send_clusters(std::uint64_t question, const wire::GetClusters& asked) {
  const Dataset& dataset = *server_.datasets.by_fingerprint(asked.fingerprint).dataset;
  std::vector<std::int64_t> ids;
  co_await work_beside(server_.beside.get_executor(), [&dataset, &asked, &ids] {
    ids = cluster_seeds(dataset, dataset.meta().node_type(asked.node_type), asked.attr);
  });
  connection_->send(FrameType::kIds, question, std::as_bytes(std::span(ids)));
}

wire::asio::awaitable<void> Session::send_rows(std::uint64_t question, const wire::GetRows& asked) {
  const Dataset& dataset = *server_.datasets.by_fingerprint(asked.fingerprint).dataset;
  const int type = dataset.meta().node_type(asked.node_type);
  dataset.require_whole("a client that holds rows (--cache)");
  const AttrView attr = dataset.attr(type, asked.attr);
  const std::int64_t rows = dataset.num_nodes(type);
  require_valid(
      asked.first < rows && asked.count <= rows - asked.first,
      fmt::format("{} rows from row {} of '{}'; there are {}", asked.count, asked.first, asked.attr, rows));
  require_valid(
      asked.count <= static_cast<std::int64_t>(kMaxRowsBytes) / std::max<std::int64_t>(1, attr.row_bytes),
      fmt::format("{} rows of {} bytes; at most {} bytes are sent at a time", asked.count, attr.row_bytes,
                  kMaxRowsBytes));
  // They are long: one who asks and does not read has memory for one such answer.
  if (connection_->queued_frames() > 0) co_await connection_->flush();
  const auto answer = std::make_shared<wire::Bytes>(static_cast<std::size_t>(asked.count * attr.row_bytes));
  co_await work_beside(server_.beside.get_executor(), [&asked, &attr, &answer] {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(asked.count));
    std::iota(ids.begin(), ids.end(), asked.first);
    gather_rows(attr, ids, answer->data());
  });
  connection_->send(FrameType::kRows, question, std::shared_ptr<const wire::Bytes>(answer));
}

}  // namespace hopfeed
