// See remote_stream.h.
#include "server_client_mode/client/remote_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "server_client_mode/client/connection_fillers.h"
#include "server_client_mode/client/first_contact.h"
#include "server_client_mode/client/offered_datasets.h"
#include "server_client_mode/client/row_cache.h"
#include "server_client_mode/client/server_list.h"
#include "stream/loader_source.h"

namespace hopfeed {
namespace {

namespace asio = wire::asio;

/// hopfeed's own sampler, or one that the server's operator has brought. Throws kNotFound naming what there
/// is.
std::string sampler_sha256(const std::string& name, const Contact& contact) {
  std::string known;
  for (const char* own :
       {BatchOptions::kNeighborSampler, BatchOptions::kWalkSampler, BatchOptions::kClusterSampler}) {
    if (name == own) return "";
    known += known.empty() ? own : std::string(", ") + own;
  }
  for (const wire::Offer::Sampler& sampler : contact.offer.samplers) {
    if (sampler.name == name) return sampler.sha256;
    known += ", " + sampler.name;
  }
  throw Error(ErrorCode::kNotFound,
              fmt::format("{} has no sampler '{}'; it has {}; start hopfeed-server with the plugin that "
                          "brings it (--plugin)",
                          contact.connection->peer(), name, known));
}

/// The job at a server that was called: its seeds and the spec of its batches, from the metadata alone.
struct Described {
  RemoteJob job;
  DatasetMeta meta;
  std::int64_t num_seeds = 0;
};

Described describe(asio::io_context& context, FirstContact& first, DatasetMeta meta,
                   const LoaderOptions& options) {
  const std::string sha = sampler_sha256(options.batch.sampler, first.contact);
  options.batch.validate();
  JobSource source = job_source(options, meta, [&](int node_type) {
    wire::GetClusters which;
    which.fingerprint = meta.fingerprint;
    which.node_type = meta.node_types[static_cast<std::size_t>(node_type)].name;
    which.attr = options.batch.cluster;
    std::vector<std::int64_t> ids;
    Questions questions(first.contact);
    run_to_end(context, {[&]() -> asio::awaitable<void> { ids = co_await questions.clusters(which); }},
               options.while_waiting);
    return ids;
  });
  Described described;
  described.job.spec = job_spec(options, meta, sha, source.packed);
  described.job.packed = std::move(source.packed);
  described.job.batch_size = options.deal.batch_size;
  described.job.check_finite = options.execution.check_finite;
  described.num_seeds = source.size;
  described.meta = std::move(meta);
  return described;
}

/// Opens the job at the server that was called, or where that one refuses at one of the others.
void open_job(asio::io_context& context, const RemoteExecution& remote, const Caller& caller,
              FirstContact& first, RemoteJob& job) {
  const auto open = [&](Contact& contact) -> asio::awaitable<void> {
    Questions questions(contact);
    job.opened = co_await questions.open(job);
  };
  try {
    return run_to_end(context, {[&] { return open(first.contact); }}, remote.while_waiting);
  } catch (const Error&) {
    std::vector<std::size_t> others = ring_from(first.server, remote.servers.size());
    others.erase(others.begin());
    if (others.empty()) throw;
    const std::exception_ptr refused = std::current_exception();
    try {
      first = talk_to_any(context, remote, caller, others, open);
    } catch (const Error&) {
      std::rethrow_exception(refused);
    }
  }
}

/// What was asked for, checked, with what both kinds of options say.
RemoteExecution checked(const RemoteExecution& given, const LoaderOptions& options) {
  given.validate();
  RemoteExecution remote = given;
  if (!remote.while_waiting) remote.while_waiting = options.while_waiting;
  options.deal.validate();
  options.execution.validate();
  require_valid(options.execution.gpu.graph_mode == GraphMode::kCpu,
                fmt::format("{} is {}, and servers sample where theirs says; give --graph-mode to "
                            "hopfeed-server, and leave it out here",
                            marked("graph_mode"), to_string(options.execution.gpu.graph_mode)));
  return remote;
}

/// Those that this rank connects to, of the servers that are named.
std::vector<std::size_t> servers_of_rank(const RemoteExecution& remote, const LoaderOptions& options) {
  std::vector<std::size_t> own =
      own_servers(remote.servers.size(), options.deal.rank, options.deal.world_size, remote.connect_all);
  require_valid(
      ConnectionFillers::records(own.size()) <= kMaxWorkers,
      fmt::format("this client would connect to {} servers, and has at most {} connections; name fewer, "
                  "or connect to its own share alone",
                  own.size(), kMaxWorkers / 2));
  return own;
}

/// What a channel that servers fill says of who fills it.
LoaderChannelOptions filled_by_servers(const RemoteExecution& remote, std::int64_t posts) {
  LoaderChannelOptions told;
  told.workers = posts;
  told.makers = "servers";
  told.maker_name = [servers = remote.servers](std::uint32_t worker) {
    const std::size_t server = worker / kWorkersOfServer;
    return fmt::format("server {} worker {}",
                       server < servers.size() ? servers[server].to_text() : std::to_string(server),
                       worker % kWorkersOfServer);
  };
  return told;
}

}  // namespace

std::unique_ptr<RemoteStream> RemoteStream::open(const RemoteExecution& given, const LoaderOptions& options) {
  const RemoteExecution remote = checked(given, options);
  Caller caller = caller_of(remote);
  caller.name += fmt::format(" rank {} of {}", options.deal.rank, options.deal.world_size);
  const std::vector<std::size_t> own = servers_of_rank(remote, options);
  auto context = std::make_unique<asio::io_context>(1);
  DatasetMeta meta;
  const auto ask_meta = [&](Contact& contact) -> asio::awaitable<void> {
    Questions questions(contact);
    meta = co_await questions.meta(remote.dataset);
  };
  FirstContact first =
      talk_to_any(*context, remote, caller, ring_from(own.front(), remote.servers.size()), ask_meta);
  check_offered(*context, remote, caller, compared_servers(own, remote.servers.size()), first, meta);
  Described described = describe(*context, first, std::move(meta), options);
  RemoteJob& job = described.job;
  check_deal(options, described.num_seeds);
  AgreedShare agreed = share_to_hold(remote, described.meta, job.spec.batch);
  job.held = agreed.share;
  open_job(*context, remote, caller, first, job);
  if (job.opened.num_seeds != described.num_seeds)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} has {} seeds for the job, and its meta.json says {}; see that server",
                            first.contact.connection->peer(), job.opened.num_seeds, described.num_seeds));
  const std::shared_ptr<const HeldRows> held =
      held_rows(*context, caller, first, remote, job, described.meta, std::move(agreed.agreement));

  const auto posts = static_cast<std::int64_t>(own.size());
  const std::int64_t ahead =
      remote.batches_ahead != 0 ? remote.batches_ahead : std::max<std::int64_t>(8, 4 * posts);
  std::unique_ptr<RemoteStream> stream(
      new RemoteStream(options, job.spec, std::move(described.meta), described.num_seeds,
                       2 * remote.batch_deadline + remote.reconnect_deadline));
  LoaderOptions filled = options;
  filled.execution.num_workers = ConnectionFillers::records(own.size());
  if (filled.execution.num_slots == 0) filled.execution.num_slots = std::min(ahead + 2, kMaxSlots);
  ChannelNeeds needs;
  needs.worst_block = job.opened.worst_block;
  stream->make_channel(filled, needs, filled_by_servers(remote, posts));
  ConnectionFillersOptions fillers;
  fillers.remote = remote;
  fillers.own = own;
  fillers.batches_ahead = ahead;
  fillers.job = std::move(job);
  fillers.held = held;
  if (held) stream->hold(held);
  stream->fillers_ = std::make_unique<ConnectionFillers>(stream->host(), std::move(context), caller,
                                                         std::move(first), std::move(fillers));
  stream->fillers_->wait_until_ready();
  return stream;
}

RemoteStream::RemoteStream(const LoaderOptions& options, BatchSpec spec, DatasetMeta meta,
                           std::int64_t num_seeds, std::chrono::milliseconds patience)
    : ChannelStream(options, std::move(spec), std::move(meta), num_seeds, patience) {}

RemoteStream::~RemoteStream() {
  if (!host()) return;              // its opening was refused
  if (!host()->in_own_process()) {  // thread, connections and slots are the other process's
    [[maybe_unused]] const SlotFillers* left_alone = fillers_.release();
    return;
  }
  fillers_.reset();
  host()->close();
}

}  // namespace hopfeed
