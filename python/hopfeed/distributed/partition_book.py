"""Which partition has which nodes."""

from __future__ import annotations

from typing import Any

import torch

from hopfeed.batch import EdgeType
from hopfeed.distributed.nodes import Nodes
from hopfeed.distributed.place import hosts_of, rank_and_world
from hopfeed.distributed.refused import OF_BOOK, refuse


class PartitionBook:
    """What ``DistGraph.get_partition_book()`` gives. Ids are original ones; an edge lies with its destination."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def num_partitions(self) -> int:
        """Of the cut."""
        return int(self._nodes.meta["partitions"])

    @property
    def ntypes(self) -> list[str]:
        """Names of the node types."""
        return list(self._nodes.node_types)

    @property
    def etypes(self) -> list[str]:
        """Relations of the edge types."""
        return self._nodes.relations

    @property
    def canonical_etypes(self) -> list[EdgeType]:
        """(source type, relation, destination type) of the edge types."""
        return list(self._nodes.edge_types)

    def to_canonical_etype(self, etype: EdgeType | str) -> EdgeType:
        """The three names of an edge type, by its relation."""
        return self._nodes.edge_key(etype)

    @property
    def partid(self) -> int:
        """The partition that this trainer is beside."""
        rank, world_size = rank_and_world()
        return partition_of_rank(rank, world_size, self.num_partitions(), hosts_of(world_size))

    def nid2partid(self, ids: Any, ntype: str | None = None) -> torch.Tensor:
        """int64 [n] the partition of each node."""
        return torch.from_numpy(self._nodes.partitions(ntype, ids))

    def partid2nids(self, partid: int, ntype: str | None = None) -> torch.Tensor:
        """int64 the nodes of a partition, by rising id."""
        return torch.from_numpy(self._nodes.of_partition(ntype, partid))

    def metadata(self) -> list[dict[str, int]]:
        """Of each partition: ``machine_id``, ``num_nodes``, ``num_edges``, of all types together."""
        meta = self._nodes.meta
        return [
            {
                "machine_id": part,
                "num_nodes": sum(int(node["partition_offsets"][part + 1] - node["partition_offsets"][part]) for node in meta["node_types"]),
                "num_edges": sum(int(edge["partition_edges"][part]) for edge in meta["edge_types"]),
            }
            for part in range(self.num_partitions())
        ]

    def __getattr__(self, name: str) -> Any:
        raise refuse(OF_BOOK, "PartitionBook", name)


def site_of_rank(rank: int, world_size: int, partitions: int, hosts: int) -> int:
    """Partition p is at site p modulo sites, as ``hopfeed-launch`` puts it on host p modulo hosts; a site is a host, or several where
    hosts are more than partitions. Launchers number ranks host by host."""
    return rank * hosts // world_size % min(hosts, partitions)


def partition_of_rank(rank: int, world_size: int, partitions: int, hosts: int = 1) -> int:
    """Which of its site's partitions a trainer is beside: these are dealt to the site's ranks in equal stretches. With one host it is
    the rule of ``core/seeds/split_by_partition.h``."""
    site = site_of_rank(rank, world_size, partitions, hosts)
    ranks = [other for other in range(world_size) if site_of_rank(other, world_size, partitions, hosts) == site]
    own, place = range(site, partitions, min(hosts, partitions)), ranks.index(rank)
    if len(ranks) < len(own):
        return own[place]  # those of no trainer are shared out
    return own[next(i for i in range(len(own)) if place < begin_of(i + 1, len(ranks), len(own)))]


def begin_of(part: int, count: int, parts: int) -> int:
    """The first of ``count`` things that part ``part`` of ``parts`` has."""
    return count // parts * part + min(part, count % parts)
