"""PyG's data modules for Lightning, whose loaders are hopfeed's."""

from __future__ import annotations

import inspect
from typing import Any

import torch_geometric.data.lightning as pyg
from torch.utils.data import DataLoader

from hopfeed.errors import UnsupportedError
from hopfeed.pyg.base import PygLoader
from hopfeed.pyg.graph import Graph
from hopfeed.pyg.link_loader import LinkNeighborLoader
from hopfeed.pyg.node_loader import NeighborLoader
from hopfeed.pyg.torch_loader import NoSampler


def _arguments(module: type, sampler: str, given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Those of PyG's module, by name."""
    bound = inspect.signature(module).bind(*given, **named)
    arguments = {**bound.arguments, **bound.arguments.get("kwargs", {})}
    arguments.pop("kwargs", None)
    if arguments.get(sampler) is not None:
        raise UnsupportedError(f"{sampler} cannot be honoured: it samples by itself; use PyG's {module.__name__} with it")
    if arguments.get("loader", "neighbor") in ("neighbor", "link_neighbor"):
        arguments[sampler] = NoSampler()  # else PyG's module makes one of the graph; it has no arguments, so the loaders get all
    return arguments


class _Kept:
    """The graph stays converted while the module lives: one hook's loader has often ended before the next one's is made."""

    _graph: Graph | None = None

    def _keep(self, loader: PygLoader) -> PygLoader:
        self._graph = loader._graph
        return loader

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_graph"}  # folder and lock are this process's


class LightningNodeData(_Kept, pyg.LightningNodeData):
    """``torch_geometric.data.LightningNodeData``, sampled by hopfeed.

    Arguments are PyG's, and those of ``hopfeed.pyg.NeighborLoader``; ``node_sampler`` is refused. With ``loader="full"``
    it is PyG's own.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        arguments = _arguments(pyg.LightningNodeData, "node_sampler", given, named)
        super().__init__(**arguments)
        self.loader = arguments.get("loader", "neighbor")

    def dataloader(
        self, input_nodes: Any, input_time: Any = None, input_id: Any = None, node_sampler: Any = None, **others: Any
    ) -> DataLoader[Any]:
        """The loader of some nodes."""
        if self.loader == "full":
            return super().dataloader(input_nodes, input_time, input_id, node_sampler, **others)
        return self._keep(NeighborLoader(self.data, input_nodes=input_nodes, input_time=input_time, input_id=input_id, **others))


class LightningLinkData(_Kept, pyg.LightningLinkData):
    """``torch_geometric.data.LightningLinkData``, sampled by hopfeed.

    Arguments are PyG's, and those of ``hopfeed.pyg.LinkNeighborLoader``; ``link_sampler`` is refused. With
    ``loader="full"`` it is PyG's own.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        arguments = _arguments(pyg.LightningLinkData, "link_sampler", given, named)
        super().__init__(**arguments)
        self.loader = arguments.get("loader", "neighbor")

    def dataloader(
        self,
        input_edges: Any,
        input_labels: Any = None,
        input_time: Any = None,
        input_id: Any = None,
        link_sampler: Any = None,
        **others: Any,
    ) -> DataLoader[Any]:
        """The loader of some links."""
        if self.loader == "full":
            return super().dataloader(input_edges, input_labels, input_time, input_id, link_sampler, **others)
        links = {"edge_label_index": input_edges, "edge_label": input_labels, "edge_label_time": input_time, "input_id": input_id}
        return self._keep(LinkNeighborLoader(self.data, **links, **others))
