// See partition_owner.h.
#include "core/maker/partition_owner.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/dataset/id_ranges.h"
#include "core/dataset/row_gather.h"
#include "core/sampler/peer_degrees.h"
#include "core/sampler/peer_ids.h"
#include "core/sampler/split_entries.h"
#include "core/seeds/edge_membership.h"

namespace hopfeed {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kCorrupt, fmt::format("another machine asked for {}, which cannot be", what));
}

/// Throws kNoSpace for an answer of so many bytes, its heads not counted, where that is too large.
void check_size(std::uint64_t bytes) {
  constexpr std::size_t kHeads = 64;  // and padding, at most
  if (bytes > kMaxPeerAnswer - kHeads)
    throw Error(ErrorCode::kNoSpace,
                fmt::format("an answer of {} bytes is too large; use smaller batches or fanouts", bytes));
}

/// The rows of a question, of nodes or of edges of 8 bytes, as dataset ids.
template <class Number>
std::vector<std::int64_t> ids_of(std::span<const Number> rows, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> ids;
  ids.reserve(rows.size());
  for (const Number row : rows) {
    if (static_cast<std::uint64_t>(row) >= static_cast<std::uint64_t>(count))
      refuse(fmt::format("row {}", row));
    ids.push_back(first + static_cast<std::int64_t>(row));
  }
  return ids;
}

}  // namespace

PeerBytes PartitionOwner::answer(std::span<const std::byte> question) {
  return answer_one(question, Nested::kNo);
}

PeerBytes PartitionOwner::answer_one(std::span<const std::byte> question, Nested nested) {
  PeerReader in(question, "a question");
  const PeerQuestionHead head = in.record<PeerQuestionHead>();
  if (nested == Nested::kYes && head.ask != PeerAsk::kDraw)
    refuse("options before another question than a draw");
  if (head.partition >= static_cast<std::uint32_t>(dataset_.meta().partitions))
    refuse(fmt::format("partition {}", head.partition));
  if (!dataset_.has_partition(static_cast<int>(head.partition)))
    throw Error(ErrorCode::kUnsupported, fmt::format("partition {} is not on this machine", head.partition));
  PeerBytes bytes;
  PeerWriter out(bytes);
  const auto here = [&] { out.record(static_cast<std::uint64_t>(PeerSays::kHere)); };
  switch (head.ask) {
    case PeerAsk::kJob:
      keep_job(head.job, read_job(in));
      if (!in.rest().empty()) return answer_one(in.rest(), Nested::kYes);
      here();
      return bytes;
    case PeerAsk::kDraw:
      if (!draw(head, in, bytes)) out.record(static_cast<std::uint64_t>(PeerSays::kUnknownJob));
      return bytes;
    case PeerAsk::kRows:
      here();
      rows(head.partition, in, out);
      return bytes;
    case PeerAsk::kEdges:
      here();
      edges(head.partition, in, out);
      return bytes;
    case PeerAsk::kFeatures:
      here();
      features(head.partition, in, out);
      return bytes;
    case PeerAsk::kDegrees:
      here();
      degrees(head.partition, in, out);
      return bytes;
    case PeerAsk::kNewIds:
      here();
      new_ids(head.partition, in, out);
      return bytes;
    case PeerAsk::kOldIds:
      here();
      old_ids(head.partition, in, out);
      return bytes;
    case PeerAsk::kSplit:
      here();
      split(head.partition, in, out);
      return bytes;
  }
  refuse(fmt::format("number {}", static_cast<std::uint32_t>(head.ask)));
}

PartitionOwner::Counts PartitionOwner::counts() const {
  return {.drawn_rows = drawn_rows_,
          .drawn_edges = drawn_edges_,
          .whole_rows = whole_rows_,
          .whole_row_edges = whole_row_edges_,
          .feature_rows = feature_rows_,
          .edges_looked_up = edges_looked_up_,
          .original_ids = original_ids_,
          .mapped_ids = mapped_ids_};
}

void PartitionOwner::keep_job(std::uint64_t job, const std::string& told) {
  BatchOptions options = BatchOptions::from_json(told);
  std::string text = options.to_json();  // `told` may be spelled otherwise
  if (options.hash() != job) refuse("options by another hash than theirs");
  auto drawer = std::make_unique<RowDrawer>(dataset_, options);  // what is wrong with them is said now
  const MutexLock lock(mutex_);
  const auto found = jobs_.find(job);
  if (found != jobs_.end() && found->second.text != text) refuse("other options by a known hash");
  while (found == jobs_.end() && jobs_.size() >= kMaxPeerJobs)
    jobs_.erase(
        std::ranges::min_element(jobs_, {}, [](const auto& entry) { return entry.second.last_used; }));
  Job& kept = jobs_[job];
  kept.text = std::move(text);
  kept.options = std::move(options);
  kept.last_used = ++uses_;
  if (kept.idle.empty()) kept.idle.push_back(std::move(drawer));  // it may be told often
}

// False: nobody told the options.
bool PartitionOwner::draw(const PeerQuestionHead& head, PeerReader& in, PeerBytes& out) {
  const PeerDrawQuestion question = read_draw(in);
  std::unique_ptr<RowDrawer> drawer;
  BatchOptions options;
  {
    const MutexLock lock(mutex_);
    const auto job = jobs_.find(head.job);
    if (job == jobs_.end()) return false;
    job->second.last_used = ++uses_;
    if (job->second.idle.empty()) {
      options = job->second.options;
    } else {
      drawer = std::move(job->second.idle.back());
      job->second.idle.pop_back();
    }
  }
  if (!drawer) drawer = std::make_unique<RowDrawer>(dataset_, options);
  const RowDrawer::Drawn drawn = drawer->answer(head.partition, question, out);
  check_size(out.size());
  drawn_rows_ += drawn.rows;
  drawn_edges_ += drawn.edges;
  const MutexLock lock(mutex_);
  if (const auto job = jobs_.find(head.job); job != jobs_.end())
    job->second.idle.push_back(std::move(drawer));
  return true;
}

void PartitionOwner::rows(std::uint32_t partition, PeerReader& in, PeerWriter& out) {
  const PeerRowsHead head = in.record<PeerRowsHead>();
  const std::span<const std::uint32_t> asked = in.array<std::uint32_t>(head.rows);
  in.end();
  if (head.edge_type >= static_cast<std::uint32_t>(dataset_.num_edge_types()))
    refuse(fmt::format("edge type {}", head.edge_type));
  const RowReader reader(dataset_, static_cast<int>(head.edge_type));
  const CscView& csc = reader.csc();
  const CscPart& part = csc.parts[partition];
  const std::size_t source_bytes = element_bytes(csc.index_type), id_bytes = element_bytes(csc.edge_id_type),
                    each = source_bytes + (csc.has_edge_ids ? id_bytes : 0);
  check_size(asked.size() * 16);
  const std::vector<std::int64_t> nodes = ids_of(asked, csc.partition_offsets[partition], part.num_rows);
  std::vector<std::int64_t> degrees, begins;
  std::uint64_t edges = 0;
  for (const std::int64_t node : nodes) {
    const Row row = reader.row(node);
    degrees.push_back(static_cast<std::int64_t>(row.degree));
    begins.push_back(row.position(0) - part.first_edge);
    edges += row.degree;
    check_size(edges * each + asked.size() * 16);  // one by one, so that the sum stays small
  }
  whole_rows_ += std::ssize(nodes);
  whole_row_edges_ += static_cast<std::int64_t>(edges);
  out.reserve(edges * each + nodes.size() * 16 + 64);
  out.record(PeerRowsAnswer{.edges = edges,
                            .source_bytes = static_cast<std::uint8_t>(source_bytes),
                            .edge_id_bytes = static_cast<std::uint8_t>(csc.has_edge_ids ? id_bytes : 0),
                            .unused = 0,
                            .rows = head.rows});
  out.array(std::span<const std::int64_t>(degrees));
  const auto copy = [&](const void* from, std::size_t width) {
    std::byte* to = out.room(edges * width);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::size_t bytes = static_cast<std::size_t>(degrees[i]) * width;
      if (bytes > 0)
        std::copy_n(static_cast<const std::byte*>(from) + static_cast<std::size_t>(begins[i]) * width, bytes,
                    to);
      to += bytes;
    }
  };
  copy(part.indices, source_bytes);
  if (csc.has_edge_ids) copy(part.edge_ids, id_bytes);
  out.array(std::span<const std::int64_t>(begins));
  if (!dataset_.sharded_ids()) return;
  std::vector<std::int64_t> originals;
  for (const std::int64_t node : nodes) originals.push_back(reader.row(node).original_id);
  out.array(std::span<const std::int64_t>(originals));
}

void PartitionOwner::edges(std::uint32_t partition, PeerReader& in, PeerWriter& out) {
  const PeerEdgesHead head = in.record<PeerEdgesHead>();
  const std::span<const std::uint32_t> rows = in.array<std::uint32_t>(head.pairs);
  const std::span<const std::int64_t> sources = in.array<std::int64_t>(head.pairs);
  in.end();
  if (head.edge_type >= static_cast<std::uint32_t>(dataset_.num_edge_types()))
    refuse(fmt::format("edge type {}", head.edge_type));
  const EdgeMembership membership(dataset_, static_cast<int>(head.edge_type));
  const CscView& csc = membership.reader().csc();
  const std::vector<std::int64_t> nodes =
      ids_of(rows, csc.partition_offsets[partition], csc.parts[partition].num_rows);
  edges_looked_up_ += std::ssize(nodes);
  std::vector<EdgeMembership::Edge> pairs;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (sources[i] < 0 || sources[i] >= csc.num_src_nodes) refuse(fmt::format("source {}", sources[i]));
    pairs.push_back({.source = sources[i], .destination = nodes[i]});
  }
  membership.contains(pairs, reinterpret_cast<char*>(out.room(pairs.size())));  // 1 where it is there
}

void PartitionOwner::degrees(std::uint32_t partition, PeerReader& in, PeerWriter& out) const {
  const PeerRowsHead head = in.record<PeerRowsHead>();
  const std::span<const std::uint32_t> asked = in.array<std::uint32_t>(head.rows);
  in.end();
  if (head.edge_type >= static_cast<std::uint32_t>(dataset_.num_edge_types()))
    refuse(fmt::format("edge type {}", head.edge_type));
  const CscView csc = dataset_.csc(static_cast<int>(head.edge_type));
  const std::vector<std::int64_t> nodes =
      ids_of(asked, csc.partition_offsets[partition], csc.parts[partition].num_rows);
  out.array(std::span<const std::int64_t>(degrees_of_all(dataset_, static_cast<int>(head.edge_type), nodes)));
}

void PartitionOwner::features(std::uint32_t partition, PeerReader& in, PeerWriter& out) {
  const PeerFeaturesHead head = in.record<PeerFeaturesHead>();
  const std::size_t types =
      static_cast<std::size_t>(head.is_edge ? dataset_.num_edge_types() : dataset_.num_node_types());
  if (head.is_edge > 1 || head.type >= types) refuse(fmt::format("type {}", head.type));
  const DatasetMeta& meta = dataset_.meta();
  const std::vector<AttrMeta>& attrs =
      head.is_edge ? meta.edge_types[head.type].attrs : meta.node_types[head.type].attrs;
  if (head.attr >= attrs.size()) refuse(fmt::format("attribute {}", head.attr));
  const std::string& name = attrs[head.attr].name;
  const int type = static_cast<int>(head.type);
  const AttrView attr = head.is_edge ? dataset_.edge_attr(type, name) : dataset_.attr(type, name);
  const std::int64_t first = attr.partition_offsets[partition],
                     count = attr.partition_offsets[partition + 1] - first;
  check_size(std::uint64_t{head.rows} * static_cast<std::uint64_t>(attr.row_bytes));
  const std::vector<std::int64_t> ids = head.is_edge
                                            ? ids_of(in.array<std::int64_t>(head.rows), first, count)
                                            : ids_of(in.array<std::uint32_t>(head.rows), first, count);
  in.end();
  const std::size_t bytes = ids.size() * static_cast<std::size_t>(attr.row_bytes);
  check_size(bytes);
  feature_rows_ += std::ssize(ids);
  out.reserve(bytes);
  gather_rows(attr, ids, out.room(bytes));
}

// ---- sharded ids

void PartitionOwner::require_sharded() const {
  if (!dataset_.sharded_ids()) refuse("ids, which every machine has of this dataset");
}

void PartitionOwner::new_ids(std::uint32_t partition, PeerReader& in, PeerWriter& out) {
  require_sharded();
  const PeerIdsHead head = in.record<PeerIdsHead>();
  const std::span<const std::uint32_t> places = in.array<std::uint32_t>(head.ids);
  in.end();
  if (head.node_type >= static_cast<std::uint32_t>(dataset_.num_node_types()))
    refuse(fmt::format("node type {}", head.node_type));
  const int type = static_cast<int>(head.node_type);
  const IdRanges ranges{.count = dataset_.num_nodes(type), .partitions = dataset_.meta().partitions};
  const int p = static_cast<int>(partition);
  const std::vector<std::int64_t> originals = ids_of(places, ranges.begin(p), ranges.size(p));
  std::vector<std::int64_t> ids(originals.size());
  dataset_.find_dataset_ids(type, originals, ids);
  mapped_ids_ += std::ssize(ids);
  out.narrow(std::span<const std::int64_t>(ids), id_width(dataset_, type));
}

void PartitionOwner::old_ids(std::uint32_t partition, PeerReader& in, PeerWriter& out) {
  require_sharded();
  const PeerIdsHead head = in.record<PeerIdsHead>();
  const std::span<const std::uint32_t> rows = in.array<std::uint32_t>(head.ids);
  in.end();
  if (head.node_type >= static_cast<std::uint32_t>(dataset_.num_node_types()))
    refuse(fmt::format("node type {}", head.node_type));
  const int type = static_cast<int>(head.node_type);
  const std::vector<std::int64_t>& offsets = dataset_.meta().node_types[head.node_type].partition_offsets;
  const std::vector<std::int64_t> nodes =
      ids_of(rows, offsets[partition], offsets[partition + 1] - offsets[partition]);
  std::vector<std::int64_t> ids(nodes.size());
  dataset_.find_original_ids(type, nodes, ids.data());
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= dataset_.num_nodes(type))
      dataset_.checked_original_id(type, nodes[i]);  // throws
  original_ids_ += std::ssize(ids);
  out.narrow(std::span<const std::int64_t>(ids), id_width(dataset_, type));
}

void PartitionOwner::split(std::uint32_t partition, PeerReader& in, PeerWriter& out) {
  require_sharded();
  const PeerSplitHead head = in.record<PeerSplitHead>();
  const DatasetMeta& meta = dataset_.meta();
  const std::size_t types = head.is_edge ? meta.edge_types.size() : meta.node_types.size();
  if (head.is_edge > 1 || head.type >= types) refuse(fmt::format("type {}", head.type));
  const std::map<std::string, std::int64_t>& splits =
      head.is_edge ? meta.edge_types[head.type].splits : meta.node_types[head.type].splits;
  if (head.split >= splits.size()) refuse(fmt::format("split {}", head.split));
  const auto& [name, count] = *std::next(splits.begin(), head.split);
  const std::int64_t range =
      IdRanges{.count = count, .partitions = meta.partitions}.size(static_cast<int>(partition));
  const std::vector<std::int64_t> places = has_wide_places(range)
                                               ? ids_of(in.array<std::int64_t>(head.places), 0, range)
                                               : ids_of(in.array<std::uint32_t>(head.places), 0, range);
  in.end();
  mapped_ids_ += std::ssize(places);
  const SplitMeta split =
      find_split(dataset_, head.is_edge ? Store::kEdge : Store::kNode, static_cast<int>(head.type), name);
  std::vector<std::size_t> at(places.size());
  std::iota(at.begin(), at.end(), std::size_t{0});
  SplitEntries entries;
  entries.resize(split, places.size());
  read_split_shard(dataset_, split, static_cast<int>(partition), places, at, entries);
  const auto put = [&](const std::vector<std::int64_t>& column, int bytes) {
    out.narrow(std::span<const std::int64_t>(column), bytes);
  };
  const int of_sources = id_width(dataset_, split.src_type),
            of_destinations = id_width(dataset_, split.dst_type);
  put(entries.originals, of_sources);
  if (split.is_edge()) put(entries.destination_originals, of_destinations);
  put(entries.ids, of_sources);
  if (split.is_edge()) put(entries.destination_ids, of_destinations);
  if (split.has_labels) put(entries.labels, sizeof(std::int64_t));
  if (split.has_times) put(entries.times, sizeof(std::int64_t));
}

}  // namespace hopfeed
