// See remote_reads.h.
#include "partition_tool/tune/remote_reads.h"

#include <algorithm>
#include <numeric>

#include "cache/remote_ranks.h"
#include "core/batch/aligned_block.h"
#include "core/batch/batch_view.h"
#include "core/batch/deal.h"
#include "core/batch/field_names.h"
#include "core/maker/batch_maker.h"
#include "core/seeds/node_list.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kOwnRow = -1;

}  // namespace

std::vector<std::int64_t> own_seeds(const Dataset& dataset, int node_type,
                                    std::span<const std::int64_t> seeds, int partition) {
  const std::vector<std::int64_t>& offsets =
      dataset.meta().node_types[static_cast<std::size_t>(node_type)].partition_offsets;
  std::vector<std::int64_t> own;
  for (const std::int64_t v : seeds)
    if (partition_of(offsets, dataset.dataset_id(node_type, v)) == partition) own.push_back(v);
  if (own.empty()) own.assign(seeds.begin(), seeds.end());
  return own;
}

/// Rows of several types stand in one order by which share of their type is before them.
void RemoteReads::number_rows(const Dataset& dataset, int reader) {
  struct Placed {
    double owners = 0, readers = 0;  // how far behind in either order
    Row row;
  };
  std::vector<Placed> placed;
  const RemoteRanks ranks(dataset, reader);
  number_of_.resize(static_cast<std::size_t>(dataset.num_node_types()));
  for (int t = 0; t < dataset.num_node_types(); ++t) {
    const NodeTypeMeta& node = dataset.meta().node_types[static_cast<std::size_t>(t)];
    if (node.attrs.empty()) continue;
    number_of_[static_cast<std::size_t>(t)].assign(static_cast<std::size_t>(node.count), kOwnRow);
    const RemoteRanksView view = ranks.view(t);
    const std::vector<std::int64_t> owners = owners_order(node.partition_offsets, reader);
    const auto all = static_cast<double>(owners.size());
    for (std::size_t i = 0; i < owners.size(); ++i) {
      const std::uint32_t rank = view.rank(owners[i]);
      const double at = static_cast<double>(i);
      // Unranked rows keep their owners' order, behind all others.
      placed.push_back({.owners = at / all,
                        .readers = rank == RemoteRanksView::kUnranked ? 1 + at / all : rank / all,
                        .row = {.type = t, .id = owners[i]}});
    }
  }
  std::ranges::stable_sort(placed, {}, &Placed::readers);
  for (const Placed& row : placed) {
    number_of_[static_cast<std::size_t>(row.row.type)][static_cast<std::size_t>(row.row.id)] =
        std::ssize(rows_);
    rows_.push_back(row.row);
  }
  trace_.num_rows = std::ssize(rows_);
  reads_.resize(rows_.size());
  owners_.resize(rows_.size());
  std::iota(owners_.begin(), owners_.end(), 0);
  std::ranges::stable_sort(
      owners_, {}, [&](std::int64_t number) { return placed[static_cast<std::size_t>(number)].owners; });
}

RemoteReads::RemoteReads(const Dataset& dataset, int reader, std::span<const std::int64_t> seeds,
                         const RemoteReadsOptions& options) {
  number_rows(dataset, reader);
  BatchOptions batch_options = options.batch;
  batch_options.dataset_ids = true;
  batch_options.attrs = std::vector<std::string>{};  // which rows, not what is in them
  batch_options.edge_attrs.clear();
  const NodeList list(seeds, {.node_type = options.node_type});
  const Deal deal({.batch_size = options.batch_size}, list.size());
  BatchMaker maker(dataset, list, batch_options);
  AlignedBlock buffer;
  for (std::int64_t i = 0; i < options.batches; ++i) {
    const Deal::Range range = deal.batch(i % deal.steps());
    const auto block = buffer.resize(maker.sample(
        {.seed = options.seed, .epoch = i / deal.steps(), .first = range.first, .count = range.count}));
    maker.write(block);
    const BatchView batch(block);
    std::vector<std::int64_t>& read = trace_.batches.emplace_back();
    for (int t = 0; t < dataset.num_node_types(); ++t) {
      const std::vector<std::int64_t>& number_of = number_of_[static_cast<std::size_t>(t)];
      if (number_of.empty()) continue;
      for (const std::int64_t id : batch.get(batch_field::kDatasetId, Store::kNode, t).as<std::int64_t>()) {
        const std::int64_t number = number_of[static_cast<std::size_t>(id)];
        ++(number == kOwnRow ? own_reads_ : remote_reads_);
        if (number == kOwnRow) continue;
        read.push_back(number);
        ++reads_[static_cast<std::size_t>(number)];
      }
    }
    if (options.progress) options.progress(i + 1, options.batches);
  }
}

CacheHits RemoteReads::first_of(std::span<const std::int64_t> order, std::int64_t capacity) const {
  CacheHits result{.reads = remote_reads_};
  for (const std::int64_t number : order.first(static_cast<std::size_t>(std::min(capacity, remote_rows()))))
    result.hits += reads_[static_cast<std::size_t>(number)];
  return result;
}

template <class Better>
CacheHits RemoteReads::static_in_order(const Better& better, std::int64_t capacity) const {
  std::vector<std::int64_t> order = owners_;
  std::ranges::stable_sort(order, better);
  return first_of(order, capacity);
}

CacheHits RemoteReads::static_by(std::span<const std::vector<double>> hotness, std::int64_t capacity) const {
  const auto hot = [&](std::int64_t number) {
    const Row& row = rows_[static_cast<std::size_t>(number)];
    return hotness[static_cast<std::size_t>(row.type)][static_cast<std::size_t>(row.id)];
  };
  return static_in_order([&](std::int64_t a, std::int64_t b) { return hot(a) > hot(b); }, capacity);
}

CacheHits RemoteReads::static_by_owners(std::int64_t capacity) const { return first_of(owners_, capacity); }

CacheHits RemoteReads::static_by_reads(std::int64_t capacity) const {
  return static_in_order(
      [&](std::int64_t a, std::int64_t b) {
        return reads_[static_cast<std::size_t>(a)] > reads_[static_cast<std::size_t>(b)];
      },
      capacity);
}

}  // namespace hopfeed
