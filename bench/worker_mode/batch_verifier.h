// Verifies what comes out of a loader (--verify): one thread makes the same batch without a channel.
#pragma once
#include "core/base/error.h"
#include "core/base/scratch.h"
#include "core/batch/batch_view.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_maker.h"
#include "core/seeds/node_list.h"
#include "worker_mode/loader.h"

namespace hopfeed::bench {

class BatchVerifier {
 public:
  explicit BatchVerifier(const LoaderOptions& options)
      : dataset_(options.dataset),
        seeds_(dataset_.split(0, options.split), {.node_type = 0, .shuffle = options.shuffle}),
        maker_(dataset_, seeds_, options.batch) {}

  /// Throws kCorrupt where the batch differs.
  void check(const BatchView& batch) {
    const std::size_t bytes = maker_.sample(batch.key());
    block_.reserve(bytes);
    maker_.write({block_.data(), bytes});
    if (BatchView({block_.data(), bytes}).digest() != batch.digest())
      throw Error(ErrorCode::kCorrupt, "a batch from the loader differs from the one made without it");
    ++checked_;
  }
  std::int64_t checked() const { return checked_; }

 private:
  Dataset dataset_;
  NodeList seeds_;
  BatchMaker maker_;
  ScratchArray<std::byte> block_;
  std::int64_t checked_ = 0;
};

}  // namespace hopfeed::bench
