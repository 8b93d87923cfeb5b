// See dynamic_cache.h.
#include "cache/dynamic_cache.h"

#include <bit>
#include <string_view>

#include "cache/cache_members.h"
#include "cache/cache_memory.h"
#include "cache/cache_section.h"
#include "cache/cached_rows.h"
#include "cache/file_features.h"

namespace hopfeed {
namespace {

std::vector<std::unique_ptr<CacheSection>> open_sections(const CacheMemory& memory) {
  std::vector<std::unique_ptr<CacheSection>> sections;
  for (CacheSectionRecord* section : memory.sections())
    sections.push_back(std::make_unique<CacheSection>(memory.data(), *section));
  return sections;
}

bool is_of(const CacheSectionShape& shape, const FeatureName& what) {
  return shape.store == static_cast<std::uint32_t>(what.store) &&
         shape.type == static_cast<std::uint32_t>(what.type) &&
         std::string_view(shape.name, std::find(shape.name, std::end(shape.name), '\0')) == what.name;
}

void add_attrs(Store store, int type, const std::vector<AttrMeta>& attrs, const Dataset& dataset,
               std::vector<CachedAttr>& out) {
  for (const AttrMeta& meta : attrs) {
    const AttrView attr =
        store == Store::kNode ? dataset.attr(type, meta.name) : dataset.edge_attr(type, meta.name);
    const std::span<const std::int64_t> offsets = attr.partition_offsets;
    const std::int64_t rows = offsets[static_cast<std::size_t>(dataset.meta().partitions)];  // without halos
    if (attr.row_bytes < kLeastFileRowBytes || rows == 0) continue;
    out.push_back({.what = {.store = store, .type = type, .name = meta.name},
                   .rows = rows,
                   .row_bytes = attr.row_bytes,
                   .heat = [offsets](std::int64_t row) {
                     const auto p = static_cast<std::size_t>(partition_of(offsets, row));
                     return heat_of_place(row - offsets[p], offsets[p + 1] - offsets[p]);
                   }});
  }
}

}  // namespace

std::uint8_t heat_of_place(std::int64_t place, std::int64_t count) {
  // A number of 19 bits as one with an exponent and 4 bits behind the first: the 256 that there are.
  constexpr double kPlaces = 1 << 19;
  const auto at =
      static_cast<std::uint32_t>(kPlaces * static_cast<double>(place) / static_cast<double>(count));
  if (at < 16) return static_cast<std::uint8_t>(at);
  const int exponent = std::bit_width(at) - 5;
  return static_cast<std::uint8_t>(16 * exponent + static_cast<int>(at >> exponent));
}

std::vector<CachedAttr> cached_attrs(const Dataset& dataset) {
  std::vector<CachedAttr> attrs;
  for (int t = 0; t < dataset.num_node_types(); ++t)
    add_attrs(Store::kNode, t, dataset.meta().node_types[static_cast<std::size_t>(t)].attrs, dataset, attrs);
  for (int e = 0; e < dataset.num_edge_types(); ++e)
    add_attrs(Store::kEdge, e, dataset.meta().edge_types[static_cast<std::size_t>(e)].attrs, dataset, attrs);
  return attrs;
}

struct DynamicCache::Impl {
  explicit Impl(int fd) : memory(fd), sections(open_sections(memory)), members(memory, sections) {}

  const CacheMemory memory;
  const std::vector<std::unique_ptr<CacheSection>> sections;
  CacheMembers members;
};

DynamicCache::DynamicCache(int fd) : impl_(std::make_unique<Impl>(fd)) {}
DynamicCache::~DynamicCache() = default;

std::unique_ptr<CachedRows> DynamicCache::open(const FeatureName& what) {
  if (impl_->members.member() < 0) return nullptr;
  for (const auto& section : impl_->sections)
    if (is_of(section->shape(), what)) return open_cached_rows(*section, impl_->members);
  return nullptr;
}

DynamicCache::Counts DynamicCache::counts() const {
  Counts counts{.bytes = impl_->memory.size()};
  counts.swept = impl_->memory.header().swept.load(std::memory_order_relaxed);
  for (const CacheSectionRecord* section : impl_->memory.sections()) {
    const auto now = [](const std::atomic<std::int64_t>& count) {
      return count.load(std::memory_order_relaxed);
    };
    counts.frames += static_cast<std::int64_t>(section->shape.num_frames);
    counts.valid += now(section->valid);
    counts.reads += now(section->reads);
    counts.hits += now(section->hits);
    counts.kept += now(section->kept);
    counts.evicted += now(section->evicted);
    counts.bypassed += now(section->bypassed);
    counts.rebuilt += now(section->rebuilt);
  }
  return counts;
}

}  // namespace hopfeed
