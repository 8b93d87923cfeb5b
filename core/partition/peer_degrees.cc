// See peer_degrees.h.
#include "core/partition/peer_degrees.h"

#include "core/dataset/damaged_row.h"
#include "core/partition/peer_questions.h"

namespace hopfeed {

std::vector<std::int64_t> degrees_of_all(const Dataset& dataset, int edge_type,
                                         std::span<const std::int64_t> nodes) {
  struct Question {
    std::vector<std::size_t> at;
    std::vector<std::uint32_t> rows;
    PartitionPeers::Ticket ticket = 0;
    bool under_way = false;
  };
  const CscView csc = dataset.csc(edge_type);
  std::vector<std::int64_t> degrees(nodes.size());
  std::vector<Question> questions(csc.parts.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto p = static_cast<std::size_t>(partition_of(csc.partition_offsets, nodes[i]));
    const CscPart& part = csc.parts[p];
    const std::int64_t row = nodes[i] - csc.partition_offsets[p];
    if (part.rows == nullptr) {
      questions[p].at.push_back(i);
      questions[p].rows.push_back(static_cast<std::uint32_t>(row));
      continue;
    }
    degrees[i] = part.rows[row + 1].offset - part.rows[row].offset;
    if (degrees[i] < 0 || degrees[i] > part.num_edges)
      throw damage_error(dataset, edge_type, {DamagedRow::What::kOffsets, static_cast<int>(p), row, 0});
  }
  try {
    for (std::size_t p = 0; p < questions.size(); ++p) {
      Question& question = questions[p];
      if (question.at.empty()) continue;
      question.ticket =
          dataset.require_peers(static_cast<int>(p))
              .ask(static_cast<int>(p),
                   write_question(
                       {.ask = PeerAsk::kDegrees, .partition = static_cast<std::uint32_t>(p), .job = 0},
                       PeerRowsHead{.edge_type = static_cast<std::uint32_t>(edge_type),
                                    .rows = static_cast<std::uint32_t>(question.rows.size())},
                       std::span<const std::uint32_t>(question.rows)));
      question.under_way = true;
    }
    for (Question& question : questions) {
      if (question.at.empty()) continue;
      question.under_way = false;
      const PeerAnswer answer = dataset.peers()->wait(question.ticket);
      PeerReader in = open_answer(*answer, "an answer of degrees").in;
      const std::span<const std::int64_t> told = in.array<std::int64_t>(question.at.size());
      in.end();
      for (std::size_t i = 0; i < question.at.size(); ++i) degrees[question.at[i]] = told[i];
    }
  } catch (...) {
    for (const Question& question : questions)
      if (question.under_way) dataset.peers()->drop(question.ticket);
    throw;
  }
  return degrees;
}

}  // namespace hopfeed
