"""A first description of tables, by what their columns are called and what they hold. A user looks at it before it is
used; it is written so that what was taken for what is plain."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hopfeed.errors import InvalidError
from hopfeed.tables.description import Table
from hopfeed.tables.names import checked
from hopfeed.tables.sources import Source, Sources
from hopfeed.tables.stored import INTEGERS

_KEYS = ("id", "key", "uuid", "guid", "node_id", "node")
_LABELS = ("label", "y", "class", "target", "category")
_SPLITS = ("split", "fold", "set")
_WEIGHTS = ("weight", "w", "score", "strength")
_SOURCES = ("src", "source", "from", "src_id", "source_id", "from_id", "head")
_TARGETS = ("dst", "dest", "destination", "target", "to", "dst_id", "target_id", "to_id", "tail")
_FLOATS = ("FLOAT", "DOUBLE")


def infer(sources: Sources, nodes: Mapping[str, str], edges: Mapping[tuple[str, str, str], str]) -> dict[str, Any]:
    """The description as an object, to be written as JSON."""
    told: dict[str, Any] = {"name": "tables", "nodes": [], "edges": []}
    for name, path in nodes.items():
        where = f"node type '{checked(name, '--nodes', 'node type')}'"
        told["nodes"].append({"name": name, "table": path} | _nodes(name, sources.open(Table((path,)), where), where))
    for (src, rel, dst), path in edges.items():
        where = f"edge type '{src}__{rel}__{dst}'"
        for end in (src, dst):
            if end not in [one["name"] for one in told["nodes"]]:
                told["nodes"].append({"name": checked(end, "--edges", "node type")})
        told["edges"].append({"src": src, "rel": rel, "dst": dst, "table": path} | _edges(src, dst, sources.open(Table((path,)), where), where))
    return told


def _is_key(kind: str) -> bool:
    return kind in INTEGERS or kind in ("VARCHAR", "UUID")


def _is_number(kind: str) -> bool:
    return kind in INTEGERS or kind in (*_FLOATS, "BOOLEAN")


def _is_time(kind: str) -> bool:
    return kind.startswith("TIMESTAMP") or kind == "DATE"


def _called(columns: Mapping[str, str], names: Sequence[str], fits: Any) -> str | None:
    """The first column of one of these names, the first name first."""
    return next((column for name in names for column, kind in columns.items() if column.lower() == name and fits(kind)), None)


def _nodes(name: str, source: Source, where: str) -> dict[str, Any]:
    columns = dict(source.columns)
    lower = name.lower()
    key = _called(columns, (f"{lower}_id", f"{lower}_key", f"{lower}id", lower, *_KEYS), _is_key) or next((one for one, kind in columns.items() if _is_key(kind)), None)
    if key is None:
        raise InvalidError(f"{where}: {source.title} has no column that can be a key; it has: {', '.join(columns)}")
    told: dict[str, Any] = {"key": key}
    del columns[key]
    if label := _called(columns, _LABELS, lambda kind: kind == "VARCHAR" or kind in INTEGERS):
        del columns[label]
    if split := _called(columns, _SPLITS, lambda kind: kind == "VARCHAR"):
        del columns[split]
    lists = [one for one, kind in columns.items() if re.fullmatch(r"(FLOAT|DOUBLE)\[\d*\]", kind)]
    floats = [one for one, kind in columns.items() if kind in _FLOATS]
    features: Any = lists[0] if lists else floats
    if features:
        told["features"] = features
    if label:
        told["label"] = label
    if times := [one for one, kind in columns.items() if _is_time(kind)]:
        told["times"] = times
    taken = {features} if isinstance(features, str) else set(features)
    attrs = [one for one, kind in columns.items() if one not in taken and (_is_number(kind) or re.fullmatch(r"(.*)\[\d*\]", kind) and one in lists)]
    if attrs:
        told["attrs"] = attrs
    if split:
        told["split"] = split
    return _with_names(told)


def _edges(src: str, dst: str, source: Source, where: str) -> dict[str, Any]:
    columns = dict(source.columns)
    keys = [one for one, kind in columns.items() if _is_key(kind)]
    own = [(one.lower() + "_id", one.lower() + "_key", one.lower() + "id", one.lower()) for one in (src, dst)]
    source_key = _called(columns, (*_SOURCES, *(own[0] if src != dst else ())), _is_key) or next(iter(keys), None)
    rest = {one: kind for one, kind in columns.items() if one != source_key}
    target_key = _called(rest, (*_TARGETS, *(own[1] if src != dst else ())), _is_key) or next((one for one in keys if one != source_key), None)
    if source_key is None or target_key is None:
        raise InvalidError(f"{where}: {source.title} has no two columns that can be keys; it has: {', '.join(columns)}")
    del columns[source_key], columns[target_key]
    told: dict[str, Any] = {"src_key": source_key, "dst_key": target_key}
    if weight := _called(columns, _WEIGHTS, lambda kind: kind in _FLOATS or kind in INTEGERS):
        told["weight"] = weight
        del columns[weight]
    times = [one for one, kind in columns.items() if _is_time(kind)]
    if times:
        told["time"] = times[0]
    attrs = [one for one, kind in columns.items() if _is_number(kind)]
    if attrs:
        told["attrs"] = attrs
    return _with_names(told)


def _with_names(told: dict[str, Any]) -> dict[str, Any]:
    """Columns whose name no attribute can have are given one."""
    for field in ("times", "attrs"):
        told = told | ({field: [_named(one) for one in told[field]]} if field in told else {})
    return told


def _named(column: str) -> Any:
    plain = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_\-]", "_", column)).strip("_")[:31] or "attr"
    return column if plain == column else {"name": plain, "column": column}
