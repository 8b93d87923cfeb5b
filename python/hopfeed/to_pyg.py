"""A dataset folder as PyG's ``Data`` or ``HeteroData``: the way back from :func:`hopfeed.from_pyg`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from hopfeed.dataset import Dataset, folder_of
from hopfeed.version import explain_missing

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

_MASK_OF_SPLIT = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}


def to_pyg(dataset: Dataset | str | os.PathLike[str]) -> Data | HeteroData:
    """All of a dataset in memory: edges, node attributes, and its splits as masks (``train_mask``, ``val_mask``, ...).

    Needs torch and torch_geometric. Attributes are as batches have them: bfloat16 is bfloat16, rows with a scale are
    float32. Edge attributes are left out.

    Raises:
        UnsupportedError: partitions that are not on this machine.
    """
    try:
        import torch
        from torch_geometric.data import Data, HeteroData
    except ModuleNotFoundError as error:
        raise explain_missing(error, "hopfeed.to_pyg", "torch torch-geometric") from None

    if not isinstance(dataset, Dataset):
        dataset = Dataset(folder_of("dataset", dataset))
    typed = len(dataset.node_types) > 1 or len(dataset.edge_types) > 1
    data = HeteroData() if typed else Data()
    for node_type in dataset.node_types:
        store = data[node_type] if typed else data
        store.num_nodes = dataset.num_nodes(node_type)
        for name in dataset.attrs(node_type):
            rows = dataset.attr(name, node_type)
            values = torch.from_numpy(rows[:])
            store[name] = values.to(torch.bfloat16) if rows.element_type == "bfloat16" else values  # exact: they are its values
        for split in dataset.splits(node_type):
            mask = np.zeros(dataset.num_nodes(node_type), np.bool_)
            mask[dataset.split(split, node_type)] = True
            store[_MASK_OF_SPLIT.get(split, f"{split}_mask")] = torch.from_numpy(mask)
    for edge_type in dataset.edge_types:
        store = data[edge_type] if typed else data
        store.edge_index = torch.from_numpy(dataset.edge_index(edge_type))
    return data
