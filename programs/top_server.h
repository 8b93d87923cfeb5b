// Writes what hopfeed-top shows of one server, from two of its statuses: rates and shares are of the time
// between them.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace hopfeed {

/// Returns a few lines of text, each ended. Throws kCorrupt where what the server sent is no status.
std::string server_screen(const nlohmann::json& before, const nlohmann::json& now);
/// Returns the status, with rates and shares beside its sums.
nlohmann::json server_report(const nlohmann::json& before, const nlohmann::json& now);

}  // namespace hopfeed
