// Makes the rows of one section for the batches of one source: CachedRows over a CacheSection
// (dynamic_cache.h).
#pragma once
#include <memory>

#include "cache/cache_members.h"
#include "cache/cache_section.h"
#include "core/maker/cached_rows.h"

namespace hopfeed {

/// Returns them; `section` and `members` must outlive them, and the members have a number.
std::unique_ptr<CachedRows> open_cached_rows(CacheSection& section, CacheMembers& members);

}  // namespace hopfeed
