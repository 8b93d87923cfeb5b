"""An import on a cluster makes the files, the fingerprint and the report of the import on one machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="the extra [tables] is not installed")
pytest.importorskip("duckdb", reason="the extra [tables] is not installed")

from hopfeed.errors import Error, InvalidError  # noqa: E402
from hopfeed.tables import import_tables  # noqa: E402
from hopfeed.tables.cluster import importing  # noqa: E402
from local_cluster import LocalCluster  # noqa: E402
from made_tables import Shop, make_shop, write_shop, write_table  # noqa: E402


@pytest.fixture(scope="module")
def shop() -> Shop:
    return make_shop()


def files_of(folder: Path) -> dict[str, str]:
    return {path: file["xxh3"] for path, file in json.loads((folder / "meta.json").read_text())["files"].items()}


def told(report: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report.items() if name not in ("folder", "seconds")}


def rejected(path: Path | None) -> list[str]:
    return sorted(path.read_text().splitlines()) if path is not None and path.exists() else []


def both_ways(folder: Path, description: Any, cluster: LocalCluster | None = None, **options: Any) -> dict[str, Any]:
    """Imports here and on a cluster, and compares: files, report, rejected rows, or the line of the error."""
    outcomes = list[Any]()
    for way in ("here", "cluster"):
        lines, keep = list[str](), options.pop("rejected", None) and folder / f"{way}.json"
        try:
            if way == "here":
                report = import_tables(folder / way, description, rejected=keep, say=lines.append, **options)
            else:
                report = importing.import_tables(cluster or LocalCluster(), description, folder / way, rejected=keep, say=lines.append, **options)
            meta = json.loads((folder / way / "meta.json").read_text())
            outcomes.append([told(report), files_of(folder / way), {name: meta[name] for name in ("fingerprint", "cut", "node_types", "edge_types")}])
        except Error as error:
            assert not (folder / way).exists()
            outcomes.append([type(error).__name__, str(error)])
        outcomes[-1] += [rejected(keep), [line for line in lines if line.startswith("warning")]]
        options |= {"rejected": True} if keep else {}
    assert outcomes[0] == outcomes[1]
    found: dict[str, Any] = {"report": outcomes[0][0], "rejected": outcomes[0][-2]}
    return found


@pytest.mark.parametrize("parts, seed", [(1, 0), (3, 5)])
@pytest.mark.parametrize("cluster", [LocalCluster(), LocalCluster(ranges=7, seed=3, twice=True), LocalCluster(ranges=1)])
def test_the_shop_is_the_same(shop: Shop, tmp_path: Path, parts: int, seed: int, cluster: LocalCluster) -> None:
    both_ways(tmp_path, write_shop(shop, tmp_path, files=3), cluster, parts=parts, seed=seed)
