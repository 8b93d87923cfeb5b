// See exact_validation.h.
#include "examples/exact_validation.h"

#include <optional>
#include <vector>

#include "core/program/progress_bar.h"
#include "core/program/stop_signals.h"
#include "peers/open_partitions.h"
#include "peers/results_peers.h"
#include "stream/torchrun_environment.h"
#include "trainer/long_work.h"

namespace hopfeed {
namespace {

std::map<std::string, Accuracy> accuracies_here(NodeClassifier& model, const ExactValidation& task) {
  const std::unique_ptr<Dataset> dataset = open_partitions(task.dataset, task.peers, PeersAt::kKnown);
  const int type = task.node_type.empty() ? 0 : dataset->meta().node_type(task.node_type);
  std::optional<TemporaryLayers> temporary;
  std::optional<ResultsPeers> peers;
  if (dataset->whole())
    temporary.emplace();
  else
    peers.emplace(dataset->meta(), dataset->partitions(), task.peers, [] { stop_if_asked(); });
  ProgressBar bar(task.title, 1, {.unit = "rows"});
  FullInference inference(inferred(model, *dataset, task.title), *dataset,
                          {.folder = temporary ? temporary->path() : task.layers,
                           .left = LeftRows::kGo,  // epochs end together
                           .sync = Sync::kNo,
                           .threads = task.threads,
                           .device = model.parameters().front().device(),
                           .peers = peers ? &*peers : nullptr,
                           .progress = [&](std::uint64_t done, std::uint64_t total) {
                             stop_if_asked();
                             bar.set(done, total);
                           }});
  SplitAccuracies accuracies(*dataset, type);
  inference.run({&accuracies});
  bar.finish();
  return accuracies.by_split();
}

bool computes(const World& world, const ExactValidation& task) {
  const LocalRanks local = local_ranks();
  return task.peers.on() ? !local.known || local.rank == 0 : world.rank() == 0;
}

}  // namespace

std::map<std::string, Accuracy> exact_accuracies(World& world, NodeClassifier& model,
                                                 const ExactValidation& task) {
  std::map<std::string, Accuracy> found;
  const DatasetMeta meta = Dataset(task.dataset, {.some_partitions = task.peers.on()}).meta();
  const int type = task.node_type.empty() ? 0 : meta.node_type(task.node_type);
  for (const auto& [name, count] : meta.node_types[static_cast<std::size_t>(type)].splits) found[name];
  const bool here = computes(world, task);
  do_together(world, here ? std::function<void()>([&] { found = accuracies_here(model, task); }) : nullptr);
  std::vector<double> counts;
  for (const auto& [name, accuracy] : found) {
    counts.push_back(static_cast<double>(accuracy.correct));
    counts.push_back(static_cast<double>(accuracy.total));
  }
  counts = world.sum(std::move(counts));
  std::size_t at = 0;
  for (auto& [name, accuracy] : found) {
    accuracy = {.correct = static_cast<std::int64_t>(counts[at]),
                .total = static_cast<std::int64_t>(counts[at + 1])};
    at += 2;
  }
  return found;
}

}  // namespace hopfeed
