"""PyG's ``NeighborLoader``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch_geometric.loader

from hopfeed.batch import EdgeType
from hopfeed.errors import InvalidError
from hopfeed.loader import as_array
from hopfeed.pyg import arguments
from hopfeed.pyg.base import PygLoader
from hopfeed.pyg.graph import Graph
from hopfeed.pyg.torch_loader import Sampling
from hopfeed.tool import PathLike

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hopfeed.keywords import PygKeywords


class NeighborLoader(PygLoader, torch_geometric.loader.NeighborLoader):
    """``torch_geometric.loader.NeighborLoader``, sampled by hopfeed.

    An instance of it, too, and so of torch's ``DataLoader``; of their constructors only the last one runs.

    Arguments, defaults and batches are PyG's (docs/python.md has them all). Each ``iter()`` is the next epoch.

    Args:
        data: a ``Data`` or ``HeteroData`` in the host's memory, the path of a hopfeed folder, or None with ``servers``.
        num_neighbors: neighbours drawn per node in each hop, -1 takes all; a dict gives a list for each edge type.
        input_nodes: seeds: None (all nodes; with ``sampler="cluster"`` one of each cluster), int64 [S], bool [N], or with several
            types (type, one of these).
        input_time: int64 [S], the time of each seed.
        replace, subgraph_type, disjoint, temporal_strategy, time_attr, weight_attr, transform: as in PyG.
        batch_size, shuffle, drop_last, num_workers: as in torch's DataLoader; workers are hopfeed's processes.
        split, node_type: in place of ``input_nodes``: the nodes of this split, of the only type that has it or of this one.
            A graph in memory has train (``train_mask``), valid (``val_mask``) and test (``test_mask``).
        seed: of everything random: the same seed gives the same batches on every machine.
        edge_ids: batches have ``e_id``; False is cheaper.
        rank, world_size, distributed: share each epoch among trainers; ``distributed=True`` asks the process group, else
            the environment. By default nothing is shared out, since PyG's examples share out the seeds themselves.
        servers: addresses of ``hopfeed-server`` in place of ``data``.
        cache_dir, cache_limit, progress: where a graph in memory is kept as a hopfeed folder for the next run, the bytes
            that all of them may take, and whether making one shows a bar. None: a temporary folder.
        others: hopfeed's options of ``hopfeed.Loader``, and those of torch's DataLoader that change speed alone.

    Raises:
        InvalidError: an argument that cannot be. UnsupportedError: one that PyG knows and hopfeed cannot honour.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Sequence[int] | Mapping[EdgeType, Sequence[int]] | Any = None,
        input_nodes: Any = None,
        input_time: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Any = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        split: str | None = None,
        node_type: str | None = None,
        batch_size: int = 1,
        shuffle: bool = False,
        num_workers: int = 0,
        seed: int = 0,
        edge_ids: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
        distributed: bool = False,
        servers: Sequence[str] | str | None = None,
        cache_dir: PathLike | None = None,
        cache_limit: int = 1 << 40,
        progress: bool | None = None,
        **others: Unpack[PygKeywords],
    ) -> None:
        options: dict[str, Any] = self._keep_arguments(locals(), others)
        if input_time is not None and time_attr is None:
            raise InvalidError("input_time is given and time_attr is not; name the attribute that tells times")

        chosen = {"split": split, "node_type": node_type, "input_nodes": input_nodes}
        arguments.refuse_both(chosen)

        def start_of(graph: Graph) -> dict[str, Any]:
            def every(number: int) -> dict[str, Any]:
                if others.get("sampler") == "cluster":
                    return graph.clusters(number, others.get("cluster"))
                return {"seeds": np.arange(graph.num_nodes(number))}

            if split is None:
                number, seeds = arguments.seeds(input_nodes, graph.node_keys, graph.num_nodes, every)
            else:
                types = [name if key is None else key for name, key in zip(graph.node_names, graph.node_keys)]
                number = arguments.split_number(chosen, types, graph.node_splits)
                seeds = graph.split(number, split)
            start: dict[str, Any] = {"node_type": graph.node_names[number], **seeds}
            if input_time is not None:
                start["seed_times"] = as_array("input_time", input_time, np.int64, 1)
                count = graph.num_seeds(start)
                if len(start["seed_times"]) != count:
                    raise InvalidError(f"input_time has {len(start['seed_times'])} times; there are {count} {'input_nodes' if split is None else 'seeds'}")
            return start

        options |= {"transform_sampler_output": transform_sampler_output, "neighbor_sampler": neighbor_sampler}
        options |= {"is_sorted": is_sorted, "filter_per_worker": filter_per_worker}
        super().__init__(
            data,
            num_neighbors=num_neighbors,
            sampling={"replace": replace, "disjoint": disjoint, "temporal_strategy": temporal_strategy, "seed": seed},
            weight_attr=weight_attr,
            time_attr=time_attr,
            subgraph_type=subgraph_type,
            directed=directed,
            extra={},
            start_of=start_of,
            fixed={"input_nodes": input_nodes, "input_time": input_time},
            transform=transform,
            batch_size=batch_size,
            shuffle=shuffle,
            num_workers=num_workers,
            edge_ids=edge_ids,
            servers=servers,
            cache_dir=cache_dir,
            cache_limit=cache_limit,
            progress=progress,
            rank=rank,
            world_size=world_size,
            distributed=distributed,
            others=options,
        )

    @property
    def node_sampler(self) -> Sampling:  # type: ignore[override]
        """What PyG asks its sampler: ``num_neighbors`` and the other arguments of sampling."""
        return Sampling(self)
