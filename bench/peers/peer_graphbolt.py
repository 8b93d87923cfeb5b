#!/usr/bin/env python3
"""GraphBolt measured: dgl.graphbolt's FusedCSCSamplingGraph, NeighborSampler and DataLoader on the CPU. See common.py.

Settings: ids=int32|int64, of the graph; threads=N, Torch's, which read the features in the trainer; processes=N, sampling workers.
"""
import time

import dgl
import torch
from dgl import graphbolt as gb

import common


def plain_graph(args, kind="plain"):
    graph = common.Graph(args.graphs / kind)
    weight = {"weight": graph.weight()} if kind == "weighted" else None
    return graph, gb.fused_csc_sampling_graph(graph.indptr(), graph.indices(dtype=ids(args)), edge_attributes=weight)


def ids(args):
    return getattr(torch, args.settings.get("ids", "int64"))


def count_edges(csc):
    return sum(part.indices.numel() for part in csc.values()) if isinstance(csc, dict) else csc.indices.numel()


def count_nodes(nodes):
    return sum(part.numel() for part in nodes.values()) if isinstance(nodes, dict) else nodes.numel()


def sampler_rate(args, sample, fanouts, next_seeds, weight=None):
    """What its loader's stages call for each hop, without the stages; `sample` is a method of the graph."""

    def step():
        nodes, edges = next_seeds(), 0
        for fanout in fanouts:
            subgraph = sample(nodes, fanout, False, weight)
            nodes, csc = gb.unique_and_compact_csc_formats(subgraph.sampled_csc, nodes)
            edges += count_edges(csc)
        return edges, count_nodes(nodes)

    return common.sampling_rate(step, args.seconds)


def node(args, kind="plain", method="sample_neighbors"):
    graph, sampling_graph = plain_graph(args, kind)
    seeds = common.batches_of(graph.seeds().to(ids(args)), args.batch_size)
    fanouts = [torch.tensor([fanout]) for fanout in args.fanouts]
    return sampler_rate(args, getattr(sampling_graph, method), fanouts, lambda: next(seeds), "weight" if kind == "weighted" else None)


def weighted(args):
    return node(args, "weighted")


def labor(args):
    """Each call draws variates of its own, which all of its rows share."""
    return node(args, method="sample_layer_neighbors")


def epochs_of(pipe):
    """Batches without end."""
    while True:
        yield from pipe


def link(args):
    graph, sampling_graph = plain_graph(args)
    pairs = gb.ItemSet(graph.links().t().contiguous().to(ids(args)), names="node_pairs")
    pipe = gb.ItemSampler(pairs, batch_size=args.link_batch, shuffle=True)
    # DGL counts fanouts from the layer that reads the input: hopfeed's last hop comes first.
    pipe = pipe.sample_uniform_negative(sampling_graph, 1).sample_neighbor(sampling_graph, args.fanouts[::-1])
    batches = epochs_of(pipe)

    def step():
        batch = next(batches)
        return sum(count_edges(subgraph.sampled_csc) for subgraph in batch.sampled_subgraphs), count_nodes(batch.input_nodes)

    return common.sampling_rate(step, args.seconds)


def fused_types(graph, id_type):
    """One graph of all types, as GraphBolt wants it: nodes of a type one after the other, in a row edges of a type together."""
    names = list(graph.node_types)
    offsets = torch.tensor([0, *graph.node_types.values()]).cumsum(0)
    edge_types = {":".join(graph.triple(number)): number for number in range(len(graph.edge_types))}
    indptr_parts, indices_parts, type_parts, first = [torch.zeros(1, dtype=torch.int64)], [], [], 0
    for t, name in enumerate(names):
        ending = [number for number, edge in enumerate(graph.edge_types) if edge["dst"] == name]
        rows = [graph.indptr(number) for number in ending]
        ends = sum(row[1:] for row in rows)
        num_edges = int(ends[-1])
        indices, types = torch.empty(num_edges, dtype=id_type), torch.empty(num_edges, dtype=torch.uint8)
        begin = ends - sum(row.diff() for row in rows)  # where the next type's edges of each row go
        for number, row in zip(ending, rows):
            degree = row.diff()
            at = torch.arange(int(row[-1])) + torch.repeat_interleave(begin - row[:-1], degree)
            indices[at] = graph.indices(number, id_type) + int(offsets[names.index(graph.edge_types[number]["src"])])
            types[at] = number
            begin = begin + degree
        indptr_parts.append(ends + first)
        indices_parts.append(indices)
        type_parts.append(types)
        first += num_edges
    return gb.fused_csc_sampling_graph(torch.cat(indptr_parts), torch.cat(indices_parts), node_type_offset=offsets.to(id_type),
                                       type_per_edge=torch.cat(type_parts), node_type_to_id={name: t for t, name in enumerate(names)},
                                       edge_type_to_id=edge_types)


def hetero(args):
    graph = common.Graph(args.graphs / "hetero")
    fanouts = [torch.full((len(graph.edge_types),), fanout) for fanout in args.hetero_fanouts]
    seeds = common.batches_of(graph.seeds().to(ids(args)), args.batch_size)
    nothing = torch.zeros(0, dtype=ids(args))

    def next_seeds():
        return {name: next(seeds) if name == graph.seed_type else nothing for name in graph.node_types}

    return sampler_rate(args, fused_types(graph, ids(args)).sample_neighbors, fanouts, next_seeds)


def make_loader(args, seeds):
    graph, sampling_graph = plain_graph(args)
    features = gb.BasicFeatureStore({("node", None, "x"): gb.TorchBasedFeature(graph.features())})
    items = gb.ItemSet(seeds(graph).to(ids(args)), names="seed_nodes")
    pipe = gb.ItemSampler(items, batch_size=args.batch_size, shuffle=True).sample_neighbor(sampling_graph, args.fanouts[::-1])
    pipe = pipe.fetch_feature(features, node_feature_keys=["x"])
    return gb.DataLoader(pipe, num_workers=int(args.settings.get("processes", args.workers)))


def batch_bytes(batch):
    def size(tensor):
        return tensor.numel() * tensor.element_size()

    return size(batch.node_features["x"]) + sum(size(part.sampled_csc.indices) + size(part.sampled_csc.indptr) for part in batch.sampled_subgraphs)


def loader(args):
    batches = make_loader(args, lambda graph: common.epoch_of_seeds(graph.seeds(), args.batch_size))
    return common.loader_rate(lambda: batches, batch_bytes, args.seconds)


class Handed(torch.utils.data.IterableDataset):
    """Batches of one size; each waits first, so that the trainer waits too."""

    def __init__(self, size):
        self.size = size

    def __iter__(self):
        while True:
            batch = torch.ones(self.size // 4)
            time.sleep(0.2)
            yield batch, time.monotonic_ns()


def handover(args):
    """Its loader is Torch's, but hands no features over: those the trainer reads itself. This is what they would take."""
    stamps, begin = [], time.perf_counter()
    for number, (batch, finished) in enumerate(torch.utils.data.DataLoader(Handed(args.bytes), batch_size=None, num_workers=1)):
        had = time.monotonic_ns()
        if number >= common.WARM_STEPS:
            stamps.append((finished, had, batch.numel() * batch.element_size()))
            if time.perf_counter() - begin >= args.seconds and len(stamps) > 2:
                break
    return common.handover_times(stamps)


def kill(args):
    seeds = common.KILL_BATCHES * args.batch_size
    batches = make_loader(args, lambda graph: common.epoch_of_seeds(graph.seeds(), args.batch_size)[:seeds])
    common.kill_worker(batches, lambda: common.children()[0], common.KILL_BATCHES)


if __name__ == "__main__":
    common.main({"node": node, "link": link, "weighted": weighted, "labor": labor, "hetero": hetero, "loader": loader, "handover": handover, "kill": kill},
                {"dgl": dgl.__version__, "torch": torch.__version__})
