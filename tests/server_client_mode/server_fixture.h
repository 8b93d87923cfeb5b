// Tests of the server share this: a server of this process over a small dataset, jobs of it, and the oracle
// of its batches.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/maker/batch_source.h"
#include "server_client_mode/server/server.h"
#include "tests/server_client_mode/server_raw_client.h"
#include "tests/worker_mode/faults_fixture.h"

namespace hopfeed {

/// LogLines has the lines of the server's log.
class LogLines {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  }
  /// Waits for a line that has this in it; the watchdog bounds it.
  void wait_for(const std::string& part) const {
    while (!has(part)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  /// Returns whether a line has this in it, by now.
  bool has(const std::string& part) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(lines_,
                               [&](const std::string& line) { return line.find(part) != std::string::npos; });
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

template <int seconds = 120>
class ServerTestWithin : public LoaderTestWithin<seconds> {
 protected:
  static constexpr std::uint64_t kRoom = std::uint64_t{1} << 30;  // a grant for any block

  ServerOptions server_options() const {
    ServerOptions options;
    options.datasets = {LoaderTestWithin<seconds>::path(1).string()};
    options.listen = {.host = "127.0.0.1", .port = 0, .path = {}};
    options.num_workers = 2;
    options.max_memory = std::size_t{64} << 20;
    options.worker_program = testing::program("hopfeed-worker");
    options.log = [log = log_](const std::string& line) { log->add(line); };
    return options;
  }
  /// Returns a spec as options() of the loader's tests.
  static BatchSpec spec(std::vector<std::int64_t> fanouts = {4, 3}) {
    static const std::string fingerprint = Dataset(LoaderTestWithin<seconds>::path(1)).meta().fingerprint;
    BatchSpec spec;
    spec.fingerprint = fingerprint;
    spec.batch.fanouts = std::move(fanouts);
    spec.seeds = {.node_type = "node", .split = "train"};
    spec.seed = 11;
    return spec;
  }
  static constexpr std::int64_t kBatchSize = 16, kSeeds = 230;

  static wire::Opened open(RawClient& client, std::uint32_t job = 1, const BatchSpec& wanted = spec()) {
    const RawClient::Frame answer =
        client.ask(wire::FrameType::kOpen, 1,
                   wire::to_bytes(wire::Open{.job = job, .spec = wanted, .batch_size = kBatchSize}));
    if (answer.type() != wire::FrameType::kOpened)
      throw Error(ErrorCode::kInvalid, answer.type() == wire::FrameType::kRefused
                                           ? answer.refusal().text
                                           : std::string(wire::name_of(answer.type())));
    return wire::from_bytes<wire::Opened>(answer.payload);
  }
  /// Returns the batch of that number: of the epoch's full batches the n-th, again and again.
  static wire::BatchAsked batch(std::uint64_t number, std::uint64_t granted = kRoom, std::uint32_t job = 1) {
    const auto steps = static_cast<std::uint64_t>(kSeeds / kBatchSize);
    return {.job = job,
            .epoch = static_cast<std::int64_t>(number / steps),
            .first = static_cast<std::int64_t>(number % steps) * kBatchSize,
            .count = kBatchSize,
            .granted = granted};
  }
  static void ask(RawClient& client, std::uint64_t number, std::uint64_t granted = kRoom,
                  std::uint32_t job = 1) {
    client.send(wire::FrameType::kBatch, number, wire::to_bytes(batch(number, granted, job)));
  }
  static std::string line(const RawClient::Frame& frame) { return line_of(frame.batch()); }
  static std::string expected_line(std::uint64_t number, const BatchSpec& of = spec()) {
    const Dataset dataset(LoaderTestWithin<seconds>::path(1));
    const std::unique_ptr<BatchSource> source = open_source(dataset, of, {});
    BatchMaker maker = source->maker(dataset, of.batch);
    const wire::BatchAsked asked = batch(number);
    AlignedBlock block(
        maker.sample({.seed = of.seed, .epoch = asked.epoch, .first = asked.first, .count = asked.count}));
    maker.write(block.bytes());
    return line_of(BatchView(block.bytes()));
  }

  const std::shared_ptr<LogLines> log_ = std::make_shared<LogLines>();
};

using ServerTest = ServerTestWithin<>;

}  // namespace hopfeed
