// See peer_rows.h.
#include "core/sampler/peer_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/base/memory_limits.h"
#include "core/base/notes.h"
#include "core/dataset/row_gather.h"
#include "core/sampler/rows_here.h"

namespace hopfeed {
namespace {

AttrView view_of(const Dataset& dataset, Store store, int type, const std::string& name) {
  return store == Store::kEdge ? dataset.edge_attr(type, name) : dataset.attr(type, name);
}

std::uint32_t number_of(const std::vector<AttrMeta>& attrs, const std::string& name) {
  return static_cast<std::uint32_t>(find_attr(attrs, name) - attrs.data());
}

}  // namespace

PeerRows::PeerRows(const Dataset& dataset, Store store, int type, const std::string& name)
    : dataset_(dataset),
      is_edge_(store == Store::kEdge),
      type_(type),
      attr_(view_of(dataset, store, type, name)),
      number_(number_of(is_edge_ ? dataset.meta().edge_types[static_cast<std::size_t>(type)].attrs
                                 : dataset.meta().node_types[static_cast<std::size_t>(type)].attrs,
                        name)) {}

void PeerRows::ask(std::span<const std::int64_t> ids, std::span<const std::size_t> tags) {
  struct Rows {
    std::vector<std::uint32_t> narrow;
    std::vector<std::int64_t> wide;  // of edges
    std::vector<std::size_t> tags;
  };
  std::vector<Rows> of(attr_.parts.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto p = static_cast<std::size_t>(partition_of(attr_.partition_offsets, ids[i]));
    const std::int64_t row = ids[i] - attr_.partition_offsets[p];
    is_edge_ ? of[p].wide.push_back(row) : of[p].narrow.push_back(static_cast<std::uint32_t>(row));
    of[p].tags.push_back(tags[i]);
  }
  for (std::size_t p = 0; p < of.size(); ++p) {
    if (of[p].tags.empty()) continue;
    const PeerQuestionHead head{
        .ask = PeerAsk::kFeatures, .partition = static_cast<std::uint32_t>(p), .job = 0};
    const PeerFeaturesHead features{.is_edge = is_edge_,
                                    .type = static_cast<std::uint32_t>(type_),
                                    .attr = number_,
                                    .rows = static_cast<std::uint32_t>(of[p].tags.size())};
    PeerBytes question = is_edge_
                             ? write_question(head, features, std::span<const std::int64_t>(of[p].wide))
                             : write_question(head, features, std::span<const std::uint32_t>(of[p].narrow));
    Question& asked = questions_.emplace_back();
    asked.partition = static_cast<int>(p);
    asked.tags = std::move(of[p].tags);
    asked.ticket = dataset_.require_peers(asked.partition).ask(asked.partition, std::move(question));
    asked.under_way = true;
  }
}

void PeerRows::take(const std::function<void(std::size_t tag, const std::byte* row)>& row) {
  for (Question& question : questions_) {
    if (!question.under_way) continue;
    question.under_way = false;
    question.answer = dataset_.require_peers(question.partition).wait(question.ticket);
    PeerReader in = open_answer(*question.answer, "an answer of features").in;
    const std::byte* bytes = in.bytes(question.tags.size() * row_bytes()).data();
    in.end();
    for (std::size_t i = 0; i < question.tags.size(); ++i) row(question.tags[i], bytes + i * row_bytes());
  }
}

void PeerRows::drop() noexcept {
  for (Question& question : questions_)
    if (question.under_way) dataset_.peers()->drop(question.ticket);
  questions_.clear();
}

void gather_rows_of_all(const Dataset& dataset, Store store, int type, const std::string& name,
                        std::span<const std::int64_t> ids, std::byte* out) {
  const AttrView attr = view_of(dataset, store, type, name);
  if (dataset.whole()) return gather_rows(attr, ids, out);
  const auto row_bytes = static_cast<std::size_t>(attr.row_bytes);
  PeerRows others(dataset, store, type, name);
  std::vector<std::int64_t> asked;
  std::vector<std::size_t> tags;
  const RowsHere here(dataset, store, type, attr);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (here.row(ids[i]) == nullptr) asked.push_back(ids[i]), tags.push_back(i);
  others.ask(asked, tags);
  if (!asked.empty()) dataset.peers()->send_asked();
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (const std::byte* row = here.row(ids[i])) std::memcpy(out + i * row_bytes, row, row_bytes);
  others.take([&](std::size_t i, const std::byte* row) { std::memcpy(out + i * row_bytes, row, row_bytes); });
}

WholeNodeAttr::WholeNodeAttr(const Dataset& dataset, int node_type, const std::string& name,
                             std::size_t beside)
    : view_(dataset.attr(node_type, name)) {
  constexpr std::int64_t kChunk = std::int64_t{1} << 20;
  const std::int64_t count = dataset.num_nodes(node_type);
  const auto row_bytes = static_cast<std::size_t>(view_.row_bytes);
  const std::size_t bytes = dataset.whole() ? 0 : static_cast<std::size_t>(count) * row_bytes;
  const std::string& type = dataset.meta().node_types[static_cast<std::size_t>(node_type)].name;
  const std::size_t all = bytes + static_cast<std::size_t>(count) * beside;
  require_memory(
      all, available_memory(),
      fmt::format("what is drawn by attribute '{}' of all {} nodes of type '{}'", name, count, type),
      "leave it out, or use more memory");
  if (dataset.whole()) return;
  give_note_once(
      fmt::format("attribute '{}' of all nodes of type '{}' is kept here, {} for each batch under way: "
                  "what is drawn needs all of it",
                  name, type, format_bytes(all)));
  copy_.resize(bytes);
  std::vector<std::int64_t> ids;
  for (std::int64_t begin = 0; begin < count; begin += kChunk) {
    ids.resize(static_cast<std::size_t>(std::min(kChunk, count - begin)));
    std::iota(ids.begin(), ids.end(), begin);
    gather_rows_of_all(dataset, Store::kNode, node_type, name, ids,
                       copy_.data() + static_cast<std::size_t>(begin) * row_bytes);
  }
  first_ = copy_.data();
  offsets_[1] = count;
  view_.parts = {&first_, 1};
  view_.partition_offsets = offsets_;
  view_.stride_bytes = view_.row_bytes;
}

}  // namespace hopfeed
