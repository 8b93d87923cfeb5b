// Reads, damages and verifies a dataset's files for tests, and compares them with the golden ones of
// tests/core/data.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "core/dataset/dataset.h"
#include "core/dataset/npy.h"

namespace hopfeed::testing {

inline std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Returns the files by the path inside the folder.
inline std::map<std::string, std::string> files_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[std::filesystem::relative(entry.path(), folder).string()] = file_bytes(entry.path());
  }
  return files;
}

inline void verify(const std::filesystem::path& folder) {
  Dataset(folder).verify([](std::uint64_t, std::uint64_t) {});
}

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(std::getenv("HOPFEED_SOURCE")) / "tests/core/data" / name;
}

/// Lets `change` have the elements of a file, and gives the manifest the new checksum.
template <class Change>
void change_file(const std::filesystem::path& data, const std::string& relative, Change change) {
  std::string file = file_bytes(data / relative);
  const auto checksum = [&] { return fmt::format("{:016x}", XXH3_64bits(file.data(), file.size())); };
  std::string meta = file_bytes(data / "meta.json");
  const std::size_t at = meta.find(checksum(), meta.find('"' + relative + '"'));
  ASSERT_NE(at, std::string::npos) << relative;
  change(reinterpret_cast<std::byte*>(file.data()) + NpyArray(data / relative).header().data_offset);
  meta.replace(at, 16, checksum());
  write_bytes(data / relative, file);
  write_bytes(data / "meta.json", seal_meta(meta));
}

/// Swaps the first two elements, of so many bytes each.
inline void swap_first_two(const std::filesystem::path& data, const std::string& relative,
                           std::size_t bytes) {
  change_file(data, relative,
              [&](std::byte* first) { std::swap_ranges(first, first + bytes, first + bytes); });
}

/// Returns whether to write what is golden anew, after a meant change of a format.
inline bool stores_golden() { return std::getenv("HOPFEED_STORE_GOLDEN") != nullptr; }

/// Expects the folder to be the golden one, byte by byte, and that to verify.
inline void expect_golden(const std::filesystem::path& made, const std::string& name) {
  const std::filesystem::path kept = golden(name);
  if (stores_golden()) {
    std::filesystem::remove_all(kept);
    std::filesystem::copy(made, kept, std::filesystem::copy_options::recursive);
  }
  verify(kept);
  const auto expected = files_of(kept);
  const auto files = files_of(made);
  for (const auto& [path, bytes] : files) {
    ASSERT_TRUE(expected.contains(path)) << path << " is new";
    EXPECT_EQ(bytes, expected.at(path)) << path << ": if that was meant, raise kDatasetVersion";
  }
  EXPECT_EQ(files.size(), expected.size()) << "a golden file is not made any more";
}

}  // namespace hopfeed::testing
