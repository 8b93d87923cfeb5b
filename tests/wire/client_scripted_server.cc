// See client_scripted_server.h.
#include "tests/wire/client_scripted_server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <future>
#include <optional>
#include <utility>

#include "core/base/sha256.h"
#include "core/batch/aligned_block.h"
#include "core/dataset/dataset_meta.h"

namespace hopfeed {

namespace asio = wire::asio;
using wire::FrameType;

struct ScriptedServer::Listening {
  Listening(asio::io_context& context, std::uint16_t port)
      : acceptor(context, asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), port)) {}
  asio::ip::tcp::acceptor acceptor;
};

struct ScriptedServer::Session {
  std::unique_ptr<wire::Connection> connection;
  wire::Open open;
  std::unique_ptr<BatchSource> source;
  std::unique_ptr<BatchMaker> maker;
  std::map<std::uint64_t, Block> waiting;  // for a grant
};

void ScriptedServer::Turn::send(const Block& what) const { server.send_block(connection, request, what); }
void ScriptedServer::Turn::send(FrameType type, const wire::Bytes& payload) const {
  connection.send(type, request, payload);
}

ScriptedServer::ScriptedServer(Options options) : options_(std::move(options)), dataset_(options_.dataset) {
  listening_ = std::make_unique<Listening>(context_, options_.port);
  address_.host = "127.0.0.1";
  address_.port = listening_->acceptor.local_endpoint().port();
  asio::co_spawn(context_, accept(), asio::detached);
  thread_ = std::thread([this] { context_.run(); });
}

ScriptedServer::~ScriptedServer() {
  vanish();
  asio::post(context_, [this] { listening_->acceptor.close(); });
  // Sessions end by themselves once their connections are closed.
  thread_.join();
}

void ScriptedServer::post_and_wait(const std::function<void()>& what) {
  std::promise<void> done;
  asio::post(context_, [&] {
    what();
    done.set_value();
  });
  done.get_future().wait();
}

void ScriptedServer::drain() {
  post_and_wait([this] {
    for (const std::weak_ptr<Session>& session : sessions_)
      if (const std::shared_ptr<Session> alive = session.lock())
        alive->connection->send(FrameType::kDraining, 0);
  });
}

void ScriptedServer::vanish() {
  post_and_wait([this] {
    gone_ = true;
    for (const std::weak_ptr<Session>& session : sessions_)
      if (const std::shared_ptr<Session> alive = session.lock()) alive->connection->close();
  });
}

void ScriptedServer::resume() {
  post_and_wait([this] { gone_ = false; });
}

asio::awaitable<void> ScriptedServer::accept() {
  try {
    for (;;) {
      asio::ip::tcp::socket socket = co_await listening_->acceptor.async_accept(asio::use_awaitable);
      if (!gone_) asio::co_spawn(context_, serve(wire::Socket(std::move(socket))), asio::detached);
    }
  } catch (const std::exception&) {
    // closed
  }
}

asio::awaitable<void> ScriptedServer::serve(wire::Socket socket) {
  try {
    auto session = std::make_shared<Session>();
    wire::ConnectionOptions options;
    options.side = wire::Side::kServer;
    options.peer = "client";
    options.newest_version = options_.newest_version;
    session->connection = std::make_unique<wire::Connection>(std::move(socket), nullptr, options);
    sessions_.push_back(session);
    wire::Offer offer = options_.offer;
    if (offer.datasets.empty()) {
      wire::Offer::Dataset dataset;
      dataset.name = dataset_.meta().name;
      dataset.fingerprint = dataset_.meta().fingerprint;
      offer.datasets.push_back(dataset);
    }
    if (offer.software.empty()) offer.software = "scripted";
    if (offer.server.empty()) offer.server = "scripted";
    co_await wire::login_as_server(*session->connection, options_.token, offer);
    ++connections_;
    co_await answer(session);
  } catch (const std::exception&) {
    // the client has gone, or was refused
  }
}

asio::awaitable<void> ScriptedServer::answer(std::shared_ptr<Session> session) {
  wire::Connection& connection = *session->connection;
  for (;;) {
    const wire::FrameHeader header = co_await connection.read_header(std::chrono::milliseconds(0));
    const wire::Bytes payload = co_await connection.read_payload(header);
    switch (header.type) {
      case FrameType::kGetMeta:
        connection.send(FrameType::kMeta, header.request,
                        wire::to_bytes(std::string_view(format_meta(dataset_.meta()))));
        break;
      case FrameType::kSeeds:
        ++uploads_;
        seeds_[sha256(payload)] = payload;
        connection.send(FrameType::kSeedsKept, header.request);
        break;
      case FrameType::kOpen:
        on_open(*session, header, payload);
        break;
      case FrameType::kBatch:
        on_batch(*session, header, payload);
        break;
      case FrameType::kGrant:
        if (const auto found = session->waiting.find(header.request); found != session->waiting.end()) {
          send_block(connection, header.request, found->second);
          session->waiting.erase(found);
        }
        break;
      case FrameType::kCancel:
        ++cancels_;
        session->waiting.erase(header.request);
        connection.send(FrameType::kDropped, header.request);
        break;
      case FrameType::kPing:
        connection.send(FrameType::kPong, header.request, payload);
        break;
      default:
        break;
    }
  }
}

void ScriptedServer::on_open(Session& session, const wire::FrameHeader& header, const wire::Bytes& payload) {
  const int number = opens_++;
  try {
    session.open = wire::from_bytes<wire::Open>(payload);
    if (options_.refuse_open)
      if (const std::optional<Error> refused = options_.refuse_open(number)) throw *refused;
    const std::string& sha = session.open.spec.seeds.sha256;
    if (!sha.empty() && !seeds_.contains(sha))
      return session.connection->send(FrameType::kUnknownSeeds, header.request);
    session.source =
        open_source(dataset_, session.open.spec, sha.empty() ? std::span<const std::byte>() : seeds_.at(sha));
    session.maker.reset(new BatchMaker(session.source->maker(dataset_, session.open.spec.batch)));
    wire::Opened opened;
    opened.num_seeds = options_.num_seeds != 0 ? options_.num_seeds : session.source->size();
    opened.worst_block = session.maker->max_block_bytes(session.open.batch_size);
    session.connection->send(FrameType::kOpened, header.request, wire::to_bytes(opened));
  } catch (const Error& error) {
    wire::Refusal refusal;
    refusal.code = error.code();
    refusal.text = error.what();
    session.connection->send(FrameType::kRefused, header.request, wire::to_bytes(refusal));
  }
}

void ScriptedServer::on_batch(Session& session, const wire::FrameHeader& header, const wire::Bytes& payload) {
  Turn turn{.server = *this,
            .connection = *session.connection,
            .request = header.request,
            .asked = wire::from_bytes<wire::BatchAsked>(payload),
            .block = nullptr,
            .number = batches_++};
  BatchKey key;
  key.seed = session.open.spec.seed;
  key.epoch = turn.asked.epoch;
  key.first = turn.asked.first;
  key.count = turn.asked.count;
  const std::size_t bytes = session.maker->sample(key);
  AlignedBlock aligned(bytes);
  session.maker->write(aligned.bytes());
  turn.block = std::make_shared<std::vector<std::byte>>(aligned.bytes().begin(), aligned.bytes().end());
  if (options_.script && options_.script(turn)) return;
  if (bytes <= turn.asked.granted) return turn.send(turn.block);
  session.waiting[header.request] = turn.block;
  turn.send(FrameType::kSize, wire::to_bytes(std::uint64_t{bytes}));
}

void ScriptedServer::send_block(wire::Connection& connection, std::uint64_t request, const Block& block) {
  wire::BlockHead head;
  head.worker = 0;
  head.sampling = 1'000;
  head.gathering = 1'000;
  connection.send_block(request, head, *block, [block](bool) {});
}

}  // namespace hopfeed
