"""``DistGraph``: a graph as one, wherever its partitions lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from hopfeed.batch import EdgeType
from hopfeed.distributed.nodes import Nodes, nodes_of
from hopfeed.distributed.partition_book import PartitionBook
from hopfeed.distributed.place import here, rank_and_world
from hopfeed.distributed.refused import OF_GRAPH, refuse
from hopfeed.errors import NotFoundError, UnsupportedError
from hopfeed.to_pyg import _MASK_OF_SPLIT


class DistGraph:
    """A graph of a folder, of several machines' folders, or of servers, as :func:`initialize` was told.

    Sizes, types, and rows of any nodes by original id: ``g.ndata["x"][ids]``. It is for code around training: each read is a journey
    of some milliseconds, and loaders' batches have their rows with them.

    Args:
        graph_name: of the dataset, or its fingerprint; None: the one that is there.
        part_config: DGL's; refused.
        gpb: DGL's; refused.

    Raises:
        InvalidError: ``initialize`` was not called; the folder has another dataset. NotFoundError: the servers have none of that name.
    """

    def __init__(self, graph_name: str | None = None, *, part_config: Any = None, gpb: Any = None) -> None:
        for name, given in (("part_config", part_config), ("gpb", gpb)):
            if given is not None:
                raise UnsupportedError(f"{name} is given, and the dataset tells its partitions itself; leave {name} out")
        self._nodes = nodes_of(here(), graph_name)

    @property
    def name(self) -> str:
        """Of the dataset."""
        return str(self._nodes.meta["name"])

    @property
    def meta(self) -> dict[str, Any]:
        """The dataset's ``meta.json``."""
        return self._nodes.meta

    @property
    def ntypes(self) -> list[str]:
        """Names of the node types."""
        return list(self._nodes.node_types)

    @property
    def canonical_etypes(self) -> list[EdgeType]:
        """(source type, relation, destination type) of the edge types."""
        return list(self._nodes.edge_types)

    @property
    def etypes(self) -> list[str]:
        """Relations of the edge types."""
        return self._nodes.relations

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one type of nodes and one of edges."""
        return len(self.ntypes) == len(self.etypes) == 1

    def to_canonical_etype(self, etype: EdgeType | str) -> EdgeType:
        """The three names of an edge type, by its relation."""
        return self._nodes.edge_key(etype)

    def get_ntype_id(self, ntype: str | None = None) -> int:
        """The place of a type among ``ntypes``."""
        return self.ntypes.index(self._nodes.node_meta(ntype)["name"])

    def get_etype_id(self, etype: EdgeType | str | None = None) -> int:
        """The place of a type among ``etypes``."""
        return self.canonical_etypes.index(self._nodes.edge_key(etype))

    def rank(self) -> int:
        """Which trainer this is."""
        return rank_and_world()[0]

    def num_nodes(self, ntype: str | None = None) -> int:
        """Of a node type; of all together without a name."""
        metas = self._nodes.meta["node_types"] if ntype is None else [self._nodes.node_meta(ntype)]
        return sum(int(node["count"]) for node in metas)

    def num_edges(self, etype: EdgeType | str | None = None) -> int:
        """Of an edge type; of all together without a name."""
        metas = self._nodes.meta["edge_types"] if etype is None else [self._nodes.edge_meta(etype)]
        return sum(int(edge["count"]) for edge in metas)

    number_of_nodes, number_of_edges = num_nodes, num_edges

    def num_classes(self, ntype: str | None = None) -> int:
        """Of the labels ``y``; 0 where there are none."""
        return int(self._nodes.node_meta(ntype).get("num_classes", 0))

    def in_degrees(self, ids: Any, etype: EdgeType | str | None = None) -> torch.Tensor:
        """int64 [n] edges of the type into each of these nodes. The rows are read whole."""
        return self._nodes.in_degrees(etype, ids)

    def get_partition_book(self) -> PartitionBook:
        """Which partition has which nodes."""
        return PartitionBook(self._nodes)

    @property
    def ndata(self) -> NodeData:
        """Attributes and splits of the nodes, where there is one type; else ``nodes[ntype].data``."""
        return NodeData(self._nodes, None)

    @property
    def edata(self) -> LinkData:
        """Splits of the edges, where there is one type; else ``edges[etype].data``."""
        return LinkData(self._nodes, None)

    @property
    def nodes(self) -> _ByType:
        """``g.nodes[ntype].data``."""
        return _ByType(self._nodes, NodeData)

    @property
    def edges(self) -> _ByType:
        """``g.edges[etype].data``."""
        return _ByType(self._nodes, LinkData)

    def __getattr__(self, name: str) -> Any:
        raise refuse(OF_GRAPH, "DistGraph", name)

    def __repr__(self) -> str:
        return f"DistGraph('{self.name}', {self.num_nodes()} nodes, {self.num_edges()} edges, {self.meta['partitions']} partitions)"


class NodeData:
    """``data[name]`` of a node type: an attribute's rows by id (:class:`NodeRows`), or a split (:class:`NodeMask`): ``train_mask``,
    ``val_mask``, ``test_mask``, or another split's name with ``_mask``. A mask that is an attribute too, as :func:`hopfeed.from_pyg`
    stores it, is the split."""

    def __init__(self, nodes: Nodes, node_type: str | None) -> None:
        self._nodes, self._meta = nodes, nodes.node_meta(node_type)
        self._splits = {_mask_of(split): split for split in self._meta["splits"]}

    def keys(self) -> list[str]:
        return [name for attr in self._meta["attrs"] if (name := attr["name"]) not in self._splits] + list(self._splits)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __getitem__(self, name: str) -> NodeRows | NodeMask:
        if name in self._splits:
            return NodeMask(self._nodes, self._meta, self._splits[name])
        if name in self.keys():
            return NodeRows(self._nodes, self._meta, name)
        raise NotFoundError(f"node type '{self._meta['name']}' has no '{name}'; it has {self.keys()}")

    def __setitem__(self, name: str, _: Any) -> None:
        raise UnsupportedError(f"ndata['{name}'] cannot be set, since datasets do not change; keep rows in a DistTensor")


class NodeRows:
    """Rows of an attribute: ``rows[ids]`` are tensors, wherever the nodes lie."""

    def __init__(self, nodes: Nodes, meta: dict[str, Any], name: str) -> None:
        self._nodes, self._node_type, self.name = nodes, meta["name"], name
        self.shape = (int(meta["count"]), *next(attr["shape"] for attr in meta["attrs"] if attr["name"] == name))

    def __getitem__(self, ids: Any) -> torch.Tensor:
        return self._nodes.rows(self._node_type, self.name, ids)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"NodeRows('{self.name}', '{self._node_type}', shape={self.shape})"


class NodeMask:
    """A split as a mask: ``mask[ids]`` are bools, ``mask.ids()`` its nodes, in the split's order. ``node_split`` takes it as it is."""

    def __init__(self, nodes: Nodes, meta: dict[str, Any], split: str) -> None:
        self._nodes, self.node_type, self.split, self._count = nodes, meta["name"], split, int(meta["count"])

    def ids(self) -> torch.Tensor:
        """int64 [S]."""
        return torch.from_numpy(self._nodes.split(self.node_type, self.split).copy())

    def __getitem__(self, ids: Any) -> torch.Tensor:
        mask = torch.zeros(self._count, dtype=torch.bool)
        mask[self.ids()] = True
        return mask[torch.from_numpy(self._nodes.ids(self.node_type, ids))]

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"NodeMask('{self.split}', '{self.node_type}')"


class LinkData:
    """``data[name]`` of an edge type: its splits (:class:`LinkMask`), named as those of nodes are."""

    def __init__(self, nodes: Nodes, edge_type: EdgeType | str | None) -> None:
        self._nodes, self._meta = nodes, nodes.edge_meta(edge_type)
        self._splits = {_mask_of(split): split for split in self._meta.get("splits", {})}

    def keys(self) -> list[str]:
        return list(self._splits)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __getitem__(self, name: str) -> LinkMask:
        if name in self._splits:
            return LinkMask(self._nodes, self._meta, self._splits[name])
        if name in [attr["name"] for attr in self._meta["attrs"]]:
            raise UnsupportedError(f"edata['{name}'] cannot be read by edge; give the loader edge_attrs=['{name}'], and blocks have it in edata")
        kind = "__".join((self._meta["src"], self._meta["rel"], self._meta["dst"]))
        raise NotFoundError(f"edge type '{kind}' has no '{name}'; it has {self.keys()} (hopfeed-partition split-links makes splits)")


class LinkMask:
    """A split of links: ``mask.pairs()`` are their ends. ``edge_split`` takes it as it is, negatives of the split too."""

    def __init__(self, nodes: Nodes, meta: dict[str, Any], split: str) -> None:
        self._nodes, self.split = nodes, split
        self.edge_type: EdgeType = (meta["src"], meta["rel"], meta["dst"])

    def pairs(self) -> torch.Tensor:
        """int64 [2, P] source and destination of each, original ids."""
        return torch.from_numpy(self._nodes.link_split(self.edge_type, self.split)[0])

    def labels(self) -> torch.Tensor | None:
        """int64 [P] a label for each: of held-out links 1, of negatives beside them 0. None where the split has no labels."""
        labels = self._nodes.link_split(self.edge_type, self.split)[1]
        return None if labels is None else torch.from_numpy(labels)

    def __repr__(self) -> str:
        return f"LinkMask('{self.split}', {self.edge_type})"


class _ByType:
    """``[type].data``."""

    def __init__(self, nodes: Nodes, kind: type[Any]) -> None:
        self._nodes, self._kind = nodes, kind

    def __getitem__(self, name: Any) -> _Data:
        return _Data(self._kind(self._nodes, name))

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise refuse(OF_GRAPH, "DistGraph", "nodes()" if self._kind is NodeData else "edges()")


class _Data:
    def __init__(self, data: Any) -> None:
        self.data = data


def _mask_of(split: str) -> str:
    return _MASK_OF_SPLIT.get(split, f"{split}_mask")
