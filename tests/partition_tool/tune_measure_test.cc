// What a pass counts, against batches that are made and split one by one.
#include "partition_tool/tune/tune_measure.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/batch/aligned_block.h"
#include "core/batch/batch_view.h"
#include "core/batch/deal.h"
#include "core/maker/batch_maker.h"
#include "core/maker/held_split.h"
#include "partition_tool/hotness/presample.h"
#include "partition_tool/tune/hit_curve.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using testing::TempFolder;

TEST(TuneMeasure, CountsAreThoseOfTheEpochAndHitsThoseOfItsBatches) {
  const auto graph = testing::random_graph({.num_nodes = 300, .num_edges = 2'000, .x_width = 5});
  const TempFolder folder;
  write_tiny_dataset(folder.path() / "d", graph, testing::random_cut(graph, 2, 3));
  const Dataset dataset(folder.path() / "d");
  const auto train = dataset.split(0, "train");
  const BatchOptions batch{.fanouts = {3, 2}, .attrs = std::vector<std::string>{"x"}};
  const TunePass pass = measure_batches(dataset, train, {.batch = batch, .batch_size = 16});
  EXPECT_EQ(pass.counts, presample(dataset, train, {.fanouts = {3, 2}, .batch_size = 16}));
  EXPECT_EQ(pass.batches, pass.epoch_batches);
  EXPECT_EQ(pass.row_bytes, (std::vector<std::int64_t>{20}));

  const NodeList list(train, {});
  const Deal deal({.batch_size = 16}, list.size());
  BatchMaker maker(dataset, list, batch);
  const std::vector<HeldReads> curve = held_curve(dataset, pass, {{}});
  const std::vector<std::int64_t> sizes = held_sizes(dataset, pass);
  ASSERT_EQ(curve.size(), 101U);
  double bytes = 0;
  for (const std::uint32_t percent : {0U, 7U, 50U, 100U}) {
    const HeldShare share{.millionths = percent * 10'000};
    std::int64_t rows = 0, held = 0;
    for (std::int64_t step = 0; step < deal.steps(); ++step) {
      AlignedBlock block(maker.sample({.first = deal.batch(step).first, .count = deal.batch(step).count}));
      maker.write(block.bytes());
      if (percent == 0) bytes += static_cast<double>(block.bytes().size());
      HeldSplit split;
      const BatchView view(block.bytes());
      std::vector<std::int64_t> ids(view.n_id().size());
      dataset.dataset_ids(0, view.n_id(), ids);
      split.split(ids, dataset.meta().node_types[0].partition_offsets, share);
      rows += view.total_nodes();
      held += std::ssize(split.held());
    }
    EXPECT_DOUBLE_EQ(curve[percent].hit_rate(), static_cast<double>(held) / static_cast<double>(rows))
        << percent;
    EXPECT_NEAR(curve[percent].held_bytes * static_cast<double>(pass.batches),
                20.0 * static_cast<double>(held), 1e-6);
    EXPECT_EQ(sizes[percent], 20 * held_rows_of(dataset.meta().node_types[0].partition_offsets, share));
    EXPECT_NEAR(curve[percent].left[0] + curve[percent].held, curve[percent].rows, 1e-9);
  }
  EXPECT_DOUBLE_EQ(pass.block_bytes, bytes / static_cast<double>(pass.batches))
      << "rows that are not read count";
}

TEST(TuneMeasure, TheStaticEvictionOfTheTraceIsTheCurve) {
  const auto graph = testing::random_graph({.num_nodes = 400, .num_edges = 2'000, .x_width = 5});
  testing::TinyCut cut{.partitions = 2};
  for (std::int64_t v = 0; v < 400; ++v) cut.partition_of.push_back(v < 100 ? 0 : 1);
  const TempFolder folder;
  write_tiny_dataset(folder.path() / "d", graph, cut);
  const Dataset dataset(folder.path() / "d");
  const TunePass pass = measure_batches(dataset, dataset.split(0, "train"),
                                        {.batch = {.fanouts = {3, 2}}, .batch_size = 16, .keep_trace = true});
  const std::vector<HeldReads> curve = held_curve(dataset, pass, {{}});
  EXPECT_EQ(pass.trace.num_rows, 400);
  for (const int percent : {0, 5, 20, 60, 100})
    EXPECT_DOUBLE_EQ(simulate_static(pass.trace, 4 * percent).rate(), curve[percent].hit_rate()) << percent;
}

TEST(TuneMeasure, ABoundedPassIsSpreadOverTheEpoch) {
  const TempFolder folder;
  write_tiny_dataset(folder.path() / "d", testing::random_graph({}));
  const Dataset dataset(folder.path() / "d");
  std::int64_t last = 0;
  const TunePass pass = measure_batches(dataset, dataset.split(0, "train"),
                                        {.batch = {.fanouts = {2}},
                                         .batch_size = 8,
                                         .most_batches = 3,
                                         .progress = [&](std::int64_t done, std::int64_t) { last = done; }});
  EXPECT_EQ(pass.batches, 3);
  EXPECT_EQ(pass.epoch_batches, 15);
  EXPECT_EQ(last, 3);
}

}  // namespace
}  // namespace hopfeed
