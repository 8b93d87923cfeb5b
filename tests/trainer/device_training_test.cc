// Training as it is on a device, with the CPU in its place: batches that are copied one ahead, bfloat16,
// deterministic algorithms. And what the programs say of devices that are not there.
#include <gtest/gtest.h>

#include "core/dataset/dataset.h"
#include "tests/support/watchdog.h"
#include "tests/trainer/program_fixture.h"
#include "tests/trainer/typed_training_graph.h"
#include "trainer/device.h"
#include "trainer/layerwise_inference.h"

namespace hopfeed {
namespace {

using testing::parameter_digest;
using testing::small_training;

class DeviceTraining : public testing::WatchedTest<150> {
 protected:
  DeviceTraining() {
    at::set_num_threads(1);
    testing::write_tiny_dataset(data_, testing::training_graph());
    const testing::TypedGraph graph = testing::typed_training_graph();
    testing::write_typed_dataset(typed_, graph, testing::random_typed_cut(graph, 2, 1));
  }
  TrainingOptions options(const std::filesystem::path& data) const {
    TrainingOptions result = small_training(data.string());
    result.epochs = 4;
    return result;
  }
  static std::vector<double> figures(const TrainingResult& result) {
    std::vector<double> values;
    for (const EpochRow& row : result.rows) values.insert(values.end(), {row.loss, row.valid_accuracy});
    return values;
  }
  std::vector<std::string> command(const char* name, std::vector<std::string> more) const {
    std::vector<std::string> words{
        program(name), "--data", data_.string(), "--fanouts", "4,3", "--batch-size", "50", "--hidden", "16",
        "--epochs",    "3",      "--seed",       "5"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  TempFolder folder_;
  std::filesystem::path data_ = folder_.path() / "data", typed_ = folder_.path() / "typed";
  World world_;
};

TEST_F(DeviceTraining, OnCopiesThatGoOneAhead_IsTrainingOnTheSlots_ToTheLastBit) {
  for (const std::filesystem::path& data : {data_, typed_}) {
    const TrainingResult slots = train(world_, options(data));
    TrainingOptions copied = options(data);
    copied.copy_batches = true;
    const TrainingResult copies = train(world_, copied);
    EXPECT_EQ(figures(copies), figures(slots)) << data;
    EXPECT_EQ(parameter_digest(copies.model), parameter_digest(slots.model)) << data;
  }
}

// The batch ahead is not among those that the checkpoint counts.
TEST_F(DeviceTraining, OnCopies_ARunThatWasInterruptedAnywhereEndsLikeTheOthers) {
  TrainingOptions whole = options(data_);
  whole.copy_batches = true;
  whole.checkpoint_every = 2;
  whole.out = folder_.path() / "whole";
  const TrainingResult expected = train(world_, whole);
  for (const int stop : {1, 7, 12, 13, 30}) {
    TrainingOptions again = whole;
    again.out = folder_.path() / ("stopped" + std::to_string(stop));
    EXPECT_THROW(train(world_, again, testing::interrupting(stop)), testing::Interruption);
    again.resume = Resume::kAlways;
    const TrainingResult result = train(world_, again);
    EXPECT_EQ(figures(result), figures(expected)) << stop;
    EXPECT_EQ(parameter_digest(result.model), parameter_digest(expected.model)) << stop;
  }
}

TEST_F(DeviceTraining, InBfloat16TheLossFalls_NearToThatInFloat32) {
  for (const std::filesystem::path& data : {data_, typed_}) {
    TrainingOptions exact = options(data);
    exact.dropout = 0;
    exact.epochs = 6;
    TrainingOptions half = exact;
    half.precision = Precision::kBf16;
    const TrainingResult expected = train(world_, exact), result = train(world_, half);
    ASSERT_EQ(result.rows.size(), 6U);
    EXPECT_LT(result.rows.back().loss, 0.9 * result.rows.front().loss) << data;
    EXPECT_NE(figures(result), figures(expected)) << "nothing was rounded";
    for (std::size_t i = 0; i < result.rows.size(); ++i)
      EXPECT_NEAR(result.rows[i].loss, expected.rows[i].loss, 0.05 * expected.rows.front().loss)
          << data << " epoch " << i;
    for (const torch::Tensor& parameter : result.model->parameters())
      EXPECT_EQ(parameter.dtype(), torch::kFloat32);
    const torch::Tensor logits = layerwise_inference(*result.model, Dataset(data));
    EXPECT_EQ(logits.dtype(), torch::kFloat32) << "exact evaluation is in float32";
  }
}

TEST_F(DeviceTraining, DeterministicRunsRepeatToTheLastBit) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBf16}) {
    TrainingOptions run = options(typed_);
    run.deterministic = true;
    run.copy_batches = true;
    run.precision = precision;
    const TrainingResult first = train(world_, run), second = train(world_, run);
    EXPECT_EQ(figures(first), figures(second)) << to_string(precision);
    EXPECT_EQ(parameter_digest(first.model), parameter_digest(second.model)) << to_string(precision);
  }
}

TEST_F(DeviceTraining, ACheckpointInBfloat16IsNotGoneOnFromInFloat32) {
  TrainingOptions run = options(data_);
  run.precision = Precision::kBf16;
  run.out = folder_.path() / "half";
  train(world_, run);
  run.precision = Precision::kFloat32;
  run.resume = Resume::kAlways;
  try {
    train(world_, run);
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("precision bf16"), std::string::npos) << error.what();
  }
}

TEST_F(DeviceTraining, ProgramsRefuseAGpuThatIsNotThere_InOneLine_AndLeaveNothing) {
  if (why_no_cuda().empty()) GTEST_SKIP() << "this machine has a GPU";
  const std::filesystem::path out = folder_.path() / "out";
  for (const char* name : {"node_classification", "hetero_classification"}) {
    expect_refused(run_program(command(name, {"--device", "cuda", "--out", out.string()})), name,
                   "device is cuda, but ");
    expect_refused(run_program(command(name, {"--device", "cuda:1", "--out", out.string()})), name,
                   "device is cuda:1, but ");
  }
  expect_refused(run_program({program("link_prediction"), "--data", typed_.string(), "--edge-type", "cites",
                              "--device", "cuda", "--out", out.string()}),
                 "link_prediction", "device is cuda, but ");
  expect_refused(run_program({program("own_training_loop"), data_.string(), "--device", "cuda"}),
                 "own_training_loop", "device is cuda, but ");
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(DeviceTraining, ProgramsRefuseOtherDevicesAndPrecisions) {
  for (const char* name : {"node_classification", "hetero_classification"}) {
    expect_refused(run_program(command(name, {"--device", "tpu"})), name, "'tpu'");
    expect_refused(run_program(command(name, {"--precision", "fp8"})), name, "fp8");
  }
  expect_refused(run_program({program("own_training_loop"), data_.string(), "--device", "tpu"}),
                 "own_training_loop", "'tpu'");
}

TEST_F(DeviceTraining, WithoutAGpu_AutoIsTheCpu_AndSaysSoOnce) {
  if (why_no_cuda().empty()) GTEST_SKIP() << "this machine has a GPU";
  const std::filesystem::path json = folder_.path() / "summary.json";
  const auto results = trainer_tests::run_ranks(
      command("node_classification", {"--device", "auto", "--json", json.string()}), 2);
  std::string output;
  for (const ProgramResult& result : results) {
    EXPECT_EQ(result.status, 0) << result.output;
    output += result.output;
  }
  const std::size_t said = output.find("device auto: the CPU");
  EXPECT_NE(said, std::string::npos) << output;
  EXPECT_EQ(output.find("device auto", said + 1), std::string::npos) << output;
  EXPECT_EQ(read_json(json)["options"]["device"], "cpu");
  const ProgramResult own = run_program({program("own_training_loop"), data_.string(), "--device", "auto"});
  EXPECT_EQ(own.status, 0) << own.output;
  EXPECT_NE(own.output.find("device auto: the CPU"), std::string::npos) << own.output;
}

TEST_F(DeviceTraining, ProgramsTrainInBfloat16_AndRepeatDeterministically) {
  const auto losses = [&](const std::vector<std::string>& words, const std::string& name) {
    const std::filesystem::path json = folder_.path() / name;
    std::vector<std::string> whole = words;
    whole.insert(whole.end(), {"--no-baseline", "--deterministic", "--json", json.string()});
    const ProgramResult result = run_program(whole);
    EXPECT_EQ(result.status, 0) << result.output;
    return epoch_losses(read_json(json));
  };
  for (const std::vector<std::string>& words :
       {command("node_classification", {"--precision", "bf16"}), command("node_classification", {})}) {
    const std::vector<double> first = losses(words, "first.json"), second = losses(words, "second.json");
    EXPECT_EQ(first.size(), 3U);
    EXPECT_EQ(first, second);
  }
}

}  // namespace
}  // namespace hopfeed
