// The options of programs that take their batches from servers instead of a dataset folder, each said once:
// --servers and what goes with it.
#pragma once
#include <memory>
#include <string>

#include "core/program/command_line.h"
#include "server_client_mode/client/remote_execution.h"
#include "stream/stream_source.h"

namespace hopfeed {

class ServerArguments {
 public:
  /// `folder`: the program's own name for the dataset folder, in whose place servers come ("--data").
  explicit ServerArguments(std::string folder) : folder_(std::move(folder)) {}

  /// --servers to --cache.
  void add(CommandLine& line);
  /// Those of programs that ask one server, which they name otherwise: --token-file to --tls-key.
  void add_security(CommandLine& line);

  /// Whether servers are named.
  bool remote() const { return !servers_.empty(); }
  /// Throws kInvalid where both servers and the folder (`given`) are named, or neither; naming the options.
  void check(const std::string& given) const;
  /// Reads the token. Throws kInvalid, kNotFound or kIo naming option or file.
  RemoteExecution options() const;
  /// The options for one server alone. Throws as options() does.
  RemoteExecution options_for(const std::string& address) const;
  /// Streams over the folder, or over the servers. Throws what check(), options() and the streams'
  /// constructors throw.
  std::shared_ptr<const StreamSource> streams(const std::string& given) const;

 private:
  const std::string folder_;
  const CommandLine* line_ = nullptr;  // that add() was given
  std::string servers_, dataset_, token_file_, connect_ = "own", cache_;
  RemoteExecution given_;  // its fields that are options
};

}  // namespace hopfeed
