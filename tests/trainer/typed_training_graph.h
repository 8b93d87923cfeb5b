// Makes a typed graph whose labels can be learned, small enough to train on in a second: the tests of typed
// training share it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>

#include "tests/support/typed_dataset.h"

namespace hopfeed::testing {

/// Papers (features, labels of 3 classes, splits) cite papers; authors, who have no features, write papers of
/// one class mostly, the last of them none; venues have features of another width. "rev_" types lead back.
/// One name has a dot, and no path from a paper reaches one type.
inline TypedGraph typed_training_graph(std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  constexpr std::int64_t kPapers = 300, kAuthors = 80, kVenues = 12;
  TypedGraph graph;
  TypedNodes papers{.name = "paper", .count = kPapers, .x_width = 8, .num_classes = 3};
  for (std::int64_t v = 0; v < kPapers; ++v) {
    papers.y.push_back(v % 10 == 9 ? -1 : below(3));
    for (std::int64_t f = 0; f < papers.x_width; ++f)
      papers.x.push_back(static_cast<float>(below(256) - 128) / 128.0F + (f == papers.y[v] ? 0.5F : 0.0F));
  }
  std::vector<std::int64_t> ids(kPapers);
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), random);
  papers.splits = {{"train", {ids.begin(), ids.begin() + 200}},
                   {"valid", {ids.begin() + 200, ids.begin() + 250}},
                   {"test", {ids.begin() + 250, ids.end()}}};
  TypedNodes venues{.name = "ven.ue", .count = kVenues, .x_width = 3};
  for (std::int64_t i = 0; i < kVenues * venues.x_width; ++i)
    venues.x.push_back(static_cast<float>(below(256)) / 256.0F);
  graph.nodes = {papers, {.name = "author", .count = kAuthors + 1}, venues, {.name = "island", .count = 5}};

  TypedEdges cites{.src = "paper", .rel = "cites", .dst = "paper"},
      writes{.src = "author", .rel = "writes", .dst = "paper"},
      in{.src = "paper", .rel = "in", .dst = "ven.ue"};
  for (std::int64_t e = 0; e < 4 * kPapers; ++e) {
    cites.sources.push_back(below(kPapers));
    cites.destinations.push_back(below(1 + below(kPapers)));
  }
  for (std::int64_t v = 0; v < kPapers; ++v) {  // every seventh paper has no author, and none is in a venue
    const std::int64_t label = std::max<std::int64_t>(papers.y[v], 0);
    for (std::int64_t k = v % 7 == 0 ? 0 : 1 + below(3); k > 0; --k) {
      writes.sources.push_back(below(4) > 0 ? label * (kAuthors / 3) + below(kAuthors / 3) : below(kAuthors));
      writes.destinations.push_back(v);
    }
    if (v % 7 == 0) continue;
    in.sources.push_back(v);
    in.destinations.push_back(below(kVenues));
  }
  const auto reversed = [](const TypedEdges& edges) {
    return TypedEdges{.src = edges.dst,
                      .rel = "rev_" + edges.rel,
                      .dst = edges.src,
                      .sources = edges.destinations,
                      .destinations = edges.sources};
  };
  graph.edges = {
      cites,
      writes,
      in,
      reversed(cites),
      reversed(writes),
      reversed(in),
      {.src = "island", .rel = "bridge", .dst = "island", .sources = {0, 1}, .destinations = {1, 2}}};
  return graph;
}

}  // namespace hopfeed::testing
