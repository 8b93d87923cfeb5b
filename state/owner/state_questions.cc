// See state_questions.h.
#include "state/owner/state_questions.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/sampler/peer_questions.h"

namespace hopfeed {
namespace {

constexpr const char* kQuestion = "a question about state";
constexpr const char* kAnswer = "an answer about state";

struct LookHead {
  std::uint64_t settled = 0, later = 0;  // rows
};

std::size_t count_of(std::span<const std::uint8_t> later) {
  std::size_t count = 0;
  for (const std::uint8_t bits : later) count += static_cast<std::size_t>(std::popcount(bits));
  return count;
}

template <class Record>
RecycledBytes write_record(const Record& record) {
  RecycledBytes bytes;
  PeerWriter(bytes).record(record);
  return bytes;
}

template <class Record>
Record read_record(std::span<const std::byte> answer) {
  PeerReader in(answer, kAnswer);
  const Record record = in.record<Record>();
  in.end();
  return record;
}

}  // namespace

StateQuestion read_state_question(std::span<const std::byte> bytes) {
  PeerReader in(bytes, kQuestion);
  StateQuestion question{.head = in.record<StateHead>(), .ids = {}, .rest = {}};
  const StateHead& head = question.head;
  if (head.ask < StateAsk::kOpen || head.ask > StateAsk::kKeep)
    in.fail(fmt::format("it is of kind {}, which there is none of", static_cast<std::uint32_t>(head.ask)));
  if (head.ask == StateAsk::kOpen)
    question.rest = in.bytes(head.rows);
  else
    question.ids = in.array<std::int64_t>(head.rows), question.rest = in.rest();
  return question;
}

RecycledBytes write_state_question(StateHead head, std::span<const std::int64_t> ids, std::size_t rest_bytes,
                                   const std::function<void(std::byte* out)>& fill) {
  head.rows = ids.size();
  RecycledBytes bytes;
  PeerWriter out(bytes);
  out.reserve(sizeof head + ids.size_bytes() + rest_bytes + 8);
  out.record(head);
  out.array(ids);
  if (rest_bytes > 0) fill(out.room(rest_bytes));
  return bytes;
}

RecycledBytes write_opening(StateHead head, const std::string& json) {
  head.ask = StateAsk::kOpen;
  head.rows = json.size();
  RecycledBytes bytes;
  PeerWriter out(bytes);
  out.record(head);
  out.array(std::as_bytes(std::span(json)));
  return bytes;
}

RecycledBytes write_opened(const OpenedTable& opened) { return write_record(opened); }
OpenedTable read_opened(std::span<const std::byte> answer) { return read_record<OpenedTable>(answer); }

RecycledBytes write_shard_sum(const ShardSum& sum) { return write_record(sum); }
ShardSum read_shard_sum(std::span<const std::byte> answer) { return read_record<ShardSum>(answer); }

RecycledBytes write_restored(const RestoredShard& restored) { return write_record(restored); }
RestoredShard read_restored(std::span<const std::byte> answer) { return read_record<RestoredShard>(answer); }

RecycledBytes write_steps_applied(std::int64_t steps) { return write_record(steps); }
std::int64_t read_steps_applied(std::span<const std::byte> answer) {
  return read_record<std::int64_t>(answer);
}

void require_answer_holds(std::size_t count, std::int64_t row_bytes, const std::string& table) {
  constexpr std::size_t kBeside = std::size_t{1} << 20;  // the answer's head, and a bit for each row
  const auto most = (kMaxStateMessage - kBeside) / (static_cast<std::size_t>(row_bytes) + 1);
  if (count > most)
    throw Error(
        ErrorCode::kNoSpace,
        fmt::format("{} rows of table '{}' are asked for at a time; an answer holds {}, so use smaller "
                    "batches",
                    count, table, most));
}

RecycledBytes write_rows(std::size_t count, std::size_t row_bytes,
                         const std::function<void(std::byte* out)>& fill) {
  RecycledBytes bytes;
  PeerWriter out(bytes);
  out.reserve(sizeof(std::uint64_t) + count * row_bytes + 8);
  out.record(static_cast<std::uint64_t>(count));
  if (count > 0) fill(out.room(count * row_bytes));
  return bytes;
}

std::span<const std::byte> read_rows(std::span<const std::byte> answer, std::size_t count,
                                     std::size_t row_bytes) {
  PeerReader in(answer, kAnswer);
  if (in.record<std::uint64_t>() != count) in.fail("it has another number of rows");
  if (count > in.rest().size() / row_bytes) in.fail("it is too short for its rows");
  const std::span<const std::byte> rows = in.bytes(count * row_bytes);
  in.end();
  return rows;
}

RecycledBytes write_look(std::size_t rows, std::span<const std::uint8_t> later, std::int64_t width,
                         const std::function<void(float* out)>& fill) {
  const std::size_t left_out = count_of(later), settled = rows - left_out;
  const std::size_t row_bytes = static_cast<std::size_t>(width) * sizeof(float);
  RecycledBytes bytes;
  PeerWriter out(bytes);
  out.reserve(sizeof(LookHead) + later.size() + settled * row_bytes + 16);
  out.record(LookHead{.settled = settled, .later = left_out});
  if (left_out > 0) out.array(later);
  if (settled > 0) fill(reinterpret_cast<float*>(out.room(settled * row_bytes)));
  return bytes;
}

Looked read_look(std::span<const std::byte> answer, std::size_t rows, std::int64_t width) {
  PeerReader in(answer, kAnswer);
  const LookHead head = in.record<LookHead>();
  if (head.settled > rows || head.later != rows - head.settled) in.fail("it has another number of rows");
  Looked looked{.later = {}, .settled = {}};
  if (head.later > 0) looked.later = in.array<std::uint8_t>((rows + 7) / 8);
  if (count_of(looked.later) != head.later ||
      (rows % 8 != 0 && head.later > 0 && looked.later.back() >> (rows % 8) != 0))
    in.fail("it leaves out others than it says");
  const std::size_t numbers = head.settled * static_cast<std::size_t>(width);
  looked.settled = in.array<float>(numbers);
  in.end();
  return looked;
}

}  // namespace hopfeed
