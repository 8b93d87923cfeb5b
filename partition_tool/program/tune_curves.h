// TuneCurves are the curves of hopfeed-partition tune: what each ratio of held rows, or of rows in a row
// cache before the files, leaves to be gathered, read and moved, and what an epoch then takes.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "partition_tool/program/tune_machine.h"
#include "partition_tool/program/tune_report.h"
#include "partition_tool/tune/tune_measure.h"
#include "partition_tool/tune/tune_model.h"

namespace hopfeed {

/// A RowCache is a cache of rows before the files.
struct RowCache {
  std::size_t bytes = 0;  // 0: none
  std::int64_t window = 4;
};

class TuneCurves {
 public:
  /// All arguments must outlive the curves; `pass` has its trace where there is a row cache.
  TuneCurves(const Dataset& dataset, const TuneJob& job, const TunePass& pass, const TuneRates& rates,
             const RowCache& row_cache);

  /// Returns the curve over rows that the consumer holds, by these orders of every type (hit_curve.h; empty
  /// ones for the dataset's own).
  TuneCurve held(const std::string& policy, const std::vector<std::vector<std::int64_t>>& orders);
  /// Returns the curve over rows that the row cache holds; the consumer holds none.
  TuneCurve cached() const;

 private:
  /// A Tier is what a batch reads of the rows of files that the consumer does not hold.
  struct Tier {
    double hit_rate = 0;  // of the row cache
    double reads = 0, read_bytes = 0;
  };
  Tier tier(std::int64_t capacity, const std::vector<std::vector<bool>>& held) const;
  std::vector<Tier> along_grid(const std::function<Tier(int percent)>& at) const;
  std::vector<std::vector<bool>> held_rows_at(int percent) const;
  double convert_bytes_a_batch() const;
  void add(TuneCurve& curve, std::int64_t bytes, const HeldReads& held, const Tier& tier) const;

  const Dataset& dataset_;
  const TuneJob& job_;
  const TunePass& pass_;
  const TuneRates& rates_;
  const RowCache row_cache_;
  const std::vector<std::int64_t> file_bytes_, convert_bytes_;  // of a row of each type
  std::vector<std::int64_t> numbers_;  // in trace_, of the rows of pass_.trace; -1: has nothing in files
  RowTrace trace_;                     // of rows that have something in files
  std::vector<Tier> stored_;           // per percent that is held in the dataset's own order
  std::vector<HeldReads> stored_reads_;
};

}  // namespace hopfeed
