// See link_split_options.h.
#include "partition_tool/link_split_options.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "core/base/error.h"

namespace hopfeed {

LinkShare LinkShare::parse(const std::string& text, const char* option) {
  LinkShare share;
  const char *begin = text.data(), *end = begin + text.size();
  if (text.find_first_of(".eE") == std::string::npos) {
    const auto [stop, error] = std::from_chars(begin, end, share.count);
    if (error == std::errc{} && stop == end && share.count >= 0) return share;
  } else {
    double ratio = 0;
    const auto [stop, error] = std::from_chars(begin, end, ratio);
    share.ratio = ratio;
    if (error == std::errc{} && stop == end && ratio >= 0 && ratio < 1) return share;
  }
  throw Error(
      ErrorCode::kInvalid,
      fmt::format("{} is '{}'; give a share of the links from 0.0 up to 1.0, or their number", option, text));
}

std::int64_t LinkShare::of(std::int64_t all) const {
  return ratio ? static_cast<std::int64_t>(*ratio * static_cast<double>(all)) : count;
}

}  // namespace hopfeed
