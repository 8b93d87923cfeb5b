// LocalStreams opens the streams of a run that samples on this machine: loaders over a dataset folder.
#pragma once
#include <memory>
#include <string>

#include "core/dataset/dataset_meta.h"
#include "stream/stream_source.h"

namespace hopfeed {

class LocalStreams final : public StreamSource {
 public:
  /// Opens the folder. Throws what Dataset's constructor throws.
  explicit LocalStreams(std::string folder);
  const DatasetMeta& meta() const override { return meta_; }
  std::string title() const override { return folder_; }
  std::unique_ptr<BatchStream> open(const LoaderOptions& options) const override;

 private:
  const std::string folder_;
  const DatasetMeta meta_;
};

}  // namespace hopfeed
