"""What hopfeed.infer takes for its own: folders that it may remove, and runs that it may go on with."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hopfeed

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric")

from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE, HeteroConv, SAGEConv, to_hetero  # noqa: E402
from torch_geometric.nn.conv import MessagePassing  # noqa: E402

from hopfeed.results.signature import digest_of  # noqa: E402


def infer(folder: Path, out: Path | None = None, **options: Any) -> Any:
    torch.manual_seed(1)
    layers = options.pop("layers", None) or [SAGEConv(8, 4)]
    return hopfeed.infer(layers, folder, out, **{"progress": False, "memory": "1M", **options})


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def made(folder: Path, *files: str) -> dict[str, bytes]:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("mine")
    return content(folder)


class Stop(Exception):
    pass


def failing(pair: tuple[Any, Any], edges: Any) -> Any:
    if len(pair[1]) > 2:
        raise Stop
    return pair[1]


# Folders.


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("mine", ["rows/a", "stage-set/a", "stage-0/a", "notes", "run.json"])
def test_WorkFolderOfSomethingElse_IsRefusedAndLeftAlone(small: Path, tmp_path: Path, mine: str, overwrite: bool) -> None:
    before = made(tmp_path / "work", mine)
    name = mine.split("/")[0]
    for out in (None, tmp_path / "out"):
        with pytest.raises(hopfeed.InvalidError, match=f"^work='{tmp_path}/work' has '{name}', which no inference has made; give a new folder$"):
            infer(small, out, work=tmp_path / "work", overwrite=overwrite)
    assert content(tmp_path / "work") == before and not (tmp_path / "out").exists()


def test_WorkFolderThatIsAFile_IsRefused(small: Path, tmp_path: Path) -> None:
    made(tmp_path, "work")
    with pytest.raises(hopfeed.InvalidError, match="work='.*/work' is no folder"):
        infer(small, tmp_path / "out", work=tmp_path / "work")


def test_WorkFolderOfAnotherProgramsRun_IsRefused(small: Path, tmp_path: Path) -> None:
    made(tmp_path / "work", "rows/a")
    (tmp_path / "work" / "run.json").write_text('{"run": "0123456789abcdef0123456789abcdef"}')
    before = content(tmp_path / "work")
    with pytest.raises(hopfeed.InvalidError, match="has 'rows', which no inference has made"):
        infer(small, tmp_path / "out", work=tmp_path / "work", overwrite=True)
    assert content(tmp_path / "work") == before


@pytest.mark.parametrize("left", [[], [".lock"], [".lock", ".run.json.new"]])
def test_WorkFolderThatIsEmpty_IsTaken(small: Path, tmp_path: Path, left: list[str]) -> None:
    (tmp_path / "work").mkdir()
    made(tmp_path / "work", *left)
    infer(small, tmp_path / "out", work=tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_WorkFolderOfAStoppedRun_IsTakenAndWhatTheUserPutThereStays(small: Path, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        infer(small, tmp_path / "out", work=tmp_path / "work", layers=[SAGEConv(8, 8), failing])
    assert (tmp_path / "work" / "stage-0").is_dir() and (tmp_path / "work" / "rows").is_dir()
    made(tmp_path / "work", "stage-set/a", "notes")
    with pytest.raises(hopfeed.InvalidError, match="has the work of another run"):
        infer(small, tmp_path / "other", work=tmp_path / "work")
    infer(small, tmp_path / "out", work=tmp_path / "work", overwrite=True)
    assert sorted(content(tmp_path / "work")) == ["notes", "stage-set/a"]


def test_WorkAndResultsInEachOther_AreRefused(small: Path, tmp_path: Path) -> None:
    for work in (tmp_path / "out", tmp_path, tmp_path / "out" / "embeddings" / "w"):
        with pytest.raises(hopfeed.InvalidError, match="are one in the other; give work= a folder of its own"):
            infer(small, tmp_path / "out", work=work)
    assert not list(tmp_path.iterdir())
    infer(small, tmp_path / "out", work=tmp_path / "out" / "w")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["embeddings", "manifest.json"]


OURS = {"format": "hopfeed-results", "version": 1, "run": "0" * 16, "outputs": [{"name": "notes"}]}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("manifest", [
    {**OURS, "format": "of-something-else"}, {**OURS, "run": "0" * 15}, {**OURS, "run": "0" * 24}, {**OURS, "run": "x" * 16},
    {**OURS, "run": 5}, {**OURS, "outputs": ["notes"]}, {**OURS, "outputs": {"name": "notes"}}, {"outputs": [{"name": "notes"}]}, ["notes"], None,
])  # fmt: skip
def test_ManifestOfSomethingElse_IsRefusedBeforeAnythingIsRemoved(small: Path, tmp_path: Path, manifest: Any, overwrite: bool) -> None:
    made(tmp_path / "out", "notes/a", "embeddings/a")
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest) if manifest else "{")
    before = content(tmp_path / "out")
    with pytest.raises(hopfeed.InvalidError, match="has a manifest.json that is not of results, or damaged; give a new folder"):
        infer(small, tmp_path / "out", overwrite=overwrite)
    assert content(tmp_path / "out") == before


@pytest.mark.parametrize("run", ["0" * 16, "0123456789abcdef" * 2])
def test_ManifestOfOurs_ItsOutputsAloneAreRemoved(small: Path, tmp_path: Path, run: str) -> None:
    made(tmp_path / "out", "notes/a", "mine/a")
    (tmp_path / "out" / "manifest.json").write_text(json.dumps({**OURS, "run": run}))
    infer(small, tmp_path / "out", overwrite=True)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["embeddings", "manifest.json", "mine"]


def test_ManifestThatNamesAFolderElsewhere_RemovesNothing(small: Path, tmp_path: Path) -> None:
    made(tmp_path, "beside/a", "out/notes/a")
    (tmp_path / "out" / "manifest.json").write_text(json.dumps({**OURS, "outputs": [{"name": "notes"}, {"name": "../beside"}]}))
    before = content(tmp_path)
    with pytest.raises(hopfeed.InvalidError, match="name is '../beside'"):
        infer(small, tmp_path / "out", overwrite=True)
    assert content(tmp_path) == before


def test_HiddenWorkOfSomethingElse_IsRefused(small: Path, tmp_path: Path) -> None:
    before = made(tmp_path / "out", ".work/rows/a", ".work/run.json", "embeddings/a")
    for overwrite in (False, True):
        with pytest.raises(hopfeed.InvalidError, match=r"^\.work in out='.*/out' has 'rows', which no inference has made; give a new folder$"):
            infer(small, tmp_path / "out", overwrite=overwrite)
    assert content(tmp_path / "out") == before


# Layers of any kind: another one is another run, the same one is not.


class Held:
    def __init__(self, w: Any) -> None:
        self.w = w

    def __call__(self, pair: tuple[Any, Any], edges: Any) -> Any:
        return pair[1] * torch.as_tensor(self.w, dtype=torch.float32)


class Slots:
    __slots__ = ("w",)

    def __init__(self, w: Any) -> None:
        self.w = w

    def __call__(self, pair: tuple[Any, Any], edges: Any) -> Any:
        return pair[1] * self.w


class Below(Slots):
    __slots__ = ("other", "unset")

    def __init__(self, w: Any) -> None:
        super().__init__(w)
        self.other = self  # a cycle


class Module(torch.nn.Module):
    def __init__(self, w: Any) -> None:
        super().__init__()
        self.held = Slots(w)

    def forward(self, x_source: Any, x_own: Any, edge_index: Any) -> Any:
        return x_own * self.held.w


def cyclic(w: Any) -> Any:
    layer = Held(w)
    layer.itself, layer.list = layer, [layer]  # type: ignore[attr-defined]
    return layer


def class_with(w: Any) -> Any:
    return type("Made", (Held,), {"by": w, "__module__": __name__, "__call__": lambda self, pair, edges: pair[1] * self.by})(0)


def hooked(w: Any) -> Any:
    layer = SAGEConv(8, 8)
    layer.register_forward_hook(lambda layer, given, rows: rows * w)
    return layer


class Largest(MessagePassing):
    def __init__(self) -> None:
        super().__init__("max")

    def forward(self, x: Any, edge_index: Any) -> Any:
        return self.propagate(edge_index, x=x)


def messaging(w: Any) -> Any:
    layer = Largest()
    layer.register_message_forward_hook(lambda layer, given, rows: rows * w)
    return layer


KINDS: list[Callable[[Any], Any]] = [
    Held, Slots, Below, Module, cyclic, class_with, hooked, messaging,
    lambda w: Held(w).__call__, lambda w: functools.partial(lambda w, pair, edges: pair[1] * w, w),
    lambda w: Held(torch.tensor(float(w))), lambda w: Held(np.full(8, w, np.float32)), lambda w: Held(np.float32(w)),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_LayerThatHoldsAnotherNumber_IsAnotherRun(small: Path, tmp_path: Path, kind: Callable[[Any], Any]) -> None:
    def layers(w: Any) -> list[Any]:
        torch.manual_seed(1)
        return [kind(w)]

    rows = infer(small, tmp_path / "out", layers=layers(2)).array()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    infer(small, tmp_path / "out", layers=layers(2))
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    with pytest.raises(hopfeed.InvalidError, match="has the results of another run"):
        infer(small, tmp_path / "out", layers=layers(3))
    again = infer(small, tmp_path / "out", layers=layers(3), overwrite=True).array()
    assert np.allclose(again, rows * 1.5, rtol=1e-6) and not np.allclose(again, rows)


class Locked(Held):
    def __init__(self, w: Any) -> None:
        super().__init__(w)
        self.lock = threading.Lock()


def test_LayerThatHoldsWhatCannotBeRead_IsNeverTheSame(small: Path, tmp_path: Path) -> None:
    layer = Locked(2)
    infer(small, tmp_path / "out", layers=[layer])
    with pytest.raises(hopfeed.InvalidError, match="has the results of another run; give overwrite=True"):
        infer(small, tmp_path / "out", layers=[layer])
    infer(small, tmp_path / "out", layers=[layer], overwrite=True)
    with pytest.raises(Stop):
        infer(small, tmp_path / "stopped", layers=[layer, failing])
    with pytest.raises(hopfeed.InvalidError, match="has the work of another run: the layers are other"):
        infer(small, tmp_path / "stopped", layers=[layer, failing])


def test_ThingsOfOtherShape_HaveOtherDigests() -> None:
    one, two = Held(1), Held(1)
    things: list[Any] = [
        [[1], [2]], [[1, 2]], [1, 2], (1, 2), {1: 2}, {1, 2}, {1, 3}, ["ab", "c"], ["a", "bc"], "1", 1, 1.0, True, None, b"1", [one, two, one], [one, two, two], [one, one],
        np.add, np.multiply, torch.relu, torch.tanh, torch.float32, int, len, Held, Slots, [].append, [1].append,
    ]  # fmt: skip
    digests = [digest_of([thing]) for thing in things[:-2]]
    assert len(set(digests)) == len(digests) and digests == [digest_of([thing]) for thing in things[:-2]]
    assert digest_of([things[-1]]) != digest_of([things[-2]])
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for unreadable in (threading.Lock(), (n for n in ()), deep):
        assert digest_of([unreadable]) != digest_of([unreadable])


@functools.lru_cache
def kept(pair: tuple[Any, Any], edges: Any) -> Any:
    return pair[1]


def zoo() -> list[Any]:
    """Layers and models of every kind that keep what they are from process to process."""
    torch.manual_seed(2)
    types = (["a", "b"], [("a", "to", "b"), ("b", "to", "a")])
    names = {"x", "y", "z", "u", "v"}
    return [
        *(kind(8, 16, 3, 5, dropout=0.5, jk="cat", norm="batch_norm") for kind in (GraphSAGE, GCN, GAT, GIN)),
        to_hetero(GraphSAGE(8, 8, 2, 4), types),
        HeteroConv({edge: SAGEConv(8, 4) for edge in types[1]}),
        *(kind(2) for kind in KINDS), Held(names), Held(frozenset(names)), Held([torch.relu, np.maximum, kept]),
        lambda pair, edges: torch.nn.functional.dropout(pair[1]) if "x" in {"x", "y", "z", "u"} else pyg.utils.softmax(pair[1], edges[0]),
    ]  # fmt: skip


def test_Digests_AreThoseOfAnotherProcess(environment: dict[str, str]) -> None:
    found = [digest_of([thing]) for thing in zoo()]
    assert found == [digest_of([thing]) for thing in zoo()] and len(set(found)) == len(found)
    code = "import test_infer_folders as t; print(*(t.digest_of([thing]) for thing in t.zoo()))"
    for seed in "12":
        paths = f"{Path(__file__).parent}:{environment['PYTHONPATH']}" if "PYTHONPATH" in environment else str(Path(__file__).parent)
        done = subprocess.run(
            [sys.executable, "-c", code], env={**environment, "PYTHONPATH": paths, "PYTHONHASHSEED": seed}, capture_output=True, text=True, timeout=120
        )
        assert done.stdout.split() == found, done.stderr


def test_ValueInAModuleOfTheUser_DecidesTheLayer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_settings_of_layers.py").write_text("SCALE = 2\nUNUSED = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import my_settings_of_layers as settings  # type: ignore[import-not-found]

    space: dict[str, Any] = {"settings": settings}
    exec("def layer(pair, edges):\n    return pair[1] * settings.SCALE\n", space)
    before = digest_of([space["layer"]])
    settings.UNUSED = 4
    assert digest_of([space["layer"]]) == before
    settings.SCALE = 5
    assert digest_of([space["layer"]]) != before


def test_ModelThatHasComputed_IsTheSame() -> None:
    torch.manual_seed(1)
    edges = torch.randint(0, 50, (2, 200))
    for kind in (GraphSAGE, GCN, GAT, GIN):
        model = kind(8, 16, 3, 5, norm="layer_norm")
        before = digest_of([model])
        model(torch.randn(50, 8), edges)
        assert digest_of([model]) == before
