"""Splits of nodes: told where a table is read, and brought into the order of original ids by the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hopfeed.tables import convert
from hopfeed.tables.arrays import created
from hopfeed.tables.cluster.job import ClusterJob, hashes_of, key_type, keys_out
from hopfeed.tables.cluster.keys import node_pieces
from hopfeed.tables.cluster.lookups import blocks, nodes_by_id
from hopfeed.tables.cluster.parts import parts_of, stream, written
from hopfeed.tables.cluster.pieces import Piece, batches, relation_of, task_engine
from hopfeed.tables.plan import NodePlan
from hopfeed.tables.splits import asked_of, members_of, names_told, teller, warnings


def make_splits(job: ClusterJob, number: int) -> None:
    """Adds the stage of a node type's splits; files and facts are those of an import on one machine."""
    plan = job.plan.nodes[number]
    if plan.nodes.split is None:
        return
    names, kind = job.checks[number].facts["classes"], plan.nodes.split.kind
    teller(plan)  # what cannot be a split is told before anything is read

    def make(folder: Path) -> dict[str, Any]:
        schema = pa.schema([("key", key_type(plan)), ("split", pa.string()), ("class", pa.int64()), ("member", pa.int64())])
        frame = job.rows(node_pieces(job, number), _read(plan, names, job.options.seed, schema), schema)
        frame = job.cluster.join(frame, nodes_by_id(job, number, "key", "id", "block"), "key")

        def take(part: int, given: Iterator[pa.RecordBatch]) -> dict[str, Any]:
            return _taken(folder, part, given)

        frame = job.cluster.select(frame, ["id", "block", "split", "class", "member"])
        parts = job.groups(frame, "block", len(blocks(job, number)), ["id"], take)
        counts, classes_of = dict.fromkeys(names_told(plan), 0), dict[str, set[int]]()
        if kind != "column":  # others tell of all their splits, also of those that no row is in
            classes_of = {name: set() for name in counts}
        for one in parts:
            for name, count in one["counts"].items():
                counts[name] = counts.get(name, 0) + count
            for name, classes in one["classes"].items():
                classes_of.setdefault(name, set()).update(classes)
        counts = dict(sorted(counts.items()))
        _write(folder, parts, counts)
        if plan.label() is None:
            classes_of = {}
        return {"counts": counts, "warnings": warnings(plan, counts, classes_of, names)}

    stage = job.work.stage(f"splits-{number}", f"{plan.where}: splitting", make)
    job.splits[number] = stage
    for kind, count, line in stage.facts["warnings"]:
        job.told.note(plan.where, kind, count, line)


def _read(plan: NodePlan, classes: list[str], seed: int, schema: pa.Schema) -> Any:
    asked = "".join(f", {one}" for one in asked_of(plan))
    label, split = plan.label(), plan.nodes.split
    assert split is not None

    def read(piece: Piece) -> Iterator[pa.RecordBatch]:
        tell = teller(plan)
        with task_engine(piece) as engine:
            for batch in batches(engine, f"SELECT key{asked} FROM {relation_of(plan, piece)}", plan.where):
                keys = keys_out(plan, batch.column("key"))
                labels = convert.labels(batch.column(label.inputs[0]), classes) if label else None
                hashed = hashes_of(plan, keys, seed) if split.kind == "fractions" else np.zeros(len(batch), np.uint64)
                names, within = np.full(len(batch), None, object), np.zeros(len(batch), np.int64)
                for name, of_split in tell(hashed, batch):
                    names[of_split] = name
                for _, members in members_of(plan, tell, hashed, batch, labels):
                    within[members] = 1
                there = np.asarray([name is not None for name in names])
                made = [keys, pa.array(names, pa.string()), pa.array(labels if labels is not None else np.zeros(len(batch), np.int64)), pa.array(within)]
                yield pa.RecordBatch.from_arrays(made, schema=schema).filter(pa.array(there))

    return read


def _taken(folder: Path, part: int, given: Iterator[pa.RecordBatch]) -> dict[str, Any]:
    schema = pa.schema([("id", pa.int64()), ("split", pa.string())])
    counts, classes = dict[str, int](), dict[str, set[int]]()

    def made() -> Iterator[pa.RecordBatch]:
        for batch in given:
            encoded, members = batch.column("split").dictionary_encode(), batch.column("member").to_numpy() > 0
            of, labels = np.asarray(encoded.indices), batch.column("class").to_numpy()
            for i, name in enumerate(encoded.dictionary.to_pylist()):
                counts[name] = counts.get(name, 0) + int(np.count_nonzero(members & (of == i)))
                classes.setdefault(name, set()).update(np.unique(labels[members & (of == i)]).tolist())
            yield pa.RecordBatch.from_arrays([batch.column("id"), batch.column("split")], schema=schema).filter(pa.array(members))

    return written(folder, part, schema, made()) | {"counts": counts, "classes": {name: sorted(several) for name, several in classes.items()}}


def _write(folder: Path, parts: list[dict[str, Any]], counts: dict[str, int]) -> None:
    """``NAME.npy`` of each split."""
    out = {name: created(folder / f"{name}.npy", np.int64, count) for name, count in counts.items()}
    at = dict.fromkeys(counts, 0)
    for _, batch in stream(parts_of(folder, parts)):
        ids, of = batch.column("id").to_numpy(), np.asarray(batch.column("split").to_pylist(), object)
        for name in set(of.tolist()):
            members = ids[of == name]
            out[name][at[name] : at[name] + len(members)] = members
            at[name] += len(members)
