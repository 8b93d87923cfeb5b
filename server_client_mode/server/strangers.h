// Strangers are connections that have not logged in so far. kMaxStrangersOfOne may come from one address at a
// time, so that one who opens them without end holds up nobody else.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "core/base/limits.h"

namespace hopfeed {

class Strangers {
 public:
  /// A Place is held until the connection has logged in, or ends.
  using Place = std::shared_ptr<const void>;
  /// Returns a place; null where there are as many from the network as it takes. `network` is
  /// wire::network_of; "" has no limit.
  Place let_in(const std::string& network) {
    const auto at = counts_->try_emplace(network, 0).first;
    if (!network.empty() && at->second >= kMaxStrangersOfOne) return nullptr;
    ++at->second;
    return {at->first.c_str(), [counts = counts_, at](const void*) {
              if (--at->second == 0) counts->erase(at);
            }};
  }

 private:
  using Counts = std::map<std::string, int>;
  const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();  // places may outlive it
};

}  // namespace hopfeed
