// See dataset_title.h.
#include "core/dataset/dataset_title.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/plain_text.h"

namespace hopfeed {
namespace {

constexpr std::size_t kMaxTitleBytes = 256;

}  // namespace

void check_title(const std::string& name, const std::string& where) {
  require_valid(!name.empty() && name.size() <= kMaxTitleBytes && is_text(name, Lines::kOne),
                fmt::format("{} '{}' is no name for a dataset; give 1 to {} bytes of UTF-8 without control "
                            "characters and direction marks",
                            where, as_line(name, 64), kMaxTitleBytes));
}

}  // namespace hopfeed
