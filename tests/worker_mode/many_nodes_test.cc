// Workers sample a graph of 12 billion nodes from seeds beyond 2^33.
#include "tests/worker_mode/many_nodes_fixture.h"
#include "worker_mode/loader.h"

namespace hopfeed {
namespace {

class ManyNodesThroughWorkers : public ManyNodesStreamTest {};

TEST_F(ManyNodesThroughWorkers, GiveTheBytesOfOneProcess) {
  for (const auto& [name, options] : jobs()) {
    SCOPED_TRACE(name);
    Loader loader(options);
    expect_its_bytes(loader, options);
  }
}

}  // namespace
}  // namespace hopfeed
