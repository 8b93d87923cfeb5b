// The suite of all streams over those of servers: by TCP, by a socket file, and under TLS.
#include "tests/stream/stream_conformance.h"

#include <signal.h>

#include "tests/server_client_mode/served_stream.h"
#include "tests/wire/client_certificates.h"

namespace hopfeed {
namespace {

std::unique_ptr<BatchStream> open_by_tcp(LoaderOptions options) {
  return std::make_unique<ServedStream>(server_options(options.dataset), remote_options({}), options);
}

std::unique_ptr<BatchStream> open_by_socket_file(LoaderOptions options) {
  static int number = 0;
  ServerOptions server = server_options(options.dataset, 1);
  server.listen = wire::parse_address("unix:" + options.dataset + ".socket" + std::to_string(++number));
  return std::make_unique<ServedStream>(server, remote_options({}), options);
}

std::unique_ptr<BatchStream> open_under_tls(LoaderOptions options) {
  static const testing::ClientCertificates certificates;
  ServerOptions server = server_options(options.dataset, 3);
  server.tls.cert = certificates.cert();
  server.tls.key = certificates.key();
  RemoteExecution remote = remote_options({});
  remote.tls = true;
  remote.tls_files.ca = certificates.ca();
  return std::make_unique<ServedStream>(server, remote, options);
}

std::unique_ptr<BatchStream> open_holding_rows(LoaderOptions options) {
  RemoteExecution remote = remote_options({});
  remote.cache.ratio = 0.6;
  return std::make_unique<ServedStream>(server_options(options.dataset), remote, options);
}

void kill_servers_workers(BatchStream& stream) {
  for (const int pid : dynamic_cast<ServedStream&>(stream).server().worker_pids()) ::kill(pid, SIGKILL);
}

INSTANTIATE_TEST_SUITE_P(ServedStreams, StreamConformance,
                         ::testing::Values(StreamKind{"ByTcp", open_by_tcp, kill_servers_workers},
                                           StreamKind{"BySocketFile", open_by_socket_file,
                                                      kill_servers_workers},
                                           StreamKind{"HoldingRows", open_holding_rows, kill_servers_workers},
                                           StreamKind{"UnderTls", open_under_tls, kill_servers_workers}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hopfeed
