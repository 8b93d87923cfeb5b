// See shared_row_cache.h.
#include "worker_mode/shared_row_cache.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cache/dynamic_cache.h"
#include "cache/remote_ranks.h"

namespace hopfeed {

std::unique_ptr<const MachineMemory> shared_row_cache(const Dataset& dataset, const FeatureTiers& tiers) {
  const bool some_here = !dataset.whole(), one_at_hand = tiers.local_partition >= 0 || some_here;
  if (tiers.local_partition >= 0) require_partition(dataset, tiers.local_partition, "local_partition");
  const int reader = some_here ? dataset.partitions().front() : static_cast<int>(tiers.local_partition);
  if (tiers.row_cache_bytes == 0) return nullptr;
  std::vector<CachedAttr> attrs = cached_attrs(dataset);
  if (attrs.empty()) return nullptr;
  // By the manifest, and not by the fingerprint: the same content in another order has its rows elsewhere,
  // and may have taken its place in the folder.
  const std::string name = fmt::format("row cache {:016x} {} {} {}", manifest_hash(dataset.meta()),
                                       std::filesystem::canonical(dataset.folder()).string(),
                                       tiers.row_cache_bytes, one_at_hand ? std::to_string(reader) : "all");
  return std::make_unique<const MachineMemory>(name, [&] {
    if (one_at_hand) attrs = reader_attrs(dataset, std::move(attrs), reader);
    return make_dynamic_cache(attrs, tiers.row_cache_bytes);
  });
}

}  // namespace hopfeed
