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

struct Registry {
  std::mutex mutex;
  struct Entry {
    CustomSamplerFactory factory;
    std::string file_sha256 = {};
  };
  std::map<std::string, Entry> samplers{
      {BatchOptions::kWalkSampler, {make_custom_sampler<WalkSampler>}},
      {BatchOptions::kClusterSampler, {make_custom_sampler<ClusterSampler>}}};
};

Registry& registry() {
  static Registry the_one;
  return the_one;
}

Registry::Entry entry_of(const std::string& name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.samplers.find(name);
  if (found != all.samplers.end()) return found->second;
  std::string names = BatchOptions::kNeighborSampler;
  for (const auto& [other, entry] : all.samplers) names += ", " + other;
  throw Error(ErrorCode::kNotFound,
              fmt::format("there is no sampler '{}'; there are {}; name the plugin that brings it ({})", name,
                          names, marked("plugins")));
}

}  // namespace

void require_sampler(const std::string& name) {
  if (name != BatchOptions::kNeighborSampler) entry_of(name);
}

std::unique_ptr<Sampler> make_sampler(const Dataset& dataset, const BatchOptions& options,
                                      const NeighborSamplerFactory& make_neighbors) {
  require_sampler(options.sampler);
  options.validate();
  std::unique_ptr<Sampler> sampler;
  if (options.sampler == BatchOptions::kNeighborSampler) {
    sampler = make_neighbors ? make_neighbors(dataset, options)
                             : std::make_unique<NeighborSampler>(dataset, options);
  } else {
    const CustomSamplerFactory factory = entry_of(options.sampler).factory;
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

void register_sampler(const std::string& name, CustomSamplerFactory factory, std::string file_sha256) {
  require_valid(!name.empty() && name.size() <= kMaxNameBytes,
                fmt::format("'{}' cannot be a sampler's name: it has 1 to {} bytes", name, kMaxNameBytes));
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const bool is_new = name != BatchOptions::kNeighborSampler &&
                      all.samplers.emplace(name, Registry::Entry{factory, std::move(file_sha256)}).second;
  require_valid(is_new || (all.samplers.count(name) > 0 && all.samplers[name].factory == factory),
                fmt::format("there is another sampler '{}' already; give this one a name of its own", name));
}

std::string sampler_file_sha256(const std::string& name) {
  return name == BatchOptions::kNeighborSampler ? "" : entry_of(name).file_sha256;
}

}  // namespace hopfeed
