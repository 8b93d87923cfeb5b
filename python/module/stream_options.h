// What a Stream is opened with: a loader over a dataset folder or over servers.
#pragma once
#include <nanobind/nanobind.h>

#include <optional>

#include "server_client_mode/client/remote_execution.h"
#include "worker_mode/loader.h"

namespace hopfeed::python {

struct StreamOptions {
  LoaderOptions loader;
  std::optional<RemoteExecution> remote = std::nullopt;  // of servers
};

/// Arrays are copied. Throws kInvalid naming the option. With the GIL.
StreamOptions stream_options(const nanobind::dict& given);

}  // namespace hopfeed::python
