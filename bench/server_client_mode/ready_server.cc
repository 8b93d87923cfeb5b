// See ready_server.h.
#include "bench/server_client_mode/ready_server.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/batch/aligned_block.h"
#include "core/batch/batch_layout.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_source.h"
#include "stream/loader_source.h"
#include "wire/connection.h"

namespace hopfeed::bench {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;
using wire::FrameType;

std::string text_of_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// A prepared block; not changed again before it has been sent.
struct Copy {
  AlignedBlock block;
  bool in_use = false;
};

}  // namespace

struct ReadyServer::Impl {
  std::shared_ptr<wire::TlsContext> tls;
  wire::Offer offer;
  std::string meta;
  wire::Opened opened;
  std::vector<Copy> copies;
  asio::io_context io{1};
  tcp::acceptor acceptor{io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::thread thread;

  explicit Impl(const ReadyServerOptions& options) : copies(static_cast<std::size_t>(options.copies)) {
    if (!options.tls.cert.empty()) tls = wire::TlsContext::server(options.tls);
    const Dataset dataset(options.loader.dataset);
    const std::unique_ptr<BatchSource> source = loader_source(options.loader, dataset);
    BatchMaker maker = source->maker(dataset, options.loader.batch);
    const std::size_t bytes =
        maker.sample({.seed = options.loader.seed,
                      .epoch = 0,
                      .first = 0,
                      .count = std::min(options.loader.deal.batch_size, source->size())});
    maker.write(copies.front().block.resize(bytes));
    for (std::size_t i = 1; i < copies.size(); ++i)
      std::ranges::copy(copies.front().block.bytes(), copies[i].block.resize(bytes).begin());
    opened = {.num_seeds = source->size(),
              .worst_block = maker.max_block_bytes(options.loader.deal.batch_size)};
    meta = text_of_file(dataset.folder() / "meta.json");
    offer = {.software = "hopfeed-bench",
             .server = "ready",
             .checksums = !tls,
             .datasets = {{.name = dataset.meta().name, .fingerprint = dataset.meta().fingerprint}},
             .samplers = {}};
    asio::co_spawn(io, accept(), asio::detached);
    thread = std::thread([this] { io.run(); });
  }
  ~Impl() {
    io.stop();
    thread.join();
  }

  asio::awaitable<void> accept() {
    for (;;) {
      tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
      asio::co_spawn(io, serve(std::move(socket)), asio::detached);
    }
  }

  asio::awaitable<void> serve(tcp::socket socket) {
    try {
      wire::Connection connection(std::move(socket), tls, {.side = wire::Side::kServer, .peer = "client"});
      co_await connection.shake_hands();
      co_await login_as_server(connection, "", offer);
      for (;;) co_await answer(connection);
    } catch (const Error&) {  // the client has left
    }
  }

  asio::awaitable<void> answer(wire::Connection& connection) {
    const wire::FrameHeader header = co_await connection.read_header(0ms);
    const wire::Bytes payload = co_await connection.read_payload(header);
    switch (header.type) {
      case FrameType::kGetMeta:
        connection.send(FrameType::kMeta, header.request, wire::to_bytes(std::string_view(meta)));
        break;
      case FrameType::kOpen:
        connection.send(FrameType::kOpened, header.request, wire::to_bytes(opened));
        break;
      case FrameType::kPing:
        connection.send(FrameType::kPong, header.request, payload);
        break;
      case FrameType::kBatch: {
        const auto asked = wire::from_bytes<wire::BatchAsked>(payload);
        if (asked.granted >= copies.front().block.bytes().size())
          co_await send(connection, header.request, asked);
        else
          waiting[header.request] = asked,
          connection.send(FrameType::kSize, header.request,
                          wire::to_bytes(static_cast<std::uint64_t>(copies.front().block.bytes().size())));
        break;
      }
      case FrameType::kGrant: {
        const auto found = waiting.find(header.request);
        if (found == waiting.end()) break;
        const wire::BatchAsked asked = found->second;
        waiting.erase(found);
        co_await send(connection, header.request, asked);
        break;
      }
      case FrameType::kCancel:
        if (waiting.erase(header.request) > 0) connection.send(FrameType::kDropped, header.request);
        break;
      default:
        break;
    }
  }

  asio::awaitable<void> send(wire::Connection& connection, std::uint64_t request, wire::BatchAsked asked) {
    Copy* free = nullptr;
    while (free == nullptr) {
      for (Copy& copy : copies)
        if (!copy.in_use) free = &copy;
      if (free == nullptr) co_await connection.flush();
    }
    auto* header = reinterpret_cast<BlockHeader*>(free->block.bytes().data());
    header->key.epoch = asked.epoch;
    header->key.first = asked.first;
    header->key.count = asked.count;
    free->in_use = true;
    connection.send_block(request, {.worker = 0, .sampling = 0, .gathering = 0}, free->block.bytes(),
                          [free](bool) { free->in_use = false; });
  }

  std::map<std::uint64_t, wire::BatchAsked> waiting;  // for their grant; the bench has one client
};

ReadyServer::ReadyServer(const ReadyServerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
ReadyServer::~ReadyServer() = default;
wire::Address ReadyServer::address() const {
  return {.host = "127.0.0.1", .port = impl_->acceptor.local_endpoint().port(), .path = {}};
}
std::size_t ReadyServer::block_bytes() const { return impl_->copies.front().block.bytes().size(); }

}  // namespace hopfeed::bench
