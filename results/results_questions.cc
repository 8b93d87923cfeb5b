// See results_questions.h.
#include "results/results_questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/sampler/peer_questions.h"

namespace hopfeed {
namespace {

constexpr const char* kQuestion = "a question about results";
constexpr const char* kAnswer = "an answer about results";

struct QuestionHead {
  ResultsAsk ask{};
  std::uint32_t partition = 0;
  std::uint64_t run_high = 0, run_low = 0;
  std::uint32_t table_bytes = 0, type_bytes = 0;
  std::uint64_t rows = 0;
};
static_assert(sizeof(QuestionHead) == 40);

struct AnswerHead {
  ResultsSays says{};
  std::uint64_t rows = 0, row_bytes = 0;
};
static_assert(sizeof(AnswerHead) == 24);

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool rise(std::span<const std::uint32_t> rows) {
  return std::ranges::adjacent_find(rows, std::greater_equal<>()) == rows.end();
}

}  // namespace

PeerBytes write_results_question(const ResultsQuestion& question) {
  PeerBytes bytes;
  PeerWriter out(bytes);
  const std::string_view table = question.name.table, type = question.name.node_type;
  out.reserve(sizeof(QuestionHead) + table.size() + type.size() + question.rows.size_bytes() + 24);
  out.record(QuestionHead{.ask = question.ask,
                          .partition = question.partition,
                          .run_high = question.run.high,
                          .run_low = question.run.low,
                          .table_bytes = static_cast<std::uint32_t>(table.size()),
                          .type_bytes = static_cast<std::uint32_t>(type.size()),
                          .rows = question.rows.size()});
  out.array(std::span(table));
  out.array(std::span(type));
  out.array(question.rows);
  return bytes;
}

ResultsQuestion read_results_question(std::span<const std::byte> bytes) {
  PeerReader in(bytes, kQuestion);
  const QuestionHead head = in.record<QuestionHead>();
  ResultsQuestion question{.ask = head.ask,
                           .partition = head.partition,
                           .run = {.high = head.run_high, .low = head.run_low},
                           .name = {},
                           .rows = {}};
  if (head.ask != ResultsAsk::kRows && head.ask != ResultsAsk::kFetched)
    in.fail(fmt::format("it is of kind {}, which there is none of", static_cast<std::uint64_t>(head.ask)));
  question.name.table = text_of(in.bytes(head.table_bytes));
  question.name.node_type = text_of(in.bytes(head.type_bytes));
  if (!is_layer_name(question.name)) in.fail("it names no table");
  question.rows = in.array<std::uint32_t>(head.rows);
  in.end();
  if (question.rows.empty() != (head.ask == ResultsAsk::kFetched)) in.fail("it has another number of rows");
  if (!rise(question.rows)) in.fail("its rows do not rise");
  return question;
}

PeerBytes write_results_answer(ResultsSays says) {
  PeerBytes bytes;
  PeerWriter(bytes).record(AnswerHead{.says = says});
  return bytes;
}

ResultsRoom write_results_rows(std::size_t count, std::size_t row_bytes) {
  if (count > 0 && row_bytes > (kMaxPeerAnswer - sizeof(AnswerHead) - 8) / count)
    throw Error(
        ErrorCode::kNoSpace,
        fmt::format("an answer of {} rows of {} bytes is too large; ask for fewer", count, row_bytes));
  ResultsRoom room;
  PeerWriter out(room.bytes);
  out.reserve(sizeof(AnswerHead) + count * row_bytes + 8);
  out.record(AnswerHead{.says = ResultsSays::kRows, .rows = count, .row_bytes = row_bytes});
  room.rows = {out.room(count * row_bytes), count * row_bytes};
  return room;
}

ResultsAnswer read_results_answer(std::span<const std::byte> bytes, std::size_t count,
                                  std::size_t row_bytes) {
  PeerReader in(bytes, kAnswer);
  const AnswerHead head = in.record<AnswerHead>();
  const bool noted = head.says == ResultsSays::kNoted, rows = head.says == ResultsSays::kRows;
  if (head.says < ResultsSays::kRows || head.says > ResultsSays::kNoted || (count == 0 && rows) ||
      (count > 0 && noted))
    in.fail(fmt::format("it says {}, which answers another question", static_cast<std::uint64_t>(head.says)));
  if (rows ? head.rows != count || head.row_bytes != row_bytes : head.rows != 0 || head.row_bytes != 0)
    in.fail(fmt::format("it has {} rows of {} bytes, and {} of {} were asked for", head.rows, head.row_bytes,
                        count, row_bytes));
  ResultsAnswer answer{.says = head.says, .rows = {}};
  if (rows) {
    if (count > in.rest().size() / std::max<std::size_t>(row_bytes, 1)) in.fail("it ends early");
    answer.rows = in.bytes(count * row_bytes);
  }
  in.end();
  return answer;
}

}  // namespace hopfeed
