// What the batches of a stream on this machine are made of, opened. Streams begin here, and whoever makes a
// batch as they do.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "core/base/huge_pages.h"
#include "core/batch/batch_spec.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_source.h"
#include "stream/loader_options.h"

namespace hopfeed {

struct LoaderParts {
  std::unique_ptr<const Dataset> dataset;     // with whoever answers for partitions that are elsewhere
  std::unique_ptr<const BatchSource> source;  // uses the dataset
  BatchSpec spec;
};

/// Loads the plugins, each by `load_plugin`, checks options.batch, opens the dataset (each partition has a
/// server then) and the seeds or links. Throws what check_batch_options, open_partitions and loader_source
/// throw.
LoaderParts open_parts(const LoaderOptions& options, HugePages huge_pages,
                       const std::function<void(const std::string& plugin)>& load_plugin);
/// The same for who reads the dataset itself, and loads plugins at once.
LoaderParts open_parts(const LoaderOptions& options);

}  // namespace hopfeed
