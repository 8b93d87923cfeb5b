// See fetched_rows.h.
#include "core/partition/fetched_rows.h"

#include <algorithm>
#include <utility>

namespace hopfeed {

FetchedRows::FetchedRows(const Dataset& dataset, int edge_type)
    : dataset_(dataset), edge_type_(edge_type), csc_(dataset.csc(edge_type)) {}

void FetchedRows::fetch(std::span<const std::int64_t> nodes) {
  struct Question {
    std::vector<std::int64_t> nodes;
    PartitionPeers::Ticket ticket = 0;
  };
  forget();
  std::vector<Question> questions(csc_.parts.size());
  for (const std::int64_t node : nodes) {
    const int p = partition_of(csc_.partition_offsets, node);
    if (!dataset_.has_partition(p) && !rows_.contains(node))
      questions[static_cast<std::size_t>(p)].nodes.push_back(node);
  }
  std::size_t asked = 0, taken = 0;
  try {
    for (; asked < questions.size(); ++asked) {
      Question& question = questions[asked];
      if (question.nodes.empty()) continue;
      std::ranges::sort(question.nodes);
      question.nodes.erase(std::unique(question.nodes.begin(), question.nodes.end()), question.nodes.end());
      std::vector<std::uint32_t> rows;
      for (const std::int64_t node : question.nodes)
        rows.push_back(static_cast<std::uint32_t>(node - csc_.partition_offsets[asked]));
      const int p = static_cast<int>(asked);
      question.ticket = dataset_.require_peers(p).ask(
          p, write_question({.ask = PeerAsk::kRows, .partition = static_cast<std::uint32_t>(p), .job = 0},
                            PeerRowsHead{.edge_type = static_cast<std::uint32_t>(edge_type_),
                                         .rows = static_cast<std::uint32_t>(rows.size())},
                            std::span<const std::uint32_t>(rows)));
    }
    for (; taken < questions.size(); ++taken) {
      Question& question = questions[taken];
      if (question.nodes.empty()) continue;
      const int p = static_cast<int>(taken);
      PeerAnswer answer = dataset_.require_peers(p).wait(question.ticket);
      take(p, std::move(question.nodes), std::move(answer));
    }
  } catch (...) {
    for (std::size_t p = taken + 1; p < asked; ++p)
      if (!questions[p].nodes.empty()) dataset_.peers()->drop(questions[p].ticket);
    throw;
  }
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
  in.end();
  if (neighbors.width() < 4) in.fail("its sources are too narrow");
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto degree = static_cast<std::uint64_t>(degrees[i]);
    if (degree > head.edges - at) in.fail("its rows have more edges than it");
    Row row{
        .neighbors = neighbors.as<std::byte>() + at * head.source_bytes,
        .edge_ids = head.edge_id_bytes == 0 ? nullptr : edge_ids.as<std::byte>() + at * head.edge_id_bytes,
        .neighbor_bytes = head.source_bytes,
        .edge_id_bytes = head.edge_id_bytes == 0 ? 4u : head.edge_id_bytes,
        .degree = degree,
        .first_edge = csc_.parts[static_cast<std::size_t>(p)].first_edge + begins[i],
        .original_id = dataset_.original_id(csc_.dst_type, nodes[i])};
    at += degree;
    rows_.insert_or_assign(nodes[i], row);
  }
  bytes_ += answer->size() + nodes.size() * 2 * sizeof(Row);
  answers_.push_back({std::move(answer), std::move(nodes)});
}

// Rows that are in use are among the latest.
void FetchedRows::forget() {
  while (bytes_ > kKeptBytes && answers_.size() > 1 &&
         rows_.size() - answers_.front().nodes.size() >= kKept) {
    for (const std::int64_t node : answers_.front().nodes) rows_.erase(node);
    bytes_ -= answers_.front().bytes->size() + answers_.front().nodes.size() * 2 * sizeof(Row);
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
