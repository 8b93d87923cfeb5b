// See row_drawer.h.
#include "core/sampler/row_drawer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "core/base/error.h"
#include "core/sampler/hop_draws.h"

namespace hopfeed {

struct RowDrawer::Impl {
  const Dataset& dataset;
  const BatchOptions options;
  const int node_bits;
  HopDraws draws;
  SamplerRelabel raw;
  LocalNodes rows, no_nodes;
  ScratchArray<std::int64_t> original_ids;
  EdgeScratch edges;
  ExcludedEdges excluded;
  std::vector<std::int64_t> times;

  Impl(const Dataset& data, const BatchOptions& opts)
      : dataset(data),
        options(opts),
        node_bits(node_bits_of(data)),
        draws((options.validate(), data), options),
        raw(std::in_place_type<RawSources>, node_bits) {}

  void begin(std::uint32_t partition, const PeerDrawQuestion& question) {
    if (question.hop >= options.fanouts.size()) refuse(fmt::format("hop {}", question.hop));
    excluded.begin(dataset.num_edge_types());
    bool any = false;
    for (const PeerDrawRows& section : question.sections) {
      if (section.edge_type >= draws.num_types()) refuse(fmt::format("edge type {}", section.edge_type));
      const std::int64_t first = draws.type(section.edge_type).csc.partition_offsets[partition];
      for (std::size_t i = 0; i < section.excluded.size(); i += 2, any = true)
        excluded.add(static_cast<int>(section.edge_type), section.excluded[i + 1],
                     first + section.excluded[i]);
    }
    excluded.finish();
    times.assign(std::size_t{question.first_tree} + question.times.size(), 0);
    std::ranges::copy(question.times, times.begin() + question.first_tree);
    draws.begin(any ? &excluded : nullptr, times);
  }

  void draw(std::uint32_t partition, const PeerDrawQuestion& question, const PeerDrawRows& section) {
    const EdgeTypePlan& type = draws.type(section.edge_type);
    const CscPart& part = type.csc.parts[partition];
    const std::int64_t first = type.csc.partition_offsets[partition];
    const bool trees = !section.trees.empty();
    if (trees != options.trees() && !section.rows.empty()) refuse("rows with or without trees");
    rows.ids.reserve(section.rows.size() + 1);
    for (std::size_t i = 0; i < section.rows.size(); ++i) {
      if (section.rows[i] >= part.num_rows) refuse(fmt::format("row {}", section.rows[i]));
      const std::uint32_t tree = trees ? section.trees[i] : 0;
      if (type.time && tree >= times.size()) refuse(fmt::format("tree {} without a time", tree));
      if (std::bit_width(tree) + node_bits > 63) refuse(fmt::format("tree {}", tree));
      rows.ids[i] = std::int64_t{tree} << node_bits | (first + section.rows[i]);
    }
    rows.count = static_cast<std::uint32_t>(section.rows.size());
    edges.num_edges = 0;
    std::get<RawSources>(raw).begin_batch(no_nodes);
    draws.expand({.key = question.key, .number = question.hop, .edge_type = section.edge_type},
                 {.ends = {.csc = type.csc,
                           .dst = rows,
                           .dst_original_ids = original_ids,
                           .src = no_nodes,
                           .edges = edges},
                  .relabel = raw,
                  .lo = 0,
                  .hi = rows.count});
  }

  void write(std::uint32_t partition, const PeerDrawRows& section, PeerWriter& out) {
    const EdgeTypePlan& type = draws.type(section.edge_type);
    const std::size_t n = section.rows.size();
    const std::span<const std::uint32_t> counts(edges.per_dst.data(), n);
    const std::span<const std::int64_t> sources = std::get<RawSources>(raw).sources();
    const CscPart& part = type.csc.parts[partition];
    PeerDrawnSection head{.edges = sources.size(), .rows = static_cast<std::uint32_t>(n)};
    head.count_bytes = static_cast<std::uint8_t>(narrow_width(n == 0 ? 0 : std::ranges::max(counts)));
    head.source_bytes = static_cast<std::uint8_t>(element_bytes(type.csc.index_type));
    if (options.edge_ids)
      head.edge_id_bytes = static_cast<std::uint8_t>(element_bytes(type.csc.edge_id_type));
    if (type.positions)
      head.position_bytes = static_cast<std::uint8_t>(part.num_edges > INT64_C(0xFFFFFFFF) ? 8 : 4);
    const std::size_t of_edge = std::size_t{head.source_bytes} + head.edge_id_bytes + head.position_bytes;
    out.reserve(sizeof head + n * head.count_bytes + sources.size() * of_edge + 64);
    out.record(head);
    out.narrow(counts, head.count_bytes);
    out.narrow(sources, head.source_bytes);
    if (options.edge_ids)
      out.narrow(std::span<const std::int64_t>(edges.edge_ids.data(), sources.size()), head.edge_id_bytes);
    if (!type.positions) return;
    for (std::size_t i = 0; i < sources.size(); ++i) edges.positions[i] -= part.first_edge;
    out.narrow(std::span<const std::int64_t>(edges.positions.data(), sources.size()), head.position_bytes);
  }

  [[noreturn]] static void refuse(const std::string& what) {
    throw Error(ErrorCode::kCorrupt, fmt::format("another machine asked for {}, which cannot be", what));
  }
};

RowDrawer::RowDrawer(const Dataset& dataset, const BatchOptions& options)
    : impl_(std::make_unique<Impl>(dataset, options)) {}
RowDrawer::~RowDrawer() = default;

RowDrawer::Drawn RowDrawer::answer(std::uint32_t partition, const PeerDrawQuestion& question,
                                   PeerBytes& out) {
  PeerWriter writer(out);
  writer.record(static_cast<std::uint64_t>(PeerSays::kHere));
  impl_->begin(partition, question);
  Drawn drawn;
  for (const PeerDrawRows& section : question.sections) {
    impl_->draw(partition, question, section);
    impl_->write(partition, section, writer);
    drawn.rows += std::ssize(section.rows);
    drawn.edges += static_cast<std::int64_t>(impl_->edges.num_edges);
  }
  return drawn;
}

}  // namespace hopfeed
