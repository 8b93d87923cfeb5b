// See peer_ids.h.
#include "core/sampler/peer_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/memory_limits.h"
#include "core/dataset/id_ranges.h"

namespace hopfeed {
namespace {

/// Reads numbers of so many bytes into out[at[i]]; each must be in [0, limit).
void read_ids(PeerReader& in, const std::vector<std::size_t>& at, int width, std::int64_t limit,
              std::int64_t* out) {
  const NarrowArray ids = in.narrow(at.size(), width);
  for (std::size_t i = 0; i < at.size(); ++i) {
    const std::int64_t id = ids[i];
    if (id < 0 || id >= limit) in.fail(fmt::format("it has node {}", id));
    out[at[i]] = id;
  }
}

void read_numbers(PeerReader& in, const std::vector<std::size_t>& at, std::vector<std::int64_t>& out) {
  const std::span<const std::int64_t> numbers = in.array<std::int64_t>(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) out[at[i]] = numbers[i];
}

/// Calls each(first, count) for pieces of `all` ids that fit into a question.
template <class Each>
void for_pieces(std::size_t all, const Each& each) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  for (std::size_t first = 0; first < all; first += kPiece) each(first, std::min(kPiece, all - first));
}

/// Calls each(first, numbers from `first` on) for all nodes of a type.
void for_chunks(const Dataset& dataset, int node_type, const EachIds& each) {
  const std::int64_t chunk = dataset.has_all_ids() ? 4'096 : std::int64_t{1} << 18,
                     count = dataset.num_nodes(node_type);
  std::vector<std::int64_t> numbers;
  for (std::int64_t first = 0; first < count; first += chunk) {
    numbers.resize(static_cast<std::size_t>(std::min(chunk, count - first)));
    std::iota(numbers.begin(), numbers.end(), first);
    each(first, numbers);
  }
}

std::vector<std::uint32_t> narrowed(const std::vector<std::int64_t>& places) {
  return {places.begin(), places.end()};
}

}  // namespace

template <class Head>
void PeerIds::ask(int partition, PeerAsk kind, Head head, bool wide, Asked asked, Read read) {
  const PeerQuestionHead first{.ask = kind, .partition = static_cast<std::uint32_t>(partition), .job = 0};
  PeerBytes bytes = wide
                        ? write_question(first, head, std::span<const std::int64_t>(asked.places))
                        : write_question(first, head, std::span<const std::uint32_t>(narrowed(asked.places)));
  Question& question = questions_.emplace_back();
  question.at = std::move(asked.at);
  question.read = std::move(read);
  question.partition = partition;
  question.ticket = dataset_.require_peers(partition).ask(partition, std::move(bytes));
  question.under_way = true;
}

void PeerIds::ask_for_dataset_ids(int node_type, std::span<const std::int64_t> originals,
                                  std::span<std::int64_t> out) {
  dataset_.find_dataset_ids(node_type, originals, out);
  if (dataset_.has_all_ids()) return;
  const std::int64_t count = dataset_.num_nodes(node_type);
  const IdRanges ranges{.count = count, .partitions = dataset_.meta().partitions};
  std::map<int, Asked> of;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] >= 0) continue;
    const int p = ranges.owner(originals[i]);
    of[p].at.push_back(i);
    of[p].places.push_back(originals[i] - ranges.begin(p));
  }
  for (auto& [p, asked] : of) {
    const PeerIdsHead head{.node_type = static_cast<std::uint32_t>(node_type),
                           .ids = static_cast<std::uint32_t>(asked.at.size())};
    ask(p, PeerAsk::kNewIds, head, false, std::move(asked),
        [width = id_width(dataset_, node_type), count, to = out.data()](
            PeerReader& in, const std::vector<std::size_t>& at) { read_ids(in, at, width, count, to); });
  }
}

void PeerIds::ask_for_original_ids(int node_type, std::span<const std::int64_t> ids, std::int64_t* out) {
  dataset_.find_original_ids(node_type, ids, out);
  if (dataset_.has_all_ids()) return;
  const NodeTypeMeta& node = dataset_.meta().node_types[static_cast<std::size_t>(node_type)];
  std::map<int, Asked> of;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (out[i] >= 0) continue;
    const int p = partition_of(node.partition_offsets, ids[i]);
    if (dataset_.has_partition(p)) dataset_.checked_original_id(node_type, ids[i]);  // throws: it is damaged
    of[p].at.push_back(i);
    of[p].places.push_back(ids[i] - node.partition_offsets[static_cast<std::size_t>(p)]);
  }
  for (auto& [p, asked] : of) {
    const PeerIdsHead head{.node_type = static_cast<std::uint32_t>(node_type),
                           .ids = static_cast<std::uint32_t>(asked.at.size())};
    ask(p, PeerAsk::kOldIds, head, false, std::move(asked),
        [width = id_width(dataset_, node_type), count = node.count, out](
            PeerReader& in, const std::vector<std::size_t>& at) { read_ids(in, at, width, count, out); });
  }
}

void PeerIds::ask_for_split(Store store, int type, const std::string& split,
                            std::span<const std::int64_t> positions, SplitEntries& out) {
  const DatasetMeta& meta = dataset_.meta();
  const SplitMeta of_split = find_split(dataset_, store, type, split);
  const IdRanges ranges{.count = of_split.count, .partitions = meta.partitions};
  out.resize(of_split, positions.size());
  std::map<int, Asked> of;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const int p = ranges.owner(positions[i]);
    Asked& asked = of[p];
    asked.at.push_back(i);
    asked.places.push_back(positions[i] - ranges.begin(p));
  }
  for (auto& [p, asked] : of) {
    if (dataset_.has_partition(p)) {
      read_split_shard(dataset_, of_split, p, asked.places, asked.at, out);
      continue;
    }
    const PeerSplitHead head{.is_edge = store == Store::kEdge,
                             .type = static_cast<std::uint32_t>(type),
                             .split = of_split.number,
                             .places = static_cast<std::uint32_t>(asked.at.size())};
    const bool wide = has_wide_places(ranges.size(p));
    ask(p, PeerAsk::kSplit, head, wide, std::move(asked),
        [this, of_split, &out](PeerReader& in, const std::vector<std::size_t>& at) {
          const auto read = [&](int node_type, std::vector<std::int64_t>& to) {
            read_ids(in, at, id_width(dataset_, node_type), dataset_.num_nodes(node_type), to.data());
          };
          read(of_split.src_type, out.originals);
          if (of_split.is_edge()) read(of_split.dst_type, out.destination_originals);
          read(of_split.src_type, out.ids);
          if (of_split.is_edge()) read(of_split.dst_type, out.destination_ids);
          if (of_split.has_labels) read_numbers(in, at, out.labels);
          if (of_split.has_times) read_numbers(in, at, out.times);
        });
  }
}

void PeerIds::take() {
  or_drop([this] {
    for (Question& question : questions_) {
      if (!question.under_way) continue;
      question.under_way = false;
      const PeerAnswer answer = dataset_.require_peers(question.partition).wait(question.ticket);
      PeerReader in = open_answer(*answer, "an answer about ids").in;
      question.read(in, question.at);
      in.end();
    }
  });
  questions_.clear();
}

void PeerIds::ask_dataset_ids(int node_type, std::span<const std::int64_t> originals,
                              std::span<std::int64_t> out) {
  or_drop([&] { ask_for_dataset_ids(node_type, originals, out); });
}

void PeerIds::ask_original_ids(int node_type, std::span<const std::int64_t> ids, std::int64_t* out) {
  or_drop([&] { ask_for_original_ids(node_type, ids, out); });
}

void PeerIds::ask_split(Store store, int type, const std::string& split,
                        std::span<const std::int64_t> positions, SplitEntries& out) {
  or_drop([&] { ask_for_split(store, type, split, positions, out); });
}

void PeerIds::drop() noexcept {
  for (Question& question : questions_)
    if (question.under_way) dataset_.peers()->drop(question.ticket);
  questions_.clear();
}

SplitEntries whole_split(const Dataset& dataset, Store store, int type, const std::string& split) {
  constexpr std::int64_t kChunk = std::int64_t{1} << 20;
  const SplitMeta of_split = find_split(dataset, store, type, split);
  const std::uint64_t columns = (of_split.is_edge() ? 4 : 2) + of_split.has_labels + of_split.has_times;
  require_memory(columns * sizeof(std::int64_t) * static_cast<std::uint64_t>(of_split.count),
                 available_memory(),
                 fmt::format("all of split '{}', whose ranges lie on other machines", split),
                 "give its seeds without times, weights or strict negatives, or use more memory");
  SplitEntries all, some;
  all.resize(of_split, static_cast<std::size_t>(of_split.count));
  PeerIds peers(dataset);
  std::vector<std::int64_t> positions;
  for (std::int64_t begin = 0; begin < of_split.count; begin += kChunk) {
    positions.resize(static_cast<std::size_t>(std::min(kChunk, of_split.count - begin)));
    std::iota(positions.begin(), positions.end(), begin);
    peers.ask_split(store, type, split, positions, some);
    peers.take();
    for (const auto column :
         {&SplitEntries::originals, &SplitEntries::ids, &SplitEntries::destination_originals,
          &SplitEntries::destination_ids, &SplitEntries::labels, &SplitEntries::times})
      std::ranges::copy(some.*column, (all.*column).begin() + ((all.*column).empty() ? 0 : begin));
  }
  return all;
}

std::vector<std::int64_t> dataset_ids_of_all(const Dataset& dataset, int node_type,
                                             std::span<const std::int64_t> originals) {
  std::vector<std::int64_t> ids(originals.size());
  for_pieces(ids.size(), [&](std::size_t first, std::size_t count) {
    PeerIds peers(dataset);
    peers.ask_dataset_ids(node_type, originals.subspan(first, count), std::span(ids).subspan(first, count));
    peers.take();
  });
  return ids;
}

std::vector<std::int64_t> original_ids_of_split(const Dataset& dataset, int node_type,
                                                const std::string& split) {
  if (!dataset.has_all_ids()) return whole_split(dataset, Store::kNode, node_type, split).originals;
  const std::span<const std::int64_t> ids = dataset.split(node_type, split);
  return {ids.begin(), ids.end()};
}

std::vector<std::int64_t> dataset_ids_of_split(const Dataset& dataset, int node_type,
                                               const std::string& split) {
  if (dataset.has_all_ids()) return dataset_ids_of_all(dataset, node_type, dataset.split(node_type, split));
  return whole_split(dataset, Store::kNode, node_type, split).ids;
}

std::vector<std::int64_t> original_ids_of_all(const Dataset& dataset, int node_type,
                                              std::span<const std::int64_t> ids) {
  std::vector<std::int64_t> originals(ids.size());
  for_pieces(ids.size(), [&](std::size_t first, std::size_t count) {
    PeerIds peers(dataset);
    peers.ask_original_ids(node_type, ids.subspan(first, count), originals.data() + first);
    peers.take();
  });
  return originals;
}

void for_all_dataset_ids(const Dataset& dataset, int node_type, const EachIds& each) {
  for_chunks(dataset, node_type, [&](std::int64_t first, std::span<const std::int64_t> originals) {
    each(first, dataset_ids_of_all(dataset, node_type, originals));
  });
}

void for_all_original_ids(const Dataset& dataset, int node_type, const EachIds& each) {
  for_chunks(dataset, node_type, [&](std::int64_t first, std::span<const std::int64_t> ids) {
    each(first, original_ids_of_all(dataset, node_type, ids));
  });
}

}  // namespace hopfeed
