// See generate.h. What lies in memory are the ranks and degrees of the nodes; rows and features are computed
// whenever they are read.
#include "partition_tool/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/parallel_ranges.h"
#include "core/draws/keyed_random.h"
#include "partition_tool/graph_memory.h"
#include "partition_tool/planted_degrees.h"
#include "partition_tool/planted_ranks.h"
#include "partition_tool/random_permutation.h"

namespace hopfeed {
namespace {

// What a stream of random numbers is for: the `epoch` of its key.
enum Number : std::int64_t { kRanks = 0, kSplits = 1, kSources = 2, kNoise = 3, kCentres = 4 };

/// The planted structure: who has which rank, hence class and degree.
struct Planted {
  GenerateOptions options;
  PlantedRanks ranks;

  explicit Planted(const GenerateOptions& o)
      : options(o), ranks(o.num_nodes, {.seed = o.seed, .number = kRanks}) {}
  std::int64_t class_of(std::int64_t node) const { return ranks.rank(node) % options.num_classes; }
};

/// The sources of one node.
template <class Id>
void draw_row(const Planted& planted, const std::vector<Id>& node_of, std::int64_t node, std::span<Id> row) {
  const GenerateOptions& o = planted.options;
  NodeStream stream = planted_stream(o.seed, kSources);
  stream.node = static_cast<std::uint64_t>(node);
  draw_planted(stream,
               {.own = static_cast<std::uint64_t>(planted.class_of(node)),
                .groups = static_cast<std::uint64_t>(o.num_classes),
                .share = o.homophily},
               node_of, row);
}

/// One feature row: per feature the sum of four random bytes around 0 (standard deviation 148), plus or minus
/// a step that puts the centres of two classes 2.8 deviations apart, whatever the width; in 1/128.
void fill_features(const Planted& planted, std::int64_t node, std::span<std::byte> row) {
  NodeStream noise = planted_stream(planted.options.seed, kNoise),
             centre = planted_stream(planted.options.seed, kCentres);
  noise.node = static_cast<std::uint64_t>(node);
  centre.node = static_cast<std::uint64_t>(planted.class_of(node));
  const std::int64_t width = planted.options.num_features;
  const auto step =
      static_cast<int>(integer_sqrt(static_cast<Wide>(87'381 / std::min<std::int64_t>(width, 87'381))));
  RandomWords signs{}, words{};
  for (std::int64_t f = 0; f < width; ++f) {
    if (f % 128 == 0) signs = centre.words(static_cast<std::uint32_t>(f / 128));
    if (f % 4 == 0) words = noise.words(static_cast<std::uint32_t>(f / 4));
    const std::uint32_t w = words.word[f % 4];
    const int sum = static_cast<int>((w & 255) + (w >> 8 & 255) + (w >> 16 & 255) + (w >> 24)) - 510;
    const bool up = (signs.word[f / 32 % 4] >> (f % 32) & 1) != 0;
    const float value = static_cast<float>(sum + (up ? step : -step)) / 128.0F;
    std::memcpy(row.data() + f * 4, &value, 4);
  }
}

std::int64_t share(double fraction, std::int64_t count) {
  return fraction > 0 ? std::max<std::int64_t>(
                            1, static_cast<std::int64_t>(fraction * static_cast<double>(count) + 0.5))
                      : 0;
}

void deal_splits(const GenerateOptions& o, RawNodes& nodes) {
  const IdArray shuffled = random_permutation(o.num_nodes, {.seed = o.seed, .number = kSplits});
  const std::int64_t train = share(o.train_fraction, o.num_nodes);
  const std::int64_t valid = std::min(share(o.valid_fraction, o.num_nodes), o.num_nodes - train);
  std::visit(
      [&](const auto& ids) {
        nodes.splits["train"].assign(ids.begin(), ids.begin() + train);
        nodes.splits["valid"].assign(ids.begin() + train, ids.begin() + train + valid);
        nodes.splits["test"].assign(ids.begin() + train + valid, ids.end());
      },
      shuffled);
  std::erase_if(nodes.splits, [](const auto& split) { return split.second.empty(); });
  for (auto& [name, ids] : nodes.splits) std::sort(ids.begin(), ids.end());
}

void validate(const GenerateOptions& o) {
  require_valid(o.num_nodes >= 1 && o.num_nodes <= kMaxNodes,
                fmt::format("--nodes {} is out of range (1 to {})", o.num_nodes, kMaxNodes));
  require_valid(o.num_edges >= 0 && o.num_edges <= kMaxEdges,
                fmt::format("--edges {} is out of range (0 to {})", o.num_edges, kMaxEdges));
  require_valid(o.num_features >= 0 && o.num_features <= kMaxRowBytes / 4,
                fmt::format("--features {} is out of range (0 to {})", o.num_features, kMaxRowBytes / 4));
  require_valid(o.num_classes >= 1 && o.num_classes <= o.num_nodes,
                fmt::format("--classes {} is out of range (1 to the {} nodes)", o.num_classes, o.num_nodes));
  require_valid(o.homophily >= 0 && o.homophily <= 1,
                fmt::format("--homophily {} is out of range (0 to 1)", o.homophily));
  require_valid(
      o.train_fraction >= 0 && o.valid_fraction >= 0 && o.train_fraction + o.valid_fraction <= 1,
      fmt::format("--train-fraction {} and --valid-fraction {} must not be negative nor exceed 1 together",
                  o.train_fraction, o.valid_fraction));
}

}  // namespace

std::uint64_t generate_bytes(const GenerateOptions& o) {
  const std::uint64_t longest_row = PlantedDegrees(o.num_nodes, o.num_edges).upto(1),
                      id = id_bytes(o.num_nodes), writers = std::min<std::int64_t>(o.threads, o.num_nodes);
  // Rank and node of each other, and the splits; the longest row as it is made, written and fingerprinted.
  return graph_bytes({.num_nodes = o.num_nodes}) + static_cast<std::uint64_t>(o.num_nodes) * (2 * id + 8) +
         longest_row * (2 * id + id_bytes(o.num_edges) + 16 * writers);
}

RawGraph generate_graph(const GenerateOptions& options, const Progress& progress) {
  validate(options);
  want_memory(
      options.tell_memory,
      {.what = "the generated graph", .knobs = "lower --nodes or --edges", .bytes = generate_bytes(options)});
  const auto num_nodes = static_cast<std::uint64_t>(options.num_nodes);
  progress({"Dealing ranks and degrees", "nodes", 0, num_nodes});
  const auto planted = std::make_shared<const Planted>(options);
  RawGraph graph = graph_of_one_type("generated");
  RawNodes& nodes = graph.nodes[0];
  Csc& csc = graph.edges[0].csc;
  nodes.count = options.num_nodes;
  nodes.num_classes = options.num_classes;
  csc.indptr = planted_rows(planted->ranks, options.num_edges);
  std::visit(
      [&]<class Id>(const std::vector<Id>& node_of) {
        csc.make_row = MakeRow<Id>([planted, &node_of](std::int64_t node, std::span<Id> row) {
          draw_row(*planted, node_of, node, row);
        });
      },
      planted->ranks.node_of);
  csc.edge_id_kind = options.keep_edge_ids ? EdgeIds::kPositions : EdgeIds::kNone;
  if (options.num_features > 0) {
    nodes.attrs.push_back({.name = "x",
                           .type = ElementType::kFloat32,
                           .shape = {options.num_features},
                           .read_row = [planted](std::int64_t node, std::span<std::byte> row) {
                             fill_features(*planted, node, row);
                           }});
  }
  nodes.attrs.push_back({.name = "y",
                         .type = ElementType::kInt64,
                         .shape = {},
                         .read_row = [planted](std::int64_t node, std::span<std::byte> row) {
                           const std::int64_t label = planted->class_of(node);
                           std::memcpy(row.data(), &label, sizeof label);
                         }});
  deal_splits(options, nodes);
  progress({"Dealing ranks and degrees", "nodes", num_nodes, num_nodes});
  return graph;
}

}  // namespace hopfeed
