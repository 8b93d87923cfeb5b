// .npy files: round trips, NumPy's own headers, and every kind of damage.
#include "core/dataset/npy.h"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

class Npy : public ::testing::Test {
 protected:
  fs::path path(const char* name = "a.npy") const { return folder_.path() / name; }
  fs::path store(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary) << bytes;
    return path();
  }
  // A version 1 file with the given dictionary and data.
  fs::path store(const std::string& dictionary, std::size_t data_bytes) const {
    std::string text = dictionary;
    text.resize((10 + text.size() + 1 + 63) / 64 * 64 - 11, ' ');
    text += '\n';
    std::string head("\x93NUMPY\x01\x00", 8);
    head += {static_cast<char>(text.size()), static_cast<char>(text.size() >> 8)};
    return store(head + text + std::string(data_bytes, '\1'));
  }
  ErrorCode open_error(const fs::path& file) const {
    try {
      NpyArray array(file);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(file.filename().string()), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.code();
    }
    ADD_FAILURE() << "it was opened";
    return ErrorCode::kIo;
  }
  testing::TempFolder folder_;
};

TEST_F(Npy, RoundTripOfNumbersAndRecords) {
  std::vector<std::int64_t> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), -5);
  write_npy<std::int64_t>(path("n.npy"), numbers, {10, 100});
  const NpyArray array(path("n.npy"));
  EXPECT_EQ(array.header().shape, (std::vector<std::int64_t>{10, 100}));
  EXPECT_TRUE(std::ranges::equal(array.as<std::int64_t>(), numbers));
  EXPECT_EQ(array.header().data_offset % 64, 0u);
  EXPECT_THROW(array.as<float>(), Error);

  const std::vector<RowRecord> rows{{0, 7}, {3, -1}};
  NpyWriter writer(path("r.npy"), kRowRecordDescr, {2});
  writer.write(std::span<const RowRecord>(rows));
  writer.finish();
  EXPECT_EQ(NpyArray(path("r.npy")).as<RowRecord>()[1].offset, 3);
}

TEST_F(Npy, HeadersUpToTheLimitAreRead) {
  const auto with_header = [&](std::size_t bytes) {
    std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
    text.resize(bytes - 1, ' ');
    std::string head("\x93NUMPY\x02\x00", 8);
    for (int byte = 0; byte < 4; ++byte) head += static_cast<char>(bytes >> 8 * byte);
    return store(head + text + '\n' + std::string(12, '\1'));
  };
  EXPECT_EQ(NpyArray(with_header(kMaxNpyHeaderBytes - 12)).header().count(), 3);
  EXPECT_EQ(open_error(with_header(kMaxNpyHeaderBytes - 12 + 64)), ErrorCode::kCorrupt);
}

TEST_F(Npy, EmptyArraysAreArrays) {
  write_npy<float>(path(), {}, {0, 5});
  EXPECT_EQ(NpyArray(path()).as<float>().size(), 0u);
}

TEST_F(Npy, HeadersAsNumPyWritesThem) {
  EXPECT_EQ(NpyArray(store("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 12)).header().shape,
            (std::vector<std::int64_t>{3}));
  EXPECT_EQ(NpyArray(store("{'shape': (2, 3), 'fortran_order': False, 'descr': '<i4'}", 24)).header().count(),
            6);
  EXPECT_EQ(NpyArray(store("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", 8)).header().count(),
            1);
}

TEST_F(Npy, DamageIsNamed) {
  EXPECT_EQ(open_error(store("")), ErrorCode::kCorrupt);
  EXPECT_EQ(open_error(store("not an array at all")), ErrorCode::kCorrupt);
  EXPECT_EQ(open_error(store(std::string("\x93NUMPY\x09\x00\x00\x00\x00\x00", 12))), ErrorCode::kVersion);
  EXPECT_EQ(open_error(store(std::string("\x93NUMPY\x01\x00\xff\xff{}", 12))), ErrorCode::kCorrupt);
  EXPECT_EQ(open_error(store("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 11)),
            ErrorCode::kCorrupt);  // one byte short
  EXPECT_EQ(open_error(store("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 13)),
            ErrorCode::kCorrupt);  // one byte too many
  EXPECT_EQ(open_error(store("{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }", 12)),
            ErrorCode::kUnsupported);
  EXPECT_EQ(open_error(store("{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", 12)),
            ErrorCode::kUnsupported);  // pickles
  EXPECT_EQ(open_error(store("{'descr': '<f4', 'fortran_order': True, 'shape': (3,), }", 12)),
            ErrorCode::kUnsupported);
  EXPECT_EQ(open_error(store("{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }", 12)),
            ErrorCode::kCorrupt);
  EXPECT_EQ(open_error(store("{'descr': '<f4', 'fortran_order': False}", 12)), ErrorCode::kCorrupt);
  EXPECT_EQ(open_error(store("{'descr': '<f4', 'descr': '<f4', 'shape': (3,), }", 12)), ErrorCode::kCorrupt);
  EXPECT_EQ(
      open_error(store("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 12)),
      ErrorCode::kCorrupt);
  EXPECT_EQ(open_error(path("missing.npy")), ErrorCode::kNotFound);
}

TEST_F(Npy, EveryTruncationIsRefused) {
  write_npy<std::int32_t>(path("whole.npy"), std::vector<std::int32_t>(50, 3), {50});
  std::ifstream in(path("whole.npy"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_EQ(open_error(store(whole.substr(0, length))), ErrorCode::kCorrupt) << length;
  }
}

TEST_F(Npy, AnArrayThatIsNotCompleteIsRefusedByTheWriter) {
  NpyWriter writer(path(), "<i8", {3});
  writer.write_one<std::int64_t>(1);
  EXPECT_THROW(writer.finish(), Error);
}

}  // namespace
}  // namespace hopfeed
