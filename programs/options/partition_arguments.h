// The options of programs that run where some partitions of a dataset are: --partitions, --peers and what
// goes with them, each said once.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "core/program/command_line.h"
#include "peers/peer_options.h"

namespace hopfeed {

class PartitionArguments {
 public:
  /// Returns the options that it adds.
  std::vector<std::string> add(CommandLine& line);
  /// Reads the token. Throws kInvalid, kNotFound or kIo naming option or file.
  PeerOptions take() const;

 private:
  std::string token_file_;
  PeerOptions options_{.connect_timeout =
                           std::chrono::seconds(30)};  // machines are started one after the other
};

}  // namespace hopfeed
