// See row_drawer.h.
#include "core/sampler/row_drawer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/sampler/hop_draws.h"
#include "core/sampler/row_reader.h"

namespace hopfeed {
namespace {

constexpr std::size_t kPadding = sizeof(PeerDrawnSection) + 4 * 8;  // of a section, at most

}  // namespace

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
  std::uint32_t first_tree = 0;

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
      const CscView& csc = draws.type(section.edge_type).csc;
      const std::int64_t first = csc.partition_offsets[partition], rows = csc.parts[partition].num_rows;
      for (std::size_t i = 0; i < section.excluded.size(); i += 2, any = true) {
        const std::int64_t row = section.excluded[i], source = section.excluded[i + 1];
        if (row < 0 || row >= rows) refuse(fmt::format("row {}", row));
        if (source < 0 || source >= csc.num_src_nodes) refuse(fmt::format("source {}", source));
        excluded.add(static_cast<int>(section.edge_type), source, first + row);
      }
    }
    excluded.finish();
    times.assign(question.times.begin(), question.times.end());
    first_tree = question.first_tree;
    draws.begin(any ? &excluded : nullptr, times, first_tree);
  }

  // Before anything of that size is made: rows may come more than once, so that a short question asks for
  // much.
  void check_most(std::uint32_t partition, const PeerDrawQuestion& question, const PeerDrawRows& section,
                  std::size_t room) const {
    const EdgeTypePlan& type = draws.type(section.edge_type);
    const std::int64_t fanout = type.fanouts[question.hop];
    const std::size_t each = element_bytes(type.csc.index_type) +
                             (options.edge_ids ? element_bytes(type.csc.edge_id_type) : 0) +
                             (type.positions ? sizeof(std::int32_t) : 0),
                      most = room / each;
    // Layer-dependent draws take a fanout of each row in the mean only.
    const std::uint64_t in_mean = options.labor ? 4 : 1;
    if (fanout >= 0 && section.rows.size() * static_cast<std::uint64_t>(fanout) * in_mean <= most) return;
    const RowReader reader(dataset, static_cast<int>(section.edge_type));
    const std::int64_t first = type.csc.partition_offsets[partition];
    std::uint64_t edges = 0;
    for (std::size_t i = 0; i < section.rows.size(); ++i) {
      const std::uint64_t degree = reader.row(first + section.rows[i]).degree;
      const bool whole_row = fanout < 0 || options.labor;
      edges += whole_row || degree == 0 ? degree
               : options.replace        ? static_cast<std::uint64_t>(fanout)
                                        : std::min(degree, static_cast<std::uint64_t>(fanout));
      if (edges > most) too_large();
    }
  }

  void draw(std::uint32_t partition, const PeerDrawQuestion& question, const PeerDrawRows& section,
            std::size_t written) {
    const EdgeTypePlan& type = draws.type(section.edge_type);
    const CscPart& part = type.csc.parts[partition];
    const std::int64_t first = type.csc.partition_offsets[partition];
    const bool trees = !section.trees.empty();
    if (trees != options.trees() && !section.rows.empty()) refuse("rows with or without trees");
    rows.ids.reserve(section.rows.size() + 1);
    for (std::size_t i = 0; i < section.rows.size(); ++i) {
      if (section.rows[i] >= part.num_rows) refuse(fmt::format("row {}", section.rows[i]));
      const std::uint32_t tree = trees ? section.trees[i] : 0;
      if (type.time && (tree < first_tree || tree - first_tree >= times.size()))
        refuse(fmt::format("tree {} without a time", tree));
      if (std::bit_width(tree) + node_bits > 63) refuse(fmt::format("tree {}", tree));
      rows.ids[i] = std::int64_t{tree} << node_bits | (first + section.rows[i]);
    }
    rows.count = static_cast<std::uint32_t>(section.rows.size());
    const std::size_t counts = section.rows.size() * sizeof(std::uint32_t) + kPadding;
    if (written + counts > kMaxPeerAnswer) too_large();
    check_most(partition, question, section, kMaxPeerAnswer - written - counts);
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

  [[noreturn]] static void too_large() {
    throw Error(ErrorCode::kNoSpace,
                fmt::format("an answer of more than {} bytes is too large; use smaller batches or fanouts",
                            kMaxPeerAnswer));
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
    impl_->draw(partition, question, section, out.size());
    impl_->write(partition, section, writer);
    drawn.rows += std::ssize(section.rows);
    drawn.edges += static_cast<std::int64_t>(impl_->edges.num_edges);
  }
  return drawn;
}

}  // namespace hopfeed
