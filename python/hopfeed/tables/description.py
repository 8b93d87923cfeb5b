"""What a user says of the tables: node types and edge types, their keys and attributes. It is checked for sense here,
without a look at any table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hopfeed.errors import InvalidError, NotFoundError
from hopfeed.tables.made import Made, MadeLinks
from hopfeed.tables.names import checked, checked_attribute

UNITS = ("s", "ms", "us", "ns")
ELEMENTS = ("uint8", "int8", "int16", "int32", "int64", "uint32", "float32", "float64", "bool")
_TABLE = ("format", "types", "delimiter", "header", "null")


@dataclass(frozen=True)
class Table:
    """Where rows are.

    Attributes:
        paths: files, globs, folders, or ``s3://``; relative ones from the description's folder.
        format: ``parquet`` or ``csv``; empty: by the names of the files.
        types: of columns of CSV, by name (DuckDB's names of types).
        null: texts that are no value in CSV, beside the empty one.
        columns: of CSV, all that there are by name, and their types; empty: the type that all values have.
        comment: what a line of CSV begins with that is left out.
        quoted: fields of CSV may stand in ``"``; without, that sign is one as any other.
        once: text is parsed once, and kept as Parquet in a stage.
        made: what makes the table, where it is none yet; ``paths`` are what that is made of.
    """

    paths: tuple[str, ...]
    format: str = ""
    types: Mapping[str, str] = field(default_factory=dict)
    delimiter: str | None = None
    header: bool | None = None
    null: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    quoted: bool = True
    once: bool = False
    made: Made | None = None


@dataclass(frozen=True)
class Attribute:
    """An attribute to be stored: of one column, or of several numeric ones side by side.

    Attributes:
        role: ``features``, ``label``, ``weight``, ``time`` or ``attr``.
        element: of the dataset; empty: as the column has it.
        unit: of times.
        width: of a list column; 0: as the table has it.
        classes: of labels that are texts, in order; empty: all that the column has, sorted.
        num_classes: of labels that are numbers: how many there are at least; 0: as many as the column has.
    """

    name: str
    columns: tuple[str, ...]
    role: str
    element: str = ""
    unit: str = "s"
    width: int = 0
    classes: tuple[str, ...] = ()
    num_classes: int = 0


@dataclass(frozen=True)
class Split:
    """How nodes are told into splits.

    Attributes:
        kind: ``column``, ``fractions`` or ``time``.
        column: of the values, or the times.
        values: split name -> values of the column that are it; empty: values are names.
        fractions: split name -> share of a hash of the key.
        until: split name -> the first time that is no more of it, or None; in order.
        of: ``all`` nodes, or those that are ``labelled``.
    """

    kind: str
    column: str = ""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fractions: Mapping[str, float] = field(default_factory=dict)
    until: Mapping[str, str | int | None] = field(default_factory=dict)
    of: str = "labelled"


@dataclass(frozen=True)
class Nodes:
    """A node type. Without a table its nodes are the ends of edges.

    Attributes:
        numbered: keys are 0, 1, ... to the last node's: they are the original ids.
    """

    name: str
    table: Table | None
    key: str
    attributes: tuple[Attribute, ...] = ()
    split: Split | None = None
    numbered: bool = False

    @property
    def where(self) -> str:
        return f"node type '{self.name}'"

    def label(self) -> Attribute | None:
        return next((attr for attr in self.attributes if attr.role == "label"), None)


@dataclass(frozen=True)
class Edges:
    """An edge type.

    Attributes:
        table: None: its edges are those of ``rev_of``, the other way round.
        times: names of attributes, of the edges or else of their sources, that rows are ordered by.
        rev_of: number of the edge type that these are the reverse of.
        undirected: each row is an edge both ways, a loop one edge.
        links: splits of links.
    """

    src: str
    rel: str
    dst: str
    table: Table | None
    src_key: str = ""
    dst_key: str = ""
    attributes: tuple[Attribute, ...] = ()
    times: tuple[str, ...] = ()
    rev_of: int | None = None
    undirected: bool = False
    links: tuple[MadeLinks, ...] = ()

    @property
    def full_name(self) -> str:
        return f"{self.src}__{self.rel}__{self.dst}"

    @property
    def where(self) -> str:
        return f"edge type '{self.full_name}'"


@dataclass(frozen=True)
class Description:
    """All of it; lists give types their order. ``notes``: lines that do not end the import."""

    name: str
    nodes: tuple[Nodes, ...]
    edges: tuple[Edges, ...]
    folder: Path  # that relative paths begin at
    notes: tuple[str, ...] = ()

    def node_number(self, name: str) -> int:
        return next(i for i, nodes in enumerate(self.nodes) if nodes.name == name)


class _Fields:
    """One object of the description; complaints name it."""

    def __init__(self, given: Any, where: str, known: Sequence[str]) -> None:
        if not isinstance(given, Mapping):
            raise InvalidError(f"{where} is no object {{...}}")
        for key in given:
            if key not in known:
                raise InvalidError(f"{where} has an unknown field '{str(key)[:40]}'; it may have: {', '.join(known)}")
        self.given, self.where = given, where

    def has(self, key: str) -> bool:
        return self.given.get(key) is not None

    def fail(self, what: str) -> InvalidError:
        return InvalidError(f"{self.where} {what}")

    def text(self, key: str) -> str:
        value = self.given.get(key)
        if not isinstance(value, str) or not value:
            raise self.fail(f"has no '{key}'" if value is None else f"has '{key}' that is no text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.given.get(key)
        if value is None:
            return ()
        several = [value] if isinstance(value, str) else value
        if not isinstance(several, Sequence) or not several or not all(isinstance(one, str) and one for one in several):
            raise self.fail(f"has '{key}' that is neither a text nor a list of texts")
        return tuple(several)

    def flag(self, key: str) -> bool | None:
        value = self.given.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.fail(f"has '{key}' that is neither true nor false")
        return value

    def chosen(self, key: str, choices: Sequence[str], default: str) -> str:
        value = self.given.get(key, default)
        if value not in choices:
            raise self.fail(f"has '{key}' = {value!r}; it may be: {', '.join(choices)}")
        return str(value)

    def objects(self, key: str) -> Sequence[Any]:
        value = self.given.get(key)
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self.fail(f"has no list '{key}'")
        return value


def read(source: object) -> Description:
    """A description from a path (JSON, or YAML where PyYAML is there), or from an object as such a file has it; one that is
    read already stays as it is.

    Raises:
        NotFoundError: there is no such file; InvalidError: what it says makes no sense, by its place.
    """
    if isinstance(source, Description):
        return source
    if isinstance(source, Mapping):
        return parse(source, "the description", Path.cwd())
    path = Path(str(source))
    return parse(load(path), str(path), path.parent)


def load(path: Path) -> Any:
    """What a file of JSON or YAML says.

    Raises:
        NotFoundError: there is no such file; InvalidError: it is neither.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidError(f"{path} is no text in UTF-8; it has to be JSON or YAML") from None
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}") from None
    if path.suffix in (".yaml", ".yml"):
        try:
            import yaml
        except ImportError:
            raise InvalidError(f"{path} is YAML, which needs the package pyyaml: pip install 'hopfeed[tables]'") from None
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InvalidError(f"{path} is no valid YAML: {' '.join(str(error).split())}") from None
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _once(pairs, path))
    except json.JSONDecodeError as error:
        raise InvalidError(f"{path} is no valid JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise InvalidError(f"{path} nests too deep") from None


def _once(pairs: list[tuple[str, Any]], path: Path) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidError(f"{path}: '{twice}' is given twice in one place; say it once")
    return found


def parse(given: Any, where: str, folder: Path) -> Description:
    """A description as an object; relative paths begin at ``folder``."""
    fields = _Fields(given, where, ("name", "nodes", "edges"))
    nodes = tuple(_nodes(one, f"{where}: node type {i}", folder) for i, one in enumerate(fields.objects("nodes")))
    if not nodes:
        raise fields.fail("has no node type")
    for i, one in enumerate(nodes):
        if one.name in [other.name for other in nodes[:i]]:
            raise fields.fail(f"has two node types '{one.name}'; a type has one table, which may be many files")
    asked = fields.objects("edges") if fields.has("edges") else []
    edges = [_edges(one, f"{where}: edge type {i}", folder, nodes) for i, one in enumerate(asked)]
    for i, one in enumerate(edges):
        if one.full_name in [other.full_name for other in edges[:i]]:
            raise fields.fail(f"has two edge types '{one.full_name}'; a type has one table, which may be many files")
    reverses = [_reversed(one, asked[i].get("rev_of"), edges, f"{where}: edge type {i}") for i, one in enumerate(edges)]
    return Description(str(fields.given.get("name") or "tables"), nodes, tuple(reverses), folder)


def _table(fields: _Fields, folder: Path) -> Table:
    paths = tuple(path if "://" in path or Path(path).is_absolute() else str(folder / path) for path in fields.texts("table"))
    types = fields.given.get("types") or {}
    if not isinstance(types, Mapping) or not all(isinstance(one, str) for pair in types.items() for one in pair):
        raise fields.fail("has 'types' that is no object of columns and types")
    return Table(
        paths,
        fields.chosen("format", ("", "parquet", "csv"), ""),
        dict(types),
        fields.text("delimiter") if fields.has("delimiter") else None,
        fields.flag("header"),
        fields.texts("null"),
    )


def _nodes(given: Any, where: str, folder: Path) -> Nodes:
    known = ("name", "table", "key", "features", "label", "times", "attrs", "split", *_TABLE)
    fields = _Fields(given, where, known)
    name = checked(fields.text("name"), where, "node type")
    where = fields.where = f"{where} ('{name}')"
    if not fields.has("table"):
        if extra := [key for key in known[3:] if fields.has(key)]:
            raise fields.fail(f"has '{extra[0]}' and no 'table'")
        return Nodes(name, None, "")
    attributes = []
    if fields.has("features"):
        attributes.append(_attribute(fields.given["features"], where, "features", "x"))
    if fields.has("label"):
        attributes.append(_attribute(fields.given["label"], where, "label", "y"))
    attributes += _several(fields, "times", "time") + _several(fields, "attrs", "attr")
    _check_twice(attributes, where)
    split = _split(fields.given["split"], f"{where}, split", any(attr.role == "label" for attr in attributes)) if fields.has("split") else None
    return Nodes(name, _table(fields, folder), fields.text("key"), tuple(attributes), split)


def _edges(given: Any, where: str, folder: Path, nodes: Sequence[Nodes]) -> Edges:
    known = ("src", "rel", "dst", "table", "src_key", "dst_key", "weight", "time", "times", "attrs", "rev_of", "undirected", *_TABLE)
    fields = _Fields(given, where, known)
    src, rel, dst = (checked(fields.text(key), where, "type") for key in ("src", "rel", "dst"))
    where = fields.where = f"{where} ('{src}__{rel}__{dst}')"
    for end in (src, dst):
        if end not in [one.name for one in nodes]:
            raise fields.fail(f"ends at '{end}', which is no node type; there are: {', '.join(one.name for one in nodes)}")
    undirected = bool(fields.flag("undirected"))
    if undirected and src != dst:
        raise fields.fail(f"is undirected, but leads from '{src}' to '{dst}'; add an edge type with \"rev_of\": \"{rel}\" instead")
    times = fields.texts("times")
    if not fields.has("table"):
        if not fields.has("rev_of"):
            raise fields.fail("has no 'table'")
        if extra := [key for key in known[4:8] + known[9:10] + known[11:] if fields.has(key)]:
            raise fields.fail(f"has '{extra[0]}' and no 'table'; its edges are those of '{fields.given['rev_of']}', the other way round")
        return Edges(src, rel, dst, None, times=times)
    attributes = []
    if fields.has("weight"):
        attributes.append(_attribute(fields.given["weight"], where, "weight", "weight"))
    if fields.has("time"):
        attributes.append(_attribute(fields.given["time"], where, "time", "time"))
        times = (attributes[-1].name, *times)
    attributes += _several(fields, "attrs", "attr")
    _check_twice(attributes, where)
    if len(set(times)) < len(times):
        raise fields.fail(f"has a time twice: {', '.join(times)}")
    return Edges(src, rel, dst, _table(fields, folder), fields.text("src_key"), fields.text("dst_key"), tuple(attributes), times, None, undirected)


def _several(fields: _Fields, key: str, role: str) -> list[Attribute]:
    given = fields.given.get(key)
    several = [] if given is None else [given] if isinstance(given, (str, Mapping)) else given
    if not isinstance(several, Sequence):
        raise fields.fail(f"has '{key}' that is no list of columns")
    return [_attribute(one, fields.where, role, None) for one in several]


def _attribute(given: Any, where: str, role: str, name: str | None) -> Attribute:
    """``"column"``, ``["column", ...]``, or an object with ``column`` or ``columns`` and what else is said of it."""
    if isinstance(given, str) or (isinstance(given, Sequence) and role == "features"):
        given = {"columns" if not isinstance(given, str) else "column": given}
    own = {"features": ("width",), "label": ("classes",), "weight": ("type",), "time": ("unit",), "attr": ("type", "width")}[role]
    fields = _Fields(given, f"{where}, {role}", ("name", "column", "columns", *own))
    columns = fields.texts("columns") if fields.has("columns") else (fields.text("column"),)
    if len(columns) > 1 and role not in ("features", "attr"):
        raise fields.fail(f"has {len(columns)} columns; it is one")
    if len(set(columns)) < len(columns):
        raise fields.fail(f"has a column twice: {', '.join(columns)}")
    called = checked_attribute(fields.given.get("name") or name or columns[0], fields.where)
    if role in ("features", "label") and called != name:
        raise fields.fail(f"is stored as '{name}'; name it otherwise as one of 'attrs'")
    width = fields.given.get("width", 0)
    if not isinstance(width, int) or isinstance(width, bool) or not 0 <= width <= 1 << 22:
        raise fields.fail(f"has 'width' = {width!r}, expected a whole number from 1 to {1 << 22}")
    element = {"features": "float32", "label": "int64", "time": "int64"}.get(role) or fields.chosen("type", ("", *ELEMENTS), "")
    return Attribute(called, columns, role, element, fields.chosen("unit", UNITS, "s"), width, fields.texts("classes"))


def _check_twice(attributes: Sequence[Attribute], where: str) -> None:
    names = [attr.name for attr in attributes]
    for name in names:
        if names.count(name) > 1:
            raise InvalidError(f"{where} has two attributes '{name}'; name one otherwise: {{\"name\": ..., \"column\": ...}}")


def _split(given: Any, where: str, has_label: bool) -> Split:
    if isinstance(given, str):
        given = {"column": given}
    fields = _Fields(given, where, ("column", "values", "fractions", "time", "until", "of"))
    kinds = [key for key in ("column", "fractions", "time") if fields.has(key)]
    if len(kinds) != 1:
        raise fields.fail("is by one of 'column', 'fractions' and 'time'")
    of = fields.chosen("of", ("all", "labelled"), "labelled" if has_label else "all")
    if of == "labelled" and not has_label:
        raise fields.fail("is of labelled nodes, and the node type has no label")
    if kinds == ["column"]:
        values = fields.given.get("values") or {}
        if not isinstance(values, Mapping):
            raise fields.fail("has 'values' that is no object of splits and values")
        told = {checked(name, where, "split"): tuple(_value(one) for one in (several if isinstance(several, list) else [several])) for name, several in values.items()}
        return Split("column", fields.text("column"), values=told, of="all")
    if kinds == ["fractions"]:
        return Split("fractions", fractions=_fractions(fields), of=of)
    until = fields.given.get("until")
    if not isinstance(until, Mapping) or not until or any(end is None for end in list(until.values())[:-1]):
        raise fields.fail("has no 'until', an object of splits and the times that they end at, in order; the last may be null")
    for name in until:
        checked(name, where, "split")
    return Split("time", fields.text("time"), until=dict(until), of=of)


def _value(given: object) -> str:
    """As DuckDB writes a value of a column."""
    return str(given).lower() if isinstance(given, bool) else str(given)


def _fractions(fields: _Fields) -> dict[str, float]:
    given = fields.given["fractions"]
    if not isinstance(given, Mapping) or not given:
        raise fields.fail("has 'fractions' that is no object of splits and shares")
    for name, share in given.items():
        checked(name, fields.where, "split")
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
            raise fields.fail(f"has the share {share!r} of '{name}', expected a number above 0, at most 1")
    if sum(given.values()) > 1 + 1e-9:
        raise fields.fail(f"has shares that add up to {sum(given.values()):g}, more than 1")
    return {name: float(share) for name, share in given.items()}


def _reversed(edges: Edges, of: object, all_edges: Sequence[Edges], where: str) -> Edges:
    if of is None:
        return edges
    back = [i for i, one in enumerate(all_edges) if one is not edges and (one.src, one.dst) == (edges.dst, edges.src)]
    found = [i for i in back if of in (all_edges[i].rel, all_edges[i].full_name)]
    if not found:
        names = ", ".join(all_edges[i].full_name for i in back) or "none"
        raise InvalidError(f"{where} has rev_of '{of}', which is no other edge type from '{edges.dst}' to '{edges.src}'; there are: {names}")
    reversed_of = all_edges[found[0]]
    if edges.table is not None:
        return replace(edges, rev_of=found[0])
    if reversed_of.table is None:
        raise InvalidError(f"{where} is the reverse of '{reversed_of.full_name}', which has no 'table' itself; say rev_of of one of the two")
    own = {attr.name for attr in reversed_of.attributes}
    times = edges.times or tuple(time for time in reversed_of.times if time in own)
    return replace(edges, rev_of=found[0], attributes=reversed_of.attributes, times=times)

