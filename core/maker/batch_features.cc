// See batch_features.h.
#include "core/maker/batch_features.h"

#include <algorithm>
#include <string>

namespace hopfeed {

BatchFeatures::BatchFeatures(const Dataset& dataset, const BatchOptions& options,
                             const FeatureSourceFactory& make_source) {
  find_node_features(dataset, options, make_source);
  find_edge_features(dataset, options, make_source);
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

void BatchFeatures::prepare(const Sample& sample, std::vector<std::int64_t>& rows) {
  rows.clear();
  for (const Feature& feature : features_)
    rows.push_back(static_cast<std::int64_t>(feature.source->prepare(
        feature.what.store == Store::kNode ? sample.nodes[feature.what.type].dataset_ids
                                           : sample.edges[feature.what.type].positions)));
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

}  // namespace hopfeed
