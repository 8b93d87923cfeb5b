// The suite of all streams over partitions on several machines: workers beside the trainer, the calling
// thread, a cache in front of the others' rows, and servers that have a partition each.
#include "tests/stream/stream_conformance.h"

#include <signal.h>

#include "tests/peers/machines_fixture.h"

namespace hopfeed {
namespace {

using LocalMachines = StreamOfMachines<Loader>;
using RemoteMachines = StreamOfMachines<RemoteLoader>;

std::unique_ptr<BatchStream> open_beside(LoaderOptions options, int own) {
  options.dataset = partitioned(options.dataset);
  return std::make_unique<LocalMachines>(options.dataset, [&](PeerServers& servers) {
    if (servers.size() > 1) options.execution.partitions = servers.machine(own);
    return std::make_unique<Loader>(options);
  });
}

std::unique_ptr<BatchStream> open_workers(LoaderOptions options) { return open_beside(options, 0); }

std::unique_ptr<BatchStream> open_caller(LoaderOptions options) {
  options.execution.num_workers = 0;
  return open_beside(options, 1);
}

std::unique_ptr<BatchStream> open_cached(LoaderOptions options) {
  const std::int64_t partitions = Dataset(partitioned(options.dataset)).meta().partitions;
  if (partitions > 1) options.execution.features.row_cache_bytes = 20'000;
  return open_beside(options, 0);
}

std::unique_ptr<BatchStream> open_with_halos(LoaderOptions options) {
  options.dataset = partitioned(options.dataset, "halos3");
  return open_beside(options, 1);
}

std::unique_ptr<BatchStream> open_with_sharded_ids(LoaderOptions options) {
  options.dataset = partitioned(options.dataset, "sharded3");
  return open_beside(options, 1);
}

std::unique_ptr<BatchStream> open_servers_of(LoaderOptions options, const char* folder) {
  options.dataset = partitioned(options.dataset, folder);
  return std::make_unique<RemoteMachines>(options.dataset, [&](PeerServers& servers) {
    std::vector<wire::Address> addresses;
    for (const std::string& text : servers.addresses()) addresses.push_back(wire::parse_address(text));
    return std::make_unique<RemoteLoader>(remote_options(addresses), options);
  });
}

std::unique_ptr<BatchStream> open_servers(LoaderOptions options) {
  return open_servers_of(std::move(options), "parts3");
}

std::unique_ptr<BatchStream> open_servers_with_sharded_ids(LoaderOptions options) {
  return open_servers_of(std::move(options), "sharded3");
}

void kill_workers(BatchStream& stream) {
  for (const int pid : dynamic_cast<LocalMachines&>(stream).stream().worker_pids()) ::kill(pid, SIGKILL);
}

void kill_servers_workers(BatchStream& stream) {
  PeerServers& servers = dynamic_cast<RemoteMachines&>(stream).servers();
  for (std::size_t p = 0; p < servers.size(); ++p)
    for (const int pid : servers.server(p).worker_pids()) ::kill(pid, SIGKILL);
}

INSTANTIATE_TEST_SUITE_P(Machines, StreamConformance,
                         ::testing::Values(StreamKind{"Workers", open_workers, kill_workers},
                                           StreamKind{"CallingThread", open_caller, nullptr},
                                           StreamKind{"RowCache", open_cached, kill_workers},
                                           StreamKind{"Halos", open_with_halos, kill_workers},
                                           StreamKind{"ShardedIds", open_with_sharded_ids, kill_workers},
                                           StreamKind{"Servers", open_servers, kill_servers_workers},
                                           StreamKind{"ServersWithShardedIds", open_servers_with_sharded_ids,
                                                      kill_servers_workers}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hopfeed
