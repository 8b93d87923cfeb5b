"""The cuts by edges. LDG: far fewer edges than by a hash, balanced, the same for any order, files, memory and threads. METIS: the program's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="the extra [tables] is not installed")
pytest.importorskip("duckdb", reason="the extra [tables] is not installed")

import hopfeed  # noqa: E402
from hopfeed.errors import NoSpaceError  # noqa: E402
from hopfeed.programs import program  # noqa: E402
from hopfeed.tables import import_tables  # noqa: E402
from hopfeed.tables.ldg import Places  # noqa: E402
from made_tables import write_table  # noqa: E402

GROUPS, EACH = 4, 150


def import_groups(folder: Path, out: str, assign: str, order: int, threads: int, parts: int = GROUPS) -> dict[str, object]:
    """Groups of nodes, nine tenths of whose edges stay inside; a quarter of them are training nodes."""
    rng = np.random.default_rng(0)
    nodes = GROUPS * EACH
    src = rng.integers(0, nodes, 6000)
    inside = rng.random(6000) < 0.9
    dst = np.where(inside, src % GROUPS + GROUPS * rng.integers(0, EACH, 6000), rng.integers(0, nodes, 6000))
    split = ["train" if i % 16 < 4 else "test" for i in range(nodes)]
    write_table(pa.table({"id": list(range(nodes)), "split": split}), folder / f"nodes-{order}", order, 1 + order)
    write_table(pa.table({"s": src, "d": dst}), folder / f"edges-{order}", order, 1 + order)
    node = {"name": "n", "table": str(folder / f"nodes-{order}"), "key": "id", "split": "split"}
    edge = {"src": "n", "rel": "to", "dst": "n", "table": str(folder / f"edges-{order}"), "src_key": "s", "dst_key": "d"}
    return import_tables(folder / out, nodes=[node], edges=[edge], parts=parts, assign=assign, threads=threads)


def test_groups_stay_together_and_parts_are_balanced(tmp_path: Path) -> None:
    by_hash = import_groups(tmp_path, "hash", "hash", 0, 2)
    one, other = (import_groups(tmp_path, f"ldg-{order}", "ldg", order, threads) for order, threads in ((1, 1), (4, 2)))
    assert int(str(one["edges_cut"])) < 0.35 * int(str(by_hash["edges_cut"]))
    datasets = [hopfeed.Dataset(tmp_path / f"ldg-{order}") for order in (1, 4)]
    parts = [dataset.partition_of(np.arange(GROUPS * EACH)) for dataset in datasets]
    assert (parts[0] == parts[1]).all() and one["fingerprint"] == other["fingerprint"] == by_hash["fingerprint"]
    assert np.bincount(parts[0]).max() <= EACH * 1.03 + 1
    assert np.bincount(parts[0][datasets[0].split("train")]).max() <= EACH / 4 * 1.03 + 2
    assert datasets[0].meta["cut"]["method"] == "ldg"


def test_no_partition_takes_more_than_its_share_whatever_nodes_want() -> None:
    nodes = 1000
    places = Places(4, np.arange(nodes), np.arange(nodes) % 10 == 0)
    for begin in range(0, nodes, 50):  # all of them are neighbours of the first
        of = np.arange(50 if begin else 0)
        places.place(begin, begin + 50, of, np.zeros(len(of), np.int64))
    sizes = np.bincount(places.part, minlength=4)
    assert sizes.sum() == nodes and sizes.max() <= 250 * 1.03 + 1
    assert np.bincount(places.part[::10], minlength=4).max() <= 25 * 1.03 + 1


def test_metis_cuts_as_the_program_does(tmp_path: Path) -> None:
    whole = import_groups(tmp_path, "whole", "hash", 0, 1, parts=1)
    here = import_groups(tmp_path, "metis", "metis", 2, 2)
    words = [program("hopfeed-partition"), "partition", tmp_path / "whole", tmp_path / "cut", "--parts", str(GROUPS), "--method", "metis", "--seed", "0"]
    subprocess.run(words, check=True, capture_output=True)
    ids = np.arange(GROUPS * EACH)
    found, expected = (hopfeed.Dataset(tmp_path / name).partition_of(ids) for name in ("metis", "cut"))
    assert (found == expected).all() and here["fingerprint"] == whole["fingerprint"]
    assert hopfeed.Dataset(tmp_path / "metis").meta["cut"]["method"] == "metis"
    assert int(str(here["edges_cut"])) > 0


def test_metis_that_does_not_fit_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopfeed.tables.engine.Engine.memory_left", 100_000)
    with pytest.raises(NoSpaceError, match="METIS may take .* MB for all edges, and --memory leaves 0 MB; give more, or --assign ldg"):
        import_groups(tmp_path, "metis", "metis", 0, 1)
    assert not (tmp_path / "metis").exists()
