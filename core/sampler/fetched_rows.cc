// See fetched_rows.h.
#include "core/sampler/fetched_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/sampler/peer_round.h"

namespace hopfeed {

FetchedRows::FetchedRows(const Dataset& dataset, int edge_type)
    : dataset_(dataset), edge_type_(edge_type), csc_(dataset.csc(edge_type)) {}

void FetchedRows::fetch(std::span<const std::int64_t> nodes) {
  forget();
  std::vector<std::vector<std::int64_t>> wanted(csc_.parts.size());
  for (const std::int64_t node : nodes) {
    const int p = dataset_.row_place(csc_.dst_type, node).part;
    if (!dataset_.has_partition(p) && !rows_.contains(node))
      wanted[static_cast<std::size_t>(p)].push_back(node);
  }
  PeerRound round(dataset_);
  for (std::size_t p = 0; p < wanted.size(); ++p) {
    std::vector<std::int64_t>& of = wanted[p];
    if (of.empty()) continue;
    std::ranges::sort(of);
    of.erase(std::unique(of.begin(), of.end()), of.end());
    std::vector<std::uint32_t> rows;
    for (const std::int64_t node : of)
      rows.push_back(static_cast<std::uint32_t>(node - csc_.partition_offsets[p]));
    round.ask(static_cast<int>(p),
              write_question({.ask = PeerAsk::kRows, .partition = static_cast<std::uint32_t>(p), .job = 0},
                             PeerRowsHead{.edge_type = static_cast<std::uint32_t>(edge_type_),
                                          .rows = static_cast<std::uint32_t>(rows.size())},
                             std::span<const std::uint32_t>(rows)));
  }
  round.take([&](int p, const PeerAnswer& answer) {
    take(p, std::move(wanted[static_cast<std::size_t>(p)]), answer);
  });
}

void FetchedRows::take(int p, std::vector<std::int64_t> nodes, PeerAnswer answer) {
  PeerReader in = open_answer(*answer, "a row").in;
  const auto& head = in.record<PeerRowsAnswer>();
  if (head.rows != nodes.size()) in.fail("it has other rows than those asked for");
  const std::span<const std::int64_t> degrees = in.array<std::int64_t>(head.rows);
  const NarrowArray neighbors = in.narrow(head.edges, head.source_bytes);
  const NarrowArray edge_ids =
      head.edge_id_bytes == 0 ? NarrowArray() : in.narrow(head.edges, head.edge_id_bytes);
  const std::span<const std::int64_t> begins = in.array<std::int64_t>(head.rows);
  const std::span<const std::int64_t> originals =
      dataset_.sharded_ids() ? in.array<std::int64_t>(head.rows) : std::span<const std::int64_t>();
  in.end();
  if (neighbors.width() < 4 || (head.edge_id_bytes != 0 && edge_ids.width() < 4))
    in.fail("its sources or edge ids are too narrow");
  if (csc_.has_edge_ids && head.edge_id_bytes == 0) in.fail("it lacks edge ids");
  const CscPart& part = csc_.parts[static_cast<std::size_t>(p)];
  // All of it before any of it is kept, since rows point into the answer.
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto degree = static_cast<std::uint64_t>(degrees[i]), begin = static_cast<std::uint64_t>(begins[i]),
               edges = static_cast<std::uint64_t>(part.num_edges);
    if (degree > head.edges - at) in.fail("its rows have more edges than it");
    if (begin > edges || degree > edges - begin) in.fail("its rows are not within their partition");
    at += degree;
    if (!originals.empty() && (originals[i] < 0 || originals[i] >= csc_.num_dst_nodes))
      in.fail(fmt::format("it has node {}", originals[i]));
  }
  bytes_ += answer->size() + nodes.size() * 2 * sizeof(Row);
  const std::vector<std::int64_t>& kept =
      answers_.emplace_back(Answer{std::move(answer), std::move(nodes)}).nodes;
  at = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto degree = static_cast<std::uint64_t>(degrees[i]);
    Row row{
        .neighbors = neighbors.as<std::byte>() + at * head.source_bytes,
        .edge_ids = head.edge_id_bytes == 0 ? nullptr : edge_ids.as<std::byte>() + at * head.edge_id_bytes,
        .neighbor_bytes = head.source_bytes,
        .edge_id_bytes = head.edge_id_bytes == 0 ? 4u : head.edge_id_bytes,
        .degree = degree,
        .first_edge = part.first_edge + begins[i],
        .original_id = originals.empty() ? dataset_.original_id(csc_.dst_type, kept[i]) : originals[i]};
    at += degree;
    rows_.insert_or_assign(kept[i], row);
  }
  came_ += kept.size();
}

// Who has a row of an old answer may have got it just now, so its bytes stay a while longer than it is found.
void FetchedRows::forget() {
  while (!retired_.empty() && came_ - retired_.front().when >= kKept) {
    retired_bytes_ -= retired_.front().bytes->size();
    retired_.pop_front();
  }
  while (bytes_ > kKeptBytes && answers_.size() > 1 &&
         rows_.size() - answers_.front().nodes.size() >= kKept) {
    for (const std::int64_t node : answers_.front().nodes) rows_.erase(node);
    bytes_ -= answers_.front().bytes->size() + answers_.front().nodes.size() * 2 * sizeof(Row);
    retired_bytes_ += answers_.front().bytes->size();
    retired_.push_back({std::move(answers_.front().bytes), came_});
    answers_.pop_front();
  }
}

FetchedRows::Row FetchedRows::row(std::int64_t node) {
  auto found = rows_.find(node);
  if (found == rows_.end()) {
    fetch({&node, 1});
    found = rows_.find(node);
  }
  return found->second;
}

}  // namespace hopfeed
