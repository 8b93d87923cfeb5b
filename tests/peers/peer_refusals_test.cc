// Questions that their owner refuses, since its copy of a partition is damaged: another server of the
// partition is asked. Where none is there that has not refused, the refusal is the error, at once.
#include <algorithm>
#include <cstring>
#include <thread>

#include "core/dataset/npy.h"
#include "core/dataset/row_record.h"
#include "core/sampler/peer_questions.h"
#include "peers/peer_network.h"
#include "tests/peers/peer_test.h"
#include "tests/support/dataset_files.h"
#include "tests/wire/proxy.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using testing::Proxy;

class PeerRefusals : public PeerTest {
 protected:
  static constexpr const char* kDamage = "has offsets that do not rise within the";

  /// The graph in two partitions, and no row of the second can be read: the first and the last offset, which
  /// are looked at when a dataset is opened, are right.
  static std::string damaged() {
    const std::filesystem::path copy = folder() / "damaged";
    if (std::filesystem::exists(copy)) return copy.string();
    std::filesystem::copy(path(2), copy, std::filesystem::copy_options::recursive);
    const std::filesystem::path file = copy / rows_path(1, Dataset(copy).meta().edge_types[0]);
    std::string bytes = testing::file_bytes(file);
    const std::size_t first = NpyArray(file).header().data_offset;
    for (std::size_t at = first + sizeof(RowRecord); at + 2 * sizeof(RowRecord) <= bytes.size();
         at += sizeof(RowRecord))
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), sizeof(RowRecord::offset), '\xff');
    testing::write_bytes(file, bytes);
    return copy.string();
  }
  /// Who waits for a deadline is found by the watchdog.
  static PeerOptions patient(std::vector<std::string> peers) {
    PeerOptions options = machine(0, std::move(peers));
    options.replicas = 2;
    options.deadline = 24h;
    return options;
  }
  static LoaderOptions calling_thread(const PeerOptions& machine) {
    LoaderOptions o = options_of(machine);
    o.execution.num_workers = 0;
    return o;
  }
};

TEST_F(PeerRefusals, ServerWithADamagedFile_ItsReplicaAnswersAndTheBytesStay) {
  ServerProcess bad(damaged(), with_partition(1)), good(path(2).string(), with_partition(1));
  const std::string a = bad.address().to_text(), b = good.address().to_text();
  for (const auto& peers : {std::vector{a, b}, std::vector{b, a}}) {
    for (const std::int64_t workers : {0, 2}) {
      LoaderOptions o = options_of(patient(peers));
      o.execution.num_workers = workers;
      Loader loader(o);
      for (int epoch = 0; epoch < 2; ++epoch)
        EXPECT_EQ(epoch_of(loader, epoch), expected(options(), {.epoch = epoch})) << workers << " workers";
    }
  }
}

TEST_F(PeerRefusals, ServerWithADamagedFileAlone_IsAnErrorThatNamesBoth) {
  ServerProcess bad(damaged(), with_partition(1));
  for (const std::int64_t workers : {0, 2}) {
    LoaderOptions o = options_of(patient({bad.address().to_text()}));
    o.execution.num_workers = workers;
    Loader loader(o);
    const std::string error = error_of([&] { epoch_of(loader, 0); });
    EXPECT_TRUE(error.starts_with("corrupt: ")) << error;
    const DatasetMeta meta = Dataset(path(2)).meta();
    expect_part(error, "server " + bad.address().to_text() + ": " + meta.name + "/" +
                           rows_path(1, meta.edge_types[0]));
    EXPECT_EQ(error.find(damaged()), std::string::npos) << "where it lies there is its own business";
    expect_part(error, kDamage);
  }
}

TEST_F(PeerRefusals, AllServersOfAPartitionAreDamaged_IsAnErrorThatNamesEach) {
  ServerProcess first(damaged(), with_partition(1)), second(damaged(), with_partition(1));
  Loader loader(calling_thread(patient({first.address().to_text(), second.address().to_text()})));
  for (int epoch = 0; epoch < 2; ++epoch) {
    const std::string error = error_of([&] { epoch_of(loader, epoch); });
    EXPECT_TRUE(error.starts_with("corrupt: ")) << error;
    expect_part(error, "server " + first.address().to_text() + ": ");
    expect_part(error, "server " + second.address().to_text() + ": ");
  }
}

TEST_F(PeerRefusals, ReplicaIsAway_IsNotWaitedForByWhatWasRefused) {
  ServerProcess bad(damaged(), with_partition(1)), good(path(2).string(), with_partition(1));
  Loader loader(calling_thread(patient({bad.address().to_text(), good.address().to_text()})));
  EXPECT_EQ(epoch_of(loader, 0), expected(options()));
  const std::string error = error_of([&] {
    epoch_of(loader, 1, [&](std::size_t batches) {
      if (batches == 3) good.kill();
    });
  });
  expect_part(error, bad.address().to_text());
  expect_part(error, kDamage);
  good.restart();
  EXPECT_EQ(epoch_once_found(loader, 2), expected(options(), {.epoch = 2}));
  EXPECT_EQ(epoch_of(loader, 3), expected(options(), {.epoch = 3}));
}

// A worker that has just started reaches the damaged server first.
TEST_F(PeerRefusals, ReplicaThatIsSlowToConnect_IsWaitedForByWhatWasRefused) {
  ServerProcess bad(damaged(), with_partition(1)), good(path(2).string(), with_partition(1));
  Proxy slow(good.address(), {.to_client = {.delay = 50ms}});
  LoaderOptions o = options_of(patient({bad.address().to_text(), slow.address().to_text()}));
  o.execution.num_workers = 1;
  for (int stream = 0; stream < 3; ++stream) {
    Loader loader(o);
    EXPECT_EQ(epoch_of(loader, 0), expected(options()));
  }
}

TEST_F(PeerRefusals, OneRefusesAndTheOtherIsSilent_TheDeadlineSaysBoth) {
  ServerProcess bad(damaged(), with_partition(1)), good(path(2).string(), with_partition(1));
  Proxy silent(good.address());
  const Dataset dataset(path(2));
  PeerOptions both = patient({bad.address().to_text(), silent.address().to_text()});
  both.deadline = 4'000ms;
  PeerNetwork network(dataset.meta(), {0}, both);
  network.wait_until_known();
  silent.freeze_to_client();
  const std::string error = error_of([&] { network.wait(network.ask(1, degrees_of_first_row())); });
  expect_part(error, "partition 1 gave no answer within 4000 ms");
  expect_part(error, "server " + bad.address().to_text() + ": tiny/part-0001/");
  expect_part(error, silent.address().to_text() + ": it does not answer");
}

TEST_F(PeerRefusals, WhatIsAskedAgain_IsCounted) {
  ServerProcess bad(damaged(), with_partition(1)), good(path(2).string(), with_partition(1));
  const Dataset dataset(path(2));
  const PeerOptions both = patient({bad.address().to_text(), good.address().to_text()});
  PeerNetwork network(dataset.meta(), {0}, both);
  network.wait_until_known();
  constexpr std::int64_t kQuestions = 8;  // one who has refused is not the next to be asked
  for (std::int64_t i = 0; i < kQuestions; ++i) {
    const PeerAnswer answer = network.wait(network.ask(1, degrees_of_first_row()));
    EXPECT_EQ(open_answer(*answer, "degrees").says, PeerSays::kHere);
  }
  EXPECT_EQ(network.counts().questions, kQuestions);
  EXPECT_EQ(network.counts().answers, kQuestions);
  EXPECT_EQ(network.counts().asked_again, 1);
  good.kill();
  expect_part(error_of([&] {
                for (;;) network.wait(network.ask(1, degrees_of_first_row()));
              }),
              kDamage);
}

// Each is asked once, and says why.
TEST_F(PeerRefusals, QuestionThatNobodyCanAnswer_EndsWithWhatEachSaid) {
  ServerProcess first(path(2).string(), with_partition(1)), second(path(2).string(), with_partition(1));
  const Dataset dataset(path(2));
  const PeerOptions both = patient({first.address().to_text(), second.address().to_text()});
  PeerNetwork network(dataset.meta(), {0}, both);
  network.wait_until_known();
  PeerBytes question = degrees_of_first_row();
  const std::uint32_t wrong = UINT32_MAX;
  std::memcpy(question.data() + sizeof(PeerQuestionHead) + sizeof(PeerRowsHead), &wrong, sizeof wrong);
  const std::string error = error_of([&] { network.wait(network.ask(1, std::move(question))); });
  for (const ServerProcess* server : {&first, &second})
    expect_part(error,
                "server " + server->address().to_text() + ": another machine asked for row 4294967295");
  EXPECT_EQ(network.counts().asked_again, 1);
}

}  // namespace
}  // namespace hopfeed
