// A PlacedFile is an .npy file whose parts come in any order, each with its place. They wait in memory, up to
// a limit, and are written in rising order: with more memory in fewer, longer stretches. The file takes all
// its room on the disk at once, and appears whole or not at all.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/atomic_file.h"

namespace hopfeed {

class PlacedFile {
 public:
  /// `descr` is as in NpyHeader; `bytes` are those of all elements. Throws kNoSpace where the disk has no
  /// room for them, and what AtomicFile throws.
  PlacedFile(const std::filesystem::path& path, const std::string& descr,
             const std::vector<std::int64_t>& shape, std::uint64_t bytes, std::size_t memory);
  /// Bytes that belong `at` bytes behind the first element.
  void put(std::uint64_t at, std::span<const std::byte> bytes);
  /// Writes what waits, and gives its memory back. Throws kCorrupt unless as many bytes came as belong here.
  void finish();
  /// Puts the file in its place. Call it after finish().
  void commit();
  const std::filesystem::path& path() const { return path_; }
  std::uint64_t file_bytes() const { return data_offset_ + bytes_; }

 private:
  struct Piece {
    std::uint64_t at;
    std::size_t begin, size;  // in what waits
  };
  void flush();
  void write(std::uint64_t at, std::span<const std::byte> bytes);

  const std::filesystem::path path_;
  const std::uint64_t bytes_;
  const std::size_t memory_;
  AtomicFile file_;
  std::uint64_t data_offset_ = 0, came_ = 0;
  std::unique_ptr<std::byte[]> waiting_;
  std::size_t room_ = 0, used_ = 0;  // of waiting_
  std::deque<Piece> pieces_;         // grows without a copy, unlike a vector
  std::vector<std::byte> stretch_;   // that is written next, in one call
};

}  // namespace hopfeed
