// See shared_row_cache.h.
#include "worker_mode/shared_row_cache.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache_memory.h"
#include "cache/cached_attrs.h"
#include "cache/remote_ranks.h"

namespace hopfeed {

std::unique_ptr<const MachineMemory> shared_row_cache(const Dataset& dataset, const FeatureTiers& tiers) {
  if (tiers.row_cache_bytes == 0) return nullptr;
  std::vector<CachedAttr> attrs = cached_attrs(dataset);
  if (attrs.empty()) return nullptr;
  const std::optional<int> reader =
      dataset.whole() ? std::nullopt : std::optional(dataset.partitions().front());
  // By the manifest, and not by the fingerprint: the same content in another order has its rows elsewhere,
  // and may have taken its place in the folder.
  const std::string name = fmt::format("row cache {:016x} {} {} {}", manifest_hash(dataset.meta()),
                                       std::filesystem::canonical(dataset.folder()).string(),
                                       tiers.row_cache_bytes, reader ? std::to_string(*reader) : "all");
  return std::make_unique<const MachineMemory>(name, [&] {
    if (reader) attrs = reader_attrs(dataset, std::move(attrs), *reader);
    return make_dynamic_cache(attrs, tiers.row_cache_bytes);
  });
}

}  // namespace hopfeed
