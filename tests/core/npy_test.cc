// .npy files: round trips, NumPy's own headers, and every kind of damage.
#include "core/dataset/npy.h"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/dataset/given_array.h"
#include "tests/support/expect_refused.h"
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

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// A file of the given type, order and shape with these elements, in the order and bytes of the file.
class GivenArrays : public Npy {
 protected:
  fs::path give(const std::string& type, bool fortran, const std::string& shape,
                const std::string& data) const {
    const fs::path file = store("{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") +
                                    ", 'shape': " + shape + ", }",
                                0);
    std::ofstream(file, std::ios::binary | std::ios::app) << data;
    return file;
  }
  std::vector<std::int64_t> integers(const fs::path& file) const {
    const GivenArray array(file);
    std::vector<std::int64_t> values(static_cast<std::size_t>(array.count()));
    array.read_integers(0, values);
    return values;
  }
};

TEST_F(GivenArrays, InFortranOrder_AreReadInCOrder) {
  const fs::path file = give("<i4", true, "(2, 3)", bytes_of<std::int32_t>({1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(integers(file), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
  const GivenArray array(file);
  for (std::int64_t first = 0; first < 6; ++first) {
    std::vector<std::int32_t> rest(static_cast<std::size_t>(6 - first));
    array.read(first, std::span(rest));
    for (std::size_t i = 0; i < rest.size(); ++i)
      EXPECT_EQ(rest[i], first + static_cast<std::int64_t>(i) + 1);
  }
  EXPECT_EQ(integers(give("<i4", true, "(2, 2, 2)", bytes_of<std::int32_t>({1, 5, 3, 7, 2, 6, 4, 8}))),
            (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_FALSE(GivenArray(give("<i4", true, "(3, 1)", bytes_of<std::int32_t>({1, 2, 3}))).in_fortran_order())
      << "of one column both orders are the same";
}

TEST_F(GivenArrays, OfTheOtherByteOrder_AreTurned) {
  EXPECT_EQ(integers(give(">i4", false, "(2,)", std::string("\0\0\0\1\xff\xff\xff\xfe", 8))),
            (std::vector<std::int64_t>{1, -2}));
  const GivenArray floats(give(">f4", false, "(1,)", std::string("\x3f\x80\0\0", 4)));
  float value = 0;
  floats.read(0, std::span(&value, 1));
  EXPECT_EQ(value, 1);
}

TEST_F(GivenArrays, OfUnsignedTypes_AreWidenedAndWhatDoesNotFitIsNamed) {
  const GivenArray narrow(give("<u2", false, "(2,)", bytes_of<std::uint16_t>({7, 65'535})));
  EXPECT_EQ(narrow.type(), ElementType::kInt32);
  EXPECT_EQ(integers(narrow.path()), (std::vector<std::int64_t>{7, 65'535}));
  EXPECT_EQ(integers(give(">u2", false, "(1,)", std::string("\x01\x02", 2))),
            (std::vector<std::int64_t>{258}));
  EXPECT_EQ(integers(give("<u8", false, "(1,)", bytes_of<std::uint64_t>({INT64_MAX}))),
            (std::vector<std::int64_t>{INT64_MAX}));
  const std::uint64_t large = std::uint64_t{1} << 63;
  expect_refused(
      [&] {
        integers(give("<u8", false, "(2,)", bytes_of<std::uint64_t>({1, large})));
      },
      "a.npy: entry 1 is 9223372036854775808, which no int64 holds");
  expect_refused(
      [&] {
        integers(give("<u8", true, "(2, 2)", bytes_of<std::uint64_t>({1, large, 2, 3})));
      },
      "a.npy: entry [1, 0] is 9223372036854775808");
}

TEST_F(GivenArrays, InTheseForms_AreNoFilesOfADataset) {
  for (const char* type : {">i8", "<u8"})
    EXPECT_EQ(open_error(give(type, false, "(1,)", std::string(8, '\1'))), ErrorCode::kUnsupported);
  EXPECT_EQ(open_error(give("<i8", true, "(1, 1)", std::string(8, '\1'))), ErrorCode::kUnsupported);
}

TEST_F(GivenArrays, InMemory_AreReadWhereTheyLie) {
  const std::vector<std::int32_t> items{1, 2, 3, 4, 5, 6};
  const GivenArray array(
      ArraySource("edges", {.descr = "<i4", .shape = {2, 3}, .bytes = std::as_bytes(std::span(items))}));
  EXPECT_EQ(array.path(), "edges");
  EXPECT_EQ(array.shape_text(), "[2, 3]");
  EXPECT_EQ(array.stored<std::int32_t>().data(), items.data());
  std::vector<std::int64_t> last(2);
  array.read_integers(4, last);
  EXPECT_EQ(last, (std::vector<std::int64_t>{5, 6}));
}

TEST_F(GivenArrays, InMemory_AreRefusedByTheirNames) {
  const std::vector<std::int32_t> items{1, 2, 3};
  const auto give_as = [&](const char* descr, std::vector<std::int64_t> shape) {
    GivenArray(
        ArraySource("edges", {.descr = descr, .shape = shape, .bytes = std::as_bytes(std::span(items))}));
  };
  expect_refused([&] { give_as("<i4", {4}); }, "edges", ErrorCode::kCorrupt);
  expect_refused([&] { give_as("<c8", {1}); }, "edges holds elements of type '<c8'", ErrorCode::kUnsupported);
}

TEST_F(GivenArrays, OfNoNumbers_AreRefused) {
  for (const char* type : {"<U2", "|O", "<M8[s]", "<c8"})
    expect_refused([&] { GivenArray(give(type, false, "(1,)", std::string(8, '\1'))); },
                   std::string("a.npy holds elements of type '") + type + "'; known are",
                   ErrorCode::kUnsupported);
  const std::vector<RowRecord> rows{{0, 1}};
  NpyWriter writer(path("rows.npy"), kRowRecordDescr, {1});
  writer.write(std::span<const RowRecord>(rows));
  writer.finish();
  expect_refused([&] { GivenArray(path("rows.npy")); }, "rows.npy", ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace hopfeed
