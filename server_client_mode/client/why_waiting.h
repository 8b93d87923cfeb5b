// What is said to those who wait long for a batch: for whom, and what that one waits for.
#pragma once
#include <chrono>
#include <string>

namespace hopfeed {

/// Who waits longer hears why.
inline constexpr std::chrono::milliseconds kToldAfter{5'000};

/// Why a server (`peer`: its name in messages) has sent nothing for so long, by its status
/// (docs/protocol.md).
std::string why_waiting(const std::string& peer, const std::string& status);

}  // namespace hopfeed
