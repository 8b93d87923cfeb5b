// One trainer of owners_program_test, whose owners may be slow: `owners_rank DATASET OUT OWNERS EPOCHS
// TIMEOUT SLOW` goes on from the checkpoint in OUT, or begins, and rank 0 writes OUT/result.json. Ranks
// wait TIMEOUT ms for each other; the first owner has written a checkpoint of the first table, or has gone
// back to it, SLOW ms after it was asked.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "peers/state_owners.h"
#include "state/owner/state_questions.h"
#include "tests/trainer/training_options.h"
#include "trainer/trainer.h"
#include "trainer/world.h"
#include "worker_mode/local_streams.h"

namespace hopfeed {
namespace {

using Clock = std::chrono::steady_clock;

class SlowOwners final : public StateNetwork {
 public:
  SlowOwners(std::shared_ptr<StateNetwork> owners, std::chrono::milliseconds slow)
      : owners_(std::move(owners)), slow_(slow) {}
  int num_owners() const override { return owners_->num_owners(); }
  int owner_of(int partition) const override { return owners_->owner_of(partition); }
  Ticket ask(int owner, RecycledBytes question) override {
    StateHead head;
    std::memcpy(&head, question.data(), sizeof head);
    const Ticket ticket = owners_->ask(owner, std::move(question));
    const std::lock_guard lock(mutex_);
    if (head.ask != StateAsk::kSave && head.ask != StateAsk::kRestore) return ticket;
    if (owner == 0 && asked_++ % 2 == 0) until_[ticket] = Clock::now() + slow_;
    return ticket;
  }
  std::shared_ptr<const RecycledBytes> wait(Ticket ticket) override {
    Clock::time_point until;
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = until_.find(ticket); found != until_.end()) until = found->second;
    }
    std::this_thread::sleep_until(until);
    return owners_->wait(ticket);
  }
  void drop(Ticket ticket) noexcept override { owners_->drop(ticket); }

 private:
  const std::shared_ptr<StateNetwork> owners_;
  const std::chrono::milliseconds slow_;
  std::mutex mutex_;
  std::map<Ticket, Clock::time_point> until_;
  int asked_ = 0;  // about checkpoints of its two tables, by turns
};

PeerOptions owners_at(const std::string& addresses) {
  PeerOptions options;
  for (std::size_t begin = 0; begin < addresses.size();) {
    const std::size_t end = std::min(addresses.find(',', begin), addresses.size());
    options.peers.push_back(addresses.substr(begin, end - begin));
    begin = end + 1;
  }
  return options;
}

void run(char** argv) {
  World world(
      {.timeout = std::chrono::milliseconds(std::stoll(argv[5])), .joins_within = std::chrono::seconds(60)});
  const std::string dataset = argv[1];
  TrainingOptions options = testing::small_training(dataset);
  options.loader.batch.dataset_ids = true;
  options.out = argv[2];
  options.epochs = std::stoll(argv[4]);
  options.resume = Resume::kAlways;
  options.owners.network = std::make_shared<SlowOwners>(
      std::make_shared<StateOwners>(LocalStreams(dataset).meta(), owners_at(argv[3])),
      std::chrono::milliseconds(std::stoll(argv[6])));
  const Clock::time_point begin = Clock::now();
  const TrainingResult result = train(world, options, {});
  if (world.rank() != 0) return;
  nlohmann::json json = {{"seconds", std::chrono::duration<double>(Clock::now() - begin).count()}};
  for (const EpochRow& row : result.rows) json["losses"].push_back(row.loss);
  std::ofstream(options.out / "result.json") << json;
}

}  // namespace
}  // namespace hopfeed

int main(int /*argc*/, char** argv) {
  try {
    at::set_num_threads(1);
    hopfeed::run(argv);
    return 0;
  } catch (const hopfeed::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 10 + static_cast<int>(error.code());
  }
}
