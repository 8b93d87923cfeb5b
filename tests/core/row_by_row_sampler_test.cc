// A sampler of one's own that says row by row what it takes: against the neighbour sampler, and where it
// takes what is not there.
#include "core/sampler/row_by_row_sampler.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/sampler/sampler_registry.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kMost = 600;

/// Takes the whole row, or as many positions as the options say behind its end.
class Whole : public RowByRowSampler {
 public:
  Whole(const Dataset& dataset, const BatchOptions& options)
      : RowByRowSampler(dataset, {kMost, kMost}), options_(options.sampler_options) {}
  void pick(const HopRow& row, std::vector<std::uint64_t>& picks) override {
    for (std::uint64_t i = 0; i < row.degree; ++i) picks.push_back(i + (options_ == "behind" ? 1 : 0));
    if (options_ == "more") picks.resize(row.most + 1);
  }

 private:
  const std::string options_;
};

class RowByRowSamplers : public ::testing::Test {
 protected:
  RowByRowSamplers() {
    register_sampler("whole", make_custom_sampler<Whole>);
    graph_ = testing::random_typed_graph({.max_nodes = 60, .seed = 9});
    testing::write_typed_dataset(folder_.path() / "graph", graph_, testing::random_typed_cut(graph_, 2, 1));
    dataset_.emplace(folder_.path() / "graph");
  }
  std::string refused(const std::string& sampler_options) const {
    try {
      testing::make_batch(*dataset_, {.seeds = {0, 1, 2}},
                          {.sampler = "whole", .sampler_options = sampler_options});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  testing::TempFolder folder_;
  testing::TypedGraph graph_;
  std::optional<Dataset> dataset_;
};

TEST_F(RowByRowSamplers, ThatTakeWholeRows_GiveWhatAllNeighboursGive) {
  const testing::Block whole = testing::make_batch(*dataset_, {.seeds = {0, 1, 0}},
                                                   {.sampler = "whole", .edge_ids = true}),
                       all = testing::make_batch(*dataset_, {.seeds = {0, 1, 0}},
                                                 {.fanouts = {-1, -1}, .edge_ids = true});
  ASSERT_EQ(whole.view().num_arrays(), all.view().num_arrays());
  EXPECT_GT(all.view().total_edges(), 0);
  for (int i = 0; i < all.view().num_arrays(); ++i) {
    const ArrayView want = all.view().array(i), got = whole.view().array(i);
    EXPECT_TRUE(std::ranges::equal(got.bytes, want.bytes)) << want.name << " of type " << want.type_number;
  }
}

TEST_F(RowByRowSamplers, ThatTakeWhatIsNotThere_AreNamed) {
  EXPECT_NE(refused("behind").find("a sampler took neighbour"), std::string::npos) << refused("behind");
  EXPECT_NE(refused("more").find("a sampler took 601 neighbours of a row, where 600 are the most"),
            std::string::npos);
}

}  // namespace
}  // namespace hopfeed
