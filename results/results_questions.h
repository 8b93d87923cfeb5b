// What a machine asks the server beside another one's run, and what that answers, as bytes: rows of tables
// that the run computes, and a word that one needs no more of them. docs/protocol.md has every byte. Numbers
// are little-endian; names and arrays begin at multiples of 8.
//
//   rows      rows of a partition there, by their rising numbers in it    them, or why there are none
//   fetched   who has that partition needs no more of a table's rows      that it is noted
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dataset/partition_peers.h"
#include "results/layer_files.h"

namespace hopfeed {

enum class ResultsAsk : std::uint32_t { kRows = 1, kFetched = 2 };

/// A ResultsQuestion is one as it is read or written: the rows lie in its bytes.
struct ResultsQuestion {
  ResultsAsk ask = ResultsAsk::kRows;
  std::uint32_t partition = 0;  // of the rows; of kFetched one that the asker has
  RunId run;
  LayerName name;
  std::span<const std::uint32_t> rows = {};  // of kRows: at least one, each larger than the one before it
};
PeerBytes write_results_question(const ResultsQuestion& question);
/// Throws kCorrupt, also for a name that is no LayerName.
ResultsQuestion read_results_question(std::span<const std::byte> bytes);

enum class ResultsSays : std::uint64_t {
  kRows = 1,        // here they are
  kNotYet = 2,      // the run computes; ask again
  kNobody = 3,      // some are not there, and nobody computes them
  kAnotherRun = 4,  // another run computes there now
  kNoted = 5,
};

/// Writes an answer without rows.
PeerBytes write_results_answer(ResultsSays says);
/// ResultsRoom is an answer with rows that its writer has still to fill in.
struct ResultsRoom {
  PeerBytes bytes;
  std::span<std::byte> rows;  // in `bytes`
};
/// Throws kNoSpace where an answer does not hold so many.
ResultsRoom write_results_rows(std::size_t count, std::size_t row_bytes);

struct ResultsAnswer {
  ResultsSays says = ResultsSays::kNotYet;
  std::span<const std::byte> rows = {};  // of kRows: those that were asked for, in their order
};
/// Reads the answer to a question for `count` rows of `row_bytes`; `count` 0: to a kFetched. Throws kCorrupt
/// for any other answer.
ResultsAnswer read_results_answer(std::span<const std::byte> bytes, std::size_t count, std::size_t row_bytes);

}  // namespace hopfeed
