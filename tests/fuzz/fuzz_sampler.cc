// Any bytes as options, seeds and a small graph: what the sampler makes of them is what the serial oracle
// makes, field by field, or both were refused at the door. The first kHead bytes are the options and the
// seeds, the rest is the graph, so that one graph serves many options.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_maker.h"
#include "core/seeds/node_list.h"
#include "tests/oracle/link_oracle.h"
#include "tests/oracle/typed_oracle.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr std::size_t kHead = 64, kMostEdges = 60;

/// Numbers out of bytes; zeros behind their end.
class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return at_ >= bytes_.size(); }
  std::uint8_t byte() { return empty() ? 0 : bytes_[at_++]; }
  std::int64_t below(std::int64_t n) { return byte() % n; }
  bool flag() { return byte() % 2 == 1; }
  template <class T, std::size_t N>
  T one_of(const T (&values)[N]) {
    return values[byte() % N];
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

testing::TypedNodes nodes_of(Bytes& bytes, std::size_t number) {
  testing::TypedNodes nodes{.name = "n" + std::to_string(number), .count = 1 + bytes.below(12)};
  const std::uint8_t pattern = bytes.byte();
  for (std::int64_t v = 0; v < nodes.count; ++v) {
    nodes.y.push_back(v * pattern % std::min<std::int64_t>(3, nodes.count));
    nodes.time.push_back((v * (pattern | 1) % 7 - 3) * (pattern > 250 ? std::int64_t{1} << 40 : 1));
  }
  return nodes;
}

/// Edge types named "to" and, each type's reverse where it follows, "rev_to" and so on.
testing::TypedEdges edges_of(Bytes& bytes, const testing::TypedGraph& graph) {
  const std::size_t number = graph.edges.size();
  const testing::TypedNodes &src = graph.nodes[bytes.below(std::ssize(graph.nodes))],
                            &dst = graph.nodes[bytes.below(std::ssize(graph.nodes))];
  const std::uint8_t kind = bytes.byte();
  const bool weighted = kind % 2 == 1, timed = kind / 2 % 2 == 1,
             reverse = kind / 4 % 2 == 1 && number % 2 == 1;
  testing::TypedEdges edges{.src = src.name,
                            .rel = (reverse ? "rev_r" : "r") + std::to_string(reverse ? number - 1 : number),
                            .dst = dst.name,
                            .in_order_of_time = kind / 8 % 4 != 3};
  for (std::int64_t left = bytes.below(kMostEdges); left > 0 && !bytes.empty(); --left) {
    edges.sources.push_back(bytes.below(src.count));
    const std::int64_t target = bytes.below(dst.count);
    edges.destinations.push_back(target);
    const std::uint8_t value = bytes.byte();
    if (timed) edges.time.push_back(value % 9 - 4);
    if (!weighted) continue;
    constexpr double kWeights[] = {0, 1, 1e-30, 0.25, 1e18, 3};
    edges.weight.push_back(kWeights[value % 6]);
  }
  return edges;
}

testing::TypedGraph graph_of(Bytes& bytes) {
  testing::TypedGraph graph;
  const std::int64_t node_types = 1 + bytes.below(3), edge_types = 1 + bytes.below(4);
  for (std::int64_t t = 0; t < node_types; ++t)
    graph.nodes.push_back(nodes_of(bytes, static_cast<std::size_t>(t)));
  for (std::int64_t e = 0; e < edge_types; ++e) graph.edges.push_back(edges_of(bytes, graph));
  return graph;
}

Ints fanouts_of(Bytes& bytes, std::int64_t hops) {
  constexpr std::int64_t kFanouts[] = {1, 2, 3, -1, 5, 15, 16, 17, 33, 0};
  Ints fanouts;
  for (; hops > 0; --hops) fanouts.push_back(bytes.one_of(kFanouts));
  return fanouts;
}

/// Options of every kind, also such that exclude each other.
BatchOptions options_of(Bytes& bytes, const testing::TypedGraph& graph) {
  constexpr const char* kSamplers[] = {"neighbor", "neighbor", "neighbor", "walk", "cluster"};
  constexpr Subgraph kSubgraphs[] = {Subgraph::kDirectional, Subgraph::kDirectional, Subgraph::kInduced,
                                     Subgraph::kBidirectional};
  const auto edge_type = [&] { return graph.edges[bytes.below(std::ssize(graph.edges))].rel; };
  BatchOptions options{.sampler = bytes.one_of(kSamplers)};
  options.subgraph = bytes.one_of(kSubgraphs);
  options.edge_ids = bytes.flag();
  const std::uint8_t extras = bytes.byte();
  if (extras & 1) options.edge_attrs = {"weight"};
  if (extras & 2) options.keep_orig_edges = true;
  if (options.sampler == BatchOptions::kClusterSampler) {
    options.cluster.assign(1, 'y');
    return options;
  }
  if (options.sampler == BatchOptions::kWalkSampler) {
    constexpr double kParameters[] = {1, 1, 0.25, 4, 1e-12, 1e9};
    options.walk = {.length = bytes.below(6), .per_seed = 1 + bytes.below(3)};
    options.walk.p = bytes.one_of(kParameters);
    options.walk.q = bytes.one_of(kParameters);
    for (std::int64_t types = bytes.below(4); types > 0; --types)
      options.walk.metapath.push_back(edge_type());
    return options;
  }
  options.fanouts = fanouts_of(bytes, bytes.below(4));
  if (extras & 4) options.edge_fanouts[edge_type()] = fanouts_of(bytes, std::ssize(options.fanouts));
  options.replace = (extras & 8) != 0;
  options.disjoint = (extras & 16) != 0;
  options.labor = (extras & 32) != 0;
  if (options.labor) options.labor_seeds = bytes.below(20);
  if (extras & 64) options.weight = "weight";
  if (extras & 128) {
    options.time = "time";
    options.temporal_strategy = bytes.flag() ? TemporalStrategy::kLast : TemporalStrategy::kUniform;
    options.time_window = bytes.below(6);
    if (bytes.flag()) options.time_start = bytes.below(12) - 3;
  }
  return options;
}

/// The dataset of the bytes behind the head.
struct Written {
  explicit Written(std::span<const std::uint8_t> from) {
    Bytes bytes(from);
    const std::uint8_t wanted = bytes.byte();
    graph = graph_of(bytes);
    testing::TypedCut cut = testing::random_typed_cut(graph, 1 + wanted % 3, wanted);
    cut.wide_ids = wanted / 8 % 2 == 1;
    testing::write_typed_dataset(folder.path() / "data", graph, cut);
    dataset = std::make_unique<Dataset>(folder.path() / "data");
  }
  testing::TempFolder folder;
  testing::TypedGraph graph;
  std::unique_ptr<Dataset> dataset;
};

/// The last ones are kept, since writing takes many times as long as sampling.
const Written& written(std::span<const std::uint8_t> from) {
  constexpr std::size_t kKept = 100;
  static std::list<std::pair<std::vector<std::uint8_t>, Written>> last;
  const auto found =
      std::ranges::find_if(last, [&](const auto& one) { return std::ranges::equal(one.first, from); });
  if (found != last.end()) return found->second;
  if (last.size() >= kKept) last.pop_back();
  last.emplace_front(std::piecewise_construct, std::forward_as_tuple(from.begin(), from.end()),
                     std::forward_as_tuple(from));
  return last.front().second;
}

struct Batch {
  int seed_type = 0;
  Ints seeds;
  BatchKey key;
};

Batch batch_of(Bytes& bytes, const testing::TypedGraph& graph) {
  Batch batch{.seed_type = static_cast<int>(bytes.below(std::ssize(graph.nodes)))};
  for (std::int64_t count = 1 + bytes.below(10); count > 0; --count)
    batch.seeds.push_back(bytes.below(graph.nodes[batch.seed_type].count));
  batch.key = {.seed = bytes.byte(), .epoch = bytes.byte(), .first = bytes.below(std::ssize(batch.seeds))};
  batch.key.count = 1 + bytes.below(std::ssize(batch.seeds) - batch.key.first);
  return batch;
}

/// Links of an edge type beside negatives of any kind, sampled as `options` says; these get what is told of
/// links.
testing::SerialLinks links_of(Bytes& bytes, const testing::TypedGraph& graph, BatchOptions& options) {
  constexpr double kAmounts[] = {1, 2, 0.5, 1.5};
  testing::SerialLinks links{.edge_type = static_cast<int>(bytes.below(std::ssize(graph.edges)))};
  const testing::TypedEdges& edges = graph.edges[links.edge_type];
  const std::uint8_t extras = bytes.byte();
  options.link.edge_type = edges.src + "__" + edges.rel + "__" + edges.dst;
  options.link.exclude = extras & 1 ? Exclude::kNone : extras & 2 ? Exclude::kReverse : Exclude::kSelf;
  if (extras & 4) {
    options.link.negatives = {.mode = extras & 8 ? NegativeMode::kTriplet : NegativeMode::kBinary,
                              .amount = bytes.one_of(kAmounts),
                              .strict = (extras & 16) != 0};
  }
  for (std::int64_t count = 1 + bytes.below(6); count > 0; --count) {
    links.sources.push_back(bytes.below(graph.nodes[graph.node_type(edges.src)].count));
    links.destinations.push_back(bytes.below(graph.nodes[graph.node_type(edges.dst)].count));
    links.list.insert(links.list.end(), {links.sources.back(), links.destinations.back()});
    if (extras & 32) links.labels.push_back(bytes.below(3));
    if (!options.time.empty()) links.times.push_back(bytes.below(6));
  }
  if (extras & 32) links.smallest_label = std::ranges::min(links.labels);
  return links;
}

/// What cannot be sampled is refused before anything is, in one line.
template <class List>
std::unique_ptr<BatchMaker> make(const Dataset& dataset, const List& list, const BatchOptions& options) {
  try {
    auto maker = std::make_unique<BatchMaker>(dataset, list, options);
    maker->max_block_bytes(list.size());
    return maker;
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return nullptr;
  }
}

void compare(const Written& written, const BatchOptions& options, const Batch& batch) {
  const NodeList list(batch.seeds, {.node_type = batch.seed_type, .shuffle = false});
  const std::unique_ptr<BatchMaker> maker = make(*written.dataset, list, options);
  if (!maker) return;
  SCOPED_TRACE(fmt::format("seeds {} of type {}, batch {} {} {} {}, options {}", fmt::join(batch.seeds, ","),
                           batch.seed_type, batch.key.seed, batch.key.epoch, batch.key.first, batch.key.count,
                           options.to_json()));
  EXPECT_EQ(BatchOptions::from_json(options.to_json()).to_json(), options.to_json());
  const testing::Block block = testing::make_block(*maker, batch.key);
  const auto first = batch.seeds.begin() + batch.key.first;
  const testing::TypedBatch expected = testing::serial_sample(
      written.graph, batch.seed_type, Ints(first, first + batch.key.count), options, batch.key);
  testing::expect_same(block.view(), expected, written.graph, batch.seed_type, options);
  EXPECT_LE(block.size(), maker->max_block_bytes(batch.key.count));
  EXPECT_EQ(testing::make_block(*maker, batch.key).view().digest(), block.view().digest());
  EXPECT_LE(maker->scratch_bytes(), maker->scratch(batch.key.count).at_most);
}

void compare_links(const Written& written, const BatchOptions& options, const testing::SerialLinks& links,
                   BatchKey key) {
  const LinkList list(
      links.list,
      {.edge_type = links.edge_type, .shuffle = false, .labels = links.labels, .times = links.times});
  const std::unique_ptr<BatchMaker> maker = make(*written.dataset, list, options);
  if (!maker) return;
  key.first = 0;
  key.count = list.size();
  SCOPED_TRACE(fmt::format("links {}, epoch {} of {}, options {}", fmt::join(links.list, ","), key.epoch,
                           key.seed, options.to_json()));
  EXPECT_EQ(BatchOptions::from_json(options.to_json()).to_json(), options.to_json());
  const auto expected = testing::serial_links(written.graph, links, options, key);
  if (!expected) {
    EXPECT_THROW(maker->sample(key), Error) << "a link without a negative";
    return;
  }
  const testing::Block block = testing::make_block(*maker, key);
  testing::expect_same_links(block.view(), *expected, links, written.graph, options);
  EXPECT_LE(block.size(), maker->max_block_bytes(key.count));
  EXPECT_EQ(testing::make_block(*maker, key).view().digest(), block.view().digest());
  EXPECT_LE(maker->scratch_bytes(), maker->scratch(key.count).at_most);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  GTEST_FLAG_SET(throw_on_failure, true);  // a difference ends the program
  const std::span<const std::uint8_t> all(data, size);
  const auto head = all.first(std::min(size, kHead));
  const Written& graph = written(all.subspan(head.size()));
  Bytes bytes(head);
  const Batch batch = batch_of(bytes, graph.graph);
  BatchOptions options = options_of(bytes, graph.graph);
  compare(graph, options, batch);
  if (!bytes.flag()) return 0;
  const testing::SerialLinks links = links_of(bytes, graph.graph, options);
  compare_links(graph, options, links, batch.key);
  return 0;
}

#ifdef HOPFEED_LIBFUZZER
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

/// Changes the head alone fifteen times of sixteen.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  if (seed % 16 == 0 || size < kHead) return LLVMFuzzerMutate(data, size, max_size);
  std::uint8_t head[kHead];
  std::copy_n(data, kHead, head);
  const std::size_t left = LLVMFuzzerMutate(head, kHead, kHead);
  std::fill(head + left, head + kHead, 0);
  std::copy_n(head, kHead, data);
  return size;
}
#endif

}  // namespace hopfeed
