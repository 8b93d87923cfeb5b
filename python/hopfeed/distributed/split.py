"""Which seeds each trainer takes: those of the partition that it is beside, so that most rows of its batches are on its machine.

The rule is that of ``core/seeds/split_by_partition.h``, host by host. It hangs on the cut, on the number of trainers and on how many
are on each host; a deal (``distributed=True`` at the loader) hangs on none of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from hopfeed.batch import EdgeType
from hopfeed.distributed.graph import LinkMask, NodeMask
from hopfeed.distributed.nodes import nodes_of
from hopfeed.distributed.partition_book import PartitionBook, begin_of, partition_of_rank, site_of_rank
from hopfeed.distributed.place import here, hosts_of, rank_and_world
from hopfeed.errors import InvalidError, UnsupportedError

Array = np.ndarray[Any, Any]


def node_split(
    nodes: Any,
    partition_book: PartitionBook | None = None,
    ntype: str | None = None,
    rank: int | None = None,
    force_even: bool = True,
    node_trainer_ids: Any = None,
    *,
    world_size: int | None = None,
) -> torch.Tensor:
    """The nodes that this trainer takes, original ids, in their order within each partition.

    Args:
        nodes: a mask of all nodes, such as ``g.ndata["train_mask"]``, or ids.
        partition_book: ``g.get_partition_book()``; by default that of the graph that is there.
        ntype: their type, where there are several.
        rank, world_size: by default this trainer, of all.
        force_even: every trainer gets the same number, so that all make as many batches, as DDP needs. Those whose partition has too
            few take what others have too many of, those of their host first; where the number does not divide, the last ones, fewer than
            there are trainers, are left out, and no node comes twice. False, for evaluation: each takes all nodes of its partition, shared evenly with the
            other trainers beside it, and nodes of partitions without a trainer are shared out on their host. Then each node comes exactly once.
        node_trainer_ids: DGL's; refused.

    Raises:
        InvalidError: fewer nodes than trainers with ``force_even``; an id that is no node.
    """
    if node_trainer_ids is not None:
        raise UnsupportedError("node_trainer_ids is given, and trainers take nodes by partition; leave it out, or give each loader its own ids")
    book = _book(partition_book)
    if isinstance(nodes, NodeMask):
        ntype, nodes = nodes.node_type if ntype is None else ntype, nodes.ids()
    wanted = book._nodes.ids(ntype, nodes)
    mine = _mine(book, book._nodes.partitions(ntype, wanted), rank, world_size, force_even)
    return torch.from_numpy(wanted[mine])


def edge_split(
    edges: Any,
    partition_book: PartitionBook | None = None,
    etype: EdgeType | str | None = None,
    rank: int | None = None,
    force_even: bool = True,
    edge_trainer_ids: Any = None,
    *,
    world_size: int | None = None,
) -> torch.Tensor:
    """The links that this trainer takes: int64 [2, n] sources and destinations, original ids. A link lies with its destination.

    Args:
        edges: a split, such as ``g.edata["train_mask"]``, or pairs [2, E]. Masks and ids of edges are refused: an edge's ends cannot
            be looked up by its id where edges lie on several machines.
        etype: their type, where there are several.
        all other: as of :func:`node_split`.
    """
    if edge_trainer_ids is not None:
        raise UnsupportedError("edge_trainer_ids is given, and trainers take links by partition; leave it out, or give each loader its own pairs")
    book = _book(partition_book)
    if isinstance(edges, LinkMask):
        etype, edges = edges.edge_type if etype is None else etype, edges.pairs()
    pairs = pairs_of("edges", edges)
    source_type, _, destination_type = book._nodes.edge_key(etype)
    book._nodes.ids(source_type, pairs[0])  # which it checks
    partitions = book._nodes.partitions(destination_type, pairs[1])
    mine = _mine(book, partitions, rank, world_size, force_even)
    return torch.from_numpy(np.ascontiguousarray(pairs[:, mine]))


def pairs_of(name: str, given: Any) -> Array:
    """``given`` as int64 [2, P]. Raises ``InvalidError`` naming the argument."""
    if isinstance(given, (tuple, list)) and len(given) == 2 and isinstance(given[0], torch.Tensor):
        given = torch.stack(tuple(given))
    array = np.asarray(given.detach().cpu() if isinstance(given, torch.Tensor) else given)
    if array.ndim != 2 or len(array) != 2 or array.dtype.kind not in "iu":
        raise InvalidError(f"{name} is {array.dtype.name} {list(array.shape)}; give pairs of nodes [2, P]: sources, destinations; or a split of g.edata")
    return np.ascontiguousarray(array, np.int64)


def _book(given: PartitionBook | None) -> PartitionBook:
    if given is not None and not isinstance(given, PartitionBook):
        raise InvalidError(f"partition_book is {given!r}; give g.get_partition_book()")
    return PartitionBook(nodes_of(here())) if given is None else given


def _mine(book: PartitionBook, partitions: Array, rank: int | None, world_size: int | None, force_even: bool) -> Array:
    rank, world_size = rank_and_world(rank, world_size)
    return _positions(partitions, book.num_partitions(), rank, world_size, force_even, hosts_of(world_size))


def _positions(partitions: Array, count: int, rank: int, world_size: int, force_even: bool, hosts: int = 1) -> Array:
    """Positions that one trainer takes, of things that lie in these of ``count`` partitions."""
    share = len(partitions) // world_size
    if force_even and share == 0:
        raise InvalidError(
            f"{len(partitions)} seeds are shared by {world_size} trainers, and force_even gives each as many: none; give more, or force_even=False"
        )
    beside = [partition_of_rank(r, world_size, count, hosts) for r in range(world_size)]
    at_site = [site_of_rank(r, world_size, count, hosts) for r in range(world_size)]
    taken: list[Array] = [np.empty(0, np.int64)] * world_size
    sites = min(hosts, count)
    left: list[list[Array]] = [[np.empty(0, np.int64)] for _ in range(sites)]  # of each, what nobody beside it takes
    for part in range(count):
        ranks, of_part = [r for r in range(world_size) if beside[r] == part], np.flatnonzero(partitions == part)
        if not ranks:
            left[part % sites].append(of_part)
        for i, r in enumerate(ranks):
            stretch = of_part[begin_of(i, len(of_part), len(ranks)) : begin_of(i + 1, len(of_part), len(ranks))]
            kept = min(len(stretch), share) if force_even else len(stretch)
            taken[r] = stretch[:kept]
            left[part % sites].append(stretch[kept:])

    def share_out(spare: Array, ranks: list[int]) -> Array:
        """To those that have too few, or, where nothing is evened out, to all in turn. Returns the rest."""
        begin = 0
        for i, r in enumerate(ranks):
            end = min(begin + share - len(taken[r]), len(spare)) if force_even else begin_of(i + 1, len(spare), len(ranks))
            taken[r], begin = np.concatenate([taken[r], spare[begin:end]]), end
        return spare[begin:]

    rest = [share_out(np.concatenate(left[site]), [r for r in range(world_size) if at_site[r] == site]) for site in range(sites)]
    share_out(np.concatenate(rest), list(range(world_size)))
    return taken[rank]
