"""Results of exact inference as a dataset of Ray Data, of both formats and all kinds of keys."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray_fixtures import Machines, _machines, machines  # noqa: F401

import hopfeed
import hopfeed.ray
from hopfeed.errors import CorruptError, NotFoundError
from hopfeed.results.folder import Files, checksum

WIDTH, SHARDS = 3, [40, 0, 7]


def write(folder: Path, kind: str | None, dtype: str = "float32") -> None:
    """A folder of results as inference writes it, with shards of some rows."""
    rng, files, shards, first = np.random.default_rng(0), Files(sync=False), [], 0
    (folder / "embeddings" / "node").mkdir(parents=True)
    for number, rows in enumerate(SHARDS):
        ids = np.arange(first, first + rows)[::-1].astype(np.int64)
        arrays: dict[str, Any] = {"rows": rng.random((rows, WIDTH)).astype(dtype), "ids": ids}
        if kind == "int64":
            arrays["keys"] = ids * 1000 - 5
        elif kind == "uuid":
            arrays["keys"] = np.frombuffer(rng.bytes(16 * rows), np.uint8).reshape(-1, 16)
        elif kind == "string":
            texts = [f"\u00fc{at}" * (at % 3) for at in ids]
            arrays["keys"] = np.frombuffer("".join(texts).encode(), np.uint8)
            arrays["key_offsets"] = np.cumsum([0, *(len(text.encode()) for text in texts)]).astype(np.int64)
        told = {}
        for name, array in arrays.items():
            path = f"embeddings/node/part-0000-{number:05}{'' if name == 'rows' else '.' + name}.npy"
            np.save(folder / path, array)
            told[name] = {"path": path, "bytes": (folder / path).stat().st_size, "xxh3": checksum(folder / path)}
        shards.append({"output": "embeddings", "node_type": "node", "partition": 0, "rows": rows, "files": told})
        first += rows
    count = sum(SHARDS)
    outputs = [{"name": "embeddings", "node_types": [{"name": "node", "width": WIDTH, "rows": count, "chosen": count, "count": count, "keys": kind}]}]
    manifest = {"format": "hopfeed-results", "version": 1, "run": "0" * 32, "dataset": "d", "fingerprint": "0" * 16, "dtype": dtype, "file_format": "npy",
                "outputs": outputs, "shards": shards, "torch": "", "processor": "", "made_by": ""}  # fmt: skip
    files.json(folder / "manifest.json", manifest)


@pytest.mark.parametrize("format", ["npy", "parquet"])
@pytest.mark.parametrize(("kind", "dtype"), [(None, "float32"), ("int64", "float16"), ("string", "float32"), ("uuid", "float32")])
def test_rows_keys_and_ids_are_those_of_the_files(machines: Machines, tmp_path: Path, kind: str | None, dtype: str, format: str) -> None:  # noqa: F811
    write(tmp_path / "out", kind, dtype)
    if format == "parquet":
        from hopfeed.results.parquet import to_parquet

        to_parquet(tmp_path / "out")
    expected = hopfeed.read_results(tmp_path / "out")
    dataset = hopfeed.ray.read_results(tmp_path / "out")
    found = sorted(dataset.take_all(), key=lambda row: row["id"])
    assert [row["id"] for row in found] == list(range(sum(SHARDS)))
    assert np.array_equal(np.array([row["row"] for row in found], dtype), expected.array())
    if kind is None:
        assert "key" not in found[0]
    else:
        assert [row["key"] for row in found] == [str(key) if isinstance(key, uuid.UUID) else key for key in expected.keys]
    assert dataset.materialize().num_blocks() == 2  # a shard a task; one has no rows


def test_what_is_not_there_or_damaged_is_named(machines: Machines, tmp_path: Path) -> None:  # noqa: F811
    write(tmp_path / "out", None)
    for call, line in (
        (lambda: hopfeed.ray.read_results(tmp_path / "none"), "holds no results"),
        (lambda: hopfeed.ray.read_results(tmp_path / "out", "scores"), "has no output 'scores'"),
        (lambda: hopfeed.ray.read_results(tmp_path / "out", "embeddings", "user"), "has no results of 'user'"),
    ):
        with pytest.raises(NotFoundError, match=line):
            call()
    file = tmp_path / "out/embeddings/node/part-0000-00002.npy"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(CorruptError, match="part-0000-00002.npy"):
        hopfeed.ray.read_results(tmp_path / "out")
