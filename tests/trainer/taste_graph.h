// Makes a graph of users, artists and planted tastes: the tests of link prediction share it.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/typed_dataset.h"

namespace hopfeed::testing {

inline constexpr std::int64_t kUsers = 120, kArtists = 60, kTastes = 4;

inline void add_link(TypedEdges& edges, std::int64_t user, std::int64_t artist) {
  edges.sources.push_back(user);
  edges.destinations.push_back(artist);
}

/// Users listen to artists of their own taste, nine times of ten; a fifth of the links is held out.
inline TypedGraph taste_graph() {
  std::mt19937_64 random(11);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  TypedEdges listens{.src = "user", .rel = "listens", .dst = "artist"};
  std::vector<std::int64_t> valid, test, train;
  for (std::int64_t user = 0; user < kUsers; ++user) {
    for (int i = 0; i < 12; ++i) {
      const std::int64_t taste = below(10) > 0 ? user % kTastes : below(kTastes),
                         artist = below(kArtists / kTastes) * kTastes + taste;
      std::vector<std::int64_t>& part = i == 0 ? valid : i == 1 ? test : train;
      part.insert(part.end(), {user, artist});
      if (i > 1) add_link(listens, user, artist);
    }
  }
  listens.splits = {{"train", {train, {}, {}}}, {"valid", {valid, {}, {}}}, {"test", {test, {}, {}}}};
  TypedEdges back{.src = "artist",
                  .rel = "rev_listens",
                  .dst = "user",
                  .sources = listens.destinations,
                  .destinations = listens.sources,
                  .rev_of = "user__listens__artist"};
  return {.nodes = {{.name = "user", .count = kUsers}, {.name = "artist", .count = kArtists}},
          .edges = {listens, back}};
}

}  // namespace hopfeed::testing
