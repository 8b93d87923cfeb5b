// See dynamic_cache.h.
#include "cache/dynamic_cache.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <vector>

#include "cache/cache_members.h"
#include "cache/cache_memory.h"
#include "cache/cache_section.h"
#include "cache/cached_rows.h"

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

}  // namespace

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
