// See server_talk.h.
#include "server_client_mode/client/server_talk.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace hopfeed {
namespace {

using wire::FrameType;
namespace asio = wire::asio;

/// A server may have to open a dataset or to hash seeds before it answers.
constexpr std::chrono::seconds kAnswerDeadline{30};
/// Numbers of questions lie above those of batches.
constexpr std::uint64_t kFirstQuestion = std::uint64_t{1} << 63;

std::string name_of_this_process() {
  std::array<char, 65> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("{}/{}", host[0] == '\0' ? "client" : host.data(), getpid()).substr(0, 48);
}

[[noreturn]] void throw_unexpected(const wire::Connection& connection, FrameType type) {
  throw Error(ErrorCode::kCorrupt,
              fmt::format("{} has sent {}, which was not asked for; use one version of hopfeed on both sides",
                          connection.peer(), wire::name_of(type)));
}

}  // namespace

Caller::Caller(const RemoteExecution& remote)
    : token(remote.token),
      name(name_of_this_process()),
      tls(remote.tls ? wire::TlsContext::client(remote.tls_files) : nullptr),
      connect_timeout(remote.connect_timeout),
      batch_deadline(remote.batch_deadline) {}

asio::awaitable<Contact> call_server(const Caller& caller, const wire::Address& address) {
  wire::ConnectionOptions options;
  options.side = wire::Side::kClient;
  options.peer = "server " + address.to_text();
  options.login_deadline = caller.connect_timeout;
  options.frame_deadline = caller.batch_deadline;  // a server without any sign of life is noticed before
  Contact contact;
  contact.connection =
      co_await wire::Connection::connect(address, caller.tls, caller.connect_timeout, std::move(options));
  contact.offer = co_await wire::login_as_client(*contact.connection, caller.token, caller.name);
  if (contact.offer.rules != BatchSpec::kRules)
    throw Error(ErrorCode::kVersion,
                fmt::format("{} makes batches by rules {}, and this hopfeed by rules {}: their bytes differ; "
                            "use one version everywhere",
                            contact.connection->peer(), contact.offer.rules, BatchSpec::kRules));
  co_return contact;
}

asio::awaitable<Questions::Answer> Questions::ask(FrameType type, std::span<const std::byte> payload,
                                                  FrameType expected, FrameType or_else) {
  const std::uint64_t number = kFirstQuestion + ++last_;
  connection_.send(type, number, payload);
  for (;;) {
    const wire::FrameHeader header = co_await connection_.read_header(kAnswerDeadline);
    Answer answer;
    answer.type = header.type;
    answer.payload = co_await connection_.read_payload(header);
    switch (header.type) {
      case FrameType::kPing:
        connection_.send(FrameType::kPong, header.request, answer.payload);
        continue;
      case FrameType::kPong:
        continue;
      case FrameType::kDraining:
        draining_ = true;
        continue;
      case FrameType::kRefused: {
        const auto refusal = wire::from_bytes<wire::Refusal>(answer.payload);
        throw Error(refusal.code, fmt::format("{}: {}", connection_.peer(), refusal.text));
      }
      default:
        break;
    }
    if (header.request != number || (header.type != expected && header.type != or_else))
      throw_unexpected(connection_, header.type);
    co_return answer;
  }
}

asio::awaitable<DatasetMeta> Questions::meta(std::string dataset) {
  const wire::Bytes question = wire::to_bytes(std::string_view(dataset));
  const Answer answer = co_await ask(FrameType::kGetMeta, question, FrameType::kMeta, FrameType::kMeta);
  const std::string text(reinterpret_cast<const char*>(answer.payload.data()), answer.payload.size());
  co_return parse_meta(text, connection_.peer() + ": meta.json");
}

asio::awaitable<std::vector<std::int64_t>> Questions::clusters(wire::GetClusters which) {
  const wire::Bytes question = wire::to_bytes(which);
  const Answer answer = co_await ask(FrameType::kGetClusters, question, FrameType::kIds, FrameType::kIds);
  std::vector<std::int64_t> ids(answer.payload.size() / sizeof(std::int64_t));
  if (ids.size() * sizeof(std::int64_t) != answer.payload.size()) throw_unexpected(connection_, answer.type);
  if (!ids.empty()) std::memcpy(ids.data(), answer.payload.data(), answer.payload.size());
  co_return ids;
}

asio::awaitable<void> Questions::rows(wire::GetRows which, std::span<std::byte> to) {
  const wire::Bytes question = wire::to_bytes(which);
  const Answer answer = co_await ask(FrameType::kGetRows, question, FrameType::kRows, FrameType::kRows);
  if (answer.payload.size() != to.size())
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} has sent {} bytes for {} rows of '{}', which have {}; see "
                            "that server",
                            connection_.peer(), answer.payload.size(), which.count, which.attr, to.size()));
  std::memcpy(to.data(), answer.payload.data(), to.size());
}

asio::awaitable<std::string> Questions::status() {
  const Answer answer = co_await ask(FrameType::kGetStatus, {}, FrameType::kStatus, FrameType::kStatus);
  co_return std::string(reinterpret_cast<const char*>(answer.payload.data()), answer.payload.size());
}

asio::awaitable<wire::Opened> Questions::open(const RemoteJob& job) {
  wire::Open open;
  open.job = kJob;
  open.spec = job.spec;
  open.batch_size = job.batch_size;
  open.check_finite = job.check_finite;
  open.held = job.held;
  const wire::Bytes question = wire::to_bytes(open);
  Answer answer = co_await ask(FrameType::kOpen, question, FrameType::kOpened, FrameType::kUnknownSeeds);
  if (answer.type == FrameType::kUnknownSeeds && !job.packed.empty()) {
    co_await ask(FrameType::kSeeds, job.packed, FrameType::kSeedsKept, FrameType::kSeedsKept);
    answer = co_await ask(FrameType::kOpen, question, FrameType::kOpened, FrameType::kUnknownSeeds);
  }
  if (answer.type != FrameType::kOpened) throw_unexpected(connection_, answer.type);
  const auto opened = wire::from_bytes<wire::Opened>(answer.payload);
  if (opened.num_seeds < 1 || opened.worst_block < 1)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} has opened a job of {} seeds and blocks of {} bytes, which cannot be",
                            connection_.peer(), opened.num_seeds, opened.worst_block));
  co_return opened;
}

}  // namespace hopfeed
