// Makes link batches serially, in a way that is obviously right: negatives drawn one by one and checked
// against the list of all edges, seeds put together by the table of docs/batch.md, and sampled by the serial
// sampler of every kind (typed_oracle.h).
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/batch/batch_layout.h"
#include "core/batch/batch_options.h"
#include "core/batch/batch_view.h"
#include "tests/oracle/typed_oracle.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed::testing {

/// SerialLinks are the links of one batch, in its order; labels and times are empty or of each.
struct SerialLinks {
  int edge_type = 0;
  std::vector<std::int64_t> sources, destinations, labels, times;
  std::int64_t smallest_label = 0;  // of the whole list
  std::vector<std::int64_t> list;   // its pairs, source, destination, ...: what strict negatives must not be
};

struct LinkBatch {
  std::vector<std::int64_t> sources,
      destinations;  // negatives behind the links; of triplets no negative sources
  std::vector<std::int64_t> source_locals, destination_locals;  // their local ids
  std::int64_t retries = 0;
  TypedBatch sample;  // whose field `batch` has positions of the batch in place of trees
};

/// Returns the batch; nothing where a link has no negative that could be.
std::optional<LinkBatch> serial_links(const TypedGraph& graph, const SerialLinks& links,
                                      const BatchOptions& options, const BatchKey& key);

/// Expects every field of `batch` but input_id to be what it should be (EXPECTs).
void expect_same_links(const BatchView& batch, const LinkBatch& expected, const SerialLinks& links,
                       const TypedGraph& graph, const BatchOptions& options);

}  // namespace hopfeed::testing
