// Tells those who wait long for a batch: for whom they wait, and what that one waits for.
#pragma once
#include <chrono>
#include <string>

namespace hopfeed {

/// Who waits longer than this hears why.
inline constexpr std::chrono::milliseconds kToldAfter{5'000};

/// Returns why a server (`peer` is its name in messages) has sent nothing for so long, by its status
/// (docs/protocol.md).
std::string why_waiting(const std::string& peer, const std::string& status);

}  // namespace hopfeed
