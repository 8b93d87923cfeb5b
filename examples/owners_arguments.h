// The options of programs that train on learned rows: whether these lie whole at each trainer, or at servers
// that own them (trainer/learned_state.h).
#pragma once
#include <string>

#include "core/program/command_line.h"
#include "peers/peer_options.h"
#include "programs/options/server_arguments.h"
#include "stream/loader_options.h"
#include "trainer/learned_state.h"

namespace hopfeed {

class OwnersArguments {
 public:
  /// --owners and --tables.
  void add(CommandLine& line);
  bool given() const { return !owners_.empty(); }
  /// Batches name nodes as rows at owners do. Throws kInvalid without --out, naming it.
  void take(LoaderOptions& loader, const std::filesystem::path& out) const;
  /// Connects; nothing without --owners. `peers` are those of --peers, all of them. Throws kInvalid naming
  /// the option, and what StateOwners throws.
  Owners connect(const DatasetMeta& dataset, const ServerArguments& servers, const PeerOptions& peers) const;

 private:
  PeerOptions servers_of(const ServerArguments& servers, const PeerOptions& peers) const;

  std::string owners_, tables_;
};

}  // namespace hopfeed
