// See sampler_registry.h.
#include "core/sampler/sampler_registry.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/sampler/bidirectional_subgraph.h"
#include "core/sampler/cluster_sampler.h"
#include "core/sampler/custom_sampler_adapter.h"
#include "core/sampler/induced_subgraph.h"
#include "core/sampler/neighbor_sampler.h"
#include "core/sampler/walk_sampler.h"

namespace hopfeed {
namespace {

template <class T>
std::unique_ptr<CustomSampler> make(const Dataset& dataset, const BatchOptions& options) {
  return std::make_unique<T>(dataset, options);
}

struct Registry {
  std::mutex mutex;
  std::map<std::string, CustomSamplerFactory> factories{
      {BatchOptions::kWalkSampler, make<WalkSampler>}, {BatchOptions::kClusterSampler, make<ClusterSampler>}};
};

Registry& registry() {
  static Registry the_one;
  return the_one;
}

CustomSamplerFactory factory_of(const std::string& name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.factories.find(name);
  if (found != all.factories.end()) return found->second;
  std::string names = BatchOptions::kNeighborSampler;
  for (const auto& [other, factory] : all.factories) names += ", " + other;
  throw Error(ErrorCode::kNotFound,
              fmt::format("there is no sampler '{}'; there are {}; name the plugin that brings it (plugins)",
                          name, names));
}

}  // namespace

void require_sampler(const std::string& name) {
  if (name != BatchOptions::kNeighborSampler) factory_of(name);
}

std::unique_ptr<Sampler> make_sampler(const Dataset& dataset, const BatchOptions& options) {
  require_sampler(options.sampler);
  options.validate();
  std::unique_ptr<Sampler> sampler;
  if (options.sampler == BatchOptions::kNeighborSampler) {
    sampler = std::make_unique<NeighborSampler>(dataset, options);
  } else {
    const CustomSamplerFactory factory = factory_of(options.sampler);
    std::unique_ptr<CustomSampler> custom;
    name_errors(options.sampler, [&] { custom = factory(dataset, options); });
    sampler = std::make_unique<CustomSamplerAdapter>(options.sampler, dataset, options, std::move(custom));
  }
  if (options.subgraph == Subgraph::kBidirectional)
    return std::make_unique<BidirectionalSubgraph>(std::move(sampler), dataset, options);
  if (options.subgraph == Subgraph::kInduced)
    return std::make_unique<InducedSubgraph>(std::move(sampler), dataset, options);
  return sampler;
}

void register_sampler(const std::string& name, CustomSamplerFactory factory) {
  require_valid(!name.empty() && name.size() <= kMaxNameBytes,
                fmt::format("'{}' cannot be a sampler's name: it has 1 to {} bytes", name, kMaxNameBytes));
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const bool is_new = name != BatchOptions::kNeighborSampler && all.factories.emplace(name, factory).second;
  require_valid(is_new || (all.factories.count(name) > 0 && all.factories[name] == factory),
                fmt::format("there is another sampler '{}' already; give this one a name of its own", name));
}

}  // namespace hopfeed
