// See cache_size.h.
#include "core/base/cache_size.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace hopfeed {

std::size_t CacheSize::within(std::size_t room) const { return bytes == 0 ? room : std::min(bytes, room); }

void CacheSize::validate(std::string_view field) const {
  require_valid(ratio >= 0 && ratio <= 1,
                fmt::format("{} has the ratio {}; give a share from 0 to 1", marked(field), ratio));
}

}  // namespace hopfeed
