// See placed_file.h.
#include "partition_tool/gather/placed_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/disk_room.h"
#include "core/base/error.h"
#include "core/dataset/npy.h"

namespace hopfeed {
namespace {

constexpr std::size_t kStretch = std::size_t{1} << 20;

}  // namespace

PlacedFile::PlacedFile(const std::filesystem::path& path, const std::string& descr,
                       const std::vector<std::int64_t>& shape, std::uint64_t bytes, std::size_t memory)
    : path_(path), bytes_(bytes), memory_(memory), file_(path, "--out: ") {
  const std::string head = npy_head(descr, shape);
  data_offset_ = head.size();
  const int error = ::posix_fallocate(file_.fd(), 0, static_cast<off_t>(file_bytes()));
  if (error != 0) throw_write_errno(path_, error, file_bytes());
  file_.write(head);
  room_ = static_cast<std::size_t>(std::min<std::uint64_t>(memory_, bytes_));
  waiting_ = std::make_unique_for_overwrite<std::byte[]>(room_);
}

void PlacedFile::put(std::uint64_t at, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (at > bytes_ || bytes.size() > bytes_ - at)
    throw Error(ErrorCode::kCorrupt, "a part of " + path_.string() + " has no place in it");
  came_ += bytes.size();
  if (used_ + bytes.size() > room_ || used_ + bytes.size() + (pieces_.size() + 1) * sizeof(Piece) > memory_)
    flush();
  if (bytes.size() > room_) return write(at, bytes);
  std::ranges::copy(bytes, waiting_.get() + used_);
  pieces_.push_back({at, used_, bytes.size()});
  used_ += bytes.size();
}

void PlacedFile::flush() {
  std::ranges::sort(pieces_, {}, &Piece::at);
  std::uint64_t begin = 0;
  const auto end_stretch = [&] {
    write(begin, stretch_);
    stretch_.clear();
  };
  for (const Piece& piece : pieces_) {
    if (begin + stretch_.size() != piece.at || stretch_.size() >= kStretch) {
      end_stretch();
      begin = piece.at;
    }
    const std::byte* const from = waiting_.get() + piece.begin;
    stretch_.insert(stretch_.end(), from, from + piece.size);
  }
  end_stretch();
  pieces_.clear();
  used_ = 0;
}

void PlacedFile::write(std::uint64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote =
        ::pwrite(file_.fd(), bytes.data(), bytes.size(), static_cast<off_t>(data_offset_ + at));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) throw_write_errno(path_, errno, file_bytes());
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
    at += static_cast<std::uint64_t>(wrote);
  }
}

void PlacedFile::finish() {
  flush();
  waiting_.reset();
  stretch_ = {};
  room_ = 0;
  if (came_ != bytes_)
    throw Error(ErrorCode::kCorrupt,
                path_.string() + " would not be whole: files changed while they were read");
}

void PlacedFile::commit() { file_.commit(); }

}  // namespace hopfeed
