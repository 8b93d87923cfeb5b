// See remote_stream.h.
#include "server_client_mode/client/remote_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/memory_limits.h"
#include "server_client_mode/client/connection_fillers.h"
#include "server_client_mode/client/first_contact.h"
#include "server_client_mode/client/server_list.h"
#include "worker_mode/loader_source.h"
#include "worker_mode/torchrun_environment.h"

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
    run_to_end(context, [&]() -> asio::awaitable<void> { ids = co_await questions.clusters(which); });
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
void open_job(asio::io_context& context, const RemoteOptions& remote, const Caller& caller,
              FirstContact& first, RemoteJob& job) {
  const auto open = [&](Contact& contact) -> asio::awaitable<void> {
    Questions questions(contact);
    job.opened = co_await questions.open(job);
  };
  try {
    return run_to_end(context, [&] { return open(first.contact); });
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

bool has_rows_beyond_an_answer(const DatasetMeta& meta, const BatchOptions& options) {
  return std::ranges::any_of(meta.node_types, [&](const NodeTypeMeta& node) {
    return std::ranges::any_of(node.attrs, [&](const AttrMeta& attr) {
      const bool carried =
          !options.attrs || std::ranges::find(*options.attrs, attr.name) != options.attrs->end();
      return carried && attr.row_bytes() > static_cast<std::int64_t>(kMaxRowsBytes);
    });
  });
}

/// As many rows as are wanted and fit.
HeldShare share_to_hold(const RemoteOptions& remote, const DatasetMeta& meta, const BatchOptions& options) {
  const HeldShare wanted{
      .millionths = static_cast<std::uint32_t>(remote.cache_ratio * static_cast<double>(HeldShare::kAll))};
  // Where batches carry no attributes there is nothing to hold; and a row that is longer than an answer
  // (kMaxRowsBytes) is not to be had.
  if (HeldRows::bytes_of(meta, options, wanted) == 0 || has_rows_beyond_an_answer(meta, options)) return {};
  const std::size_t room = available_memory().bytes / 4 / static_cast<std::size_t>(local_ranks().world);
  const HeldShare fits =
      HeldRows::fit(meta, options, wanted,
                    remote.cache_bytes != 0 ? std::min<std::size_t>(remote.cache_bytes, room) : room);
  require_valid(
      HeldRows::bytes_of(meta, options, fits) > 0 || remote.cache_bytes == 0,
      fmt::format("cache_bytes is {}, which has no room for one row of each partition; choose more, "
                  "or no cache",
                  remote.cache_bytes));
  return fits;
}

/// The rows of job.held from the server where the job is open. Null where nothing is to be held: also where
/// NaN is looked for and they have some, since it has to be found in each batch's turn.
std::shared_ptr<const HeldRows> load_held(asio::io_context& context, FirstContact& first,
                                          const RemoteJob& job, const DatasetMeta& meta) {
  if (!job.held.any()) return nullptr;
  const auto rows = std::make_shared<HeldRows>(meta, job.spec.batch, job.held);
  Questions questions(first.contact);
  for (const HeldRows::Run& run : rows->runs()) {
    const std::size_t row_bytes = run.rows.size() / static_cast<std::size_t>(run.count);
    const auto at_a_time = std::max<std::int64_t>(1, static_cast<std::int64_t>(kMaxRowsBytes / row_bytes));
    for (std::int64_t done = 0; done < run.count; done += at_a_time) {
      wire::GetRows which;
      which.fingerprint = meta.fingerprint;
      which.node_type = meta.node_types[static_cast<std::size_t>(run.node_type)].name;
      which.attr = run.attr;
      which.first = run.first + done;
      which.count = std::min(at_a_time, run.count - done);
      const std::span<std::byte> to = run.rows.subspan(static_cast<std::size_t>(done) * row_bytes,
                                                       static_cast<std::size_t>(which.count) * row_bytes);
      run_to_end(context, [&]() -> asio::awaitable<void> { co_await questions.rows(which, to); });
    }
  }
  first.draining = first.draining || questions.draining();
  return job.check_finite && !rows->finite() ? nullptr : rows;
}

}  // namespace

std::unique_ptr<RemoteStream> RemoteStream::open(const RemoteOptions& remote, const LoaderOptions& options) {
  remote.validate();
  options.deal.validate();
  options.execution.validate();
  Caller caller(remote);
  caller.name += fmt::format(" rank {} of {}", options.deal.rank, options.deal.world_size);
  const std::vector<std::size_t> own =
      own_servers(remote.servers.size(), options.deal.rank, options.deal.world_size, remote.connect_all);
  require_valid(
      ConnectionFillers::records(own.size()) <= kMaxWorkers,
      fmt::format("this client would connect to {} servers, and has at most {} connections; name fewer, "
                  "or connect to its own share alone",
                  own.size(), kMaxWorkers / 2));
  auto context = std::make_unique<asio::io_context>(1);
  DatasetMeta meta;
  const auto ask_meta = [&](Contact& contact) -> asio::awaitable<void> {
    Questions questions(contact);
    meta = co_await questions.meta(remote.dataset);
  };
  FirstContact first =
      talk_to_any(*context, remote, caller, ring_from(own.front(), remote.servers.size()), ask_meta);
  Described described = describe(*context, first, std::move(meta), options);
  RemoteJob& job = described.job;
  check_deal(options.deal, described.num_seeds);
  job.held = share_to_hold(remote, described.meta, job.spec.batch);
  open_job(*context, remote, caller, first, job);
  if (job.opened.num_seeds != described.num_seeds)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} has {} seeds for the job, and its meta.json says {}; see that server",
                            first.contact.connection->peer(), job.opened.num_seeds, described.num_seeds));
  const std::shared_ptr<const HeldRows> held = load_held(*context, first, job, described.meta);

  const auto posts = static_cast<std::int64_t>(own.size());
  const std::int64_t ahead =
      remote.batches_ahead != 0 ? remote.batches_ahead : std::max<std::int64_t>(8, 4 * posts);
  std::unique_ptr<RemoteStream> stream(
      new RemoteStream(options, job.spec, std::move(described.meta), described.num_seeds,
                       2 * remote.batch_deadline + remote.reconnect_deadline));
  LoaderOptions filled = options;
  filled.execution.num_workers = ConnectionFillers::records(own.size());
  if (filled.execution.num_slots == 0) filled.execution.num_slots = std::min(ahead + 2, kMaxSlots);
  LoaderChannelOptions told;
  told.workers = posts;
  told.makers = "servers";
  told.maker_name = [servers = remote.servers](std::uint32_t worker) {
    const std::size_t server = worker / kWorkersOfServer;
    return fmt::format("server {} worker {}",
                       server < servers.size() ? servers[server].to_text() : std::to_string(server),
                       worker % kWorkersOfServer);
  };
  ChannelNeeds needs;
  needs.worst_block = job.opened.worst_block;
  stream->make_channel(filled, needs, std::move(told));
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
