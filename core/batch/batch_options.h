// What is sampled and what a batch carries. Together with the dataset and the key it fixes every byte of a
// batch.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch/link_options.h"

namespace hopfeed {

class FieldVisitor;  // core/base/field_visitor.h

/// Which of the neighbours that are no later than the seed.
enum class TemporalStrategy { kUniform, kLast };
const char* to_string(TemporalStrategy strategy);
/// The inverse; throws kInvalid naming what there is.
TemporalStrategy temporal_strategy_from(const std::string& name);

/// Random walks from each seed (walk_sampler.h).
struct WalkOptions {
  std::int64_t length = 0;    // steps
  std::int64_t per_seed = 1;  // walks
  double p = 1, q = 1;        // node2vec's return and in-out parameters; 1: uniform
  /// Edge types of the steps, in turn and again from the first; empty: the only one.
  std::vector<std::string> metapath = {};

  void visit(FieldVisitor& fields);
  friend bool operator==(const WalkOptions&, const WalkOptions&) = default;
};

/// Which edges between the nodes of a batch it has (PyG's SubgraphType): those that were drawn, these and
/// their reverses, or all.
enum class Subgraph { kDirectional, kBidirectional, kInduced };
const char* to_string(Subgraph subgraph);
/// The inverse; throws kInvalid naming what there is.
Subgraph subgraph_from(const std::string& name);

struct BatchOptions {
  /// Who samples: kNeighborSampler, kWalkSampler, kClusterSampler, or the name of a sampler that a plugin has
  /// brought (sampler_plugin.h).
  static constexpr const char *kNeighborSampler = "neighbor", *kWalkSampler = "walk",
                              *kClusterSampler = "cluster";
  std::string sampler = kNeighborSampler;
  /// For a plugin's sampler: what it makes of it is its own business. What only the neighbor sampler knows
  /// (fanouts to time_window) is refused with another.
  std::string sampler_options = {};
  WalkOptions walk = {};     // of sampler "walk"
  std::string cluster = {};  // of sampler "cluster": the node attribute that numbers clusters
  std::vector<std::int64_t> fanouts{
      15, 10, 5};  // neighbours drawn per node, hop by hop; -1 takes all, 0 none; empty: seeds alone
  /// Fanouts of edge types ("src__rel__dst", or "rel" where one type has it), as many hops as `fanouts`,
  /// which hold for the types that are not named; 0 leaves a type out in a hop.
  std::map<std::string, std::vector<std::int64_t>> edge_fanouts = {};
  bool replace = false;  // draw with replacement
  /// Layer-dependent sampling (LABOR, labor_rule.h): each edge with probability fanout / degree, destinations
  /// take the same sources where they can. A node gives fanout edges on average and at most all.
  bool labor = false;
  /// Positions of the epoch whose batches share variates, batch size times batches; 0: none do. Such batches
  /// have most of their nodes in common, and their rows are read once a worker: 64 batches are sampled 2.5
  /// times as fast.
  std::int64_t labor_seeds = 0;
  std::string weight =
      {};  // draw in proportion to this edge attribute, in edge types that have alias tables of it
  /// Temporal sampling, always disjoint: neighbours are no later than their seed by this attribute of edges,
  /// or else of source nodes, in edge types whose rows are ordered by it. Types without the attribute know no
  /// time; those that have it, but no order by it, are refused unless their fanouts are 0. So it is with
  /// weights.
  std::string time = {};
  std::string seed_time = {};  // attribute (int64) of the seeds' type; empty: `time`
  TemporalStrategy temporal_strategy = TemporalStrategy::kUniform;
  std::int64_t time_window = 0;  // neighbours later than seed time - window; 0: however early
  /// Neighbours from this time on, inclusive; of it and time_window the later start holds.
  std::optional<std::int64_t> time_start = std::nullopt;
  bool disjoint = false;  // a tree of its own for each seed: field batch, and no node shared between seeds
  Subgraph subgraph = Subgraph::kDirectional;  // of the others edges and nodes are not told apart by hops
  bool keep_orig_edges = false;  // with bidirectional: the drawn edges too (_orig_edge_index), and their hops
  bool edge_ids = false;         // field e_id: original edge positions
  bool dataset_ids = false;      // field dataset_id: ids in the dataset's own order, by partition
  std::optional<std::vector<std::string>> attrs =
      std::nullopt;                          // node attributes to gather ("x", "y"); all where not set
  std::vector<std::string> edge_attrs = {};  // edge attributes to gather
  LinkOptions link = {};                     // where seeds are links

  /// Whether fanouts alone limit a batch: nowhere all neighbours are taken.
  bool bounded() const;
  bool trees() const { return disjoint || !time.empty(); }
  /// Whether batches have num_sampled_nodes and num_sampled_edges, of an induced subgraph with no hop in
  /// them.
  bool hops_told() const { return subgraph != Subgraph::kBidirectional || keep_orig_edges; }
  /// Hands over every field; docs/loader.md shows the table that comes of it.
  void visit(FieldVisitor& fields);
  /// Throws kInvalid naming the option (a fanout below -1 or above kMaxFanout, more than kMaxHops hops,
  /// options that exclude each other).
  void validate() const;
  /// One canonical JSON line: what workers, servers and other machines are told, and what hash() is of.
  std::string to_json() const;
  /// Reads it back. Throws kInvalid naming a key that is unknown, missing or has no such value.
  static BatchOptions from_json(const std::string& text);
  /// XXH3-64 of to_json().
  std::uint64_t hash() const;
  friend bool operator==(const BatchOptions&, const BatchOptions&) = default;
};

/// "15,10,5" -> {15, 10, 5}; "" -> {}. Throws kInvalid naming the part that is no number, and the field
/// that the text is of, marked.
std::vector<std::int64_t> parse_fanouts(const std::string& text, std::string_view field = "fanouts");
/// "depends=15,10;tagged=5,5" -> per edge type; "" -> {}. Throws kInvalid naming the part that is none.
std::map<std::string, std::vector<std::int64_t>> parse_edge_fanouts(const std::string& text);
/// "weight,time" -> {"weight", "time"}; "" -> {}. Throws kInvalid for an empty name, naming the field.
std::vector<std::string> parse_names(const std::string& text, std::string_view field = "attrs");

}  // namespace hopfeed
