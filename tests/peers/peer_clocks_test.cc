// F47, which is F33 between machines: their wall clocks differ by hours, and their batches do not.
#include <fcntl.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/peers/peer_test.h"
#include "tests/support/sanitized.h"
#include "tests/wire/wire_certificates.h"

namespace hopfeed {
namespace {

/// The environment of programs whose wall clock is off, and what faketime's library shares among them. Not by
/// the program faketime, which would stay between: who kills it leaves the other alive. Where nobody has made
/// the names for the library, it makes some that a killed program leaves behind.
class OtherClocks {
 public:
  OtherClocks() {
    sem_ = sem_open(sem_name_.c_str(), O_CREAT | O_EXCL, 0600, 1);
    const int shared = shm_open(shm_name_.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    if (sem_ == SEM_FAILED || shared < 0 || ftruncate(shared, sizeof(std::uint64_t)) != 0)
      throw_errno("no shared memory for faketime", errno);
    close(shared);
    library_ = testing::run_program({"faketime", "-f", "+0", "printenv", "LD_PRELOAD"}).out;
    while (!library_.empty() && library_.back() == '\n') library_.pop_back();
  }
  ~OtherClocks() {
    sem_close(sem_);
    sem_unlink(sem_name_.c_str());
    shm_unlink(shm_name_.c_str());
  }
  OtherClocks(const OtherClocks&) = delete;
  OtherClocks& operator=(const OtherClocks&) = delete;

  /// "+7h", "-9h"
  std::vector<std::string> off_by(const std::string& shift) const {
    return {"LD_PRELOAD=" + library_, "FAKETIME=" + shift, "FAKETIME_DONT_FAKE_MONOTONIC=1",
            "FAKETIME_SHARED=" + sem_name_ + " " + shm_name_};
  }

 private:
  const std::string sem_name_ = "/hopfeed_test_sem_" + std::to_string(getpid()),
                    shm_name_ = "/hopfeed_test_shm_" + std::to_string(getpid());
  sem_t* sem_ = SEM_FAILED;
  std::string library_;
};

class PeerClocks : public PeerTest {
 protected:
  void SetUp() override {
    if (testing::run_program({"/bin/sh", "-c", "command -v faketime"}).exit_code != 0)
      GTEST_SKIP() << "needs faketime (scripts/setup.sh installs it)";
    if (testing::kSanitized)
      GTEST_SKIP() << "faketime's library and a sanitizer's both want to be loaded first";
    PeerTest::SetUp();
  }
  void TearDown() override {
    if (!IsSkipped()) PeerTest::TearDown();
  }

  static long hours_off(const std::vector<std::string>& environment) {
    const auto clock = [](const std::vector<std::string>& of) {
      return std::atol(testing::run_program({"date", "+%s"}, of).out.c_str());
    };
    return (clock(environment) - clock({}) + 1'800) / 3'600;  // to the nearest, of what is ahead
  }
  static bool has_other_clock(const ServerProcess& server) {
    std::ifstream maps("/proc/" + std::to_string(server.pid()) + "/maps");
    const std::string text((std::istreambuf_iterator<char>(maps)), {});
    return text.find("libfaketime") != std::string::npos;
  }
  /// A server of the second partition at that time of day, with TLS.
  struct Other {
    Other(const testing::Certificates& certificates, const std::vector<std::string>& clock)
        : ca(certificates.ca()),
          server(path(2).string(),
                 {"--partitions", "1", "--tls-cert", certificates.files("server").cert, "--tls-key",
                  certificates.files("server").key},
                 clock) {}
    const std::string ca;
    ServerProcess server;
  };
};

TEST_F(PeerClocks, TrainersClockDiffersFromTheServersByHours_TheBytesStay) {
  const OtherClocks clocks;
  testing::Certificates certificates;
  certificates.make({});
  ASSERT_EQ(hours_off(clocks.off_by("+7h")), 7);
  for (const char* shift : {"-9h", "+7h"}) {
    Other other(certificates, clocks.off_by(shift));
    ASSERT_TRUE(has_other_clock(other.server));
    PeerOptions one = machine(0, {other.server.address().to_text()});
    one.tls = true;
    one.tls_ca = other.ca;
    Loader loader(options_of(one));
    for (int epoch = 0; epoch < 2; ++epoch)
      EXPECT_EQ(epoch_of(loader, epoch,
                         [&](std::size_t batches) {
                           if (epoch != 1 || batches != 3) return;
                           other.server.kill();
                           other.server.restart();
                         }),
                expected(options(), {.epoch = epoch}))
          << shift;
  }
}

// Three clocks: that of the trainer, and of each of two servers.
TEST_F(PeerClocks, ClocksOfServersDifferByHours_TheirClientGetsTheSameBytes) {
  const OtherClocks clocks;
  testing::Certificates certificates;
  certificates.make({});
  Other other(certificates, clocks.off_by("-9h"));
  ServerProcess near(
      path(2).string(),
      {"--partitions", "0", "--peers", other.server.address().to_text(), "--peer-ca", other.ca},
      clocks.off_by("+7h"));
  ASSERT_TRUE(has_other_clock(other.server) && has_other_clock(near));
  RemoteLoader loader(remote_options({near.address()}), options(2));
  for (int epoch = 0; epoch < 2; ++epoch)
    EXPECT_EQ(epoch_of(loader, epoch), expected(options(), {.epoch = epoch}));
}

}  // namespace
}  // namespace hopfeed
