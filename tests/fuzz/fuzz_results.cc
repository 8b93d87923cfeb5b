// Any bytes as questions about rows of a run, and as answers to them. The first byte says which. A question
// that can be read is written again with the same bytes, and answered from a folder with some shards by what
// its asker reads, or in one line; an answer is read or refused in one line, and never beyond its bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/plain_text.h"
#include "results/results_answers.h"
#include "results/results_questions.h"
#include "tests/support/tiny_dataset.h"

namespace {

using namespace hopfeed;

constexpr RunId kRun{.high = 0x3131313131313131, .low = 0x3232323232323232};  // "11111111", "22222222"
constexpr std::size_t kRowBytes = 8;

/// A run that computes, with rows 0 to 9 and 20 to 29 of partition 1 of one table.
class Beside {
 public:
  Beside() {
    for (const std::int64_t first : {0, 20})
      run_.layers().write({.table = "h1", .node_type = "node"},
                          {.partition = 1, .first = first, .count = 10, .row_bytes = kRowBytes},
                          std::vector<std::byte>(10 * kRowBytes, static_cast<std::byte>(first + 1)));
  }
  PeerBytes answer(const ResultsQuestion& question) { return answers_.answer(question); }

 private:
  const testing::TempFolder folder_;
  const RunFolder run_{folder_.path() / "results", kRun, "{}", Sync::kNo};
  ResultsAnswers answers_{folder_.path() / "results"};
};

void take_question(const PeerBytes& bytes) {
  static Beside beside;
  const ResultsQuestion question = read_results_question(bytes);
  if (!is_layer_name(question.name)) std::abort();
  const PeerBytes again = write_results_question(question);
  if (again.size() != bytes.size()) std::abort();
  if (question.ask == ResultsAsk::kFetched && question.run == kRun) return;  // it would make a file
  const PeerBytes answer = beside.answer(question);
  const ResultsAnswer read = read_results_answer(answer, question.rows.size(), kRowBytes);
  if (read.says != ResultsSays::kRows) return;
  for (std::size_t i = 0; i < question.rows.size(); ++i)
    if (read.rows[i * kRowBytes] != std::byte{question.rows[i] < 20 ? std::uint8_t{1} : std::uint8_t{21}})
      std::abort();
}

/// Sums up the rows, so that the sanitizer sees a read behind their end.
void take_answer(const PeerBytes& bytes, std::size_t count) {
  const ResultsAnswer answer = read_results_answer(bytes, count, kRowBytes);
  if (answer.says == ResultsSays::kRows && answer.rows.size() != count * kRowBytes) std::abort();
  unsigned sum = 0;
  for (const std::byte byte : answer.rows) sum += static_cast<unsigned>(byte);
  if (sum > 255 * answer.rows.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const PeerBytes copy(bytes.begin(), bytes.end());
  try {
    if (data[0] % 2 == 0)
      take_question(copy);
    else
      take_answer(copy, data[0] / 2);
  } catch (const Error& error) {
    if (!is_text(error.what(), Lines::kOne)) std::abort();
  }
  return 0;
}
