// hopfeed-partition push over ssh: an sshd of the test's own, on a loopback port, with keys made for the
// test.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "core/base/json_text.h"
#include "core/base/owned_fd.h"
#include "tests/partition_tool/program_fixture.h"
#include "tests/support/dataset_files.h"
#include "tests/support/processes.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::BackgroundProgram;
using testing::ToolResult;

/// A port of 127.0.0.1 that nobody listened on a moment ago; or whether somebody listens on one now.
int loopback_socket(int port, bool listening) {
  const OwnedFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  if (listening) return ::connect(fd.get(), any, size);
  EXPECT_EQ(::bind(fd.get(), any, size), 0);
  EXPECT_EQ(::getsockname(fd.get(), any, &size), 0);
  return ntohs(address.sin_port);
}

class PushOverSsh : public PartitionProgram {
 protected:
  void SetUp() override {
    if (std::system("rsync --version >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "rsync is not installed (Debian: apt install rsync)";
    for (const char* path : {"/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"})
      if (sshd_program_.empty() && fs::exists(path)) sshd_program_ = path;
    if (sshd_program_.empty()) GTEST_SKIP() << "sshd is not installed (Debian: apt install openssh-server)";
    // Started by root it wants the folder that its service makes.
    if (geteuid() == 0 && !fs::exists("/run/sshd")) made_run_ = fs::create_directory("/run/sshd");
    for (const char* key : {"host_key", "key", "strange_key"})
      ASSERT_EQ(shell(std::string("ssh-keygen -q -t ed25519 -N '' -f ") + keys(key)).exit_code, 0);
    fs::copy_file(keys("key.pub"), keys("authorized"));
    start_sshd();
    if (!HasFatalFailure() && shell(ssh() + " 127.0.0.1 true").exit_code != 0)
      GTEST_SKIP() << "sshd lets this user in on no loopback port: "
                   << testing::file_bytes(keys("log")).substr(0, 400);
    make_small("whole");
    succeed("partition whole cut --parts 3");
  }
  void TearDown() override {
    sshd_.reset();
    std::error_code error;
    if (made_run_) fs::remove("/run/sshd", error);
  }
  void start_sshd() {
    port_ = loopback_socket(0, false);
    std::ofstream(keys("config")) << "ListenAddress 127.0.0.1\nPort " << port_ << "\nHostKey "
                                  << keys("host_key") << "\nAuthorizedKeysFile " << keys("authorized")
                                  << "\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n"
                                     "PasswordAuthentication no\nKbdInteractiveAuthentication no\n";
    sshd_ = std::make_unique<BackgroundProgram>(
        std::vector<std::string>{sshd_program_, "-D", "-f", keys("config"), "-E", keys("log")});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (loopback_socket(port_, true) != 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << testing::file_bytes(keys("log"));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  std::string keys(const std::string& name) const { return (keys_.path() / name).string(); }
  std::string ssh(const std::string& key = "key") const {
    return "ssh -F none -p " + std::to_string(port_) + " -i " + keys(key) +
           " -o IdentitiesOnly=yes -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=" +
           keys("known");
  }
  std::string push(const std::string& to, const std::string& key = "key") const {
    return "push cut " + to + " --ssh '" + ssh(key) + "'";
  }
  std::map<std::string, std::string> share(const std::set<char>& partitions) const {
    std::map<std::string, std::string> kept;
    for (const auto& [path, bytes] : testing::files_of(work() / "cut"))
      if (!path.starts_with("part-") || partitions.contains(path[8])) kept[path] = bytes;
    return kept;
  }
  std::string there(const std::string& name) const { return (work() / name).string(); }

  const testing::TempFolder keys_;
  std::string sshd_program_;
  std::unique_ptr<BackgroundProgram> sshd_;
  int port_ = 0;
  bool made_run_ = false;
};

TEST_F(PushOverSsh, EachMachineGetsItsPartitions_AndASecondPushSendsNothing) {
  const std::string to =
      "--to 0-1=127.0.0.1:" + there("first") + " --to '2=localhost:" + there("with a space") + "'";
  succeed(push(to) + " --dry-run");
  EXPECT_FALSE(fs::exists(work() / "first"));
  succeed(push(to) + " --json report.json");
  EXPECT_EQ(testing::files_of(work() / "first"), share({'0', '1'}));
  EXPECT_EQ(testing::files_of(work() / "with a space"), share({'2'}));
  EXPECT_EQ(read_json("report.json")["machines"][0]["to"], "127.0.0.1:" + there("first"));
  succeed(push(to) + " --json report.json");
  EXPECT_EQ(read_json("report.json")["machines"][1]["sent_files"], 0);
}

TEST_F(PushOverSsh, WhatIsThereAlready_IsRefusedBeforeAnythingIsSent) {
  succeed("partition whole cut2 --parts 2");
  refuse(push("--to 0-1=127.0.0.1:" + there("fresh") + " --to 2=127.0.0.1:" + there("cut2")),
         "cut2 holds another cut of the same dataset (");
  refuse(push("--to 0-2=127.0.0.1:" + there("none/deep")), "the folder above does not exist there");
}

TEST_F(PushOverSsh, AKeyThatIsNotKnownThere_IsOneLine) {
  refuse(push("--to 0-2=127.0.0.1:" + there("fresh"), "strange_key"), "127.0.0.1 lets nobody in", 1);
}

TEST_F(PushOverSsh, AHostWithoutSshd_IsOneLine) {
  sshd_.reset();
  refuse(push("--to 0-2=127.0.0.1:" + there("fresh")), "127.0.0.1 does not answer: ssh: connect to host", 1);
}

TEST_F(PushOverSsh, AConnectionThatIsLost_IsOneLineAndTheNextPushGoesOn) {
  succeed("generate large --nodes 20000 --edges 100000 --features 64 --classes 3 --seed 1");
  // The login runs a command of its own: it ends the session's rsync when features are on their way.
  std::ofstream(keys("lose")) << "exec 3<&0; sh -c \"exec $SSH_ORIGINAL_COMMAND\" <&3 & rsync=$!\n"
                                 "while kill -0 $rsync 2>/dev/null; do\n"
                                 "  [ -s '"
                              << there("there")
                              << "/part-0000/nodes/node/x.npy' ] && kill $rsync\n"
                                 "  sleep 0.05\ndone\nwait $rsync\n";
  std::ofstream(keys("authorized")) << "command=\"sh " << keys("lose") << "\" "
                                    << testing::file_bytes(keys("key.pub"));
  const std::string command =
      "push large --to 0=127.0.0.1:" + there("there") + " --ssh '" + ssh() + "' --bandwidth 500K";
  const ToolResult lost = run(command);
  EXPECT_EQ(lost.exit_code, 1) << lost.err;
  EXPECT_NE(lost.complaint().find("run it again, and it goes on where it stopped"), std::string::npos)
      << lost.err;
  EXPECT_FALSE(fs::exists(work() / "there/meta.json"));
  EXPECT_TRUE(fs::exists(work() / "there/.meta.json.pushing"));
  fs::copy_file(keys("key.pub"), keys("authorized"), fs::copy_options::overwrite_existing);
  succeed("push large --to 0=127.0.0.1:" + there("there") + " --ssh '" + ssh() + "'");
  EXPECT_EQ(testing::files_of(work() / "there"), testing::files_of(work() / "large"));
}

}  // namespace
}  // namespace hopfeed
