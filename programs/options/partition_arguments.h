// The options of programs that run where some partitions of a dataset are: --partitions, --peers and what
// goes with them, each said once.
#pragma once
#include <cstdint>
#include <string>

#include "core/program/command_line.h"
#include "peers/peer_options.h"

namespace hopfeed {

class PartitionArguments {
 public:
  void add(CommandLine& line);
  /// Reads the token. Throws kInvalid, kNotFound or kIo naming option or file.
  PeerOptions take() const;

 private:
  std::string own_, peers_, token_file_;
  std::int64_t deadline_ = 60, connect_timeout_ = 30;  // seconds
  PeerOptions options_;
};

}  // namespace hopfeed
