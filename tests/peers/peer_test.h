// Tests of faults between machines share this: a machine with one partition, servers that are programs, and
// the lines of an epoch.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/sampler/peer_questions.h"
#include "tests/peers/machines_fixture.h"
#include "tests/server_client_mode/remote_fixture.h"

namespace hopfeed {

class PeerTest : public LoaderTestWithin<240> {
 protected:
  static LoaderOptions options_of(const PeerOptions& machine, int parts = 2) {
    LoaderOptions o = options(parts);
    o.execution.partitions = machine;
    return o;
  }
  static std::vector<std::string> epoch_of(BatchStream& stream, std::int64_t epoch,
                                           const std::function<void(std::size_t)>& each = {}) {
    std::vector<std::string> got;
    stream.begin_epoch(epoch);
    while (const std::optional<Batch> batch = stream.next()) {
      got.push_back(line_of(batch->view()));
      if (each) each(got.size());
    }
    return got;
  }
  /// Returns an epoch, begun again until it comes whole: nobody is told when all workers have found a server
  /// that is back, and until then their questions may be refused. The watchdog bounds it.
  static std::vector<std::string> epoch_once_found(BatchStream& stream, std::int64_t epoch) {
    std::vector<std::string> got;
    for (;;) {
      const std::string error = error_of([&] { got = epoch_of(stream, epoch); });
      if (error == "no error") return got;
      EXPECT_TRUE(error.find("partition 1 ") != std::string::npos ||
                  error.find("/part-0001/") != std::string::npos)
          << error;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  static void expect_part(const std::string& error, const std::string& part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
  /// Returns the options of a hopfeed-server with a partition, for machines that name it alone.
  static std::vector<std::string> with_partition(int p) { return {"--partitions", std::to_string(p)}; }
  /// Returns a question for the second partition.
  static PeerBytes degrees_of_first_row() {
    const std::vector<std::uint32_t> rows{0};
    return write_question(PeerQuestionHead{.ask = PeerAsk::kDegrees, .partition = 1, .job = 0},
                          PeerRowsHead{.edge_type = 0, .rows = 1}, std::span<const std::uint32_t>(rows));
  }
  static PeerOptions machine(int own, std::vector<std::string> peers) {
    PeerOptions options;
    options.own = {own};
    options.peers = std::move(peers);
    options.token = kTestToken;
    return options;
  }
};

}  // namespace hopfeed
