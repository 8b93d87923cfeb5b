"""Training over a graph on several machines, by DGL's names where the meaning is DGL's.

    hopfeed.distributed.initialize()                 # data, peers or servers from the environment, which hopfeed-launch sets
    g = DistGraph()
    train = node_split(g.ndata["train_mask"], g.get_partition_book(), force_even=True)
    loader = DistNodeDataLoader(g, train, NeighborSampler([25, 10]), batch_size=1000, shuffle=True)
    for input_nodes, seeds, blocks in loader: ...

The same script runs alone over a folder, on several machines that have partitions (``peers``), and where servers sample
(``servers``). Ids are the original ones. docs/from-dgl.md sets DGL's calls beside these.
"""

from typing import Any

from hopfeed.version import explain_missing

try:
    import torch
except ModuleNotFoundError as error:
    raise explain_missing(error, "hopfeed.distributed", "torch") from None
del torch

from hopfeed.distributed import optim  # noqa: E402
from hopfeed.distributed.blocks import Block, MiniBatch, Pairs  # noqa: E402
from hopfeed.distributed.graph import DistGraph  # noqa: E402
from hopfeed.distributed.loaders import DistEdgeDataLoader, DistNodeDataLoader, seed_of_rank  # noqa: E402
from hopfeed.distributed.partition_book import PartitionBook  # noqa: E402
from hopfeed.distributed.place import Place, exit_client, initialize  # noqa: E402
from hopfeed.distributed.refused import OF_PACKAGE, refuse  # noqa: E402
from hopfeed.distributed.samplers import (  # noqa: E402
    GlobalUniform,
    MultiLayerFullNeighborSampler,
    NeighborSampler,
    Uniform,
    as_edge_prediction_sampler,
)
from hopfeed.distributed.split import edge_split, node_split  # noqa: E402
from hopfeed.distributed.state import DistEmbedding, DistTensor  # noqa: E402

__all__ = [
    "Block",
    "DistEdgeDataLoader",
    "DistEmbedding",
    "DistGraph",
    "DistNodeDataLoader",
    "DistTensor",
    "GlobalUniform",
    "MiniBatch",
    "MultiLayerFullNeighborSampler",
    "NeighborSampler",
    "Pairs",
    "PartitionBook",
    "Place",
    "Uniform",
    "as_edge_prediction_sampler",
    "edge_split",
    "exit_client",
    "initialize",
    "node_split",
    "optim",
    "seed_of_rank",
]


def __getattr__(name: str) -> Any:
    raise refuse(OF_PACKAGE, "hopfeed.distributed", name)
