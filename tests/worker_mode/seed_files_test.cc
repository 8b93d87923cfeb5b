// Files of seeds, their times and their weights that cannot be what they should: exit code 2 and one line
// that says why.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker_mode/loader_fixture.h"

namespace hopfeed {
namespace {

constexpr std::size_t kSeeds = 230;  // in split "train" of the fixture's graph, which has 400 nodes

/// What a test puts into a file; NumPy's names of types ('<i8'), and shapes as it writes them ("(3,)").
struct Npy {
  std::string type, shape;
  std::string data;
};

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
Npy list(const std::string& type, const std::vector<T>& values) {
  return {type, fmt::format("({},)", values.size()), bytes_of(values)};
}

/// A weight for each seed, the last of them `last`.
Npy weights(double last) {
  std::vector<double> values(kSeeds, 1.0);
  values.back() = last;
  return list("<f8", values);
}

class SeedFiles : public LoaderTestWithin<120> {
 protected:
  /// hopfeed-sample with `option` naming a file that holds this, in the graph above.
  testing::ProgramResult sample(const std::string& option, const Npy& given,
                                const std::vector<std::string>& more = {}) const {
    std::string header =
        "{'descr': '" + given.type + "', 'fortran_order': False, 'shape': " + given.shape + ", }";
    header.resize(117, ' ');  // with what is before it and the newline two blocks of 64 bytes
    std::ofstream(file_, std::ios::binary) << std::string("\x93NUMPY\x01\0\x76\0", 10) << header << '\n'
                                           << given.data;
    std::vector<std::string> words{option, file_};
    words.insert(words.end(), more.begin(), more.end());
    return testing::run_program(sample_command(words));
  }
  void expect_refused(const std::string& option, const Npy& given, const std::string& reason) const {
    const testing::ProgramResult result = sample(option, given);
    const std::string what = option + " of type " + given.type + " and shape " + given.shape;
    EXPECT_EQ(result.exit_code, 2) << what;
    EXPECT_EQ(result.out, "") << what;
    EXPECT_EQ(result.err, "hopfeed-sample: " + option + ": " + file_ + reason + "\n") << what;
  }

  testing::TempFolder folder_;
  const std::string file_ = (folder_.path() / "given.npy").string();
};

const Npy kFloats = list<double>("<f8", {1, 2, 3}), kShort = list<std::int16_t>("<i2", {1, 2, 3}),
          kUnsigned = list<std::uint64_t>("<u8", {1, 2, 3}),
          kBigEndian = list<std::int64_t>(">i8", {1L << 56, 2L << 56, 3L << 56}),
          kStrings{"<U2", "(3,)", std::string(24, 'a')}, kObjects{"|O", "(3,)", std::string(24, 'a')},
          kPairs{"<i8", "(2, 2)", bytes_of<std::int64_t>({1, 2, 3, 4})},
          kColumn{"<i8", "(3, 1)", bytes_of<std::int64_t>({1, 2, 3})},
          kScalar{"<i8", "()", bytes_of<std::int64_t>({1})}, kNothing{"<i8", "(0,)", ""},
          kCut{"<i8", "(9,)", bytes_of<std::int64_t>({1, 2, 3})};

TEST_F(SeedFiles, OfTypesThatNoFileMayHave_AreOneLineThatNamesOptionAndFile) {
  for (const char* option : {"--seeds", "--seed-times", "--seed-weights"}) {
    for (const Npy& given : {kStrings, kObjects})
      expect_refused(option, given,
                     " holds elements of type '" + given.type +
                         "'; known are int8 to int64, uint8 to uint64, float16 to float64 and bool");
    expect_refused(option, kCut,
                   " is no valid .npy file: shape and type ask for 72 bytes of data, the file has 24");
  }
}

TEST_F(SeedFiles, OfAnotherTypeOrShape_AreOneLineThatNamesOptionAndFile) {
  const auto held = [](const Npy& given, const char* shape) {
    return ": it holds '" + given.type + "' in the shape " + shape;
  };
  const std::string seeds = " is no list of seeds (integers, the ids, or a bool per node)",
                    times = " is no list of times (integers)",
                    weights = " is no list of weights (float64 or float32)";
  const Npy mask{"|b1", "(2, 2)", std::string(4, '\1')};
  expect_refused("--seeds", kFloats, seeds + held(kFloats, "[3]"));
  for (const Npy& given : {kPairs, mask}) expect_refused("--seeds", given, seeds + held(given, "[2, 2]"));
  expect_refused("--seeds", kColumn, seeds + held(kColumn, "[3, 1]"));
  expect_refused("--seeds", kScalar, seeds + held(kScalar, "[]"));
  expect_refused("--seed-times", kFloats, times + held(kFloats, "[3]"));
  expect_refused("--seed-times", kPairs, times + held(kPairs, "[2, 2]"));
  expect_refused("--seed-times", kScalar, times + held(kScalar, "[]"));
  expect_refused("--seed-weights", kShort, weights + held(kShort, "[3]"));
  expect_refused("--seed-weights", kPairs, weights + held(kPairs, "[2, 2]"));
  expect_refused("--seed-weights", kScalar, weights + held(kScalar, "[]"));
  expect_refused("--seeds", kNothing, " is empty");
  expect_refused("--seed-times", kNothing, " is empty");
}

TEST_F(SeedFiles, OfValuesThatCannotBe_AreOneLineThatNamesOptionFileAndValue) {
  expect_refused("--seeds", list<std::int64_t>("<i8", {1, 2, -3}),
                 ": seed -3 (position 2) is no node: type 'node' has ids 0 to 399");
  expect_refused("--seeds", list<std::int32_t>("<i4", {400, 1}),
                 ": seed 400 (position 0) is no node: type 'node' has ids 0 to 399");
  expect_refused("--seeds", list<std::uint64_t>("<u8", {1, std::uint64_t{1} << 63}),
                 ": entry 1 is 9223372036854775808, which no int64 holds");
  expect_refused("--seeds", {"|b1", "(2,)", std::string(2, '\1')},
                 ": the mask of seeds has 2 entries, and type 'node' has 400 nodes");
  expect_refused("--seeds", {"|b1", "(400,)", std::string(400, '\0')}, ": the mask of seeds has no node set");
  expect_refused("--seed-times", list<std::int64_t>("<i8", {1, 2, 3}),
                 ": there are 3 seed times for 230 seeds; give one for each");
  expect_refused("--seed-weights", kFloats, ": there are 3 seed weights for 230 seeds; give one for each");
  const std::string last = ": the weights of the seeds: weight 229 is ",
                    rule = "; weights are zero or above, and finite";
  expect_refused("--seed-weights", weights(-2), last + "-2" + rule);
  expect_refused("--seed-weights", weights(std::numeric_limits<double>::quiet_NaN()), last + "nan" + rule);
  expect_refused("--seed-weights", weights(std::numeric_limits<double>::infinity()), last + "inf" + rule);
  expect_refused("--seed-weights", list("<f4", std::vector<float>(kSeeds)),
                 ": the weights of the seeds: all weights are zero, so nothing can be drawn from it");
}

TEST_F(SeedFiles, OfLinks_AreOneLineThatNamesOptionAndFile) {
  const auto refused = [&](const std::string& option, const Npy& given, const std::string& reason) {
    const testing::ProgramResult result = sample(option, given, {"--link", "to"});
    EXPECT_EQ(result.err, "hopfeed-sample: " + option + ": " + file_ + reason + "\n");
    EXPECT_EQ(result.exit_code, 2);
  };
  refused("--links", {"<i8", "(1, 2)", bytes_of<std::int64_t>({1, 400})},
          ": the destination 400 of link 0 is no node: type 'node' has ids 0 to 399");
  refused(
      "--links", kColumn,
      " is no list of links (integers [links, 2]: source and destination of each; or [2, links]): it holds "
      "'<i8' in the shape [3, 1]");
}

TEST_F(SeedFiles, InAnyForm_AreTaken) {
  const Npy plain = list<std::int64_t>("<i8", {1, 2, 3});
  const std::string expected = sample("--seeds", plain).out;
  EXPECT_NE(expected, "");
  for (const Npy& given : {kShort, kUnsigned, kBigEndian, list<std::uint16_t>("<u2", {1, 2, 3})}) {
    const testing::ProgramResult result = sample("--seeds", given);
    EXPECT_EQ(result.err, "") << given.type;
    EXPECT_EQ(result.out, expected) << given.type;
  }
}

TEST_F(SeedFiles, OfANodeTypeThatIsNotThere_AreOneLineThatSaysWhatThereIs) {
  const Npy seeds = list<std::int64_t>("<i8", {1, 2, 3});
  for (const auto& [name, reason] :
       {std::pair{"paper", "no node type 'paper'; the dataset has: node"},
        {"node,paper",
         "the seeds are of several node types ('node,paper'), and a loader has those of one; make a loader "
         "for each"}}) {
    const testing::ProgramResult result = sample("--seeds", seeds, {"--node-type", name});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, std::string("hopfeed-sample: ") + reason + "\n");
  }
  EXPECT_EQ(sample("--seeds", seeds, {"--node-type", "node"}).exit_code, 0) << "what is right is not refused";
}

}  // namespace
}  // namespace hopfeed
