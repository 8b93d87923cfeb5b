#!/usr/bin/env python3
"""PyG measured: torch_geometric with the CPU sampler that install.sh compiled into this environment, pyg-lib's or torch-sparse's. See common.py.

Batches are those of NeighborSampler and NeighborLoader. Only pyg-lib's draws by weight.
Settings: gather=worker|trainer, who reads the features (filter_per_worker).
"""
import pathlib
import sys
import time

import torch
import torch_geometric
import torch_geometric.typing

PREFIX = pathlib.Path(sys.prefix)
PYG_LIB = PREFIX / "pyg_lib_sampler.so"
# The library stands in for its whole package, of which the rest samples nothing.
if PYG_LIB.exists():
    torch.ops.load_library(str(PYG_LIB))
    for flag in ("PYG_LIB", "WEIGHTED_NEIGHBOR_SAMPLE", "EDGE_TIME_NEIGHBOR_SAMPLE"):
        setattr(torch_geometric.typing, f"WITH_{flag}", True)
    SAMPLER = {"pyg-lib": f"{(PREFIX / 'pyg_lib_commit').read_text().strip()[:12]} (its sampler, from source)"}
else:
    torch.ops.load_library(str(PREFIX / "neighbor_sample.so"))
    torch_geometric.typing.WITH_TORCH_SPARSE = True
    SAMPLER = {"torch-sparse": "0.6.18 (neighbor_sample)"}
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.loader import NeighborLoader  # noqa: E402
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling, NeighborSampler, NodeSamplerInput  # noqa: E402

import common  # noqa: E402


def edge_index(graph, edge_type=0):
    """Sorted by destination, as it lies in the dataset."""
    indptr = graph.indptr(edge_type)
    return torch.stack([graph.indices(edge_type), torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff())])


def plain_data(args, features=False):
    graph = common.Graph(args.graphs / "plain")
    data = Data(edge_index=edge_index(graph), num_nodes=graph.num_nodes)
    if features:
        data.x = graph.features()
    return graph, data


def counts(out):
    if isinstance(out.node, dict):
        return sum(row.numel() for row in out.row.values()), sum(node.numel() for node in out.node.values())
    return out.row.numel(), out.node.numel()


def node(args):
    graph, data = plain_data(args)
    sampler = NeighborSampler(data, args.fanouts, is_sorted=True)
    seeds = common.batches_of(graph.seeds(), args.batch_size)
    return common.sampling_rate(lambda: counts(sampler.sample_from_nodes(NodeSamplerInput(None, next(seeds)))), args.seconds)


def weighted(args):
    graph = common.Graph(args.graphs / "weighted")
    data = Data(edge_index=edge_index(graph), num_nodes=graph.num_nodes, weight=graph.weight())
    sampler = NeighborSampler(data, args.fanouts, is_sorted=True, weight_attr="weight")
    seeds = common.batches_of(graph.seeds(), args.batch_size)
    return common.sampling_rate(lambda: counts(sampler.sample_from_nodes(NodeSamplerInput(None, next(seeds)))), args.seconds)


def link(args):
    graph, data = plain_data(args)
    sampler = NeighborSampler(data, args.fanouts, is_sorted=True)
    links = common.batches_of(graph.links(), args.link_batch)
    negatives = NegativeSampling("binary", 1)

    def step():
        src, dst = next(links)
        return counts(sampler.sample_from_edges(EdgeSamplerInput(None, src, dst), neg_sampling=negatives))

    return common.sampling_rate(step, args.seconds)


def hetero(args):
    graph = common.Graph(args.graphs / "hetero")
    data = HeteroData()
    for name, count in graph.node_types.items():
        data[name].num_nodes = count
    for number in range(len(graph.edge_types)):
        data[graph.triple(number)].edge_index = edge_index(graph, number)
    sampler = NeighborSampler(data, args.hetero_fanouts, is_sorted=True)
    seeds = common.batches_of(graph.seeds(), args.batch_size)
    return common.sampling_rate(lambda: counts(sampler.sample_from_nodes(NodeSamplerInput(None, next(seeds), input_type=graph.seed_type))), args.seconds)


def make_loader(args, seeds, data, workers, gather, transform=None):
    return NeighborLoader(data, args.fanouts, input_nodes=seeds, batch_size=min(args.batch_size, len(seeds)), shuffle=True, is_sorted=True,
                          num_workers=workers, persistent_workers=True, filter_per_worker=gather == "worker", transform=transform)


def batch_bytes(batch):
    return sum(value.numel() * value.element_size() for value in batch.to_dict().values() if isinstance(value, torch.Tensor))


def loader(args):
    graph, data = plain_data(args, features=True)
    batches = make_loader(args, common.epoch_of_seeds(graph.seeds(), args.batch_size), data, args.workers, args.settings.get("gather", "worker"))
    return common.loader_rate(lambda: batches, batch_bytes, args.seconds)


class Finished:
    """The last a worker does to a batch: the time goes along. It waits first, so that the trainer waits too."""

    def __call__(self, batch):
        time.sleep(0.2)
        batch.finished = time.monotonic_ns()
        return batch


def handover(args):
    """A batch of the real loader, whose features the worker reads straight into shared memory."""
    graph, data = plain_data(args, features=True)
    batches = make_loader(args, common.epoch_of_seeds(graph.seeds(), args.batch_size), data, 1, "worker", Finished())
    stamps, begin = [], time.perf_counter()
    for number, batch in enumerate(batches):
        had = time.monotonic_ns()
        if number >= common.WARM_STEPS:
            stamps.append((batch.finished, had, batch_bytes(batch)))
            if time.perf_counter() - begin >= args.seconds and len(stamps) > 2:
                break
    return common.handover_times(stamps)


def kill(args):
    graph, data = plain_data(args, features=True)
    seeds = common.epoch_of_seeds(graph.seeds(), args.batch_size)[: common.KILL_BATCHES * args.batch_size]
    batches = make_loader(args, seeds, data, args.workers, "worker")
    common.kill_worker(batches, lambda: common.children()[0], common.KILL_BATCHES)


if __name__ == "__main__":
    measures = {"node": node, "link": link, "hetero": hetero, "loader": loader, "handover": handover, "kill": kill}
    if PYG_LIB.exists():
        measures["weighted"] = weighted
    common.main(measures, {"torch_geometric": torch_geometric.__version__, **SAMPLER, "torch": torch.__version__})
