// Serves /metrics, /healthz and /readyz over HTTP, for Prometheus and for orchestrators; GET and HEAD alone.
// Nothing of it is secret, but it is meant for this machine or its own network.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <functional>
#include <list>
#include <string>

namespace hopfeed {

struct MetricsPages {
  std::function<std::string()> metrics;
  std::function<bool()> ready;  // to take batches: not draining, not failed
};

/// IdleConnections have no request to answer; the one that waits longest is first, and is closed where there
/// are too many.
using IdleConnections = std::list<boost::asio::generic::stream_protocol::socket*>;

/// Answers the requests of one connection until it ends or is silent for too long. Never throws. `idle` and
/// `pages` must outlive it.
boost::asio::awaitable<void> serve_metrics(boost::asio::generic::stream_protocol::socket socket,
                                           const MetricsPages& pages, IdleConnections& idle);

}  // namespace hopfeed
