// See server_talk.h.
#include "server_client_mode/client/server_talk.h"

#include <fmt/format.h>

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

}  // namespace

Caller caller_of(const RemoteExecution& remote) {
  return {.token = remote.token,
          .name = wire::name_of_this_process("client"),
          .tls = remote.tls ? wire::TlsContext::client(remote.tls_files) : nullptr,
          .connect_timeout = remote.connect_timeout,
          .frame_deadline = remote.batch_deadline};  // who gives no sign of life at all is noticed before
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
    if (wire::take_aside(connection_, header, answer.payload, draining_)) continue;
    if (header.request != number || (header.type != expected && header.type != or_else))
      throw wire::not_asked_for(connection_, header.type);
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
  if (ids.size() * sizeof(std::int64_t) != answer.payload.size())
    throw wire::not_asked_for(connection_, answer.type);
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
  if (answer.type != FrameType::kOpened) throw wire::not_asked_for(connection_, answer.type);
  const auto opened = wire::from_bytes<wire::Opened>(answer.payload);
  if (opened.num_seeds < 1 || opened.worst_block < 1)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} has opened a job of {} seeds and blocks of {} bytes, which cannot be",
                            connection_.peer(), opened.num_seeds, opened.worst_block));
  co_return opened;
}

}  // namespace hopfeed
