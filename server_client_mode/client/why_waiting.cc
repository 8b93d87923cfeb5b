// See why_waiting.h.
#include "server_client_mode/client/why_waiting.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/json_text.h"
#include "core/base/plain_text.h"

namespace hopfeed {
namespace {

constexpr std::size_t kMostText = 300;  // of a reason that a server gives
constexpr std::size_t kMostDepth = 32;

std::string lost_partitions(const std::string& status) {
  std::string text;
  if (json_depth(status) > kMostDepth) return text;
  try {
    for (const nlohmann::json& lost : parse_json(status).value("lost_partitions", nlohmann::json::array()))
      text += fmt::format("{}partition {} of '{}' ({})", text.empty() ? "" : ", ",
                          lost.at("partition").get<int>(),
                          as_line(lost.at("dataset").get<std::string>(), kMostText),
                          as_line(lost.at("why").get<std::string>(), kMostText));
  } catch (const std::exception&) {  // a server of another version: it says nothing that is known here
  }
  return text;
}

}  // namespace

std::string why_waiting(const std::string& peer, const std::string& status) {
  using namespace std::chrono_literals;
  const std::string lost = lost_partitions(status);
  const std::string head = fmt::format("waiting for {} s for a batch of {}", kToldAfter / 1s, peer);
  if (lost.empty()) return head + ", which is there and has not made it; hopfeed-top shows what it does";
  return fmt::format("{}, which waits for a server of {}", head, lost);
}

}  // namespace hopfeed
