// See peer_degrees.h.
#include "core/sampler/peer_degrees.h"

#include "core/dataset/damaged_row.h"
#include "core/sampler/peer_questions.h"
#include "core/sampler/peer_round.h"

namespace hopfeed {

std::vector<std::int64_t> degrees_of_all(const Dataset& dataset, int edge_type,
                                         std::span<const std::int64_t> nodes) {
  struct Question {
    std::vector<std::size_t> at;
    std::vector<std::uint32_t> rows;
  };
  const CscView csc = dataset.csc(edge_type);
  std::vector<std::int64_t> degrees(nodes.size());
  std::vector<Question> questions(csc.parts.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto [at, row] = dataset.row_place(csc.dst_type, nodes[i]);
    const auto p = static_cast<std::size_t>(at);
    const CscPart& part = csc.parts[p];
    if (part.rows == nullptr) {
      questions[p].at.push_back(i);
      questions[p].rows.push_back(static_cast<std::uint32_t>(row));
      continue;
    }
    degrees[i] = part.rows[row + 1].offset - part.rows[row].offset;
    if (degrees[i] < 0 || degrees[i] > part.num_edges)
      throw damage_error(dataset, edge_type, {DamagedRow::What::kOffsets, static_cast<int>(p), row, 0});
  }
  PeerRound round(dataset);
  for (std::size_t p = 0; p < questions.size(); ++p) {
    const std::vector<std::uint32_t>& rows = questions[p].rows;
    if (rows.empty()) continue;
    round.ask(static_cast<int>(p),
              write_question({.ask = PeerAsk::kDegrees, .partition = static_cast<std::uint32_t>(p), .job = 0},
                             PeerRowsHead{.edge_type = static_cast<std::uint32_t>(edge_type),
                                          .rows = static_cast<std::uint32_t>(rows.size())},
                             std::span<const std::uint32_t>(rows)));
  }
  round.take([&](int p, const PeerAnswer& answer) {
    const std::vector<std::size_t>& at = questions[static_cast<std::size_t>(p)].at;
    PeerReader in = open_answer(*answer, "an answer of degrees").in;
    const std::span<const std::int64_t> told = in.array<std::int64_t>(at.size());
    in.end();
    for (std::size_t i = 0; i < at.size(); ++i) degrees[at[i]] = told[i];
  });
  return degrees;
}

}  // namespace hopfeed
