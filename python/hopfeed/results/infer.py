"""``hopfeed.infer``: every node's rows of a model, layer by layer, each layer once for every node from all its in-neighbours."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from hopfeed.dataset import Dataset, folder_of
from hopfeed.errors import InvalidError, NoSpaceError, NotFoundError, UnsupportedError
from hopfeed.folders import TemporaryFolder
from hopfeed.results.folder import LOCK, MANIFEST, WORK, Files, lock, read_json
from hopfeed.results.manifest import FORMAT, VERSION
from hopfeed.results.output import FORMATS, Output, require_packages
from hopfeed.results.read import Results, read_results
from hopfeed.switches import is_switch
from hopfeed.version import __version__

if TYPE_CHECKING:
    import torch

Array = np.ndarray[Any, Any]
Attribute = Union[str, Any]  # the name of an attribute, or rows by original id
LEAST_MEMORY = 1 << 20


def infer(
    layers: Any,
    data: str | os.PathLike[str] | Dataset,
    out: str | os.PathLike[str] | None = None,
    *,
    x: Attribute | Mapping[str, Attribute] = "x",
    edge_weight: str | None = None,
    edge_attr: str | None = None,
    act: Callable[[Any], Any] | None = None,
    device: Any = "cpu",
    memory: int | str = "4G",
    node_type: str | None = None,
    nodes: Any = None,
    name: str = "embeddings",
    format: str = "npy",
    dtype: str = "float32",
    work: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    check_finite: bool = False,
    progress: bool = True,
    results: str | os.PathLike[str] | None = None,
    **peers: Any,
) -> Any:
    """Computes every node's rows, each layer once for all nodes, from all their in-neighbours.

    The rows are those of the layers' forward over the whole graph, up to the order in which numbers are added. A run that was
    killed goes on where it was when the same call is made again.

    Where a graph lies on several machines, each makes the same call, with its partitions, and writes their rows alone. What they
    need of each other they ask the server beside each run for: ``hopfeed-server --results``.

    Args:
        layers: a list of layers, called as ``layer((x_source, x_own), edge_index)``, or ``layer(x_source, x_own, edge_index)``
            where these are its arguments; a model of PyG with ``convs`` (GraphSAGE, GCN, GAT, GIN, ...); HeteroConv, or a list
            of them; or what ``to_hetero`` has made.
        data: a dataset's folder, all partitions in it, or a Dataset.
        out: the folder of the results; None: they are given back.
        x: the attribute that the first layer reads, or rows by original id; by node type in a dict.
        edge_weight, edge_attr: attributes of edges, for layers with arguments of these names.
        act: what is done to rows between the layers of a list.
        memory: that blocks take, bytes or "4G": those of the model and of the graph's mapped files come on top.
        node_type: whose results are written; all types without.
        nodes: original ids, or a mask: only these nodes' rows are written. A dict by type where there are several.
        name: of the results, a folder in ``out``.
        format: of the results: npy or parquet.
        dtype: of the results: float32 or float16.
        work: where layers lie between; in ``out`` without, or in the system's temporary folder.
        overwrite: begins anew whatever another run has left or made in ``out``.
        check_finite: NaN and infinity are errors that name the node and the layer.
        progress: a bar, where the package tqdm is there.
        results: over several machines, the folder of the rows between layers that this machine's server gives to the others.
        peers: which partitions are here, and who has the others: ``partitions``, ``peers``, ``peer_deadline`` and the like, as
            loaders take them.

    Returns:
        Results: of the folder; over several machines, of this machine's partitions. Without ``out`` a tensor, a row for each node in
        the order of original ids (or of ``nodes``); a dict of such by node type where layers are of several types.

    Raises:
        InvalidError, NotFoundError, UnsupportedError: an argument, or a layer that cannot be computed by blocks; it is named.
        BusyError: another run writes to ``out``.
        NoSpaceError: the memory, or the disk, is too small.
        CorruptError: a file that is not as it was written.
        DeadlineError: another machine computes nothing, or no server answers, for ``peer_deadline``.
    """
    options = _Options(
        x=x, edge={name: value for name, value in (("edge_weight", edge_weight), ("edge_attr", edge_attr)) if value is not None},
        act=act, device=device, memory=_bytes(memory), node_type=node_type, nodes=nodes, name=_name(name), format=format, dtype=dtype,
        overwrite=overwrite, check_finite=check_finite, progress=progress, layers=_folder("results", results),
        peers={name: value for name, value in peers.items() if value is not None},
    )  # fmt: skip
    dataset = data if isinstance(data, Dataset) else Dataset(folder_of("data", data))
    if out is not None:
        return _into(Path(out), None if work is None else Path(work), layers, dataset, options)
    if options.peers:
        raise InvalidError(f"{next(iter(options.peers))} is given without out; a machine writes its own partitions' rows: give out=, a folder")
    with TemporaryFolder() as temporary:
        made = _into(temporary / "results", temporary / "work" if work is None else Path(work), layers, dataset, options, keep=False)
        return options.tensors(made)


@dataclass
class _Options:
    """What the user gave, beside layers, dataset and folders.

    Attributes:
        layers: the folder of rows between layers, where it is one of its own.
        several: whether results are of several types.
    """

    x: Any
    edge: dict[str, str]
    act: Callable[[Any], Any] | None
    device: Any
    memory: int
    node_type: str | None
    nodes: Any
    name: str
    format: str
    dtype: str
    overwrite: bool
    check_finite: bool
    progress: bool
    layers: Path | None
    peers: dict[str, Any]
    several: bool = False

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InvalidError(f"format is {self.format!r}; give one of {', '.join(FORMATS)}")
        if self.dtype not in ("float32", "float16"):
            raise InvalidError(f"dtype is {self.dtype!r}; give float32 or float16")
        if self.act is not None and not callable(self.act):
            raise InvalidError(f"act is {self.act!r}; give a function, as torch.relu")
        require_packages(self.format)

    def wanted(self, dataset: Dataset, results: list[str]) -> dict[str, Array | None]:
        """By node type whose results are written: which nodes, a bool for each original id; None: all."""
        types = results
        if self.node_type is not None:
            dataset._node(self.node_type)
            if self.node_type not in results:
                raise NotFoundError(f"the last layer gives nothing for node type '{self.node_type}', but for {results}")
            types = [self.node_type]
        if self.nodes is None:
            return dict.fromkeys(types)
        if not isinstance(self.nodes, Mapping):
            if len(types) > 1:
                raise InvalidError(f"nodes is no dict, and there are results of {types}; give node_type=, or a dict by type")
            return {types[0]: self._mask(dataset, types[0], self.nodes)}
        for name in self.nodes:
            if name not in types:
                raise NotFoundError(f"nodes has '{name}', and there are results of {types}")
        return {name: self._mask(dataset, name, ids) for name, ids in self.nodes.items()}

    @staticmethod
    def _mask(dataset: Dataset, node_type: str, ids: Any) -> Array:
        from hopfeed.dataset import _checked

        mask = np.zeros(dataset.num_nodes(node_type), bool)
        mask[_checked(ids, len(mask))] = True
        return mask

    def tensors(self, results: Results) -> Any:
        """What a call without a folder gives back."""
        import torch

        found = {}
        for node_type in results.node_types:
            of = results.of(node_type)
            _require_memory(of)
            given = self.nodes.get(node_type) if isinstance(self.nodes, Mapping) else self.nodes
            ids = None if given is None else np.asarray(given)
            rows = of.array() if ids is None or ids.dtype.kind == "b" else of[ids]
            found[node_type] = torch.from_numpy(rows)
        return found if self.several else next(iter(found.values()))


def _into(out: Path, work: Path | None, layers: Any, dataset: Dataset, options: _Options, keep: bool = True) -> Results:
    """Fills the folder of results, with its lock held."""
    from hopfeed.results.run import require_ours, require_work

    require_ours(out)
    if work is not None:
        _require_apart(out, work, options.name)
        require_work(work, f"work={str(work)!r}")
    if options.layers is not None:
        for name, other in (("out", out), ("work", work)):
            if other is not None and _is_one_in_the_other(options.layers, other):
                raise InvalidError(f"results={str(options.layers)!r} and {name}={str(other)!r} are one in the other; give results= a folder of its own")
    work = out / WORK if work is None else work
    with ExitStack() as stack:
        held = {folder: lock(folder) for folder in ([out] if work.is_relative_to(out) else [out, work])}
        for folder, handle in held.items():
            stack.callback(_release, folder, handle)
        _compute(out, work, layers, dataset, options, keep)
    return read_results(out)


def _require_apart(out: Path, work: Path, name: str) -> None:
    """Raises ``InvalidError`` where what is removed of one folder would be the other's."""
    at, results = work.resolve(), out.resolve()
    if results.is_relative_to(at) or at.is_relative_to(results / name):
        raise InvalidError(f"work={str(work)!r} and the results in out={str(out)!r} are one in the other; give work= a folder of its own")


def _folder(name: str, given: Any) -> Path | None:
    if given is None:
        return None
    if not isinstance(given, (str, os.PathLike)) or not str(given) or "\0" in str(given):
        raise InvalidError(f"{name} is {given!r}; give the path of a folder")
    return Path(given)


def _is_one_in_the_other(a: Path, b: Path) -> bool:
    a, b = a.resolve(), b.resolve()
    return a.is_relative_to(b) or b.is_relative_to(a)


def _release(folder: Path, handle: int) -> None:
    """Removes the lock, and the folder where nothing is in it."""
    (folder / LOCK).unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        pass
    os.close(handle)


def _compute(out: Path, work: Path, layers: Any, dataset: Dataset, options: _Options, keep: bool) -> None:
    import torch

    from hopfeed.results.graph import Graph
    from hopfeed.results.models import model_of
    from hopfeed.results.run import ROWS, Run
    from hopfeed.results.signature import digest_of
    from hopfeed.results.tables import Tables

    device = _device(options.device)
    graph, model = Graph(dataset, options.peers), model_of(layers, dataset, options.edge, options.act)
    if graph.others and options.layers is None:
        raise InvalidError("infer over several machines needs results=, a folder that this machine's hopfeed-server --results gives to the others")
    options.several = len(dataset.node_types) > 1 or len(model.results) > 1
    wanted = options.wanted(dataset, list(model.results))
    model.restrict(wanted)
    files = Files(sync=keep)
    outputs = {name: Output(graph, name, out, options.name, options.format, options.dtype, mask, files) for name, mask in wanted.items()}
    with _evaluated(model.modules, device):
        dtype = next((p.dtype for module in model.modules for p in module.parameters() if p.is_floating_point()), torch.float32)
        inputs = {value: _input(graph, value.node_type, options.x, dtype) for value in model.inputs()}
        made = _trial(model, graph, inputs, device, dtype)
        rows = _of_rows(graph, model, options, device)
        results = rows | {"nodes": digest_of([list(wanted.items())]), "name": options.name, "file_format": options.format, "dtype": options.dtype}
        signature = results | {"partitions": graph.parts, "memory": options.memory}  # of the work: where its files begin
        run = Run(model, graph, work, options.layers or work / ROWS, out, files, made, outputs, dtype)
        finished = not options.overwrite and _is_finished(out, digest_of([results])[:16], graph.parts)
        if not finished:
            run.prepare({value: given.width for value, given in (*inputs.items(), *made.items())}, options.memory)
            run.require_disk(inputs)
        # The folder of layers may be the next call's by now.
        if not finished or options.layers is not None and Tables.are_of(options.layers, digest_of([rows])):
            with _begun(run, out, work, None if finished else signature, rows, keep, options, files) as tables:
                if not finished:
                    shards = _run(run, inputs, tables, device, options)
                    files.json(out / MANIFEST, _manifest(graph, model, outputs, made, options, results, shards))
                tables.close(run.shared())
    _finish(out, work)


@contextmanager
def _begun(
    run: Any, out: Path, work: Path, signature: Mapping[str, Any] | None, rows: Mapping[str, Any], keep: bool, options: _Options, files: Files
) -> Iterator[Any]:
    """The folders are this run's, the one of layers first where it is one of its own: whoever is refused there has lost nothing.

    Args:
        signature: of the work; None where all is written.
    """
    from hopfeed.results.run import agree
    from hopfeed.results.signature import digest_of

    def take() -> None:
        if signature is None:
            return
        if options.overwrite:
            _clear(out, work)
        for folder, shown in dict([(out / WORK, out), (work, out if work == out / WORK else work)]).items():
            agree(folder, shown, signature, files)

    if options.layers is None:
        take()
    with run.tables(digest_of([rows]), rows, keep, options.overwrite) as tables:
        if options.layers is not None:
            take()
        yield tables


def _of_rows(graph: Any, model: Any, options: _Options, device: torch.device) -> dict[str, Any]:
    """What decides the rows that machines ask each other for."""
    import torch

    from hopfeed.results.signature import digest_of, processor

    return {
        "format": 2, "dataset": graph.dataset.name, "fingerprint": graph.dataset.fingerprint, "cut": digest_of([graph.dataset.meta])[:16],
        "layers": digest_of([*model.modules, *model.callables]), "inputs": digest_of([options.x]), "edge": options.edge,
        "results": sorted(model.results), "torch": torch.__version__, "processor": processor(device),
    }  # fmt: skip


def _is_finished(out: Path, run: str, parts: list[int]) -> bool:
    """Raises ``InvalidError`` where another run has."""
    before = read_json(out / MANIFEST)
    if before is None:
        return False
    if before.get("run") != run:
        raise InvalidError(f"out={str(out)!r} has the results of another run; give overwrite=True, or another folder")
    if before.get("partitions") != parts:
        raise InvalidError(f"out={str(out)!r} has the results of partitions {before.get('partitions')}, and here are {parts}; give each machine its own folder")
    return True


def _run(run: Any, inputs: dict[Any, Any], tables: Any, device: torch.device, options: _Options) -> list[dict[str, Any]]:
    """Computes what is not there. Gives the manifest's shards."""
    import torch

    from hopfeed.results.inference import Inference

    inference = Inference(run.graph, {}, tables, device, run.dtype, options.check_finite)
    try:
        if tables.is_new:
            run.forget()
        with torch.no_grad(), _bar(run.rows(), options.progress) as advance:
            shards: list[dict[str, Any]] = run.compute(inputs, inference, tables, advance)
    finally:
        inference.close()
    return shards


def _manifest(
    graph: Any, model: Any, outputs: Mapping[str, Output], made: Mapping[Any, Any], options: _Options, run: Mapping[str, Any], shards: list[dict[str, Any]]
) -> dict[str, Any]:
    from hopfeed.results.signature import digest_of

    dataset = graph.dataset
    node_types = [
        {
            "name": name, "width": made[model.results[name]].width, "rows": output.rows, "chosen": output.chosen, "count": dataset.num_nodes(name),
            "keys": output.key_kind,
        }  # fmt: skip
        for name, output in outputs.items()
    ]
    return {
        "format": FORMAT, "version": VERSION, "run": digest_of([run])[:16], "dataset": dataset.name, "fingerprint": dataset.fingerprint,
        "dtype": options.dtype, "file_format": options.format, "partitions": graph.parts,
        "outputs": [{"name": options.name, "node_types": node_types}], "shards": [{"output": options.name, **shard} for shard in shards],
        "made_by": f"hopfeed {__version__}", "torch": run["torch"], "processor": run["processor"],
    }  # fmt: skip


def _finish(out: Path, work: Path) -> None:
    from hopfeed.results.run import remove_work

    remove_work(work)
    remove_work(out / WORK)


def _clear(out: Path, work: Path) -> None:
    """Removes another run's results and work: its manifest first. Whose they are, ``require_ours`` has seen."""
    from hopfeed.results.run import run_in

    told = read_json(out / MANIFEST) or {"outputs": []}
    names = {_name(output["name"]) for output in told["outputs"]} | {_name(run["name"]) for run in [run_in(out / WORK)] if run}
    (out / MANIFEST).unlink(missing_ok=True)
    for name in names:
        shutil.rmtree(out / name, ignore_errors=True)
    _finish(out, work)


def _trial(model: Any, graph: Any, inputs: Mapping[Any, Any], device: torch.device, dtype: torch.dtype) -> dict[Any, Any]:
    """How wide all rows will be, by value."""
    import torch

    from hopfeed.results.inference import require_initialised, trial
    from hopfeed.results.run import Given

    require_initialised(model.modules)
    widths, made = {value: rows.width for value, rows in inputs.items()}, {}

    def edge_width(relation: Any, attribute: str) -> int:
        """Of an attribute's rows; 0: they are single numbers."""
        meta = next(attr for attr in graph.dataset._edge(relation.edge_type)["attrs"] if attr["name"] == attribute)
        return 0 if not meta["shape"] or list(meta["shape"]) == [1] else int(np.prod(meta["shape"]))

    with torch.no_grad():
        for stage in model.stages:
            for task in stage:
                for value, rows in zip(task.outputs, trial(task, widths, device, dtype, edge_width)):
                    kept = rows.dtype if rows.dtype in (torch.float16, torch.float32, torch.float64) else torch.float32
                    made[value] = Given(rows.shape[1], kept, graph.num_rows(task.node_type))
                    widths[value] = rows.shape[1]
    for name, value in model.results.items():
        if value not in made:
            raise UnsupportedError(f"the model gives the rows of '{name}' back as they are; there is nothing to compute")
    return made


def _input(graph: Any, node_type: str, given: Any, dtype: torch.dtype) -> Any:
    """The rows that the first layer reads."""
    from hopfeed.results.rows import Rows, matrix

    dataset, offsets = graph.dataset, graph.partition_offsets(node_type)
    if isinstance(given, Mapping):
        if node_type not in given:
            raise NotFoundError(f"x has no '{node_type}', whose rows the layers read; it has {list(given)}")
        given = given[node_type]
    if isinstance(given, str):
        attrs = dataset._node(node_type)["attrs"]
        meta = next((attr for attr in attrs if attr["name"] == given), None)
        if meta is None:
            raise NotFoundError(f"node type '{node_type}' has no attribute '{given}'; it has {[attr['name'] for attr in attrs]}; x= takes rows by original id too")
        arrays = [dataset._part(part, f"nodes/{node_type}/{given}.npy") for part in graph.parts]
        return Rows.of_parts(arrays, [offsets[part] for part in graph.parts], offsets[-1], meta, dtype, given)
    rows = np.asarray((given.float() if str(given.dtype) == "torch.bfloat16" else given).detach().cpu() if hasattr(given, "detach") else given)
    if rows.ndim < 1 or len(rows) != dataset.num_nodes(node_type) or rows.dtype.kind not in "fiub":
        raise InvalidError(f"x is {rows.dtype} {list(rows.shape)}; '{node_type}' has {dataset.num_nodes(node_type)} nodes: give a row of numbers for each")
    rows = matrix(rows)
    stored = np.empty_like(rows, order="C")  # of other machines' partitions too
    stored[dataset._new_ids(node_type)] = rows
    return Rows([stored], {"name": "x", "element_type": rows.dtype.name, "shape": [rows.shape[1]]}, dtype)


def _device(given: Any) -> torch.device:
    import torch

    try:
        device = torch.device(given)
    except (RuntimeError, TypeError) as error:
        raise InvalidError(f"device is {given!r}: {str(error).splitlines()[0]}") from None
    if device.type == "cuda" and (not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()):
        raise InvalidError(f"device is {given!r}, and torch sees {torch.cuda.device_count() if torch.cuda.is_available() else 'no'} GPUs")
    if device.type not in ("cpu", "cuda"):
        raise InvalidError(f"device is {given!r}; give cpu or cuda")
    return device


@contextmanager
def _evaluated(modules: list[Any], device: torch.device) -> Iterator[None]:
    """Modules on the device, without dropout; afterwards they are as they were."""
    inner = [(part, part.training) for module in modules for part in module.modules()]
    places = [next((p.device for p in module.parameters()), None) for module in modules]
    try:
        for module in modules:
            module.eval().to(device)
        yield
    finally:
        for part, training in inner:
            part.training = training
        for module, place in zip(modules, places):
            if place is not None and place != device:
                module.to(place)


@contextmanager
def _bar(total: int, shown: bool) -> Iterator[Callable[[int], object]]:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        shown = False
    if not shown:
        yield lambda rows: None
        return
    with tqdm(total=total, unit=" rows", unit_scale=True, desc="infer") as bar:
        yield bar.update


def _bytes(given: Any) -> int:
    try:
        if is_switch(given):
            raise ValueError
        if isinstance(given, str):
            unit = {"K": 10, "M": 20, "G": 30, "T": 40}.get(given[-1:].upper())
            found = int(float(given[:-1]) * (1 << unit)) if unit else int(given)
        else:
            found = int(given)
    except (ValueError, TypeError, OverflowError):
        raise InvalidError(f"memory is {given!r}; give bytes, or a number with K, M, G or T") from None
    if found < LEAST_MEMORY:
        raise InvalidError(f"memory is {given!r}; give {LEAST_MEMORY >> 20}M at least")
    return found


def _name(given: Any) -> str:
    if not isinstance(given, str) or not given or given.startswith(".") or "/" in given or "\0" in given or given == MANIFEST:
        raise InvalidError(f"name is {given!r}; give the name of a folder")
    return given


def _require_memory(results: Results) -> None:
    """Raises ``NoSpaceError`` where all rows do not fit."""
    needed = int(np.prod(results.shape, dtype=np.int64)) * results.dtype.itemsize
    try:
        with open("/proc/meminfo") as lines:
            free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return
    if needed > free:
        raise NoSpaceError(f"the rows of '{results.node_type}' take {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory are free; give out=")
