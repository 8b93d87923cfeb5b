// Text for people who may have stopped reading: a pipe that nobody empties, a terminal that is halted.
#pragma once
#include <string_view>

namespace hopfeed {

/// How long a program's last line waits for somebody who reads it.
inline constexpr int kLastLinePatienceMs = 1'000;

/// Writes `text` to a descriptor, and waits `patience_ms` at most (-1: for ever) each time that it takes
/// nothing. Whether it took all of it. Fit for a signal handler.
bool write_patiently(int fd, std::string_view text, int patience_ms);

}  // namespace hopfeed
