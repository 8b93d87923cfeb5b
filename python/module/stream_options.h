// StreamOptions say what a Stream is opened with: a loader over a dataset folder or over servers.
#pragma once
#include <nanobind/nanobind.h>

#include <optional>
#include <vector>

#include "core/base/field_table.h"
#include "peers/peer_options.h"
#include "python/module/given_options.h"
#include "server_client_mode/client/remote_execution.h"
#include "worker_mode/loader.h"

namespace hopfeed::python {

struct StreamOptions {
  LoaderOptions loader;
  std::optional<RemoteExecution> remote = std::nullopt;  // of servers
};

/// Reads the options; arrays are copied. Throws kInvalid naming the option. The caller holds the GIL.
StreamOptions stream_options(const nanobind::dict& given);

/// Reads the options of servers alone. Throws kInvalid naming the option. The caller holds the GIL.
RemoteExecution remote_options(const nanobind::dict& given);

/// Reads what a machine with some partitions says of the others (`partitions`, `peers`, `peer_...`), its
/// token too. Throws kInvalid naming the option. The caller holds the GIL.
PeerOptions peer_options(GivenOptions& given);

/// The keywords of stream_options() that stand for fields, with their types, defaults and help.
std::vector<FieldRow> stream_fields();

}  // namespace hopfeed::python
