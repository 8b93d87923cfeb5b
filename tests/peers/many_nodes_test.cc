// Three machines with a partition each of 12 billion nodes: seeds beyond 2^33 lie in all of them, and whoever
// samples has the bytes of one process that has the whole.
#include "tests/peers/machines_fixture.h"
#include "tests/worker_mode/many_nodes_fixture.h"

namespace hopfeed {
namespace {

class ManyNodesOnMachines : public ManyNodesStreamTest {};

TEST_F(ManyNodesOnMachines, WorkersBesideAPartition_GiveTheBytesOfTheWhole) {
  const PeerServers servers(path().string());
  for (const auto& [name, options] : jobs()) {
    SCOPED_TRACE(name);
    LoaderOptions beside = options;
    beside.execution.partitions = servers.machine(1);
    Loader loader(beside);
    expect_its_bytes(loader, options);
  }
}

TEST_F(ManyNodesOnMachines, ServersWithAPartitionEach_GiveTheBytesOfTheWhole) {
  const PeerServers servers(path().string());
  std::vector<wire::Address> addresses;
  for (const std::string& text : servers.addresses()) addresses.push_back(wire::parse_address(text));
  for (const auto& [name, options] : jobs()) {
    SCOPED_TRACE(name);
    RemoteLoader loader(remote_options(addresses), options);
    expect_its_bytes(loader, options);
  }
}

}  // namespace
}  // namespace hopfeed
