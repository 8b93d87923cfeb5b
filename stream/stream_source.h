// Where the streams of a run come from, and what a model has to know before the first of them is open. Who
// trains takes a StreamSource: over a dataset folder here, over servers where these sample.
#pragma once
#include <memory>
#include <string>

#include "core/dataset/dataset_meta.h"
#include "core/batch/batch_stream.h"
#include "worker_mode/loader.h"

namespace hopfeed {

class StreamSource {
 public:
  virtual ~StreamSource() = default;
  /// Types, widths, classes and splits of the dataset.
  virtual const DatasetMeta& meta() const = 0;
  /// What people know the dataset by: its folder, or its name and where it is.
  virtual std::string title() const = 0;
  /// `options.dataset` is not read. Throws what the stream's constructor throws.
  virtual std::unique_ptr<BatchStream> open(const LoaderOptions& options) const = 0;
};

/// Loaders over a dataset folder.
class LocalStreams final : public StreamSource {
 public:
  /// Throws what Dataset's constructor throws.
  explicit LocalStreams(std::string folder);
  const DatasetMeta& meta() const override { return meta_; }
  std::string title() const override { return folder_; }
  std::unique_ptr<BatchStream> open(const LoaderOptions& options) const override;

 private:
  const std::string folder_;
  const DatasetMeta meta_;
};

}  // namespace hopfeed
