"""Seeds that repeat in a batch: a row for each draw, so that ``out[:batch.batch_size]`` is of what was drawn.

hopfeed's own batches have a node once, however often it was drawn, and ``seed_index`` tells the row of each draw. In
PyG's each draw has a row. The first draw of a node stands for it as a neighbour; the others are copies that have all
its in-edges and no out-edges. So each row aggregates what the node aggregates, and no edge is one that the graph has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hopfeed.pyg.graph import Graph
from hopfeed.pyg.written import EDGE, NODE

Arrays = list[tuple[int, int, str, Any]]  # kind and number of the store, name, array


def row_for_each_draw(arrays: Arrays, graph: Graph, path: Sequence[int]) -> Arrays:
    """The arrays of a batch of nodes with a row for each draw; as they are where no seed repeats.

    ``path``: the edge types that walks go by, in turn. What a plugin's sampler adds stays as it is.
    """
    of = next(((number, array) for kind, number, name, array in arrays if kind == NODE and name == "seed_index"), None)
    if of is None:
        return arrays
    fields = {(kind, number, name): array for kind, number, name, array in arrays}
    nodes = fields[NODE, of[0], "n_id"]
    rows = _Rows(of[0], of[1].to(nodes.device), nodes=nodes.numel())
    if rows.added == 0:
        return arrays
    _renumber_nodes(fields, graph, rows)
    for number, (source, destination) in enumerate(graph.ends):
        if (EDGE, number, "edge_index") in fields:
            _renumber_edges(fields, graph, rows, number, source == rows.type, destination == rows.type)
    for key, walks in fields.items():
        if key[0] == 0 and key[2] == "walks":
            fields[key] = _renumber_walks(walks, rows, [graph.ends[number][0] for number in path])
    return [(*key, array) for key, array in fields.items()]


class _Rows:
    """Old and new rows of the seeds' node type. The draws come first, in their order; the others keep theirs."""

    def __init__(self, node_type: int, seed_index: Tensor, *, nodes: int) -> None:
        self.type, self.drawn, self.device = node_type, seed_index, seed_index.device
        self.draws, self.distinct = seed_index.numel(), int(seed_index.max()) + 1
        self.added = self.draws - self.distinct
        #: of each new row the old one
        self.old = torch.cat([seed_index, self.count(self.distinct, nodes)])
        #: of each old row the new one: of a seed its first draw
        first = torch.full((self.distinct,), self.draws, device=self.device).scatter_reduce(0, seed_index, self.count(0, self.draws), "amin")
        self.new = torch.cat([first, self.count(self.distinct, nodes) + self.added])
        self._by_seed = seed_index.argsort(stable=True)  # draws of each seed, one seed after the other
        self._times = seed_index.bincount(minlength=self.distinct)
        self._begin = self._times.cumsum(0) - self._times

    def count(self, begin: int, end: int) -> Tensor:
        return torch.arange(begin, end, device=self.device)

    def copies(self, seeds: Tensor) -> tuple[Tensor, Tensor]:
        """Of entries that are of seeds, by old row: an entry for each draw, as (which entry, new row), by new row."""
        times = self._times[seeds]
        entry = self.count(0, seeds.numel()).repeat_interleave(times)
        draw = self.count(0, entry.numel()) - (times.cumsum(0) - times).repeat_interleave(times)
        row, order = self._by_seed[self._begin[seeds[entry]] + draw].sort(stable=True)
        return entry[order], row


def _renumber_nodes(fields: dict[Any, Any], graph: Graph, rows: _Rows) -> None:
    for name in ("n_id", "dataset_id", "batch", *graph.node_attrs[rows.type]):
        key = (NODE, rows.type, name)
        if key in fields:
            fields[key] = fields[key].index_select(0, rows.old)
    counts = fields.get((NODE, rows.type, "num_sampled_nodes"))
    if counts is not None:
        fields[NODE, rows.type, "num_sampled_nodes"] = torch.cat([counts[:1] + rows.added, counts[1:]])
    fields[NODE, rows.type, "batch_size"] = rows.draws
    fields[NODE, rows.type, "seed_index"] = torch.arange(rows.draws)


def _renumber_edges(fields: dict[Any, Any], graph: Graph, rows: _Rows, number: int, from_seeds: bool, to_seeds: bool) -> None:
    def put(name: str, hops: Tensor | None) -> tuple[Tensor, list[int]]:
        """Gives the edges of a field their new ends. Which old edge each is, and how many each hop has."""
        source, destination = fields[EDGE, number, name]
        which, destination, counts = _copied(destination, hops, rows) if to_seeds else (None, destination, [])
        source = source if which is None else source[which]
        fields[EDGE, number, name] = torch.stack([rows.new[source] if from_seeds else source, destination])
        return which, counts

    hops = fields.get((EDGE, number, "num_sampled_edges"))
    if hops is not None and hops.numel() == 0:  # an induced subgraph is not told hop by hop
        hops = None
    drawn = "_orig_edge_index" if (EDGE, number, "_orig_edge_index") in fields else "edge_index"  # what hops tell of
    which, counts = put(drawn, hops)
    if hops is not None and to_seeds:
        fields[EDGE, number, "num_sampled_edges"] = torch.tensor(counts)
    if drawn != "edge_index":
        which, _ = put("edge_index", None)
    if which is None:
        return
    for name in ("e_id", *graph.edge_attrs[number]):
        key = (EDGE, number, name)
        if key in fields:
            fields[key] = fields[key].index_select(0, which)


def _copied(destination: Tensor, hops: Tensor | None, rows: _Rows) -> tuple[Tensor, Tensor, list[int]]:
    """In-edges of seeds once for each draw: (which old edge each is, its new destination, edges of each hop). Hop by hop
    (all in one where there are none), and those of the seeds first, as they are in a hop that is in the order of rows."""
    sizes = [destination.numel()] if hops is None else hops.tolist()
    which, to, counts = [], [], []
    begin = 0
    for part in destination.split(sizes):
        of_seed = part < rows.distinct
        seeds, others = of_seed.nonzero().view(-1), (~of_seed).nonzero().view(-1)
        entry, row = rows.copies(part[seeds])
        which += [seeds[entry] + begin, others + begin]
        to += [row, part[others] + rows.added]
        counts.append(entry.numel() + others.numel())
        begin += part.numel()
    return torch.cat(which), torch.cat(to), counts


def _renumber_walks(walks: Tensor, rows: _Rows, reached: Sequence[int]) -> Tensor:
    """Walk w is of draw w / W and starts at its row. ``reached``: the node types that steps come to, in turn."""
    out = walks.clone()
    for step in range(1, walks.size(1)):
        if reached[(step - 1) % len(reached)] == rows.type:
            column = walks[:, step]
            out[:, step] = torch.where(column < 0, column, rows.new.to(column.device)[column])  # -1: the walk has ended
    out[:, 0] = torch.arange(rows.draws).repeat_interleave(len(walks) // rows.draws)
    return out
