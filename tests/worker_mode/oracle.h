// A loader's batches must be these: each is a line with the digest of all its bytes, and the oracle makes the
// same lines the obvious way: one thread deals, samples and hashes batch after batch in this process, with no
// channel and no workers.
#pragma once
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/batch/aligned_block.h"
#include "core/batch/deal.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_maker.h"
#include "stream/loader_source.h"
#include "worker_mode/loader.h"

namespace hopfeed {

/// Returns one batch as a line: key, sizes, digest.
inline std::string line_of(const BatchView& batch) {
  char text[160];
  std::snprintf(text, sizeof(text), "%ld %ld %ld %ld %ld %016lx", batch.key().epoch, batch.key().first,
                batch.key().count, batch.total_nodes(), batch.total_edges(), batch.digest());
  return text;
}

struct EpochRange {
  std::int64_t epoch = 0, start = 0;
};

/// Returns all batches of this rank in one epoch, through a stream.
inline std::vector<std::string> loaded(BatchStream& loader, EpochRange range = {}) {
  std::vector<std::string> lines;
  loader.begin_epoch(range.epoch, range.start);
  while (const std::optional<Batch> batch = loader.next()) lines.push_back(line_of(batch->view()));
  return lines;
}

/// Returns the lines that the oracle gives for an epoch.
inline std::vector<std::string> expected(const LoaderOptions& options, EpochRange range = {}) {
  const Dataset dataset(options.dataset);
  const std::unique_ptr<BatchSource> source = loader_source(options, dataset);
  const Deal deal(options.deal, source->size(), range.start);
  BatchMaker maker = source->maker(dataset, options.batch);
  std::vector<std::string> lines;
  for (std::int64_t step = 0; step < deal.steps(); ++step) {
    const Deal::Range batch = deal.batch(step);
    AlignedBlock block(maker.sample(
        {.seed = options.seed, .epoch = range.epoch, .first = batch.first, .count = batch.count}));
    maker.write(block.bytes());
    lines.push_back(line_of(BatchView(block.bytes())));
  }
  return lines;
}

}  // namespace hopfeed
