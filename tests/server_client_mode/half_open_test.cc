// F16: packets vanish without a word, between network namespaces that this test makes: client and near server
// in one, the far server in another, a router between them that stops forwarding.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/owned_fd.h"
#include "tests/server_client_mode/served_stream.h"
#include "tests/worker_mode/loader_fixture.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

bool shell(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;  // NOLINT(concurrency-mt-unsafe)
}

class HalfOpen : public LoaderTestWithin<120> {
 protected:
  void SetUp() override {
    LoaderTestWithin<120>::SetUp();
    const std::string near = "ip -n " + here_ + " ", router = "ip -n " + between_ + " ",
                      far = "ip -n " + there_ + " ";
    made_ = true;
    for (const std::string& name : {here_, between_, there_})
      made_ = made_ && shell("ip netns add " + name) && shell("ip -n " + name + " link set lo up");
    for (const std::string& command :
         {near + "link add to_router type veth peer name to_here netns " + between_,
          far + "link add to_router type veth peer name to_there netns " + between_,
          near + "addr add 10.77.1.1/24 dev to_router", router + "addr add 10.77.1.2/24 dev to_here",
          router + "addr add 10.77.2.2/24 dev to_there", far + "addr add 10.77.2.1/24 dev to_router",
          near + "link set to_router up", router + "link set to_here up", router + "link set to_there up",
          far + "link set to_router up", near + "route add default via 10.77.1.2",
          far + "route add default via 10.77.2.2"})
      made_ = made_ && shell(command);
    if (!made_ || !forward(true))
      GTEST_SKIP() << "network namespaces cannot be made here: that wants root and the program ip";
  }
  void TearDown() override {
    for (const std::string& name : {here_, between_, there_}) shell("ip netns del " + name);
    LoaderTestWithin<120>::TearDown();
  }

  /// A router that does not forward drops in silence.
  bool forward(bool on) const {
    return shell("ip netns exec " + between_ + " sh -c 'echo " + (on ? "1" : "0") +
                 " > /proc/sys/net/ipv4/ip_forward'");
  }
  /// In a thread that lives in the namespace, as do all that it starts.
  static void within(const std::string& name, const std::function<void()>& body) {
    std::exception_ptr thrown;
    std::thread([&] {
      try {
        const OwnedFd space(open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
        if (!space || setns(space.get(), CLONE_NEWNET) != 0)
          throw Error(ErrorCode::kIo, "cannot enter the namespace " + name);
        body();
      } catch (...) {
        thrown = std::current_exception();
      }
    }).join();
    if (thrown) std::rethrow_exception(thrown);
  }

  struct Running {
    std::unique_ptr<testing::BackgroundProgram> program;
    wire::Address address;
  };
  Running start_server(const std::string& name, const std::string& host) const {
    Running server;
    server.program = std::make_unique<testing::BackgroundProgram>(
        std::vector<std::string>{"/usr/bin/env", "ip", "netns", "exec", name,
                                 testing::program("hopfeed-server"), "--data", path(1).string(), "--listen",
                                 host + ":0", "--num-workers", "1", "--insecure"},
        std::vector<std::string>{std::string("HOPFEED_TOKEN=") + kTestToken});
    const std::string line = server.program->read_line(), says = "listening on ";
    if (!line.starts_with(says)) throw Error(ErrorCode::kIo, "hopfeed-server does not start: '" + line + "'");
    server.address = wire::parse_address(line.substr(says.size(), line.find('\n') - says.size()));
    return server;
  }
  /// Batches of an epoch, and what ended it; packets vanish after the third.
  struct Epoch {
    std::vector<std::string> lines;
    std::string error;
    double seconds = 0;  // from there on
  };
  Epoch lose_packets_in_an_epoch(
      const RemoteExecution& remote, const std::function<void()>& lost = [] {}) {
    Epoch epoch;
    RemoteLoader loader(remote, options());
    loader.begin_epoch(0);
    auto lost_at = std::chrono::steady_clock::now();
    epoch.error = error_of([&] {
      while (const std::optional<Batch> batch = loader.next()) {
        epoch.lines.push_back(line_of(batch->view()));
        if (epoch.lines.size() != 3) continue;
        EXPECT_TRUE(forward(false));
        lost();
        lost_at = std::chrono::steady_clock::now();
      }
    });
    epoch.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - lost_at).count();
    return epoch;
  }
  std::int64_t clients_of(const Running& server) const {
    std::int64_t clients = 0;
    within(there_, [&] {
      clients = std::ssize(nlohmann::json::parse(ask_status(remote_options({server.address})))["clients"]);
    });
    return clients;
  }

  const std::string mark_ = std::to_string(getpid());
  const std::string here_ = "hopfeed-here-" + mark_, between_ = "hopfeed-between-" + mark_,
                    there_ = "hopfeed-there-" + mark_;

 private:
  bool made_ = false;
};

TEST_F(HalfOpen, AnotherServerGivesTheRest_AndTheFarOneLetsGoOfTheClient) {
  const Running far = start_server(there_, "10.77.2.1"), near = start_server(here_, "127.0.0.1");
  within(here_, [&] {
    RemoteExecution remote = remote_options({far.address, near.address});
    remote.connect_all = true;
    remote.batch_deadline = 3'000ms;
    const Epoch epoch = lose_packets_in_an_epoch(remote);
    EXPECT_EQ(epoch.lines, expected(options())) << epoch.error;
  });
  // Nobody has told the far server: it has to notice by itself. Who asks is a client too.
  const auto give_up = std::chrono::steady_clock::now() + 60s;
  while (clients_of(far) > 1 && std::chrono::steady_clock::now() < give_up)
    std::this_thread::sleep_for(200ms);
  EXPECT_EQ(clients_of(far), 1);
}

TEST_F(HalfOpen, WithoutAnotherServer_IsATimeoutThatNamesIt) {
  const Running far = start_server(there_, "10.77.2.1");
  within(here_, [&] {
    RemoteExecution remote = remote_options({far.address});
    remote.batch_deadline = 1'000ms;
    remote.connect_timeout = 1'000ms;
    remote.reconnect_deadline = 1'000ms;
    remote.batches_ahead = 2;
    const Epoch epoch = lose_packets_in_an_epoch(remote);
    EXPECT_TRUE(epoch.error.starts_with("timeout: ")) << epoch.error;
    EXPECT_NE(epoch.error.find(far.address.to_text()), std::string::npos) << epoch.error;
  });
}

TEST_F(HalfOpen, PacketsThatComeAgain_LoseNoBatch) {
  const Running far = start_server(there_, "10.77.2.1");
  within(here_, [&] {
    RemoteExecution remote = remote_options({far.address});
    remote.batch_deadline = 1'000ms;
    remote.connect_timeout = 1'000ms;
    std::jthread later;
    const Epoch epoch = lose_packets_in_an_epoch(remote, [&] {
      later = std::jthread([&] {
        std::this_thread::sleep_for(3s);
        EXPECT_TRUE(forward(true));
      });
    });
    EXPECT_EQ(epoch.lines, expected(options())) << epoch.error;
  });
}

}  // namespace
}  // namespace hopfeed
