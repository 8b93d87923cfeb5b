// See serial_sampler.h.
#include "bench/core/serial_sampler.h"

#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "core/pick_set.h"
#include "core/sampling_rule.h"

namespace hopfeed::bench {
namespace {

std::int64_t element(const void* array, ElementType type, std::int64_t i) {
  return type == ElementType::kInt32 ? static_cast<const std::int32_t*>(array)[i]
                                     : static_cast<const std::int64_t*>(array)[i];
}

struct SerialSample {
  std::vector<std::int64_t> nodes, edge_ids, nodes_per_hop, edges_per_hop;
  std::vector<std::uint32_t> sources, per_dst;
  std::unordered_map<std::int64_t, std::uint32_t> local;

  std::uint32_t local_id(std::int64_t node) {
    const auto [entry, is_new] = local.try_emplace(node, static_cast<std::uint32_t>(nodes.size()));
    if (is_new) nodes.push_back(node);
    return entry->second;
  }
};

// The positions that a row of `degree` gives.
std::vector<std::uint64_t> positions(const NodeStream& stream, std::uint64_t degree, std::int64_t fanout,
                                     bool replace) {
  const auto k = static_cast<std::uint32_t>(num_drawn(degree, fanout, replace));
  std::vector<std::uint64_t> result(k);
  if (fanout < 0 || (!replace && k == degree)) {
    for (std::uint32_t j = 0; j < k; ++j) result[j] = j;
    return result;
  }
  std::vector<std::uint32_t> picks(k + 4);
  PickSet seen;
  seen.begin(k);
  if (replace)
    pick_with_replacement(stream, static_cast<std::uint32_t>(degree), k, picks.data());
  else
    pick_without_replacement(stream, static_cast<std::uint32_t>(degree), k, picks.data(), seen);
  std::copy_n(picks.begin(), k, result.begin());
  return result;
}

void expand(const CscView& csc, const BatchOptions& options, const BatchKey& key, std::size_t hop,
            std::size_t begin, std::size_t end, SerialSample& out) {
  StreamOptions stream{.purpose = Purpose::kNeighbors,
                       .seed = key.seed,
                       .epoch = key.epoch,
                       .first = key.first,
                       .hop = static_cast<std::uint32_t>(hop)};
  NodeStream draws{.key = stream_key(stream), .retry_key = 0, .node = 0, .tree = 0};
  stream.purpose = Purpose::kRetries;
  draws.retry_key = stream_key(stream);
  for (std::size_t i = begin; i < end; ++i) {
    const int p = partition_of(csc.partition_offsets, out.nodes[i]);
    const CscPart& part = csc.parts[static_cast<std::size_t>(p)];
    const RowRecord* row = part.rows + (out.nodes[i] - csc.partition_offsets[static_cast<std::size_t>(p)]);
    draws.node = static_cast<std::uint64_t>(row->original_id);
    const auto picked = positions(draws, static_cast<std::uint64_t>(row[1].offset - row->offset),
                                  options.fanouts[hop], options.replace);
    for (std::uint64_t position : picked) {
      const std::int64_t at = row->offset + static_cast<std::int64_t>(position);
      out.sources.push_back(out.local_id(element(part.indices, csc.index_type, at)));
      if (options.edge_ids) out.edge_ids.push_back(element(part.edge_ids, csc.edge_id_type, at));
    }
    out.per_dst.push_back(static_cast<std::uint32_t>(picked.size()));
  }
}

template <class A, class B>
void expect_same(const A& expected, const B& found, const char* what) {
  if (!std::ranges::equal(expected, found))
    throw Error(ErrorCode::kCorrupt,
                std::string("the sampler's ") + what + " differ from the serial sampler's");
}

}  // namespace

void verify_sample(const Dataset& dataset, const BatchOptions& options, const SampleRequest& request,
                   const Sample& sample) {
  SerialSample serial;
  for (std::int64_t seed : request.seeds) serial.local_id(seed);
  serial.nodes_per_hop.push_back(static_cast<std::int64_t>(serial.nodes.size()));
  std::size_t begin = 0;
  for (std::size_t hop = 0; hop < options.fanouts.size(); ++hop) {
    const std::size_t end = serial.nodes.size(), edges = serial.sources.size();
    expand(dataset.csc(0), options, request.key, hop, begin, end, serial);
    serial.nodes_per_hop.push_back(static_cast<std::int64_t>(serial.nodes.size() - end));
    serial.edges_per_hop.push_back(static_cast<std::int64_t>(serial.sources.size() - edges));
    begin = end;
  }
  expect_same(serial.nodes, sample.nodes[0].dataset_ids, "nodes");
  expect_same(serial.sources, sample.edges[0].sources, "sources");
  expect_same(serial.per_dst, sample.edges[0].per_dst, "edges per destination");
  expect_same(serial.edge_ids, sample.edges[0].edge_ids, "edge ids");
  expect_same(serial.nodes_per_hop, sample.nodes[0].per_hop, "nodes per hop");
  expect_same(serial.edges_per_hop, sample.edges[0].per_hop, "edges per hop");
}

}  // namespace hopfeed::bench
