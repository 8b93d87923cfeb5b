"""hopfeed's own loader: batches of NumPy arrays, for those who use neither PyG nor DGL."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from hopfeed import _core, keyed
from hopfeed.batch import Batch, EdgeType, _Names
from hopfeed.dataset import folder_of
from hopfeed.epochs import EpochIterable
from hopfeed.errors import InvalidError
from hopfeed.keywords import documented, signed
from hopfeed.ranks import this_rank
from hopfeed.switches import is_switch

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hopfeed.keywords import StreamKeywords

EdgeTypeName = Union[str, EdgeType]

# Arguments that are arrays: the type of their elements, and their dimensions.
_ARRAYS: dict[str, tuple[type, int]] = {
    "seeds": (np.int64, 1),
    "seed_mask": (np.bool_, 1),
    "seed_times": (np.int64, 1),
    "seed_weights": (np.float64, 1),
    "links": (np.int64, 2),
    "link_labels": (np.int64, 1),
    "link_times": (np.int64, 1),
}
# Arguments of loader_options() that a stream has too.
_IN_OTHER_FORM = ("servers", "edge_fanouts", "edge_type", "rank", "world_size")


class Loader(EpochIterable[Batch]):
    __doc__ = documented("""Iterates the batches of an epoch; each ``iter()`` begins the next one.

    A batch depends on the dataset, on the sampling options and seeds, on ``seed``, and on its place in the epoch, and on
    nothing else: not on workers, servers, ranks or what died meanwhile. Arrays may be NumPy's, torch's (in the host's
    memory) or lists; an edge type is ``"src__rel__dst"`` or a tuple of three. None stands for the default everywhere.

    Args:
        dataset (str or path): the dataset's folder, or with ``servers`` its name there.
        distributed (bool, default False): ask the process group of ``torch.distributed`` for ``rank`` and ``world_size``, else
            RANK and WORLD_SIZE as torchrun sets them, else Slurm.
        epoch (int, default 0): the first epoch.
        keys (bool, default False): batches have ``batch.keys``, what the tables that were imported call their nodes.
        seeds_by_key (list, array or path): seeds by these keys in place of ids; or a file with a key in each line, or .npy.
        {keywords}

    Raises:
        InvalidError: an argument that cannot be; the message names it.
        NotFoundError: no such dataset, split, type or attribute.
    """)

    _torch = False

    @signed
    def __init__(
        self,
        dataset: str | os.PathLike[str] | None = None,
        *,
        distributed: bool = False,
        epoch: int = 0,
        keys: bool = False,
        seeds_by_key: Any = None,
        **options: Unpack[StreamKeywords],
    ) -> None:
        given: dict[str, Any] = dict(options)
        if seeds_by_key is not None:
            given["seeds"] = keyed.seeds_by_key(seeds_by_key, dataset, given)
        self._keys = keyed.batch_keys(dataset, given) if keys else {}
        given |= loader_options(dataset=dataset, distributed=distributed, **{name: given.get(name) for name in _IN_OTHER_FORM})
        given |= {name: as_array(name, given.get(name), dtype, dimensions) for name, (dtype, dimensions) in _ARRAYS.items() if name != "links"}
        given["links"] = as_array("links", _links(given.get("links")), *_ARRAYS["links"])
        if given.get("fanouts") is not None:
            given["fanouts"] = fanout_list("fanouts", given["fanouts"])
        super().__init__(given, epoch=epoch)
        self._names = _Names(self.node_types, self.edge_types)

    def _convert(self, batch: _core.Batch) -> Batch:
        return Batch(batch, self._names, self._torch, self._keys)


def loader_options(
    *,
    dataset: str | os.PathLike[str] | None,
    servers: Sequence[str] | str | None,
    edge_fanouts: Mapping[EdgeTypeName, Sequence[int]] | None = None,
    edge_type: EdgeTypeName | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    distributed: bool = False,
) -> dict[str, Any]:
    """Those of a stream's options that Python writes in another form.

    Raises:
        InvalidError: naming the argument.
    """
    if isinstance(servers, str):
        servers = servers.split(",")
    if servers is not None and not isinstance(servers, (list, tuple)):
        raise InvalidError(f"servers is {servers!r} ({type(servers).__name__}); give a list of addresses")
    if edge_fanouts is not None and not isinstance(edge_fanouts, Mapping):
        raise InvalidError(f"edge_fanouts is {edge_fanouts!r}; give a dict from edge types to lists of whole numbers")
    if dataset is None and servers is None:
        raise InvalidError("dataset is missing; give a dataset folder, or servers")
    if distributed:
        if rank is not None or world_size is not None:
            raise InvalidError("distributed=True finds rank and world_size by itself; give one or the other")
        rank, world_size = this_rank()
    if (rank is None) != (world_size is None):
        raise InvalidError("rank and world_size go together; give both or leave both out")
    return {
        "dataset": None if dataset is None else folder_of("dataset", dataset),
        "servers": None if servers is None else list(servers),
        "edge_fanouts": None
        if edge_fanouts is None
        else {edge_type_name(edge): fanout_list(f"edge_fanouts[{edge!r}]", fanouts) for edge, fanouts in edge_fanouts.items()},
        "edge_type": None if edge_type is None else edge_type_name(edge_type),
        "rank": rank,
        "world_size": world_size,
    }


def edge_type_name(edge_type: EdgeTypeName) -> str:
    """``("a", "to", "b")`` as ``"a__to__b"``; text as it is."""
    return edge_type if isinstance(edge_type, str) else "__".join(edge_type)


def fanout_list(name: str, given: Any) -> list[int]:
    """A number of neighbours for each hop, as a list; NumPy's and torch's arrays will do.

    Raises:
        InvalidError: naming the argument, what was given and what is wanted.
    """
    numbers = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(numbers, (str, bytes)) or not isinstance(numbers, Sequence):
        raise InvalidError(f"{name} is {given!r}; give a list, a number of neighbours for each hop")
    if not all(_is_fanout(number) for number in numbers):
        raise InvalidError(f"{name} is {list(numbers)}; give whole numbers from 0 on, or -1 for all neighbours")
    return [operator.index(number) for number in numbers]


def _is_fanout(number: Any) -> bool:
    if is_switch(number):
        return False
    try:
        return operator.index(number) >= -1
    except TypeError:
        return False


def _links(given: Any) -> Any:
    """An empty list of links has no second dimension of its own."""
    shape = np.shape(given) if isinstance(given, (list, tuple)) else getattr(given, "shape", None)
    return np.empty((0, 2), np.int64) if shape is not None and tuple(shape) == (0,) else given


def as_array(name: str, given: Any, dtype: type, dimensions: int) -> np.ndarray[Any, Any] | None:
    """``given`` as a C-contiguous array; a torch tensor in the host's memory will do. None stays None.

    Raises:
        InvalidError: naming the argument, what was given and what is wanted.
    """
    if given is None:
        return None
    wanted = f"an array of {np.dtype(dtype).name} with {dimensions} dimension{'s' * (dimensions > 1)}"
    device = getattr(given, "device", None)
    if device is not None and getattr(device, "type", "cpu") != "cpu":
        raise InvalidError(f"{name} lies on {device}; give it in the host's memory ({name}.cpu())")
    try:
        array = np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidError(f"{name} is no array ({error}); give {wanted}") from None
    kinds = {"i": "iu", "b": "b", "f": "fiu"}[np.dtype(dtype).kind]
    if array.ndim != dimensions or (array.dtype.kind not in kinds and array.size):
        raise InvalidError(f"{name} is {array.dtype.name} {list(array.shape)}; give {wanted}")
    return np.ascontiguousarray(array, dtype=dtype)


