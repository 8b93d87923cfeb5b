// See custom_sampler_adapter.h.
#include "core/sampler/custom_sampler_adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/saturating.h"

namespace hopfeed {

void name_errors(const std::string& sampler, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kInvalid, fmt::format("sampler '{}' failed: {}", sampler, error.what()));
  } catch (...) {
    throw Error(ErrorCode::kInvalid,
                fmt::format("sampler '{}' failed with something that is no std::exception", sampler));
  }
}

CustomSamplerAdapter::CustomSamplerAdapter(std::string name, const Dataset& dataset,
                                           const BatchOptions& options, std::unique_ptr<CustomSampler> custom)
    : name_(std::move(name)),
      dataset_(dataset),
      excludes_(options.link.excludes()),
      builder_(dataset, options),
      custom_(std::move(custom)),
      node_types_(static_cast<std::size_t>(dataset.num_node_types())),
      edge_types_(static_cast<std::size_t>(dataset.num_edge_types())) {
  name_errors(name_, [&] { num_hops_ = custom_->num_hops(); });
  require_valid(
      num_hops_ <= static_cast<std::size_t>(kMaxWalkLength),
      fmt::format("sampler '{}' says that it has {} hops; at most {}", name_, num_hops_, kMaxWalkLength));
}

const Sample& CustomSamplerAdapter::sample(const SampleRequest& request) {
  builder_.begin(request);
  name_errors(name_, [&] { custom_->sample(request, builder_); });
  const Sample& sample = builder_.finish();
  if (sample.nodes[0].per_hop.size() != num_hops() + 1) {
    throw Error(ErrorCode::kInvalid, fmt::format("sampler '{}' ended {} hops and says that it has {}", name_,
                                                 sample.nodes[0].per_hop.size() - 1, num_hops()));
  }
  return sample;
}

SampleBounds CustomSamplerAdapter::bounds(SeedCounts seeds) const {
  SampleBounds bounds;
  name_errors(name_, [&] { bounds = custom_->bounds(seeds); });
  bool fit = bounds.nodes.size() == node_types_ && bounds.edges.size() == edge_types_;
  for (std::vector<std::int64_t>* counts : {&bounds.nodes, &bounds.edges}) {
    for (std::int64_t& count : *counts) {
      fit = fit && count >= 0;
      count = std::min(count, kFarTooMany);
    }
  }
  require_valid(fit,
                fmt::format("sampler '{}' gives bounds that are not a count for each of {} node types and {} "
                            "edge types",
                            name_, node_types_, edge_types_));
  for (const ArraySpec& array : bounds.arrays)
    require_valid(array.shape.valid(),
                  fmt::format("sampler '{}' bounds array '{}' by a shape that cannot be", name_, array.name));
  bounds.seeds = total_of(seeds);
  return bounds;
}

std::size_t CustomSamplerAdapter::max_scratch_bytes(SeedCounts seeds) const {
  std::size_t bytes = builder_.max_scratch_bytes(bounds(seeds)) +
                      std::min(custom_->max_scratch_bytes(seeds), static_cast<std::size_t>(kFarTooMany));
  if (excludes_)
    bytes += ExcludedRows::max_bytes(
        most_excluded(dataset_, static_cast<std::size_t>(total_of(seeds)), kRowsTogether));
  return bytes;
}

}  // namespace hopfeed
