// One trainer of world_test: `gradient_rank DATASET SEEDS OUT` deals the first SEEDS training nodes to all
// ranks, makes one step's gradient with all neighbours and no dropout, and lets rank 0 write it to OUT as
// raw float32. `gradient_rank --embedding STEPS OUT` steps a table with gradients that differ by rank, and
// every rank writes its table to OUT.RANK. `gradient_rank --die RANK` joins, makes one sum, and then that
// rank dies where the others wait for it. `gradient_rank --together` does work that takes several times as
// long as ranks wait for each other, work in which rank 0 is asked to stop, and work that rank 1 cannot do.
#include <signal.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/batch/deal.h"
#include "tests/trainer/test_batches.h"
#include "trainer/dist_embedding.h"
#include "trainer/gradient_reducer.h"
#include "trainer/long_work.h"
#include "trainer/model.h"
#include "trainer/world.h"

namespace hopfeed {
namespace {

void write_gradient(World& world, const std::string& folder, std::int64_t num_seeds, const std::string& out) {
  const Dataset dataset(folder);
  const std::int64_t batch_size = (num_seeds + world.size() - 1) / world.size();
  const Deal deal({.batch_size = batch_size, .world_size = world.size()}, num_seeds);
  const Deal::Range range = deal.batch(0, world.rank());
  const BatchTensors batch =
      testing::make_batch(dataset, dataset.split(0, "train").first(static_cast<std::size_t>(num_seeds)),
                          {.fanouts = {-1, -1}}, {.first = range.first, .count = range.count});
  torch::manual_seed(5 + world.rank());  // the reducer makes rank 0's parameters everybody's
  GraphSage model(
      ModelOptions{.hops = 2, .features = batch.x.size(1), .hidden = 16, .classes = 4, .dropout = 0});
  GradientReducer reducer(world, model->parameters());
  const torch::Tensor loss = torch::nn::functional::cross_entropy(
      model->forward(batch), batch.at_seeds(batch.y),
      torch::nn::functional::CrossEntropyFuncOptions().ignore_index(-1).reduction(torch::kSum));
  reducer.backward(round_loss(world, loss, (batch.at_seeds(batch.y) >= 0).sum().item<std::int64_t>()).loss);
  if (world.rank() != 0) return;
  std::ofstream file(out, std::ios::binary);
  for (const torch::Tensor& parameter : model->parameters()) {
    const torch::Tensor gradient = parameter.grad().contiguous();
    file.write(static_cast<const char*>(gradient.const_data_ptr()),
               static_cast<std::streamsize>(gradient.nbytes()));
  }
}

/// In step s rank r reads rows s to s + 10 * r - 1 and row 7 twice (rank 0 alone nothing else), with
/// gradients of r + 1 everywhere.
void write_table(World& world, std::int64_t steps, const std::string& out) {
  DistEmbedding table(LearnedTableOptions{.rows = 100, .width = 6, .seed = 4, .optimizer = {.lr = 0.1}});
  for (std::int64_t step = 0; step < steps; ++step) {
    const torch::Tensor few = torch::tensor({7, 7}, torch::kInt64),
                        ids = torch::cat({torch::arange(step, step + 10 * world.rank()), few});
    const torch::Tensor rows = table->forward(step % 2 == 1 && world.rank() == 0 ? ids.narrow(0, 0, 0) : ids);
    (rows.sum() * (world.rank() + 1)).backward();
    table->step(world);
  }
  table->eval();
  const torch::Tensor rows = table->forward(torch::arange(100));
  std::ofstream(out + "." + std::to_string(world.rank()), std::ios::binary)
      .write(static_cast<const char*>(rows.const_data_ptr()), static_cast<std::streamsize>(rows.nbytes()));
}

void lose_a_rank(World& world, std::int64_t doomed) {
  const double ranks = world.sum({1.0})[0];
  if (ranks != static_cast<double>(world.size())) throw Error(ErrorCode::kIo, "the first sum is wrong");
  torch::Tensor mine = torch::full({3}, world.rank(), torch::kUInt8);
  const torch::Tensor all = world.gather(mine);
  for (std::int64_t rank = 0; rank < world.size(); ++rank) {
    if (all[rank][0].item<std::int64_t>() != rank) throw Error(ErrorCode::kIo, "gather is wrong");
  }
  if (world.rank() == doomed) raise(SIGKILL);
  world.sum({1.0});
}

/// What a stop signal throws is no std::exception.
struct Stopped {};

/// Returns what this rank hears of work in which rank 0 is asked to stop.
std::string heard_of_a_stop(World& world) {
  try {
    do_together(world, [&] {
      if (world.rank() == 0) throw Stopped{};
    });
  } catch (const Stopped&) {
    return "its own";
  } catch (const Error& error) {
    return error.code() == ErrorCode::kPeerDied ? error.what() : "another code";
  }
  return "nothing";
}

void work_long(World& world) {
  std::int64_t told = 0, done = 0;
  const auto work = [&] {
    std::this_thread::sleep_for(2 * world.timeout());
    ++done;
  };
  for (std::int64_t who = 0; who < world.size(); ++who)
    do_together(world, world.rank() == who ? work : std::function<void()>(),
                [&](std::chrono::seconds) { ++told; });
  do_together(world, [&] { ++done; });
  if (done != 2 || told < 2 * world.size()) throw Error(ErrorCode::kIo, "it was not done, or not told");
  const std::string heard = heard_of_a_stop(world);
  if (heard != (world.rank() == 0 ? "its own" : "rank 0: it was asked to stop"))
    throw Error(ErrorCode::kIo, "of a stop it heard " + heard);
  do_together(world, [&] {
    if (world.rank() == 1) throw Error(ErrorCode::kNoSpace, "the disk is full");
  });
}

}  // namespace
}  // namespace hopfeed

int main(int argc, char** argv) {
  try {
    const std::string first = argc > 1 ? argv[1] : "";
    hopfeed::World world({.timeout = std::chrono::seconds(first == "--together" ? 3 : 30),
                          .joins_within = std::chrono::seconds(60)});
    if (first == "--embedding")
      hopfeed::write_table(world, std::stoll(argv[2]), argv[3]);
    else if (first == "--together")
      hopfeed::work_long(world);
    else if (first == "--die")
      hopfeed::lose_a_rank(world, std::stoll(argv[2]));
    else
      hopfeed::write_gradient(world, first, std::stoll(argv[2]), argv[3]);
    return 0;
  } catch (const hopfeed::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 10 + static_cast<int>(error.code());
  }
}
