// Tests of owners share this: a graph cut into partitions, and an owner of some of them each.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/dataset/dataset.h"
#include "state/owner/owned_rows.h"
#include "state/owner/state_questions.h"
#include "state/owner/state_reply.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed::testing {

/// CutGraph is a graph of so many nodes in some partitions, by default three.
class CutGraph {
 public:
  explicit CutGraph(std::int64_t num_nodes, int partitions = 3, std::uint64_t seed = 5) {
    const TinyGraph graph =
        random_graph({.num_nodes = num_nodes, .num_edges = 2 * num_nodes, .num_train = 10});
    write_tiny_dataset(folder_.path() / "data", graph, random_cut(graph, partitions, seed));
    whole_ = std::make_unique<Dataset>(folder_.path() / "data");
  }
  const Dataset& whole() const { return *whole_; }
  std::unique_ptr<Dataset> open(std::vector<int> partitions) const {
    return std::make_unique<Dataset>(
        folder_.path() / "data",
        DatasetOptions{.some_partitions = true, .partitions = std::move(partitions)});
  }

 private:
  TempFolder folder_;
  std::unique_ptr<Dataset> whole_;
};

/// Returns what `body` is refused with, which is one line.
template <class Body>
std::string refusal(Body body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "accepted";
}
inline void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

/// Reply is what a question was answered with, once it was.
class Reply {
 public:
  StateDone done() {
    return [got = got_](StateReply reply) {
      EXPECT_FALSE(got->has_value()) << "answered twice";
      *got = std::move(reply);
    };
  }
  bool came() const { return got_->has_value(); }
  const RecycledBytes& answer() const {
    EXPECT_TRUE(came());
    if (const auto* error = std::get_if<Error>(&**got_)) throw *error;
    return std::get<RecycledBytes>(**got_);
  }
  std::string error() const {
    if (!came()) return "nothing came";
    if (std::holds_alternative<AskedAgain>(**got_)) return "asked again";
    const auto* error = std::get_if<Error>(&**got_);
    return error == nullptr ? "an answer" : error->what();
  }

 private:
  std::shared_ptr<std::optional<StateReply>> got_ = std::make_shared<std::optional<StateReply>>();
};

}  // namespace hopfeed::testing
