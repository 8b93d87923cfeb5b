#!/usr/bin/env python3
"""graphlearn-torch measured: NeighborSampler, DistNeighborLoader in worker mode and ShmChannel on the CPU. See common.py.

Setting: concurrency=N, batches that a worker has under way.
"""
import importlib.metadata
import os
import socket
import time

import torch
import torch.multiprocessing

import common

# Its default arguments say torch.device(0), which this Torch refuses on a machine without a GPU; nothing here uses them.
torch_device = torch.device
torch.device = lambda *names: torch_device("cuda", *names) if isinstance(names[0], int) else torch_device(*names)
import graphlearn_torch as glt  # noqa: E402

torch.device = torch_device

CPU = torch.device("cpu")
CHANNEL_BYTES = 2 << 30


def topology(graph, edge_type=0, weighted=False):
    """In its CSR mode rows are what is sampled from: the in-edges of each node, without a sort of its own."""
    rows = (graph.indptr(edge_type), graph.indices(edge_type))
    made = glt.data.Topology(rows, edge_weights=graph.weight() if weighted else None, input_layout="CSR", layout="CSR")
    return glt.data.Graph(made, "CPU")


def counts(out):
    if isinstance(out.node, dict):
        return sum(row.numel() for row in out.row.values()), sum(node.numel() for node in out.node.values())
    return out.row.numel(), out.node.numel()


def node(args, kind="plain"):
    graph = common.Graph(args.graphs / kind)
    weighted = kind == "weighted"
    sampler = glt.sampler.NeighborSampler(topology(graph, weighted=weighted), args.fanouts, device=CPU, with_weight=weighted)
    seeds = common.batches_of(graph.seeds(), args.batch_size)
    return common.sampling_rate(lambda: counts(sampler.sample_from_nodes(glt.sampler.NodeSamplerInput(next(seeds)))), args.seconds)


def weighted(args):
    return node(args, "weighted")


def link(args):
    graph = common.Graph(args.graphs / "plain")
    sampler = glt.sampler.NeighborSampler(topology(graph), args.fanouts, device=CPU, with_neg=True)
    links = common.batches_of(graph.links(), args.link_batch)
    negatives = glt.sampler.NegativeSampling("binary", 1)

    def step():
        src, dst = next(links)
        # Rows are destinations here, so the ends change places.
        return counts(sampler.sample_from_edges(glt.sampler.EdgeSamplerInput(dst, src, neg_sampling=negatives)))

    return common.sampling_rate(step, args.seconds)


def hetero(args):
    graph = common.Graph(args.graphs / "hetero")
    # As above: rows are sampled from, so each edge type is named from its destination.
    types = {(dst, rel, src): number for number, (src, rel, dst) in enumerate(map(graph.triple, range(len(graph.edge_types))))}
    graphs = {edge_type: topology(graph, number) for edge_type, number in types.items()}
    sampler = glt.sampler.NeighborSampler(graphs, args.hetero_fanouts, device=CPU)
    seeds = common.batches_of(graph.seeds(), args.batch_size)
    return common.sampling_rate(lambda: counts(sampler.sample_from_nodes(glt.sampler.NodeSamplerInput(next(seeds), graph.seed_type))), args.seconds)


def free_port():
    with socket.socket() as server:
        server.bind(("localhost", 0))
        return server.getsockname()[1]


def make_loader(args, seeds):
    graph = common.Graph(args.graphs / "plain")
    dataset = glt.distributed.DistDataset(1, 0, topology(graph), node_pb=torch.zeros(graph.num_nodes, dtype=torch.int64),
                                          edge_pb=torch.zeros(1, dtype=torch.int64))
    dataset.init_node_features(graph.features(), with_gpu=False)
    glt.distributed.init_worker_group(world_size=1, rank=0, group_name="bench")
    options = glt.distributed.MpDistSamplingWorkerOptions(
        num_workers=args.workers, worker_devices=[CPU] * args.workers, worker_concurrency=int(args.settings.get("concurrency", 4)), master_addr="localhost",
        master_port=free_port(), channel_size=CHANNEL_BYTES)
    return glt.distributed.DistNeighborLoader(dataset, args.fanouts, seeds(graph), batch_size=args.batch_size, shuffle=True, collect_features=True,
                                              to_device=CPU, worker_options=options)


def batch_bytes(batch):
    return sum(value.numel() * value.element_size() for value in batch.to_dict().values() if isinstance(value, torch.Tensor))


def loader(args):
    batches = make_loader(args, lambda graph: common.epoch_of_seeds(graph.seeds(), args.batch_size))
    report = common.loader_rate(lambda: batches, batch_bytes, args.seconds)
    return report


def send_batches(channel, size, count):
    for _ in range(count):
        batch = torch.ones(size // 4)
        time.sleep(0.2)  # the trainer waits
        channel.send({"x": batch, "finished": torch.tensor([time.monotonic_ns()])})


def handover(args):
    """Its channel with a message of this size from another process."""
    channel = glt.channel.ShmChannel(4, CHANNEL_BYTES)
    count = common.WARM_STEPS + max(3, int(args.seconds / 0.4))
    sender = torch.multiprocessing.get_context("spawn").Process(target=send_batches, args=(channel, args.bytes, count), daemon=True)
    sender.start()
    stamps = []
    for number in range(count):
        message = channel.recv()
        had = time.monotonic_ns()
        if number >= common.WARM_STEPS:
            stamps.append((int(message["finished"]), had, message["x"].numel() * message["x"].element_size()))
        del message
    sender.join()
    return common.handover_times(stamps)


def kill(args):
    seeds = common.KILL_BATCHES * args.batch_size
    batches = make_loader(args, lambda graph: common.epoch_of_seeds(graph.seeds(), args.batch_size)[:seeds])
    common.kill_worker(batches, lambda: batches._mp_producer._workers[0].pid, common.KILL_BATCHES)


if __name__ == "__main__":
    torch.multiprocessing.set_start_method("spawn")  # its loader spawns workers and hands them locks of the default kind, which fork's are not
    common.main({"node": node, "link": link, "weighted": weighted, "hetero": hetero, "loader": loader, "handover": handover, "kill": kill},
                {"graphlearn-torch": importlib.metadata.version("graphlearn-torch"), "torch": torch.__version__})
    os._exit(0)  # its workers would be waited for
