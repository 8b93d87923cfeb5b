#!/usr/bin/env python3
"""WholeGraph's sampler on a card (pylibwholegraph), on a dataset of hopfeed, as a training loop calls it: edges/s and batches/s.

Prints one JSON object. The graph lies in the card's memory (--place cuda) or in pinned memory of the host, which the card reads in
place (--place cpu). Rows are destinations and columns their sources, by the dataset's own ids, hot nodes first. Fanouts count from the
seeds on, in WholeGraph as in hopfeed; but WholeGraph expands in each hop all nodes that the batch has, those of earlier hops too, and
hopfeed the new ones alone: compare edges/s, and see edges_per_batch. A hop's buffers come from Torch by WholeGraph's calls into Python,
which is what its wheel does.

What WholeGraph prints goes to standard error. Any failure is one line there and exit code 1, an abort of the library's too.
"""
from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch

WARM = 10  # batches
INDEX_TYPES = {torch.int32: "int32", torch.int64: "int64"}


def library():
    """WholeGraph's Torch package and the binding under it. Its shared libraries are loaded here, each for the next, so that they need not
    be on LD_LIBRARY_PATH; Torch has brought NCCL."""
    try:
        import librmm  # with rapids_logger

        librmm.load_library()
    except ModuleNotFoundError:
        pass  # where the system's loader finds them
    try:
        import libwholegraph

        shared = Path(libwholegraph.__file__).parent / "lib64/libwholegraph.so"
        if shared.exists():
            ctypes.CDLL(str(shared))  # the package's own loader hides which library is missing
    except ModuleNotFoundError:
        pass
    import pylibwholegraph.binding.wholememory_binding as binding
    import pylibwholegraph.torch as wholegraph

    return wholegraph, binding


class Graph:
    """Row offsets, columns and training seeds of a dataset of one node type, one edge type and one partition."""

    def __init__(self, folder: Path) -> None:
        meta = json.loads((folder / "meta.json").read_text())
        types = [meta["partitions"], len(meta["node_types"]), len(meta["edge_types"])]
        if types != [1, 1, 1]:
            raise ValueError(f"{folder} has {types[0]} partitions, {types[1]} node types, {types[2]} edge types; name a dataset of one each")
        node, edge = meta["node_types"][0]["name"], meta["edge_types"][0]
        of_type = folder / "part-0000/edges" / f"{node}__{edge['rel']}__{node}"
        self.offsets = np.ascontiguousarray(np.load(of_type / "rows.npy", mmap_mode="r")["offset"], dtype=np.int64)
        self.columns = np.load(of_type / "indices.npy")
        self.num_nodes = len(self.offsets) - 1
        self.index_type = torch.int32 if self.num_nodes < 2**31 else torch.int64
        new_ids = np.load(folder / "nodes" / node / "new_ids.npy", mmap_mode="r")
        self.seeds = new_ids[np.load(folder / "splits" / node / "train.npy")].astype(np.int64)
        if len(self.seeds) == 0:
            raise ValueError(f"{folder} has no seeds in its split train; name a dataset that has some")


class Placed:
    """A graph in WholeGraph's memory. `torch` is memory of Torch that WholeGraph is shown; the other types are its own, which need a
    communicator, here of this process alone."""

    def __init__(self, graph: Graph, memory_type: str, place: str) -> None:
        self.wholegraph, self.binding = library()
        self.memory_type, self.place, self.held = memory_type, place, []
        self.wholegraph.init(0, 1, 0, 1, "warn")
        if memory_type != "torch":
            handle = self.binding.create_communicator(self.binding.create_unique_id(), 0, 1)
            self.communicator = self.wholegraph.WholeMemoryCommunicator(handle)
        self.structure = self.wholegraph.GraphStructure()
        self.structure.set_csr_graph(self.tensor(graph.offsets, torch.int64), self.tensor(graph.columns, graph.index_type))

    def tensor(self, array: np.ndarray, dtype: torch.dtype):
        values = torch.from_numpy(array)
        if self.memory_type != "torch":
            tensor = self.wholegraph.create_wholememory_tensor(self.communicator, self.memory_type, self.place, [len(array)], dtype, [1])
            # One process has all of it: its part is the whole.
            tensor.get_local_tensor(host_view=self.place == "cpu")[0].copy_(values)
            torch.cuda.synchronize()
            return tensor
        values = values.to(dtype)
        self.held.append(values.cuda() if self.place == "cuda" else values.pin_memory())
        shape = self.binding.PyWholeMemoryTensorDescription()
        shape.set_shape([len(array)])
        shape.set_stride([1])
        shape.set_dtype(self.wholegraph.utils.torch_dtype_to_wholememory_dtype(dtype))
        return self.wholegraph.WholeMemoryTensor(self.binding.make_tensor_as_wholememory(shape, self.held[-1].data_ptr()))

    def sample(self, seeds: torch.Tensor, fanouts: list[int]):
        return self.structure.multilayer_sample_without_replacement(seeds, fanouts)


def batches_of(seeds: torch.Tensor, size: int):
    """Batches without end, shuffled anew for each epoch; incomplete ones are left out."""
    size = min(size, len(seeds))
    while True:
        order = seeds[torch.randperm(len(seeds), device=seeds.device)]
        for first in range(0, len(seeds) - size + 1, size):
            yield order[first : first + size]


def edges_of_rows(graph: Graph, rows: np.ndarray) -> np.ndarray:
    """All edges that end at these nodes: the row's place in `rows` times the number of nodes, plus the source; sorted."""
    begins, degrees = graph.offsets[rows], graph.offsets[rows + 1] - graph.offsets[rows]
    at = np.repeat(begins - (np.cumsum(degrees) - degrees), degrees) + np.arange(degrees.sum())
    keys = np.repeat(np.arange(len(rows)), degrees) * graph.num_nodes + graph.columns[at]
    keys.sort()
    return keys


def verify(graph: Graph, sampled, seeds: torch.Tensor, fanouts: list[int]) -> int:
    """Raises ValueError where a batch is no sample of the graph; gives the number of its edges."""
    nodes, edges, row_offsets, columns = ([part.cpu().numpy().astype(np.int64) for part in parts] for parts in sampled)
    if not np.array_equal(nodes[-1], seeds.cpu().numpy()):
        raise ValueError("the batch's first nodes are not its seeds")
    for hop, fanout in enumerate(fanouts):
        at = len(fanouts) - 1 - hop  # lists are from the last hop on
        rows, (sources, places) = nodes[at + 1], edges[at]
        degrees, counts = graph.offsets[rows + 1] - graph.offsets[rows], np.diff(row_offsets[at])
        if not np.array_equal(counts, degrees if fanout < 0 else np.minimum(degrees, fanout)):
            raise ValueError(f"hop {hop}: a row has other than min(its degree, fanout {fanout}) edges")
        if not np.array_equal(places, np.repeat(np.arange(len(rows)), counts)) or not np.array_equal(sources, columns[at]):
            raise ValueError(f"hop {hop}: pairs and row offsets disagree")
        there, (drawn, times) = edges_of_rows(graph, rows), np.unique(places * graph.num_nodes + nodes[at][sources], return_counts=True)
        if (np.searchsorted(there, drawn, side="right") - np.searchsorted(there, drawn) < times).any():
            raise ValueError(f"hop {hop}: an edge that the graph lacks, or one more often than the graph has it")
    for of_hop in nodes:
        if len(np.unique(of_hop)) != len(of_hop):
            raise ValueError("a node is twice in the batch")
    return sum(len(of_hop) for of_hop in columns)


def measure(arguments) -> dict:
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")  # WholeGraph's communicator asks for an interface, also for one process
    if not torch.cuda.is_available():
        raise ValueError("no card here; run it on a machine that has one")
    torch.cuda.set_device(0)
    torch.manual_seed(1)
    graph = Graph(arguments.data)
    seeds = torch.from_numpy(graph.seeds).to("cuda", graph.index_type)  # of the columns' type: WholeGraph puts both into one array
    placed = Placed(graph, arguments.memory_type, arguments.place)
    try:
        batches = batches_of(seeds, arguments.batch_size)
        checked = {}
        if arguments.verify:
            batch = next(batches)
            checked = {"verified": True, "verified_edges": verify(graph, placed.sample(batch, arguments.fanouts), batch, arguments.fanouts)}
        for _ in range(WARM):
            placed.sample(next(batches), arguments.fanouts)
        torch.cuda.synchronize()
        done = edges = nodes = 0
        begin = time.perf_counter()
        while time.perf_counter() - begin < arguments.seconds or done == 0:
            nodes_of_hops, _, _, columns_of_hops = placed.sample(next(batches), arguments.fanouts)
            edges += sum(columns.shape[0] for columns in columns_of_hops)
            nodes += nodes_of_hops[0].shape[0]
            done += 1
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
    finally:
        placed.wholegraph.finalize()
    import pylibwholegraph

    return {"bench": "wholegraph", "version": pylibwholegraph.__version__, "place": arguments.place, "memory_type": arguments.memory_type,
            "index_type": INDEX_TYPES[graph.index_type], "fanouts": arguments.fanouts, "batch_size": min(arguments.batch_size, len(seeds)),
            "batches": done, "edges_per_s": edges / seconds, "batches_per_s": done / seconds, "ms_per_batch": 1e3 * seconds / done,
            "edges_per_batch": edges / done, "nodes_per_batch": nodes / done, "seconds": seconds, "card": torch.cuda.get_device_name(), **checked}


def fail(what: str) -> int:
    print(f"peer_wholegraph.py: {what}", file=sys.stderr, flush=True)
    return 1


def run(arguments) -> int:
    """In a process of its own, for the library ends the one that it fails in."""
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        text = json.dumps(measure(arguments)) + "\n"
        if arguments.json:
            arguments.json.write_text(text)
    except Exception as error:  # whatever the library throws
        return fail(f"{type(error).__name__}: {' '.join(str(error).split()) or 'no more is said'}"[:400])
    os.write(output, text.encode())
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="hopfeed folder of one node type, one edge type and one partition, with a split train")
    parser.add_argument("--place", choices=("cuda", "cpu"), default="cuda", help="where the graph lies")
    parser.add_argument("--memory-type", choices=("continuous", "chunked", "torch"), default="continuous",
                        help="of WholeGraph; continuous has the shortest way to an element. torch: memory of Torch, where WholeGraph cannot make its own")
    parser.add_argument("--fanouts", type=int, nargs="+", default=[15, 10, 5], help="from the seeds on; -1: all")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--verify", action="store_true", help="first checks a batch against the graph")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if any(fanout == 0 or fanout < -1 for fanout in arguments.fanouts) or arguments.batch_size < 1:
        return fail("--fanouts are -1 or above 0, and --batch-size is above 0")
    warnings.filterwarnings("ignore", ".*multi-threaded", DeprecationWarning)  # the threads here are NumPy's, which allow for a fork
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = run(arguments)
        finally:
            sys.stderr.flush()
            os._exit(code)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended < 0:
        return fail(f"WholeGraph ended the process with {signal.Signals(-ended).name}; what it said is above")
    return ended


if __name__ == "__main__":
    sys.exit(main())
