"""Tables in an object store: one that is busy or ends early is told in a line without secrets, and gone on from."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow", reason="the extra [tables] is not installed")
pytest.importorskip("duckdb", reason="the extra [tables] is not installed")
pytest.importorskip("pyarrow.fs", reason="this pyarrow has no file systems")

import pyarrow.parquet  # noqa: E402

import hopfeed  # noqa: E402
from hopfeed.errors import InputOutputError  # noqa: E402
from hopfeed.tables import import_tables  # noqa: E402
from object_store import object_store  # noqa: E402


def test_a_store_that_is_busy_or_ends_early(tmp_path: Path) -> None:
    rows = io.BytesIO()
    pa.parquet.write_table(pa.table({"id": list(range(1000)), "x": [i / 2 for i in range(1000)]}), rows)
    with object_store(rows.getvalue()) as store:
        nodes = [{"name": "n", "table": store.url("who:s3cret@"), "key": "id", "attrs": ["x"]}]
        for mode in ("busy", "cut"):
            store.mode = mode
            with pytest.raises(InputOutputError) as found:
                import_tables(tmp_path / "dataset", nodes=nodes)
            line = str(found.value)
            assert line.startswith("node type 'n': s3://bucket/nodes.parquet: ") and "s3cret" not in line
            assert line.endswith("nothing was made, and the same command goes on when the tables can be read")
            assert not list(tmp_path.iterdir())
        store.mode = "whole"
        import_tables(tmp_path / "dataset", nodes=nodes)
    dataset = hopfeed.Dataset(tmp_path / "dataset")
    assert dataset.keys()[[0, 999]].tolist() == [0, 999] and dataset.attr("x")[:].tolist() == [i / 2 for i in range(1000)]
