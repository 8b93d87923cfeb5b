// Tells what a machine can do, for hopfeed-partition tune: measured here in a few seconds, or told by files
// and options for a machine that is planned.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "core/maker/feature_source.h"
#include "partition_tool/program/tool.h"
#include "partition_tool/program/tune_choices.h"
#include "partition_tool/program/tune_report.h"
#include "partition_tool/tune/tune_measure.h"
#include "partition_tool/tune/tune_model.h"

namespace hopfeed {

/// A TuneJob has the seeds of the batches, how they are sampled, and what of them comes from files.
struct TuneJob {
  int node_type = 0;  // of the seeds
  std::span<const std::int64_t> seeds;
  BatchOptions batch;
  std::vector<FeatureName> files;  // none: all rows come from memory
};

/// Checks what options and files say, with numbers in the place of those that are measured later (0 or 1).
/// Throws what measure_rates() throws of bad ones: it is called first, so that they are told before the work.
void check_rates(const TuneChoices& choices);

/// Measures stages, files and wire as far as the choices need them; what files and options tell comes before.
TuneRates measure_rates(const TuneChoices& choices, const Dataset& dataset, const TuneJob& job,
                        const TunePass& pass, Bars& bars);

/// Reads a run's file. Throws kInvalid naming file and key where it is none.
MeasuredRun read_measured(const std::string& path);

}  // namespace hopfeed
