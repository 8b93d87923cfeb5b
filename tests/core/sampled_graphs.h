// SampledGraphs is the fixture of tests that sample small graphs and know the answer.
#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "core/dataset/dataset.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed::testing {

/// Makes pyg-lib's cycle: in-neighbours of i are i - 1 and i + 1, in that order, so edges 2i and 2i + 1 end
/// at i.
inline TypedGraph cycle_of_six(const std::string& node_type = "node") {
  const TinyGraph ring = ring_graph(6);
  return {.nodes = {{.name = node_type, .count = 6}},
          .edges = {{.src = node_type, .dst = node_type, .sources = ring.src, .destinations = ring.dst}}};
}

/// Each test has one dataset and one batch at a time.
class SampledGraphs : public ::testing::Test {
 protected:
  const Dataset& open(const TypedGraph& graph) {
    write_typed_dataset(folder_.path() / "graph", graph);
    return dataset_.emplace(folder_.path() / "graph");
  }
  BatchView keep(Block block) {
    block_ = std::move(block);
    return block_.view();
  }

 private:
  TempFolder folder_;
  std::optional<Dataset> dataset_;
  Block block_;
};

}  // namespace hopfeed::testing
