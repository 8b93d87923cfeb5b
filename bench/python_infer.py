#!/usr/bin/env python3
"""What hopfeed.infer takes beside its layers alone, on the same blocks ready in memory, and beside PyG's inference().

Usage: python_infer.py [--model sage|gat] [--nodes N] [--edges N] [--features F] [--hidden H] [--layers L] [--memory M] [--rounds N] [--json FILE]

Needs a Python that has hopfeed, torch and torch_geometric. Prints one JSON object: seconds of each by round, by turns, and
the medians of the rounds' ratios. PyG gets blocks from its NeighborLoader of all neighbours; where its samplers are missing, from
hopfeed's loader, which has the same batches ("pyg_loader" says which). All rows are compared.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import torch
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GraphSAGE
from torch_geometric.nn.models.basic_gnn import BasicGNN

import hopfeed
import hopfeed.pyg
from hopfeed.programs import program
from hopfeed.results import plan
from hopfeed.results.graph import Graph
from hopfeed.results.inference import Inference
from hopfeed.results.infer import _bytes
from hopfeed.results.models import model_of
from hopfeed.results.rows import Rows

BATCH = 4096


def seconds_of(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


class Ready:
    """The layers alone, called on every block of every layer as PyG calls them: sources' rows and edges made before, in memory."""

    def __init__(self, model: BasicGNN, dataset: hopfeed.Dataset, memory: int) -> None:
        self._graph = Graph(dataset)
        self._model = model_of(model, dataset, {}, None)
        self._memory = memory

    @torch.no_grad()
    def seconds(self) -> float:
        """Of all layers; making blocks is not counted."""
        dataset, total = self._graph.dataset, 0.0
        meta = next(attr for attr in dataset.meta["node_types"][0]["attrs"] if attr["name"] == "x")
        rows = Rows([dataset._part(part, f"nodes/{dataset.node_types[0]}/x.npy") for part in range(dataset.num_partitions)], meta, torch.float32)
        inference = Inference(self._graph, {}, None, torch.device("cpu"), torch.float32, False)
        for (task,) in self._model.stages:
            relation = task.relations[0]
            layer, inference.inputs = relation.convolution.layer, {relation.source: rows}
            out = layer.out_channels * getattr(layer, "heads", 1)
            price = plan.costs([(rows.width, max(out, rows.width))], out + rows.width, self._memory)
            offsets, made = self._graph.partition_offsets(task.node_type), []
            for of in plan.blocks(self._graph, task, price):
                bounds = self._graph.offsets(relation.edge_type, of.part, of.begin, of.end)
                block = inference.block(relation, of.part, offsets[of.part] + of.begin, bounds)
                begin = time.perf_counter()
                made.append(task.finish([layer((block.x_source, block.x_own), block.edge_index)], {})[0])
                total += time.perf_counter() - begin
            rows = Rows([torch.cat(made).numpy()], {"name": "h", "element_type": "float32", "shape": [made[0].shape[1]]}, torch.float32)
        inference.close()
        return total


def pyg_loader(data: Data) -> tuple[str, object]:
    """PyG's own where one of its samplers is installed."""
    options = {"num_neighbors": [-1], "batch_size": BATCH, "input_nodes": None, "shuffle": False}
    try:
        from torch_geometric.loader import NeighborLoader

        loader = NeighborLoader(data, **options)
        next(iter(loader))
        return "pyg", loader
    except ImportError:
        return "hopfeed", hopfeed.pyg.NeighborLoader(data, num_workers=1, **options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("nodes", 100_000), ("edges", 2_000_000), ("features", 100), ("hidden", 128), ("layers", 3), ("rounds", 3), ("threads", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--model", choices=("sage", "gat"), default="sage")
    parser.add_argument("--memory", default="4G")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    kind = {"sage": GraphSAGE, "gat": GAT}[arguments.model]
    model = kind(arguments.features, arguments.hidden, arguments.layers, arguments.hidden).eval()
    seconds: dict[str, list[float]] = {"infer": [], "layers_alone": [], "pyg": []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "graph"
        sizes = [f"--{name}={getattr(arguments, name)}" for name in ("nodes", "edges", "features")]
        subprocess.run([program("hopfeed-partition"), "generate", str(folder), *sizes, "--classes=8", "--seed=1"], check=True, capture_output=True)
        dataset = hopfeed.Dataset(folder)
        data = Data(x=torch.from_numpy(dataset.attr("x")[:]), edge_index=torch.from_numpy(dataset.edge_index()))
        ready, (whose, loader) = Ready(model, dataset, _bytes(arguments.memory)), pyg_loader(data)
        wanted = torch.empty(0)
        hopfeed.infer(model, folder, pathlib.Path(scratch) / "warm", memory=arguments.memory, progress=False)
        for at in range(arguments.rounds):
            out = pathlib.Path(scratch) / f"out-{at}"
            seconds["infer"].append(seconds_of(lambda: hopfeed.infer(model, folder, out, memory=arguments.memory, progress=False)))
            seconds["layers_alone"].append(ready.seconds())
            begin = time.perf_counter()
            wanted = model.inference(loader)
            seconds["pyg"].append(time.perf_counter() - begin)
        found = torch.from_numpy(hopfeed.read_results(pathlib.Path(scratch) / "out-0").array())
        off = float((found - wanted).abs().max() / wanted.abs().max())
        if off > 1e-4:
            sys.exit(f"the rows differ by {off} of the largest")
    def ratio(above: str, below: str) -> float:
        """The median of the rounds', in each of which both had their turn."""
        return statistics.median(a / b for a, b in zip(seconds[above], seconds[below]))

    report = {
        **{name: getattr(arguments, name) for name in ("model", "nodes", "edges", "features", "hidden", "layers", "memory")},
        "threads": torch.get_num_threads(), "pyg_loader": whose, "seconds": seconds,
        "infer_to_layers_alone": ratio("infer", "layers_alone"), "pyg_to_infer": ratio("pyg", "infer"), "off": off,
    }  # fmt: skip
    text = json.dumps(report, indent=1)
    print(text)
    if arguments.json:
        arguments.json.write_text(text)


if __name__ == "__main__":
    main()
