// See launch_environment.h.
#include "examples/launch_environment.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"

namespace hopfeed {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool names(const std::vector<std::string>& words, std::string_view option) {
  return std::ranges::any_of(words, [&](std::string_view word) {
    return word == option || (word.starts_with(option) && word.substr(option.size()).starts_with('='));
  });
}

}  // namespace

std::vector<std::string> with_launch_environment(std::vector<std::string> words,
                                                 const std::function<bool(const char* option)>& has) {
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty() && has(option) && !names(words, option)) words.insert(words.end(), {option, value});
  };
  const bool trains = !names(words, "--model");
  const std::string data = variable("HOPFEED_DATA"), peers = variable("HOPFEED_PEERS"),
                    servers = variable("HOPFEED_SERVERS");
  if (!names(words, "--data") && !names(words, "--servers") && (!data.empty() || !servers.empty())) {
    require_valid(data.empty() || servers.empty(),
                  "HOPFEED_DATA and HOPFEED_SERVERS are set: trainers sample for themselves, or servers do; "
                  "unset one of them");
    const bool here = !data.empty();  // batches are made beside the trainer
    add(here ? "--data" : "--servers", here ? data : servers);
    if (here) add("--peers", peers);
    if (!here || !peers.empty()) {
      add(here ? "--peer-token-file" : "--token-file", variable("HOPFEED_TOKEN_FILE"));
      add(here ? "--peer-ca" : "--tls-ca", variable("HOPFEED_TLS_CA"));
    }
    if (trains) add("--owners", variable("HOPFEED_OWNERS"));
  }
  return words;
}

}  // namespace hopfeed
