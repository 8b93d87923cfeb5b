// See batch_features.h.
#include "core/maker/batch_features.h"

#include <algorithm>
#include <string>

#include "core/batch/packed_block.h"

namespace hopfeed {

BatchFeatures::BatchFeatures(const Dataset& dataset, const BatchOptions& options,
                             const FeatureSourceFactory& make_source)
    : dataset_(dataset),
      row_bytes_(static_cast<std::size_t>(dataset.num_node_types())),
      splits_(row_bytes_.size()) {
  find_node_features(dataset, options, make_source);
  find_edge_features(dataset, options, make_source);
  for (const Feature& feature : features_)
    if (feature.what.store == Store::kNode)
      row_bytes_[static_cast<std::size_t>(feature.what.type)] += feature.meta.row_bytes();
}

void BatchFeatures::add(const Dataset& dataset, const FeatureName& what, const AttrMeta& meta,
                        const FeatureSourceFactory& make_source) {
  features_.push_back({.what = what, .meta = meta, .source = make_source(dataset, what)});
}

void BatchFeatures::find_node_features(const Dataset& dataset, const BatchOptions& options,
                                       const FeatureSourceFactory& make_source) {
  std::vector<std::string> missing = options.attrs.value_or(std::vector<std::string>{});
  for (int t = 0; t < dataset.num_node_types(); ++t) {
    for (const AttrMeta& attr : dataset.meta().node_types[t].attrs) {
      if (options.attrs && std::ranges::find(*options.attrs, attr.name) == options.attrs->end()) continue;
      add(dataset, {.store = Store::kNode, .type = t, .name = attr.name}, attr, make_source);
      std::erase(missing, attr.name);
    }
  }
  if (!missing.empty()) dataset.attr(0, missing.front());  // throws kNotFound and lists what there is
}

void BatchFeatures::find_edge_features(const Dataset& dataset, const BatchOptions& options,
                                       const FeatureSourceFactory& make_source) {
  for (const std::string& name : options.edge_attrs) {
    const std::size_t before = features_.size();
    for (int e = 0; e < dataset.num_edge_types(); ++e)
      if (const AttrMeta* attr = find_attr(dataset.meta().edge_types[e].attrs, name))
        add(dataset, {.store = Store::kEdge, .type = e, .name = name}, *attr, make_source);
    if (features_.size() == before && dataset.num_edge_types() > 0)
      dataset.edge_attr(0, name);  // throws kNotFound and lists what there is
  }
}

void BatchFeatures::most_rows(const SampleBounds& bounds, std::vector<std::int64_t>& rows) const {
  rows.clear();
  for (const Feature& feature : features_)
    rows.push_back(feature.what.store == Store::kNode ? bounds.nodes[feature.what.type]
                                                      : bounds.edges[feature.what.type]);
}

/// Splits the nodes of every type that has attributes, and compares what that saves with what it adds.
bool BatchFeatures::worth_packing(const Sample& sample, HeldShare held) {
  std::size_t saved = 0, added = 0;
  for (std::size_t t = 0; t < row_bytes_.size(); ++t) {
    if (row_bytes_[t] == 0) continue;
    const std::span<const std::int64_t> ids = sample.nodes[t].dataset_ids;
    splits_[t].split(ids, dataset_.meta().node_types[t].partition_offsets, held);
    saved += splits_[t].held().size() * static_cast<std::size_t>(row_bytes_[t]);
    added += packed_overhead(ids.size(), splits_[t].held().size());
  }
  return saved > added;
}

void BatchFeatures::prepare(const Sample& sample, HeldShare held, std::vector<std::int64_t>& rows) {
  packed_ = held.any() && worth_packing(sample, held);
  rows.clear();
  for (const Feature& feature : features_) {
    const auto type = static_cast<std::size_t>(feature.what.type);
    rows.push_back(static_cast<std::int64_t>(
        feature.source->prepare(feature.what.store == Store::kEdge ? sample.edges[type].positions
                                : packed_                          ? splits_[type].lacking()
                                                                   : sample.nodes[type].dataset_ids)));
  }
  if (dataset_.peers() != nullptr) dataset_.peers()->send_asked();
}

void BatchFeatures::lay_out_held(BlockWriter& out, std::vector<int>& at) const {
  at.clear();
  for (std::size_t t = 0; t < row_bytes_.size(); ++t) {
    if (row_bytes_[t] == 0) continue;
    const int type = static_cast<int>(t);
    at.push_back(out.add({.name = kHeldBits,
                          .store = Store::kNode,
                          .type = type,
                          .element = ElementType::kUint8,
                          .shape = {std::ssize(splits_[t].bits())}}));
    at.push_back(out.add({.name = kHeldRows,
                          .store = Store::kNode,
                          .type = type,
                          .element = ElementType::kUint32,
                          .shape = {std::ssize(splits_[t].held())}}));
  }
}

void BatchFeatures::write_held(std::span<const int> at, BlockWriter& out) const {
  std::size_t next = 0;
  for (std::size_t t = 0; t < row_bytes_.size(); ++t) {
    if (row_bytes_[t] == 0) continue;
    std::ranges::copy(splits_[t].bits(), out.data<std::uint8_t>(at[next++]));
    std::ranges::copy(splits_[t].held(), out.data<std::uint32_t>(at[next++]));
  }
}

void BatchFeatures::lay_out(std::span<const std::int64_t> rows, BlockWriter& out,
                            std::vector<int>& at) const {
  at.clear();
  for (std::size_t i = 0; i < features_.size(); ++i) {
    const Feature& feature = features_[i];
    BlockShape shape{rows[i]};
    shape.append(feature.meta.shape);
    at.push_back(out.add({.name = feature.what.name,
                          .store = feature.what.store,
                          .type = feature.what.type,
                          .element = feature.meta.type,
                          .shape = shape}));
  }
}

void BatchFeatures::gather(std::span<const std::int64_t> rows, std::span<const int> at, BlockWriter& out,
                           const NearlyDone& nearly_done) {
  const auto count = [&](std::size_t i) { return static_cast<std::size_t>(rows[i]); };
  const auto row_bytes = [&](std::size_t i) {
    return static_cast<std::size_t>(features_[i].meta.row_bytes());
  };
  std::size_t left = 0;
  for (std::size_t i = 0; i < features_.size(); ++i) left += count(i) * row_bytes(i);
  for (std::size_t i = 0; i < features_.size(); ++i) {
    std::byte* const to = out.data<std::byte>(at[i]);
    const std::size_t bytes = count(i) * row_bytes(i);
    // The rows of it before the last ones of all, where they end in it.
    std::size_t first_rows = 0;
    if (nearly_done.tell && left > nearly_done.last_bytes && left - bytes <= nearly_done.last_bytes)
      first_rows = (left - nearly_done.last_bytes) / row_bytes(i);
    if (first_rows > 0) {
      features_[i].source->gather(first_rows, to);
      nearly_done.tell();
    }
    features_[i].source->gather(count(i) - first_rows, to + first_rows * row_bytes(i));
    left -= bytes;
  }
}

void BatchFeatures::drop() {
  for (const Feature& feature : features_) feature.source->drop();
}

std::size_t BatchFeatures::split_bytes() const {
  std::size_t bytes = 0;
  for (const HeldSplit& split : splits_) bytes += split.bytes();
  return bytes;
}

std::size_t BatchFeatures::max_split_bytes(const SampleBounds& bounds) const {
  std::size_t bytes = 0;
  for (std::size_t t = 0; t < row_bytes_.size(); ++t)
    if (row_bytes_[t] != 0)
      bytes += HeldSplit::max_bytes(static_cast<std::size_t>(bounds.nodes[t]),
                                    static_cast<std::size_t>(dataset_.meta().partitions));
  return bytes;
}

TierCounts BatchFeatures::counts() const {
  TierCounts sum;
  for (const Feature& feature : features_) sum += feature.source->counts();
  return sum;
}

}  // namespace hopfeed
