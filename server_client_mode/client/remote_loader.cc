// See remote_loader.h.
#include "server_client_mode/client/remote_loader.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "server_client_mode/client/first_contact.h"
#include "server_client_mode/client/remote_stream.h"

namespace hopfeed {
namespace {

/// One question to any of the servers.
void ask_any(const RemoteExecution& remote,
             const std::function<wire::asio::awaitable<void>(Questions&)>& question) {
  remote.validate();
  const Caller caller = caller_of(remote);
  wire::asio::io_context context(1);
  talk_to_any(context, remote, caller, ring_from(0, remote.servers.size()),
              [&](Contact& contact) -> wire::asio::awaitable<void> {
                Questions questions(contact);
                co_await question(questions);
              });
}

DatasetMeta meta_of(const RemoteExecution& remote) {
  DatasetMeta meta;
  ask_any(remote, [&](Questions& questions) -> wire::asio::awaitable<void> {
    meta = co_await questions.meta(remote.dataset);
  });
  return meta;
}

}  // namespace

RemoteLoader::RemoteLoader(const RemoteExecution& remote, const LoaderOptions& options)
    : stream_(RemoteStream::open(remote, options)) {}
RemoteLoader::~RemoteLoader() = default;

void RemoteLoader::begin_epoch(std::int64_t epoch, std::int64_t start) { stream_->begin_epoch(epoch, start); }
std::optional<Batch> RemoteLoader::next() { return stream_->next(); }
std::int64_t RemoteLoader::steps() const { return stream_->steps(); }
std::int64_t RemoteLoader::num_seeds() const { return stream_->num_seeds(); }
std::int64_t RemoteLoader::next_position() const { return stream_->next_position(); }
StreamStats RemoteLoader::stats() const { return stream_->stats(); }
bool RemoteLoader::crowded() const { return stream_->crowded(); }
const BatchSpec& RemoteLoader::spec() const { return stream_->spec(); }
const DealOptions& RemoteLoader::deal() const { return stream_->deal(); }
const DatasetMeta& RemoteLoader::meta() const { return stream_->meta(); }

RemoteStreams::RemoteStreams(RemoteExecution remote) : remote_(std::move(remote)), meta_(meta_of(remote_)) {}

std::string RemoteStreams::title() const {
  std::string text = meta_.name + " at ";
  for (const wire::Address& server : remote_.servers)
    text += (&server == &remote_.servers.front() ? "" : ",") + server.to_text();
  return text;
}

std::unique_ptr<BatchStream> RemoteStreams::open(const LoaderOptions& options) const {
  auto stream = std::make_unique<RemoteLoader>(remote_, options);
  // Where ranks share a deal they compare what they have, which names the rank.
  require_valid(options.deal.world_size > 1 || stream->meta().fingerprint == meta_.fingerprint,
                fmt::format("the servers have different datasets '{}': one was of fingerprint {} when it was "
                            "looked at, and one that makes batches has {}; name the one that is meant by its "
                            "fingerprint ({})",
                            meta_.name, meta_.fingerprint, stream->meta().fingerprint, marked("dataset")));
  return stream;
}

std::string ask_status(const RemoteExecution& remote) {
  std::string status;
  ask_any(remote,
          [&](Questions& questions) -> wire::asio::awaitable<void> { status = co_await questions.status(); });
  if (!parse_json(status).is_object())
    throw Error(ErrorCode::kCorrupt, "the server's status is no JSON object; is it a hopfeed-server?");
  return status;
}

}  // namespace hopfeed
