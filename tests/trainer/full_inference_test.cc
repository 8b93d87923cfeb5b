// Promises of inference over partitions: each row's very bits for any cut, threads, memory and number of
// machines, resumed or not, and one line for what cannot be.
#include "trainer/full_inference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "results/run_folder.h"
#include "tests/support/dataset_files.h"
#include "tests/support/expect_refused.h"
#include "tests/support/machines.h"
#include "tests/support/tiny_dataset.h"
#include "tests/trainer/taste_graph.h"
#include "tests/trainer/typed_training_graph.h"
#include "trainer/hetero_sage.h"
#include "trainer/link_model.h"
#include "trainer/model.h"

namespace hopfeed {
namespace {

using testing::TempFolder;
using Kind = ResultSink::Kind;

/// By node type and original id.
using Rows = std::map<std::pair<int, std::int64_t>, std::vector<float>>;

class Collected final : public ResultSink {
 public:
  Collected(Kind kind, const Dataset& dataset) : kind_(kind), dataset_(dataset) {}
  Kind kind() const override { return kind_; }
  void take(const ResultRows& rows) override {
    const OriginalIds ids = dataset_.original_ids(rows.node_type, rows.partition);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const std::int64_t id = ids.first[(rows.first + i) * ids.stride];
      const float* const row = rows.rows + i * rows.width;
      EXPECT_TRUE(
          all.emplace(std::pair{rows.node_type, id}, std::vector<float>(row, row + rows.width)).second);
    }
  }
  void finish() override { ++finishes; }

  Rows all;
  int finishes = 0;

 private:
  const Kind kind_;
  const Dataset& dataset_;
};

void expect_same_bits(const Rows& found, const Rows& wanted, const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (const auto& [node, row] : wanted) {
    const auto at = found.find(node);
    ASSERT_NE(at, found.end()) << what;
    ASSERT_EQ(at->second.size(), row.size()) << what;
    ASSERT_EQ(std::memcmp(at->second.data(), row.data(), row.size() * sizeof(float)), 0)
        << what << ", node " << node.second;
  }
}

InferenceOptions in(const std::filesystem::path& folder) {
  return {.folder = folder, .sync = Sync::kNo, .shard_bytes = 1};
}

struct Ends : std::exception {};

/// A model and how its dataset is written with so many partitions.
struct Case {
  std::string name;
  std::function<void(const std::filesystem::path&, int partitions)> write;
  std::function<InferredModel(const Dataset&)> model;
  Kind kind = Kind::kScores;
};

Case sage_case(const std::string& name, std::int64_t nodes, ModelOptions options,
               ElementType type = ElementType::kFloat32) {
  options.classes = 4;
  options.features = 12;
  auto graph = std::make_shared<testing::TinyGraph>(testing::random_graph(
      {.num_nodes = nodes, .num_edges = 8 * nodes, .x_width = 12, .num_train = nodes / 2}));
  graph->x_type = type;
  return {.name = name,
          .write =
              [graph](const std::filesystem::path& folder, int partitions) {
                testing::write_tiny_dataset(folder, *graph, testing::random_cut(*graph, partitions, 3));
              },
          .model =
              [options](const Dataset& dataset) {
                torch::manual_seed(4);
                return inferred(*GraphSage(options), dataset, "GraphSAGE");
              }};
}

HeteroOptions hetero_options(const DatasetMeta& meta) {
  return {.dataset = meta,
          .batch = {.fanouts = {3, 3}},
          .seed_type = meta.node_type("paper"),
          .hidden = 10,
          .seed = 5};
}

/// Small graphs of each kind; that of several blocks is beside.
std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back(sage_case("wider", 400, {.hops = 2, .hidden = 20}));
  all.push_back(sage_case("narrower", 400, {.hops = 3, .hidden = 6}));
  all.push_back(sage_case("perceptron", 400, {.hops = 0, .hidden = 20}));
  all.push_back(sage_case("scaled", 400, {.hops = 2, .hidden = 20}, ElementType::kInt8Scaled));
  all.push_back(sage_case("blocks", 9'500, {.hops = 2, .hidden = 20}));
  all.push_back({.name = "hetero",
                 .write =
                     [](const std::filesystem::path& folder, int partitions) {
                       const testing::TypedGraph graph = testing::typed_training_graph();
                       testing::write_typed_dataset(folder, graph,
                                                    testing::random_typed_cut(graph, partitions, 3));
                     },
                 .model =
                     [](const Dataset& dataset) {
                       torch::manual_seed(4);
                       return inferred(*HeteroSage(hetero_options(dataset.meta())), dataset, "HeteroSage");
                     }});
  all.push_back({.name = "links",
                 .write =
                     [](const std::filesystem::path& folder, int partitions) {
                       const testing::TypedGraph graph = testing::taste_graph();
                       testing::write_typed_dataset(folder, graph,
                                                    testing::random_typed_cut(graph, partitions, 3));
                     },
                 .model =
                     [](const Dataset& dataset) {
                       torch::manual_seed(4);
                       return inferred(*LinkModel(LinkModelOptions{.dataset = dataset.meta(),
                                                                   .batch = {.fanouts = {3, 3}},
                                                                   .edge_type = "listens",
                                                                   .hidden = 8}));
                     },
                 .kind = Kind::kEmbeddings});
  return all;
}

class FullInferenceTest : public ::testing::TestWithParam<Case> {
 protected:
  std::filesystem::path data(int partitions) {
    const std::filesystem::path path = scratch_.path() / ("data" + std::to_string(partitions));
    if (!std::filesystem::exists(path)) GetParam().write(path, partitions);
    return path;
  }
  std::filesystem::path layers() { return scratch_.path() / ("layers" + std::to_string(folders_++)); }
  Rows rows_of(const Dataset& dataset, const InferenceOptions& options) {
    FullInference inference(GetParam().model(dataset), dataset, options);
    Collected collected(GetParam().kind, dataset);
    inference.run({&collected});
    EXPECT_EQ(collected.finishes, 1);
    EXPECT_FALSE(std::filesystem::exists(options.folder / "layers"));
    return std::move(collected.all);
  }
  const Rows& wanted() {
    if (wanted_.empty()) wanted_ = rows_of(Dataset(data(1)), in(layers()));
    return wanted_;
  }

  TempFolder scratch_;
  int folders_ = 0;
  Rows wanted_;
};

TEST_P(FullInferenceTest, TheSameBitsForAnyCutAndThreads) {
  for (const int partitions : {2, 3}) {
    InferenceOptions options = in(layers());
    options.threads = partitions;
    expect_same_bits(rows_of(Dataset(data(partitions)), options), wanted(),
                     std::to_string(partitions) + " partitions");
  }
}

TEST_P(FullInferenceTest, TheSameBitsInSlicesOfColumns) {
  InferenceOptions options = in(layers());
  options.memory = GetParam().name == "blocks" ? 120'000 : 9'000;  // a few columns
  options.threads = 2;
  expect_same_bits(rows_of(Dataset(data(2)), options), wanted(), "sliced");
}

/// What a machine has of the others' layers, from their folders.
class FoldersBeside final : public BoundaryPeers {
 public:
  FoldersBeside(std::vector<std::filesystem::path> folder_of, std::vector<int> own)
      : folder_of_(std::move(folder_of)), own_(std::move(own)) {}
  void fetch(RunId run, const LayerName& name, int partition, std::span<const std::uint32_t> rows,
             std::int64_t row_bytes, std::byte* out) override {
    const LayerFolder layers = layers_of(folder_of_[static_cast<std::size_t>(partition)], run);
    fetched += std::ssize(rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::int64_t first = rows[i] / kRowsTogether * kRowsTogether;
      while (!layers.has(name, partition, first)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::unique_ptr<LayerShard>& shard = shards_[{name, {partition, first}}];
      if (!shard) shard = std::make_unique<LayerShard>(layers.shard_path(name, partition, first), run);
      EXPECT_EQ(shard->row_bytes(), row_bytes);
      std::memcpy(out + i * static_cast<std::size_t>(row_bytes),
                  shard->bytes().data() + (rows[i] - first) * row_bytes, static_cast<std::size_t>(row_bytes));
    }
  }
  bool note_fetched(RunId run, const LayerName& name, bool) override {
    for (const std::filesystem::path& folder : folder_of_)
      for (const int part : own_) hopfeed::note_fetched(folder, run, name, part);
    return true;
  }
  std::int64_t fetched = 0;

 private:
  const std::vector<std::filesystem::path> folder_of_;
  const std::vector<int> own_;
  std::map<std::pair<LayerName, std::pair<int, std::int64_t>>, std::unique_ptr<LayerShard>> shards_;
};

TEST_P(FullInferenceTest, TheSameBitsFromSeveralMachines) {
  for (const int machines : {2, 3}) {
    const testing::Machines all(data(3), machines);
    std::vector<std::filesystem::path> folders, folder_of;
    for (int m = 0; m < machines; ++m) folders.push_back(layers());
    for (int p = 0; p < 3; ++p) folder_of.push_back(folders[static_cast<std::size_t>(p % machines)]);
    std::vector<Rows> found(static_cast<std::size_t>(machines));
    std::vector<InferredModel> models;  // before there are threads: they share Torch's generator
    for (std::size_t m = 0; m < found.size(); ++m) models.push_back(GetParam().model(all.dataset(m)));
    std::vector<std::thread> threads;
    for (std::size_t m = 0; m < found.size(); ++m)
      threads.emplace_back([&, m] {
        const Dataset& dataset = all.dataset(m);
        FoldersBeside peers(folder_of, dataset.partitions());
        InferenceOptions options = in(folders[m]);
        options.peers = &peers;
        FullInference inference(models[m], dataset, options);
        Collected collected(GetParam().kind, dataset);
        inference.run({&collected});
        found[m] = std::move(collected.all);
      });
    for (std::thread& thread : threads) thread.join();
    Rows together;
    for (Rows& rows : found) together.merge(rows);
    expect_same_bits(together, wanted(), std::to_string(machines) + " machines");
  }
}

TEST_P(FullInferenceTest, GoesOnWhereItEnded_WithTheSameBits) {
  const Dataset dataset(data(2));
  for (int stop = 1;; ++stop) {
    InferenceOptions options = in(layers());
    int calls = 0;
    options.progress = [&](std::uint64_t, std::uint64_t) {
      if (++calls == stop) throw Ends();
    };
    Collected lost(GetParam().kind, dataset);
    bool ended = false;
    try {
      FullInference(GetParam().model(dataset), dataset, options).run({&lost});
    } catch (const Ends&) {
      ended = true;
    }
    if (!ended) break;
    EXPECT_EQ(lost.finishes, 0);
    options.progress = {};
    expect_same_bits(rows_of(dataset, options), wanted(), "ended at call " + std::to_string(stop));
  }
}

TEST_P(FullInferenceTest, ADamagedShardIsRefused) {
  const Dataset dataset(data(2));
  InferenceOptions options = in(layers());
  std::size_t damaged = 0;
  options.progress = [&](std::uint64_t, std::uint64_t) {  // each shard as soon as it is there
    if (!std::filesystem::exists(options.folder / "layers")) return;
    for (const auto& [file, bytes] : testing::files_of(options.folder / "layers")) {
      if (bytes.size() <= sizeof(ShardFoot)) continue;
      std::string other = bytes;
      other[other.size() - sizeof(ShardFoot) - 1] ^= 1;
      testing::write_bytes(options.folder / "layers" / file, other);
      ++damaged;
    }
  };
  Collected collected(GetParam().kind, dataset);
  FullInference inference(GetParam().model(dataset), dataset, options);
  expect_refused([&] { inference.run({&collected}); }, ".rows is damaged", ErrorCode::kCorrupt);
  EXPECT_GT(damaged, 0U);
  EXPECT_EQ(collected.finishes, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, FullInferenceTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// ---- one model is enough for these

class FullInferenceOfOne : public ::testing::Test {
 protected:
  FullInferenceOfOne() { case_.write(scratch_.path() / "data", 2); }
  const Case case_ = sage_case("sage", 400, {.hops = 2, .hidden = 20});
  TempFolder scratch_;
};

TEST_F(FullInferenceOfOne, EmbeddingsAreTheLastLayersInput) {
  const Dataset dataset(scratch_.path() / "data");
  const InferredModel model = case_.model(dataset);
  Collected embeddings(Kind::kEmbeddings, dataset), scores(Kind::kScores, dataset);
  FullInference(model, dataset, in(scratch_.path() / "layers")).run({&embeddings, &scores});
  ASSERT_EQ(embeddings.all.size(), 400U);
  EXPECT_EQ(embeddings.all.begin()->second.size(), 20U);
  EXPECT_EQ(scores.all.begin()->second.size(), 4U);
  for (const auto& [node, row] : embeddings.all)
    for (const float value : row) EXPECT_GE(value, 0) << "it is behind its activation";
}

TEST_F(FullInferenceOfOne, WhatTheModelHasNotIsRefused) {
  case_.write(scratch_.path() / "typed", 1);
  const testing::TypedGraph graph = testing::taste_graph();
  testing::write_typed_dataset(scratch_.path() / "links", graph);
  const Dataset dataset(scratch_.path() / "links");
  FullInference inference(cases().back().model(dataset), dataset, in(scratch_.path() / "layers"));
  Collected scores(Kind::kScores, dataset);
  expect_refused([&] { inference.run({&scores}); }, "has no scores of nodes");
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "layers"));
}

TEST_F(FullInferenceOfOne, TwoRunsIntoOneFolder_TheSecondIsRefused) {
  const Dataset dataset(scratch_.path() / "data");
  FullInference first(case_.model(dataset), dataset, in(scratch_.path() / "layers"));
  const RunFolder held(scratch_.path() / "layers", first.run_id(), "{}");
  Collected scores(Kind::kScores, dataset);
  expect_refused([&] { first.run({&scores}); }, "another run computes", ErrorCode::kBusy);
}

TEST_F(FullInferenceOfOne, ARunsIdNamesWhatDecidesItsRows) {
  const Dataset dataset(scratch_.path() / "data");
  case_.write(scratch_.path() / "cut", 3);
  const Dataset cut(scratch_.path() / "cut");
  const auto id = [&](const Dataset& of, std::int64_t seed, InferenceOptions options = {}) {
    torch::manual_seed(seed);
    const InferredModel model =
        inferred(*GraphSage(ModelOptions{.hops = 2, .features = 12, .hidden = 20, .classes = 4}), of, "");
    return FullInference(model, of, std::move(options)).run_id();
  };
  EXPECT_EQ(id(dataset, 1), id(dataset, 1, {.folder = "elsewhere", .memory = 5, .threads = 9}));
  EXPECT_NE(id(dataset, 1), id(dataset, 2));
  EXPECT_NE(id(dataset, 1), id(cut, 1));
}

TEST_F(FullInferenceOfOne, FeaturesThatAreNotFiniteAreRefusedOnRequest) {
  testing::TinyGraph graph =
      testing::random_graph({.num_nodes = 50, .num_edges = 200, .x_width = 12, .num_train = 25});
  graph.x[12 * 17 + 3] = std::nanf("");
  testing::write_tiny_dataset(scratch_.path() / "nan", graph);
  const Dataset dataset(scratch_.path() / "nan");
  InferenceOptions options = in(scratch_.path() / "layers");
  Collected scores(Kind::kScores, dataset), others(Kind::kScores, dataset);
  FullInference(case_.model(dataset), dataset, options).run({&scores});
  EXPECT_TRUE(std::isnan(scores.all.at({0, 17})[0]));
  options.check_finite = true;
  FullInference inference(case_.model(dataset), dataset, options);
  expect_refused([&] { inference.run({&others}); }, "features of node 17 of type 'node' are not finite");
}

TEST_F(FullInferenceOfOne, FeaturesThatAreReadOverEdgesAloneAreCheckedToo) {
  testing::TypedGraph graph = testing::typed_training_graph();
  graph.nodes[2].x[4] = std::nanf("");  // of a venue
  testing::write_typed_dataset(scratch_.path() / "typed", graph);
  const Dataset dataset(scratch_.path() / "typed");
  InferenceOptions options = in(scratch_.path() / "layers");
  options.check_finite = true;
  FullInference inference(inferred(*HeteroSage(hetero_options(dataset.meta())), dataset, ""), dataset,
                          options);
  Collected scores(Kind::kScores, dataset);
  expect_refused([&] { inference.run({&scores}); }, "features of node 1 of type 'ven.ue' are not finite");
}

TEST_F(FullInferenceOfOne, MemoryForNotOneColumnIsRefused) {
  const Dataset dataset(scratch_.path() / "data");
  InferenceOptions options = in(scratch_.path() / "layers");
  options.memory = 1'000;
  FullInference inference(case_.model(dataset), dataset, options);
  Collected scores(Kind::kScores, dataset);
  expect_refused([&] { inference.run({&scores}); }, "one column of the rows", ErrorCode::kNoSpace);
}

/// Of shards, without their feet, and of files in the folder that have no name.
std::uint64_t bytes_of_layers(const std::filesystem::path& folder) {
  std::uint64_t bytes = 0;
  for (const auto& [file, content] : testing::files_of(folder))
    if (file.ends_with(".rows")) bytes += content.size() - sizeof(ShardFoot);
  for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    const std::string name = std::filesystem::read_symlink(descriptor.path(), closed).string();
    if (name.starts_with(folder.string()) && name.ends_with(" (deleted)"))
      bytes += std::filesystem::file_size(descriptor.path(), closed);
  }
  return bytes;
}

TEST_F(FullInferenceOfOne, TheDiskItTakesIsTold) {
  for (const std::uint64_t memory : {std::uint64_t{1} << 30, std::uint64_t{4'000}}) {  // whole, and in slices
    const Dataset dataset(scratch_.path() / "data");
    InferenceOptions options = in(scratch_.path() / "layers");
    options.memory = memory;
    std::uint64_t most = 0;
    options.progress = [&](std::uint64_t, std::uint64_t) {
      most = std::max(most, bytes_of_layers(options.folder));
    };
    FullInference inference(case_.model(dataset), dataset, options);
    Collected scores(Kind::kScores, dataset);
    const InferenceDisk told = inference.disk({&scores});
    inference.run({&scores});
    EXPECT_GT(most, 0U) << memory;
    EXPECT_LE(most, told.layers) << memory;
    EXPECT_GT(most, told.layers * 9 / 10) << memory;
  }
}

}  // namespace
}  // namespace hopfeed
