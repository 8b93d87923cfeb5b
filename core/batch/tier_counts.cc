// See tier_counts.h.
#include "core/batch/tier_counts.h"

#include <fmt/format.h>

#include "core/base/memory_limits.h"

namespace hopfeed {

std::string TierCounts::text() const {
  if (slow_rows() == 0 && device_rows == 0) return {};
  const std::int64_t rows = memory_rows + slow_rows() + device_rows;
  const auto percent = [&](std::int64_t part) {
    return 100 * static_cast<double>(part) / static_cast<double>(rows);
  };
  if (slow_rows() == 0)
    return fmt::format("{} rows: {:.1f}% from the GPU's memory, {:.1f}% from the host's", rows,
                       percent(device_rows), percent(memory_rows));
  std::string text = fmt::format("{} rows: {:.1f}% from memory, {:.1f}% from the row cache", rows,
                                 percent(memory_rows), percent(cache_rows));
  if (peer_rows > 0)
    text += fmt::format(", {:.1f}% from other machines ({})", percent(peer_rows),
                        format_bytes(static_cast<std::size_t>(peer_bytes)));
  if (file_rows > 0 || peer_rows == 0)
    text += fmt::format(", {:.1f}% from files ({} read)", percent(file_rows),
                        format_bytes(static_cast<std::size_t>(read_bytes)));
  if (peer_asked_twice > 0)
    text +=
        fmt::format("; {} of {} questions to other machines asked twice", peer_asked_twice, peer_questions);
  return text;
}

}  // namespace hopfeed
