// StreamOptions say what a Stream is opened with: a loader over a dataset folder or over servers.
#pragma once
#include <nanobind/nanobind.h>

#include <optional>

#include "server_client_mode/client/remote_options.h"
#include "worker_mode/loader.h"

namespace hopfeed::python {

struct StreamOptions {
  LoaderOptions loader;
  std::optional<RemoteOptions> remote = std::nullopt;  // of servers
};

/// Reads the options; arrays are copied. Throws kInvalid naming the option. The caller holds the GIL.
StreamOptions stream_options(const nanobind::dict& given);

}  // namespace hopfeed::python
