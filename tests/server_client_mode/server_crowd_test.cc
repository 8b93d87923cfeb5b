// How many may come: connections that say nothing, clients, and those who only look on.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "server_client_mode/server/strangers.h"
#include "tests/server_client_mode/server_fixture.h"
#include "wire/listen.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using wire::FrameType;

class ServerCrowd : public ServerTestWithin<120> {};

TEST_F(ServerCrowd, SilentConnections_HoldUpNobodyAndAreClosed) {
  Server server(server_options());
  wire::asio::io_context loop;
  using wire::asio::ip::tcp;
  std::vector<tcp::socket> silent;
  for (int i = 0; i < 200; ++i) {
    const auto here = wire::asio::ip::make_address_v4("127.0.0." + std::to_string(2 + i / 50));
    silent.emplace_back(loop, tcp::endpoint(here, 0))
        .connect({wire::asio::ip::address_v4::loopback(), server.address().port});
  }
  RawClient client(server.address());
  open(client);
  for (std::uint64_t number = 0; number < 20; ++number) ask(client, number);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(client.next().type(), FrameType::kBlock);
  while (parse_json(server.status_json())["totals"]["failed_logins"] != 200) client.sleep(50ms);
  EXPECT_EQ(client.ask(FrameType::kPing, 1).type(), FrameType::kPong);
}

// Addresses of this machine: whoever is at 127.0.0.2 opens connections without end.
TEST_F(ServerCrowd, SilentConnectionsOfOneAddress_LeavePlacesForTheLoginsOfOthers) {
  rlimit limit{};  // of descriptors: many shells give 1,024
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  Server server(server_options());
  wire::asio::io_context loop;
  using wire::asio::ip::tcp;
  const tcp::endpoint there(wire::asio::ip::address_v4::loopback(), server.address().port);
  std::vector<tcp::socket> silent;
  for (int i = 0; i < 1'100; ++i) {
    tcp::socket& socket =
        silent.emplace_back(loop, tcp::endpoint(wire::asio::ip::make_address_v4("127.0.0.2"), 0));
    boost::system::error_code error;
    socket.connect(there, error);
    ASSERT_FALSE(error) << error.message();
    if (i % 100 != 99) continue;
    RawClient other(server.address());
    EXPECT_EQ(open(other).num_seeds, kSeeds);
  }
  EXPECT_GE(parse_json(server.status_json())["totals"]["refused_connections"], 1'100 - kMaxStrangersOfOne);
}

// Of those who come while it ends, some have been accepted before it listens no more.
TEST_F(ServerCrowd, ConnectionsThatComeWhileTheServerEnds_DoNotKeepItRunning) {
  ServerOptions options = server_options();
  options.num_workers = 1;
  options.listen = wire::parse_address("unix:" + path(1).string() + ".ends");
  for (int round = 0; round < 20; ++round) {
    auto server = std::make_unique<Server>(options);
    std::atomic<bool> ends = false;
    std::vector<std::thread> clients;
    for (int i = 0; i < 6; ++i)
      clients.emplace_back([&] {
        try {
          for (;;) {  // until it cannot connect
            RawClient client(options.listen);
            while (ends) client.next();  // and stays, until it is closed
          }
        } catch (const Error&) {
        }
      });
    std::this_thread::sleep_for(5ms);
    ends = true;
    server.reset();  // the watchdog bounds it
    for (std::thread& client : clients) client.join();
  }
}

TEST(NetworkOf, IsAnIPv4AddressOrThe64OfAnIPv6Address) {
  const auto network = [](const char* address) {
    return wire::network_of(wire::asio::ip::make_address(address));
  };
  EXPECT_EQ(network("10.1.2.3"), "10.1.2.3");
  EXPECT_NE(network("10.1.2.4"), network("10.1.2.3"));
  EXPECT_EQ(network("::ffff:10.1.2.3"), "10.1.2.3") << "as one that listens for both sees it";
  EXPECT_EQ(network("2001:db8:1:2::1"), network("2001:db8:1:2:ffff:ffff:ffff:ffff"));
  EXPECT_NE(network("2001:db8:1:2::1"), network("2001:db8:1:3::1"));
  EXPECT_NE(network("::1"), "");
}

TEST_F(ServerCrowd, LoginsOfOneAddress_LeaveTheirPlacesToThoseThatFollow) {
  ServerOptions options = server_options();
  options.max_clients = 2 * kMaxStrangersOfOne;
  Server server(options);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 2 * kMaxStrangersOfOne; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.address()));
    EXPECT_EQ(open(*clients.back()).num_seeds, kSeeds);
  }
}

TEST_F(ServerCrowd, SilentConnectionsOfASocketFile_HaveNoLimitOfOneAddress) {
  const testing::TempFolder scratch;
  ServerOptions options = server_options();
  options.listen = {.path = (scratch.path() / "s").string()};
  Server server(options);
  wire::asio::io_context loop;
  std::vector<wire::asio::local::stream_protocol::socket> silent;
  for (int i = 0; i < 2 * kMaxStrangersOfOne; ++i)
    silent.emplace_back(loop).connect(wire::asio::local::stream_protocol::endpoint(options.listen.path));
  RawClient client(server.address());
  EXPECT_EQ(open(client).num_seeds, kSeeds);
  EXPECT_EQ(parse_json(server.status_json())["totals"]["refused_connections"], 0);
}

TEST_F(ServerCrowd, MoreClientsThanItTakes_AreToldSoAndMayLookOn) {
  ServerOptions options = server_options();
  options.max_clients = 2;
  Server server(options);
  auto first = std::make_unique<RawClient>(server.address());
  RawClient second(server.address()), third(server.address());
  open(*first);
  open(second);
  const std::string error = error_of([&] { open(third); });
  EXPECT_NE(error.find("has 2 clients, as many as it takes"), std::string::npos) << error;
  EXPECT_EQ(third.ask(FrameType::kGetStatus, 3).type(), FrameType::kStatus);
  first.reset();
  log_->wait_for("event=disconnected");
  EXPECT_EQ(open(third).num_seeds, kSeeds);
}

TEST_F(ServerCrowd, OnlookersWhoseJobsAreRefused_AreNoClients) {
  ServerOptions options = server_options();
  options.max_clients = 1;
  Server server(options);
  RawClient onlooker(server.address()), unknown(server.address()), machine(server.address());
  BatchSpec refused = spec();
  refused.fingerprint = "0123456789abcdef";
  error_of([&] { open(onlooker, 1, refused); });
  BatchSpec given = spec();
  given.seeds.split.clear();
  given.seeds.sha256 = std::string(64, 'a');
  EXPECT_NE(error_of([&] { open(unknown, 1, given); }).find("UNKNOWN_SEEDS"), std::string::npos);
  machine.ask(FrameType::kGetPartitions, 1, wire::to_bytes(std::string_view(spec().fingerprint)));
  RawClient client(server.address());
  EXPECT_EQ(open(client).num_seeds, kSeeds);
  const std::string error = error_of([&] { open(onlooker); });
  EXPECT_NE(error.find("has 1 clients, as many as it takes"), std::string::npos) << error;
}

TEST_F(ServerCrowd, OnlookersBeyondTheLimit_AreTurnedAway) {
  ServerOptions options = server_options();
  options.max_clients = 1;
  Server server(options);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::int64_t i = 0; i < 1 + kMaxOnlookers; ++i)
    clients.push_back(std::make_unique<RawClient>(server.address()));
  open(*clients.front());
  const std::string error = error_of([&] { RawClient one_more(server.address()); });
  EXPECT_NE(error.find("has 1 clients and 64 connections that have opened no job, as many as it takes"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace hopfeed
