// Writes what hopfeed-top shows of one loader, from two looks at it: rates and shares are of the time between
// them.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "stream/loader_watch.h"

namespace hopfeed {

/// Returns a few lines of text, each ended.
std::string screen_of(const LoaderSnapshot& before, const LoaderSnapshot& now);
nlohmann::json json_of(const LoaderSnapshot& before, const LoaderSnapshot& now);

}  // namespace hopfeed
