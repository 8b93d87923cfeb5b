// Writes text for people who may have stopped reading: into a pipe that nobody empties, a terminal that is
// halted.
#pragma once
#include <string_view>

namespace hopfeed {

/// A program's last line waits so long for somebody who reads it.
inline constexpr int kLastLinePatienceMs = 1'000;

/// Writes `text` to a descriptor, and waits `patience_ms` at most (-1: for ever) each time that it takes
/// nothing. Returns whether it took all of it. A signal handler may call it.
bool write_patiently(int fd, std::string_view text, int patience_ms);

}  // namespace hopfeed
