// SlicedMeans are the means of a type's in-neighbours where the rows that they are made of do not fit into
// the memory: computed for a slice of the columns after the other, each slice's source rows in memory, and
// kept in a file that has no name. Edges are never cut, so sums are the same.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "core/base/owned_fd.h"
#include "core/dataset/dataset.h"
#include "results/table_rows.h"

namespace hopfeed {

class SlicedMeans {
 public:
  /// Computes the means of all nodes in this machine's partitions; `folder` is where the file lies. `between`
  /// is called now and then. Throws kNoSpace where not even one column fits into `memory` bytes, or the disk
  /// is full.
  SlicedMeans(const Dataset& dataset, const TableRows& sources, int edge_type,
              const std::filesystem::path& folder, std::uint64_t memory, int threads,
              const std::function<void()>& between);
  ~SlicedMeans();
  SlicedMeans(const SlicedMeans&) = delete;
  SlicedMeans& operator=(const SlicedMeans&) = delete;

  /// Writes the means of the rows [begin, end) of a partition, as mean_of_sources() does. Any thread.
  void write(int part, std::int64_t begin, std::int64_t end, float* out, std::int64_t stride) const;

 private:
  struct Slice {
    std::int64_t begin, end;  // columns
    std::int64_t width() const { return end - begin; }
  };
  void compute(const Dataset& dataset, const TableRows& sources, int edge_type, const Slice& slice,
               int threads) const;

  OwnedFd file_;
  std::int64_t rows_ = 0, width_ = 0;
  std::vector<std::int64_t> firsts_;  // [P] of the partition's rows among those here
  std::vector<Slice> slices_;
  const std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace hopfeed
