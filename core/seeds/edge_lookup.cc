// See edge_lookup.h.
#include "core/seeds/edge_lookup.h"

#include "core/partition/peer_questions.h"

namespace hopfeed {

std::vector<char> EdgeLookup::contain(std::span<const Edge> edges) const {
  struct Question {
    std::vector<std::size_t> at;
    std::vector<std::uint32_t> rows;
    std::vector<std::int64_t> sources;
    PartitionPeers::Ticket ticket = 0;
    bool under_way = false;
  };
  const CscView& csc = here_.reader().csc();
  std::vector<Question> questions(csc.parts.size());
  std::vector<char> result(edges.size());
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const int p = partition_of(csc.partition_offsets, edges[i].destination);
    Question& question = questions[static_cast<std::size_t>(p)];
    question.at.push_back(i);
    if (dataset_.has_partition(p)) continue;
    question.rows.push_back(static_cast<std::uint32_t>(edges[i].destination - csc.partition_offsets[p]));
    question.sources.push_back(edges[i].source);
  }
  try {
    for (std::size_t p = 0; p < questions.size(); ++p) {
      Question& question = questions[p];
      if (question.rows.empty()) continue;
      question.ticket =
          dataset_.require_peers(static_cast<int>(p))
              .ask(static_cast<int>(p),
                   write_question(
                       {.ask = PeerAsk::kEdges, .partition = static_cast<std::uint32_t>(p), .job = 0},
                       PeerEdgesHead{.edge_type = static_cast<std::uint32_t>(here_.reader().edge_type()),
                                     .pairs = static_cast<std::uint32_t>(question.rows.size())},
                       std::span<const std::uint32_t>(question.rows),
                       std::span<const std::int64_t>(question.sources)));
      question.under_way = true;
    }
    for (std::size_t p = 0; p < questions.size(); ++p) {
      const Question& question = questions[p];
      if (dataset_.has_partition(static_cast<int>(p)))
        for (const std::size_t i : question.at)
          result[i] = here_.contains(edges[i].source, edges[i].destination);
    }
    for (std::size_t p = 0; p < questions.size(); ++p) {
      Question& question = questions[p];
      if (!question.under_way) continue;
      question.under_way = false;
      const PeerAnswer answer = dataset_.peers()->wait(question.ticket);
      PeerReader in = open_answer(*answer, "an answer about edges").in;
      const std::span<const std::byte> bits = in.bytes(question.at.size());
      in.end();
      for (std::size_t i = 0; i < question.at.size(); ++i) result[question.at[i]] = bits[i] != std::byte{0};
    }
  } catch (...) {
    for (const Question& question : questions)
      if (question.under_way) dataset_.peers()->drop(question.ticket);
    throw;
  }
  return result;
}

}  // namespace hopfeed
