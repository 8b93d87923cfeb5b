// See peer_questions.h.
#include "core/sampler/peer_questions.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"

namespace hopfeed {
void PeerReader::fail(const std::string& why) const {
  throw Error(ErrorCode::kCorrupt, fmt::format("{} of another machine cannot be read: {}", what_, why));
}

std::span<const std::byte> PeerReader::take(std::uint64_t count, std::size_t each) {
  const auto early = [this] { fail("it ends early"); };
  const std::span<const std::byte> taken = left_.take(count, each, early);
  left_.take((8 - taken.size() % 8) % 8, 1, early);
  return taken;
}

NarrowArray PeerReader::narrow(std::uint64_t count, int width) {
  if (width != 1 && width != 2 && width != 4 && width != 8) fail("it has numbers of an odd width");
  return {take(count, static_cast<std::size_t>(width)).data(), static_cast<std::size_t>(count), width};
}

void PeerReader::end() const {
  if (const std::size_t more = rest().size(); more > 0) fail(fmt::format("it has {} bytes too many", more));
}

PeerBytes write_draw(const PeerQuestionHead& head, const PeerDrawQuestion& question) {
  PeerBytes bytes;
  std::size_t expected = sizeof head + sizeof(PeerDrawHead) + question.times.size_bytes();
  for (const PeerDrawRows& rows : question.sections)
    expected += sizeof(PeerDrawSection) + rows.rows.size_bytes() + rows.trees.size_bytes() +
                rows.excluded.size_bytes() + 16;
  PeerWriter out(bytes);
  out.reserve(expected);
  out.record(head);
  out.record(PeerDrawHead{.seed = question.key.seed,
                          .epoch = question.key.epoch,
                          .first = question.key.first,
                          .count = question.key.count,
                          .hop = question.hop,
                          .sections = static_cast<std::uint32_t>(question.sections.size()),
                          .first_tree = question.first_tree,
                          .times = static_cast<std::uint32_t>(question.times.size())});
  out.array(question.times);
  for (const PeerDrawRows& rows : question.sections) {
    out.record(PeerDrawSection{.edge_type = rows.edge_type,
                               .rows = static_cast<std::uint32_t>(rows.rows.size()),
                               .trees = static_cast<std::uint32_t>(rows.trees.size()),
                               .excluded = static_cast<std::uint32_t>(rows.excluded.size() / 2)});
    out.array(rows.rows);
    out.array(rows.trees);
    out.array(rows.excluded);
  }
  return bytes;
}

PeerDrawQuestion read_draw(PeerReader& in) {
  const auto& head = in.record<PeerDrawHead>();
  PeerDrawQuestion question{
      .key = {.seed = head.seed, .epoch = head.epoch, .first = head.first, .count = head.count},
      .hop = head.hop,
      .first_tree = head.first_tree,
      .times = in.array<std::int64_t>(head.times),
      .sections = {}};
  if (head.sections > static_cast<std::uint32_t>(kMaxTypes)) in.fail("it has more sections than edge types");
  for (std::uint32_t s = 0; s < head.sections; ++s) {
    const auto& section = in.record<PeerDrawSection>();
    if (section.trees != 0 && section.trees != section.rows) in.fail("its trees do not match its rows");
    PeerDrawRows& rows = question.sections.emplace_back();
    rows.edge_type = section.edge_type;
    rows.rows = in.array<std::uint32_t>(section.rows);
    rows.trees = in.array<std::uint32_t>(section.trees);
    rows.excluded = in.array<std::int64_t>(2 * std::uint64_t{section.excluded});
  }
  in.end();
  return question;
}

PeerDrawn read_drawn(PeerReader& in, std::size_t rows) {
  const auto& head = in.record<PeerDrawnSection>();
  if (head.rows != rows) in.fail(fmt::format("it is of {} rows, and {} were asked for", head.rows, rows));
  PeerDrawn drawn{.counts = in.narrow(head.rows, head.count_bytes),
                  .sources = in.narrow(head.edges, head.source_bytes),
                  .edge_ids = {},
                  .positions = {}};
  if (head.edge_id_bytes != 0) drawn.edge_ids = in.narrow(head.edges, head.edge_id_bytes);
  if (head.position_bytes != 0) drawn.positions = in.narrow(head.edges, head.position_bytes);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    const auto count = static_cast<std::uint64_t>(drawn.counts[i]);
    if (count > head.edges - sum) in.fail("its rows have more edges than it");
    sum += count;
  }
  if (sum != head.edges) in.fail(fmt::format("its rows have {} edges, and it has {}", sum, head.edges));
  return drawn;
}

PeerBytes write_job(std::uint32_t partition, std::uint64_t job, std::string_view options) {
  PeerBytes bytes;
  PeerWriter out(bytes);
  out.record(PeerQuestionHead{.ask = PeerAsk::kJob, .partition = partition, .job = job});
  out.record(std::uint64_t{options.size()});
  out.array(std::span(options));
  return bytes;
}

std::string read_job(PeerReader& in) {
  const std::uint64_t size = in.record<std::uint64_t>();
  if (size > kMaxOpenBytes) in.fail(fmt::format("its options have {} bytes", size));
  const std::span<const std::byte> text = in.bytes(size);
  std::string options(reinterpret_cast<const char*>(text.data()), text.size());
  if (json_depth(options) > kMaxJsonDepth) in.fail("its options are nested too deep");
  return options;
}

PeerReply open_answer(std::span<const std::byte> answer, const char* what) {
  PeerReader in(answer, what);
  const std::uint64_t says = in.record<std::uint64_t>();
  if (says > static_cast<std::uint64_t>(PeerSays::kUnknownJob)) in.fail("its first word says nothing known");
  return {.says = static_cast<PeerSays>(says), .in = in};
}

}  // namespace hopfeed
