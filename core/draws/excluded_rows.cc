// See excluded_rows.h.
#include "core/draws/excluded_rows.h"

#include <algorithm>

namespace hopfeed {
namespace {

constexpr std::size_t kBlock = 64;      // neighbours looked at together
constexpr std::size_t kFewSources = 4;  // each is compared with every neighbour
constexpr std::size_t kFilterBits = 1 << 15;

/// Whether any of the neighbours may be one of few sources. No early exit: it fills vector lanes.
template <class Index>
bool has_one_of(std::span<const Index> neighbors, std::span<const std::int64_t> sources) {
  bool found = false;
  for (const std::int64_t source : sources) {
    const auto wanted = static_cast<Index>(source);
    for (const Index neighbor : neighbors) found |= neighbor == wanted;
  }
  return found;
}

/// A filter of many sources: a bit for each, by its hash.
class SourceFilter {
 public:
  explicit SourceFilter(std::span<const std::int64_t> sources) {
    for (const std::int64_t source : sources)
      bits_[slot(source) / 64] |= std::uint64_t{1} << slot(source) % 64;
  }
  template <class Index>
  bool has_one_of(std::span<const Index> neighbors) const {
    std::uint64_t found = 0;
    for (const Index neighbor : neighbors) found |= bits_[slot(neighbor) / 64] >> slot(neighbor) % 64 & 1;
    return found != 0;
  }

 private:
  static std::size_t slot(std::int64_t node) {
    return static_cast<std::uint64_t>(node) * 0x9E3779B97F4A7C15u >> 49;  // 15 bits
  }
  static_assert(kFilterBits == std::size_t{1} << (64 - 49));
  std::uint64_t bits_[kFilterBits / 64] = {};
};

}  // namespace

void ExcludedRows::begin(const ExcludedEdges* excluded) {
  excluded_ = excluded;
  ++generation_;
  num_listed_ = num_entries_ = 0;
  if (!excluded) return;
  if (rows_.size() < static_cast<std::size_t>(excluded->num_edge_types()))
    rows_.resize(static_cast<std::size_t>(excluded->num_edge_types()));
  for (int e = 0; e < excluded->num_edge_types(); ++e)
    rows_[static_cast<std::size_t>(e)].reserve(excluded->num_pairs(e));
}

void ExcludedRows::make_room() {
  if (num_listed_ <= kKept && num_entries_ <= kKept) return;
  ++generation_;
  num_listed_ = num_entries_ = 0;
}

ExcludedRows::Row& ExcludedRows::row(int edge_type, std::span<const std::int64_t> sources,
                                     const Neighbors& neighbors) {
  Row& row = rows_[static_cast<std::size_t>(edge_type)][excluded_->number_of(edge_type, sources)];
  if (row.generation == generation_) return row;
  row = {.generation = generation_, .first = num_listed_, .table = kNoTable};
  if (neighbors.type == ElementType::kInt32)
    search(reinterpret_cast<const std::int32_t*>(neighbors.at), neighbors.degree, sources);
  else
    search(reinterpret_cast<const std::int64_t*>(neighbors.at), neighbors.degree, sources);
  row.count = num_listed_ - row.first;
  return row;
}

template <class Index>
void ExcludedRows::search(const Index* row, std::uint64_t degree, std::span<const std::int64_t> sources) {
  const auto look_at = [&](auto may_have) {
    std::uint64_t out = 0;
    for (std::uint64_t begin = 0; begin < degree; begin += kBlock) {
      const std::span<const Index> block(row + begin, std::min<std::uint64_t>(kBlock, degree - begin));
      if (!may_have(block)) continue;
      lists_.reserve(num_listed_ + block.size());
      for (std::size_t i = 0; i < block.size(); ++i)
        if (std::ranges::binary_search(sources, std::int64_t{block[i]}))
          lists_[num_listed_++] = begin + i - out++;
    }
  };
  if (sources.size() <= kFewSources) {
    look_at([&](std::span<const Index> block) { return has_one_of(block, sources); });
  } else {
    const SourceFilter filter(sources);
    look_at([&](std::span<const Index> block) { return filter.has_one_of(block); });
  }
}

bool ExcludedRows::make_table(Row& row, const Weights& weights) {
  if (row.table != kNoTable) return row.table != kNoWeight;
  const AttrView& view = weights.view;
  const auto part = static_cast<std::size_t>(partition_of(view.partition_offsets, weights.position));
  const std::byte* first =
      view.parts[part] + (weights.position - view.partition_offsets[part]) * view.stride_bytes;
  const LeftOut out = left_out(row);
  weights_.reserve(weights.degree);
  std::uint64_t left = 0, next = 0;
  for (std::uint64_t i = 0; i < weights.degree; ++i) {
    if (next < out.count() && out.absent(next) == i) {
      ++next;
      continue;
    }
    weights_[left++] = number_at(first + static_cast<std::int64_t>(i) * view.stride_bytes, view.type);
  }
  tables_.reserve(num_entries_ + left);
  if (!builder_.build({weights_.data(), left}, {tables_.data() + num_entries_, left})) {
    row.table = kNoWeight;
    return false;
  }
  row.table = num_entries_;
  num_entries_ += left;
  return true;
}

std::size_t ExcludedRows::bytes() const {
  std::size_t bytes = lists_.bytes() + tables_.bytes() + weights_.bytes() + builder_.bytes();
  for (const ScratchArray<Row>& rows : rows_) bytes += rows.bytes();
  return bytes;
}

std::size_t ExcludedRows::max_bytes(const Most& most) {
  const std::size_t together = kKept + kBlock + most.together;
  std::size_t bytes = most.edge_types * max_scratch_bytes(most.pairs * sizeof(Row)) +
                      max_scratch_bytes(together * sizeof(std::uint64_t));
  if (most.weighted)
    bytes += max_scratch_bytes(together * sizeof(AliasEntry)) +
             max_scratch_bytes(most.longest * sizeof(double)) + AliasBuilder::max_bytes(most.longest);
  return bytes;
}

}  // namespace hopfeed
