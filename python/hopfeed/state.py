"""State of training at the ``hopfeed-server``s that own a graph's partitions: rows that anybody reads and writes.

``connect`` finds the owners, ``DistTensor`` is a table of rows. ``hopfeed.torch.DistEmbedding`` has rows that ranks learn.
Nobody here needs the dataset's folder: a server tells what it is.
"""

from __future__ import annotations

import atexit
import json
import operator
import os
import sys
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from hopfeed import _core
from hopfeed.errors import Error, InvalidError
from hopfeed.loader import as_array
from hopfeed.state_checkpoint import Numbers, StateCheckpoint, numbers_to_keep
from hopfeed.switches import is_switch

Array = np.ndarray[Any, Any]

# NumPy has no bfloat16: its rows are their bits there, as in files.
_NUMPY: dict[str, type[np.generic]] = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16, "int64": np.int64}
_FIRST_VALUES = ("zeros", "uniform")


_AT_EXIT = 5.0  # seconds for owners to answer a process that ends


class _Closes(Protocol):
    def _end(self, seconds: float | None) -> None: ...


_open: weakref.WeakSet[Owners] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Ranks leave before the interpreter ends, so that nobody waits for them. Owners that are gone keep nobody from ending."""
    until, failure = time.monotonic() + _AT_EXIT, None
    for owners in list(_open):
        try:
            owners._end(max(0, until - time.monotonic()))
        except Error as error:
            failure = failure or error
    if failure is not None:
        print(f"hopfeed: the process ends without the word of all owners of state: {failure}", file=sys.stderr)


def connect(
    servers: Sequence[str] | str,
    dataset: str | None = None,
    *,
    token_file: str | os.PathLike[str] | None = None,
    tls: bool = False,
    tls_ca: str | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    connect_timeout: float = 5,
    reconnect_deadline: float = 60,
) -> Owners:
    """Connects to the servers that own the state of a dataset's partitions.

    Args:
        servers: ``"HOST:PORT"``, ``"[IPv6]:PORT"`` or ``"unix:PATH"`` of each. Together they have all partitions, and each
            partition is at one of them.
        dataset: its name or fingerprint there; None where they have one only.
        token_file: file with the servers' token; default: that of HOPFEED_TOKEN, else none.
        tls: talk TLS, trusting what this machine trusts.
        tls_ca, tls_cert, tls_key: PEM files, as of :class:`hopfeed.Loader`.
        connect_timeout: seconds that all of them have to answer at the start.
        reconnect_deadline: seconds that a server which was lost is waited for.

    Raises:
        NotFoundError: no such dataset there, or nobody has one of its partitions.
        InvalidError: a partition is at two of them; an argument that cannot be.
        DeadlineError: some do not answer.
    """
    if isinstance(servers, str):
        servers = servers.split(",")
    if not isinstance(servers, (list, tuple)) or not servers:
        raise InvalidError(f"servers is {servers!r} ({type(servers).__name__}); give a list of addresses")
    for name, seconds in (("connect_timeout", connect_timeout), ("reconnect_deadline", reconnect_deadline)):
        if is_switch(seconds):
            raise InvalidError(f"{name} is {seconds!r}; give a number of seconds")
    given = {
        "servers": list(servers),
        "dataset": dataset,
        "token_file": token_file,
        "tls": tls,
        "tls_ca": tls_ca,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "connect_timeout": connect_timeout,
        "reconnect_deadline": reconnect_deadline,
    }
    return Owners(given)


class Owners:
    """The servers that own the state of a dataset, as :func:`connect` has found them.

    Tables are opened with it: :class:`DistTensor`, :class:`hopfeed.torch.DistEmbedding`. ``close()``, or the end of a
    ``with``, closes these too.
    """

    def __init__(self, options: Mapping[str, object]) -> None:
        self._core = _core.StateOwners({name: value for name, value in options.items() if value is not None})
        self._process = os.getpid()
        self._tables: weakref.WeakSet[Any] = weakref.WeakSet()
        self.meta: dict[str, Any] = json.loads(self._core.meta_text)
        """The dataset's ``meta.json``: types, attributes, splits."""
        _open.add(self)

    @property
    def num_owners(self) -> int:
        """Servers that own partitions."""
        return self._core.num_owners

    @property
    def fingerprint(self) -> str:
        """Of the dataset: the same on all cuts of a graph."""
        return str(self.meta["fingerprint"])

    @property
    def node_types(self) -> list[str]:
        """Names of the node types, by number."""
        return [node["name"] for node in self.meta["node_types"]]

    def close(self) -> None:
        """Closes all tables, then the connections. Where owners of one are gone that is raised once all are closed, and those of
        the others are not waited for."""
        self._end(None)

    def _end(self, seconds: float | None) -> None:
        _open.discard(self)
        if os.getpid() != self._process:
            return
        failure: Error | None = None
        try:
            for table in list(self._tables):
                try:
                    table._end(0 if failure else seconds)  # who waits for one of them in vain waits once
                except Error as error:
                    failure = failure or error
        finally:
            self._core.close()
        if failure is not None:
            raise failure

    def __enter__(self) -> Owners:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> str:
        raise InvalidError("connections to owners of state cannot be pickled; connect in each process")

    def _add(self, table: _Closes) -> None:
        self._tables.add(table)


class DistTensor:
    """A row for each node of a type, spread over the servers that own the partitions. Any process reads and writes rows at any
    time; DGL has the like by this name.

    **Ids are dataset ids**: those that a loader gives in ``dataset_id`` with ``dataset_ids=True``. Original ids, those of
    ``n_id``, cannot be told from them, and would be other rows.

    What is written is done exactly once, whatever happens to connections. Writes of one process to a row are done in their
    order, those of several in any. Whoever opens a table by a name that is there gets that one, and has to say the same of it.
    It lasts until its servers end, and goes back to checkpoints.

    Args:
        owners: what :func:`connect` gave.
        name: of the table; letters, digits, ``_``, ``-`` and ``.``.
        node_type: it has a row for each node of this type.
        width: numbers of a row.
        dtype: ``"float32"``, ``"float16"``, ``"bfloat16"`` or ``"int64"``. NumPy has no bfloat16: there its rows are their
            bits, as uint16; torch has them as they are.
        first_values: of rows that nobody has written: ``"zeros"``, or ``"uniform"``: random, of ``seed`` and the node, of
            length 1 in the mean.
        run: whose checkpoints it has, where it is to have any: a number that no other run gives, such as ``run`` of a
            ``DistEmbedding``.

    Raises:
        InvalidError: another table has this name; an argument that cannot be.
        UnsupportedError: a server keeps no state.
        StateLost: by all that reads or writes: a server was started again, and what it held is gone.
    """

    def __init__(
        self,
        owners: Owners,
        name: str,
        node_type: str,
        width: int,
        dtype: str = "float32",
        first_values: str = "zeros",
        seed: int = 0,
        *,
        run: int | None = None,
    ) -> None:
        if dtype not in _NUMPY:
            raise InvalidError(f"dtype is {dtype!r}; give {', '.join(_NUMPY)}, as text")
        if first_values not in _FIRST_VALUES:
            raise InvalidError(f"first_values is {first_values!r}; give {' or '.join(_FIRST_VALUES)}")
        table = {"name": name, "node_type": node_type, "width": whole("width", width), "dtype": dtype, "seed": whole("seed", seed)}
        self._table = table | {"first_values": first_values}
        self.run, self.attempt = 0 if run is None else whole("run", run), 0
        self._core = _core.StateTensor(core_of(owners), self._table, self.run, self.attempt)
        self.name, self.node_type, self.dtype = name, node_type, dtype
        self._numbers = Numbers(name)
        self._shape = (self._core.rows, table["width"])
        self._owners = owners  # it lives as long
        owners._add(self)

    @property
    def shape(self) -> tuple[int, int]:
        """(nodes of the type, width)."""
        return self._shape

    def __len__(self) -> int:
        return self._shape[0]

    def __repr__(self) -> str:
        return f"DistTensor({self.name!r}, {self.node_type!r}, shape={self._shape}, dtype={self.dtype!r})"

    def pull(self, ids: Any) -> Any:
        """The rows of dataset ids, in their order: [n, width], repeats allowed. torch tensors for a torch tensor, on its device,
        else NumPy's."""
        wanted = id_array(ids)
        rows = np.empty((len(wanted), self._shape[1]), _NUMPY[self.dtype])
        self._core.pull(wanted, rows.reshape(-1).view(np.uint8))
        if not is_tensor(ids):
            return rows
        torch = sys.modules["torch"]
        tensor = torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16) if self.dtype == "bfloat16" else torch.from_numpy(rows)
        return tensor.to(ids.device)

    def push(self, ids: Any, rows: Any) -> None:
        """Puts rows [n, width] in the place of those of dataset ids, the last one where an id is there twice. When it returns, they
        are there."""
        wanted = id_array(ids)
        self._core.push(wanted, self._bytes_of(rows, len(wanted)))

    def add(self, ids: Any, rows: Any) -> None:
        """Adds rows [n, width] to those that are there, both where an id is there twice. Sums of float16 and bfloat16 are made in
        float32 and rounded."""
        wanted = id_array(ids)
        self._core.add(wanted, self._bytes_of(rows, len(wanted)))

    def __getitem__(self, ids: Any) -> Any:
        return self.pull(self._listed(ids))

    def __setitem__(self, ids: Any, rows: Any) -> None:
        self.push(self._listed(ids), rows)

    def save(self, number: int | None = None) -> dict[str, Any]:
        """Has the servers write a checkpoint of the table, while nobody writes to it. One process calls.

        Returns what :meth:`restore` takes: a plain dict, which is a checkpoint once it lies in a file of yours.

        Args:
            number: of the checkpoint, above those before; by default the next one.

        Raises:
            InvalidError: it was opened without ``run``; the number is not above the last.
            NoSpaceError, InputOutputError: a server could not write; the checkpoints before stand.
        """
        if self.run == 0:
            raise InvalidError(f"table '{self.name}' was opened without a run, whose checkpoints it would have; open it with run=")
        number = self._numbers.next(number)
        shards = self._core.save(number)
        self._numbers.taken(number)
        return StateCheckpoint(self.name, self._owners.fingerprint, self.run, self.attempt, number, 0, shards).to_dict()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes the table back to a checkpoint, while nobody else reads or writes. One process calls; the others open the table anew
        afterwards. The table goes on with the run of the checkpoint. Rows may lie at other servers than before, and on another
        cut, where servers share their ``--state`` folder.

        Raises:
            InvalidError: ``state`` is of another table or dataset.
            CorruptError, NotFoundError: a file of it is damaged or missing; go back to another one.
        """
        checkpoint = StateCheckpoint.of(state, self.name, self._owners.fingerprint)
        self._core.close()
        self.run, self.attempt = checkpoint.run, checkpoint.attempt_after(self.attempt)
        core = _core.StateTensor(core_of(self._owners), self._table, self.run, self.attempt)
        core.restore(checkpoint.checkpoint, checkpoint.shards)
        self._core = core
        self._numbers.taken(checkpoint.checkpoint)

    def keep(self, checkpoints: Iterable[int]) -> None:
        """Removes the servers' files of all other checkpoints of the run. Call it once a newer one lies in your file."""
        if self.run == 0:
            raise InvalidError(f"table '{self.name}' was opened without a run, and has no checkpoints")
        self._core.keep(numbers_to_keep(checkpoints))

    def close(self) -> None:
        """Forgets the table; the servers keep it."""
        self._end(None)

    def _end(self, seconds: float | None) -> None:
        self._core.close()

    def _listed(self, ids: Any) -> Any:
        return np.arange(*ids.indices(len(self))) if isinstance(ids, slice) else ids

    def _bytes_of(self, rows: Any, count: int) -> Array:
        """Rows as the owners take them: of exactly this type, since no number is to change on its way."""
        wanted = f"{self.dtype} {[count, self._shape[1]]}"
        if is_tensor(rows):
            given = str(rows.dtype).removeprefix("torch.")
            if given != self.dtype:
                raise InvalidError(f"rows are {given} {list(rows.shape)}; give {wanted}")
            rows = rows.detach().cpu().contiguous()
            array = rows.view(sys.modules["torch"].int16).numpy() if self.dtype == "bfloat16" else rows.numpy()
        else:
            array = np.asarray(rows)
            if array.dtype != _NUMPY[self.dtype]:
                bits = " (their bits, as uint16, or a torch tensor)" if self.dtype == "bfloat16" else ""
                raise InvalidError(f"rows are {array.dtype.name} {list(array.shape)}; give {wanted}{bits}")
        if array.shape != (count, self._shape[1]):
            raise InvalidError(f"rows are {self.dtype} {list(array.shape)}; give {wanted}, a row for each id")
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def core_of(owners: object) -> _core.StateOwners:
    """The C++ side of ``owners``. Raises ``InvalidError`` for what is none."""
    if not isinstance(owners, Owners):
        raise InvalidError(f"owners is {owners!r} ({type(owners).__name__}); give what hopfeed.state.connect() gave")
    return owners._core


def is_tensor(given: Any) -> bool:
    """Whether it is a torch tensor. Imports nothing."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.Tensor)


def id_array(ids: Any) -> Array:
    """``ids`` as int64 [n] in the host's memory, wherever a tensor lies. Raises ``InvalidError`` for what are none."""
    array = as_array("ids", ids.detach().cpu() if is_tensor(ids) else ids, np.int64, 1)
    if array is None:
        raise InvalidError("ids is None; give dataset ids")
    return array


def whole(name: str, given: Any) -> int:
    """A whole number from 0 on. Raises ``InvalidError`` naming the argument."""
    try:
        number = -1 if is_switch(given) else operator.index(given)
    except TypeError:
        number = -1
    if not 0 <= number < 2**64:
        raise InvalidError(f"{name} is {given!r} ({type(given).__name__}); give a whole number from 0 on")
    return number
