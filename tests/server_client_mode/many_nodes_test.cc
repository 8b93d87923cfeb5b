// hopfeed-server samples a graph of 12 billion nodes from seeds beyond 2^33, and a client has the bytes of
// one process.
#include "tests/server_client_mode/remote_fixture.h"
#include "tests/worker_mode/many_nodes_fixture.h"

namespace hopfeed {
namespace {

class ManyNodesThroughAServer : public ManyNodesStreamTest {};

TEST_F(ManyNodesThroughAServer, GiveTheBytesOfOneProcess) {
  const ServerProcess server(path().string());
  for (const auto& [name, options] : jobs()) {
    SCOPED_TRACE(name);
    RemoteLoader loader(remote_options({server.address()}), options);
    expect_its_bytes(loader, options);
  }
}

}  // namespace
}  // namespace hopfeed
