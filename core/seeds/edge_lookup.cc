// See edge_lookup.h.
#include "core/seeds/edge_lookup.h"

#include <vector>

#include "core/sampler/peer_questions.h"
#include "core/sampler/peer_round.h"

namespace hopfeed {

void EdgeLookup::contain(std::span<const Edge> edges, char* out) const {
  if (dataset_.whole()) return here_.contains(edges, out);
  struct Question {
    std::vector<std::size_t> at;
    std::vector<std::uint32_t> rows;
    std::vector<std::int64_t> sources;
  };
  const CscView& csc = here_.reader().csc();
  std::vector<Question> questions(csc.parts.size());
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const auto [p, row] = dataset_.row_place(csc.dst_type, edges[i].destination);
    Question& question = questions[static_cast<std::size_t>(p)];
    question.at.push_back(i);
    question.rows.push_back(static_cast<std::uint32_t>(row));
    question.sources.push_back(edges[i].source);
  }
  PeerRound round(dataset_);
  for (std::size_t p = 0; p < questions.size(); ++p) {
    const Question& question = questions[p];
    if (question.rows.empty() || dataset_.has_partition(static_cast<int>(p))) continue;
    round.ask(
        static_cast<int>(p),
        write_question({.ask = PeerAsk::kEdges, .partition = static_cast<std::uint32_t>(p), .job = 0},
                       PeerEdgesHead{.edge_type = static_cast<std::uint32_t>(here_.reader().edge_type()),
                                     .pairs = static_cast<std::uint32_t>(question.rows.size())},
                       std::span<const std::uint32_t>(question.rows),
                       std::span<const std::int64_t>(question.sources)));
  }
  round.send();
  std::vector<Edge> own_edges;
  std::vector<char> found;
  for (std::size_t p = 0; p < questions.size(); ++p) {
    const Question& own = questions[p];
    if (!dataset_.has_partition(static_cast<int>(p))) continue;
    own_edges.clear();
    for (std::size_t k = 0; k < own.at.size(); ++k)
      own_edges.push_back({.source = own.sources[k], .destination = csc.partition_offsets[p] + own.rows[k]});
    found.resize(own.at.size());
    here_.contains(own_edges, found.data());
    for (std::size_t k = 0; k < own.at.size(); ++k) out[own.at[k]] = found[k];
  }
  round.take([&](int p, const PeerAnswer& answer) {
    const std::vector<std::size_t>& at = questions[static_cast<std::size_t>(p)].at;
    PeerReader in = open_answer(*answer, "an answer about edges").in;
    const std::span<const std::byte> bits = in.bytes(at.size());
    in.end();
    for (std::size_t i = 0; i < at.size(); ++i) out[at[i]] = bits[i] != std::byte{0};
  });
}

}  // namespace hopfeed
