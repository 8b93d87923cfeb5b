// CheckpointFiles are the files of a run's checkpoints: the last one, so many before it, and the next one
// while it is written. On rank 0.
//
//   <name>.checkpoint          the last one
//   <name>.checkpoint.1, .2    those before it, the youngest first
//   <name>.checkpoint.next     not committed
//   <name>.checkpoint.old      of an earlier run
//   <name>.checkpoint.older    of the run before that one, until what it has learned at owners is removed
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

namespace hopfeed {

class CheckpointFiles {
 public:
  /// `keep` files stay, the last one included.
  CheckpointFiles(std::filesystem::path last, std::int64_t keep) : last_(std::move(last)), keep_(keep) {}

  const std::filesystem::path& last() const { return last_; }
  std::filesystem::path next() const { return beside("next"); }
  std::filesystem::path of_earlier_run() const { return beside("old"); }
  std::filesystem::path before_earlier_run() const { return beside("older"); }
  /// Returns those before the last one that are there, the youngest first.
  std::vector<std::filesystem::path> older() const;
  /// Puts next() in the place of last(), which becomes the first of older(). At each moment there is a last
  /// one.
  void commit();
  /// Makes last(), where there is one, that of an earlier run, and what that was the one before; removes
  /// older().
  void set_aside() const;

 private:
  std::filesystem::path beside(const std::string& ending) const;
  std::vector<std::int64_t> ages() const;  // of older ones, rising

  const std::filesystem::path last_;
  const std::int64_t keep_;
};

}  // namespace hopfeed
