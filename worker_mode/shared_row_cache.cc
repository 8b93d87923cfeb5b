// See shared_row_cache.h.
#include "worker_mode/shared_row_cache.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "cache/dynamic_cache.h"

namespace hopfeed {

std::unique_ptr<const MachineMemory> shared_row_cache(const Dataset& dataset, const FeatureTiers& tiers) {
  if (tiers.row_cache_bytes == 0) return nullptr;
  const std::vector<CachedAttr> attrs = cached_attrs(dataset);
  if (attrs.empty()) return nullptr;
  // By the folder too: the same content in another order has its rows elsewhere.
  const std::string name =
      fmt::format("row cache {} {} {}", dataset.meta().fingerprint,
                  std::filesystem::canonical(dataset.folder()).string(), tiers.row_cache_bytes);
  return std::make_unique<const MachineMemory>(
      name, [&] { return make_dynamic_cache(attrs, tiers.row_cache_bytes); });
}

}  // namespace hopfeed
