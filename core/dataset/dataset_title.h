// Checks the name of a whole dataset, which people see in reports and offers of servers.
#pragma once
#include <string>

namespace hopfeed {

/// Throws kInvalid unless `name` is 1 to kMaxTitleBytes of plain text (core/base/plain_text.h); `where` says
/// whose name it is: "graph.json: the name".
void check_title(const std::string& name, const std::string& where);

}  // namespace hopfeed
