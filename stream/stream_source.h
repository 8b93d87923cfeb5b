// A StreamSource opens the streams of a run, and knows what a model has to know before the first of them is
// open. Who trains takes a StreamSource: over a dataset folder here, over servers where these sample.
#pragma once
#include <memory>
#include <string>

#include "core/batch/batch_stream.h"
#include "core/dataset/dataset_meta.h"
#include "stream/loader_options.h"

namespace hopfeed {

class StreamSource {
 public:
  virtual ~StreamSource() = default;
  /// Returns types, widths, classes and splits of the dataset.
  virtual const DatasetMeta& meta() const = 0;
  /// Returns what people know the dataset by: its folder, or its name and where it is.
  virtual std::string title() const = 0;
  /// Opens a stream. `options.dataset` is not read. Throws what the stream's constructor throws.
  virtual std::unique_ptr<BatchStream> open(const LoaderOptions& options) const = 0;
};

}  // namespace hopfeed
