// The log of a server whose reader has stopped: nobody waits for it, what finds no place is counted and told,
// and the server ends when it is told to.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <future>
#include <mutex>
#include <thread>

#include "core/base/owned_fd.h"
#include "server_client_mode/server/event_log.h"
#include "tests/server_client_mode/server_fixture.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using wire::FrameType;

class ServerLog : public ServerTestWithin<120> {
 protected:
  static constexpr int kLogins = 124;  // whose lines the pipe has no room for

  /// hopfeed-server whose standard error is a small pipe that nobody reads so far.
  struct Stuck {
    explicit Stuck(const testing::TempFolder& scratch) : path(scratch.path() / "err") {
      if (::mkfifo(path.c_str(), 0600) != 0) throw_errno("cannot make a pipe", errno);
      reader = OwnedFd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK), "cannot open the pipe");
      if (::fcntl(reader.get(), F_SETPIPE_SZ, 4 * 4096) < 0) throw_errno("cannot make it small", errno);
      program.emplace(std::vector<std::string>{
          "/bin/sh", "-c", "exec \"$@\" 2> " + path, "sh", testing::program("hopfeed-server"), "--data",
          ServerLog::path(1).string(), "--listen", "127.0.0.1:0", "--max-memory", "64M"});
      const std::string line = program->read_line();
      address = wire::parse_address(line.substr(line.rfind(' ') + 1));
    }
    std::string read() const {
      std::string text(1 << 16, '\0');
      const ssize_t got = ::read(reader.get(), text.data(), text.size());
      text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
      return text;
    }
    std::string path;
    OwnedFd reader;
    std::optional<testing::BackgroundProgram> program;
    wire::Address address;
  };
  static void fill_log(const Stuck& stuck) {
    for (int i = 0; i < kLogins; ++i) RawClient client(stuck.address, nullptr, "", std::string(60, 'n'));
  }
  static std::unique_ptr<RawClient> with_full_log_and_a_block_that_waits(const Stuck& stuck) {
    fill_log(stuck);
    auto client = std::make_unique<RawClient>(stuck.address);
    open(*client);
    ask(*client, 0, 0);
    EXPECT_EQ(client->next().type(), FrameType::kSize);
    return client;
  }
};

TEST_F(ServerLog, ReaderThatStops_HoldsUpNobodyAndLeftOutLinesAreTold) {
  std::promise<void> goes_on;
  std::mutex mutex;
  std::vector<std::string> lines;
  constexpr std::int64_t kEvents = 20'000;
  std::int64_t others = 0;
  {
    EventLog log([&, released = goes_on.get_future().share()](const std::string& line) {
      released.wait();
      const std::lock_guard lock(mutex);
      lines.push_back(line);
    });
    for (std::int64_t i = 0; i < kEvents; ++i) log.add("connected", {{"client", "trainer"}});
    goes_on.set_value();
    const auto told = [&] {
      const std::lock_guard lock(mutex);
      return std::ranges::any_of(lines, [](const auto& line) { return line.ends_with("event=last"); });
    };
    for (; !told(); ++others) {  // as soon as there is a place
      std::this_thread::sleep_for(1ms);
      log.add("last");
    }
  }
  std::int64_t written = 0, left_out = 0;
  for (const std::string& line : lines) {
    const std::size_t at = line.find("event=left_out lines=");
    at == std::string::npos ? written += 1 : left_out += std::stoll(line.substr(at + 21));
  }
  EXPECT_GT(left_out, 0);
  EXPECT_EQ(written + left_out, kEvents + others);
}

TEST_F(ServerLog, WriteThatNeverComesBack_DoesNotHoldUpTheEnd) {
  const auto never = std::make_shared<std::promise<void>>();
  {
    const EventLog log([never, wait = never->get_future().share()](const std::string&) { wait.wait(); });
    log.add("connected");
  }
  never->set_value();  // so that the thread that was left behind ends before the test does
}

TEST_F(ServerLog, StandardErrorThatNobodyReads_HoldsUpNoClient) {
  const testing::TempFolder scratch;
  Stuck stuck(scratch);
  fill_log(stuck);
  RawClient client(stuck.address);
  open(client);
  ask(client, 0);
  EXPECT_EQ(line(client.next()), expected_line(0));
  EXPECT_EQ(client.ask(FrameType::kGetStatus, 2).type(), FrameType::kStatus);
  stuck.program->signal(SIGTERM);
  EXPECT_EQ(client.next().type(), FrameType::kDraining);
  EXPECT_EQ(stuck.program->wait(60s), 0);
  EXPECT_NE(stuck.read().find("event=connected"), std::string::npos);
}

TEST_F(ServerLog, StandardErrorThatNobodyReads_ASecondSignalEndsItAllTheSame) {
  const testing::TempFolder scratch;
  Stuck stuck(scratch);
  const auto client = with_full_log_and_a_block_that_waits(stuck);
  stuck.program->signal(SIGTERM);
  EXPECT_EQ(client->next().type(), FrameType::kDraining);
  std::this_thread::sleep_for(2s);
  stuck.program->signal(SIGTERM);
  EXPECT_EQ(stuck.program->wait(60s), 130);
}

TEST_F(ServerLog, StandardErrorThatIsReadAgain_HasTheLastLine) {
  const testing::TempFolder scratch;
  Stuck stuck(scratch);
  const auto client = with_full_log_and_a_block_that_waits(stuck);
  std::string text;
  stuck.program->signal(SIGTERM);
  EXPECT_EQ(client->next().type(), FrameType::kDraining);  // it has the signal: two seconds count from there
  std::this_thread::sleep_for(2s);
  stuck.program->signal(SIGTERM);
  while (stuck.program->wait(1ms) == -1) text += stuck.read();
  text += stuck.read();
  EXPECT_NE(text.find("event=draining"), std::string::npos);
  EXPECT_NE(text.find("hopfeed-server: interrupted; batches"), std::string::npos)
      << text.substr(text.size() > 500 ? text.size() - 500 : 0);
}

}  // namespace
}  // namespace hopfeed
