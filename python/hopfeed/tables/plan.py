"""A description and the tables that it names, brought together: what is the key, what is stored of which columns, and how
our queries read it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from hopfeed.errors import InvalidError
from hopfeed.tables import sql
from hopfeed.tables.description import Attribute, Description, Edges, Nodes, Split
from hopfeed.tables.engine import Engine
from hopfeed.tables.sources import Source, Sources
from hopfeed.tables.stored import INTEGERS, Stored, resolve


@dataclass(frozen=True)
class Columns:
    """Columns of a table under the names that our queries have for them: ``c0``, ``c1``, ..."""

    names: tuple[str, ...] = ()

    def input(self, name: str) -> str:
        return f"c{self.names.index(name)}"

    @property
    def inputs(self) -> list[str]:
        return [f"c{i}" for i in range(len(self.names))]

    def selected(self) -> str:
        """Behind another column of a SELECT, from the table itself."""
        return "".join(f", {sql.name(name)} AS c{i}" for i, name in enumerate(self.names))

    def passed(self, of: str = "") -> str:
        """Behind another column of a SELECT, from a query that has them."""
        return "".join(f", {of}{one}" for one in self.inputs)

    def shown(self) -> str:
        """Back under the table's own names."""
        return "".join(f", c{i} AS {sql.name(name)}" for i, name in enumerate(self.names))


@dataclass(frozen=True)
class NodePlan:
    """A node type.

    Attributes:
        key_kind: ``int64``, ``string`` or ``uuid``.
        columns: of attributes and of the split.
        relation: the table, as ``key, c0, c1, ...``; empty where nodes are the ends of edges.
    """

    nodes: Nodes
    source: Source | None
    key_kind: str
    stored: tuple[Stored, ...] = ()
    columns: Columns = field(default_factory=Columns)
    relation: str = ""

    @property
    def where(self) -> str:
        return self.nodes.where

    def label(self) -> Stored | None:
        return next((one for one in self.stored if one.attr.role == "label"), None)

    def one_of_each(self, rows: str) -> str:
        """Query of one row for each key, the first by all columns, of rows in the form of ``relation``."""
        return f"{self._numbered(rows)} = 1 ORDER BY key"

    def others_of_each(self, rows: str) -> str:
        """Query of the rows that ``one_of_each`` leaves out."""
        return f"{self._numbered(rows)} > 1"

    def _numbered(self, rows: str) -> str:
        """Query of the rows whose place among those of their key, from 1 on, is as stands behind it. (DuckDB's DISTINCT ON has
        no counterpart for the others, and makes 0.0 of -0.0.)"""
        order = "key" + "".join(f", {one} NULLS LAST, {one}::VARCHAR" for one in self.columns.inputs)
        place = f"row_number() OVER (PARTITION BY key ORDER BY {order}) AS place"
        return f"SELECT * EXCLUDE (place) FROM (SELECT *, {place} FROM {rows}) WHERE place"

    def time(self, name: str) -> Stored | None:
        """An attribute that edges which leave these nodes may be ordered by."""
        return next((one for one in self.stored if one.name == name and one.element == "int64" and one.width == 0), None)


@dataclass(frozen=True)
class EdgePlan:
    """An edge type.

    Attributes:
        relation: the table, as ``sk, dk, c0, c1, ...``; empty where the edges are those of another type.
    """

    edges: Edges
    source: Source | None
    stored: tuple[Stored, ...] = ()
    columns: Columns = field(default_factory=Columns)
    relation: str = ""

    @property
    def where(self) -> str:
        return self.edges.where

    def own_time(self, name: str) -> Stored | None:
        return next((one for one in self.stored if one.name == name), None)


@dataclass(frozen=True)
class Plan:
    """All types, in the description's order."""

    name: str
    nodes: tuple[NodePlan, ...]
    edges: tuple[EdgePlan, ...]

    def node_number(self, name: str) -> int:
        return next(i for i, one in enumerate(self.nodes) if one.nodes.name == name)

    def ends(self, edges: EdgePlan) -> tuple[int, int]:
        """Numbers of the node types that edges leave and end at."""
        return self.node_number(edges.edges.src), self.node_number(edges.edges.dst)

    def source_times(self, edges: EdgePlan) -> list[str]:
        """Times of an edge type that are those of its sources."""
        return [time for time in edges.edges.times if edges.own_time(time) is None]


def make_plan(description: Description, engine: Engine, sources: Sources) -> Plan:
    """Opens the tables and looks at their columns; no row is read but to learn how long lists are.

    Raises:
        InvalidError: a column that is not there or cannot be what it is to be; NotFoundError: no such table.
    """
    edge_sources = [sources.open(one.table, one.where) if one.table else None for one in description.edges]
    nodes = tuple(_node_plan(one, description, edge_sources, engine, sources) for one in description.nodes)
    edges = list[EdgePlan]()
    for one, source in zip(description.edges, edge_sources):
        edges.append(_edge_plan(one, source, description, nodes, engine))
    for i, one in enumerate(edges):
        if one.source is None and one.edges.rev_of is not None:
            of = edges[one.edges.rev_of]
            edges[i] = dataclasses.replace(one, stored=of.stored, columns=of.columns)
    plan = Plan(description.name, nodes, tuple(edges))
    for one in plan.edges:
        _check_times(plan, one)
    return plan


SQL_KINDS = {"int64": "BIGINT", "string": "VARCHAR", "uuid": "UUID"}  # DuckDB's types of keys


def key_kind(kind: str, column: str, where: str) -> str:
    """``int64``, ``string`` or ``uuid`` by DuckDB's type.

    Raises:
        InvalidError: what is no key.
    """
    if kind in INTEGERS:
        return "int64"
    if kind in ("VARCHAR", "UUID"):
        return {"VARCHAR": "string", "UUID": "uuid"}[kind]
    told = "numbers with a fraction are no keys; make it whole numbers or texts" if kind in ("FLOAT", "DOUBLE") or kind.startswith("DECIMAL") else "keys are integers, texts or UUIDs"
    raise InvalidError(f"{where}: the key column '{column}' is {kind}; {told}")


def key_expression(column: str, kind: str) -> str:
    """A key column as our queries have it; integers beyond int64 are none."""
    return f"TRY_CAST({sql.name(column)} AS BIGINT)" if kind == "int64" else sql.name(column)


def _node_plan(nodes: Nodes, description: Description, edge_sources: Sequence[Source | None], engine: Engine, sources: Sources) -> NodePlan:
    if nodes.table is None:
        return NodePlan(nodes, None, _kind_of_ends(nodes, description, edge_sources))
    source = sources.open(nodes.table, nodes.where)
    kind = key_kind(source.column(nodes.key, nodes.where), nodes.key, nodes.where)
    columns = _columns(nodes.attributes, nodes.split)
    stored = tuple(_stored(attr, columns, source, nodes.where, engine) for attr in nodes.attributes)
    if nodes.split and nodes.split.column:
        source.column(nodes.split.column, f"{nodes.where}, split")
    relation = f"(SELECT {key_expression(nodes.key, kind)} AS key{columns.selected()} FROM {source.relation})"
    return NodePlan(nodes, source, kind, stored, columns, relation)


def _kind_of_ends(nodes: Nodes, description: Description, edge_sources: Sequence[Source | None]) -> str:
    kinds = dict[str, str]()
    for edges, source in zip(description.edges, edge_sources):
        for end, column in ((edges.src, edges.src_key), (edges.dst, edges.dst_key)):
            if source is not None and end == nodes.name:
                kinds[key_kind(source.column(column, edges.where), column, edges.where)] = edges.full_name
    if not kinds:
        raise InvalidError(f"{nodes.where} has no 'table', and no edges that name its nodes")
    if len(kinds) > 1:
        told = ", ".join(f"{kind} in '{name}'" for kind, name in kinds.items())
        raise InvalidError(f"{nodes.where} has keys of several types: {told}; make them one")
    return next(iter(kinds))


def _edge_plan(edges: Edges, source: Source | None, description: Description, nodes: Sequence[NodePlan], engine: Engine) -> EdgePlan:
    if source is None:
        return EdgePlan(edges, None)
    keys = []
    for column, end, name in ((edges.src_key, edges.src, "sk"), (edges.dst_key, edges.dst, "dk")):
        wanted = nodes[description.node_number(end)]
        kind = key_kind(source.column(column, edges.where), column, edges.where)
        if kind != wanted.key_kind:
            remedy = 'say its type in "types"' if source.relation.startswith("read_csv") else "make them one"
            raise InvalidError(f"{edges.where}: the keys in '{column}' are {kind}, and those of {wanted.where} are {wanted.key_kind}; {remedy}")
        keys.append(f"{key_expression(column, kind)} AS {name}")
    columns = _columns(edges.attributes, None)
    stored = tuple(_stored(attr, columns, source, edges.where, engine) for attr in edges.attributes)
    return EdgePlan(edges, source, stored, columns, f"(SELECT {', '.join(keys)}{columns.selected()} FROM {source.relation})")


def _columns(attributes: Sequence[Attribute], split: Split | None) -> Columns:
    names = [name for attr in attributes for name in attr.columns]
    if split is not None and split.column:
        names.append(split.column)
    return Columns(tuple(dict.fromkeys(names)))


def _stored(attr: Attribute, columns: Columns, source: Source, where: str, engine: Engine) -> Stored:
    types = [source.column(name, f"{where}, '{attr.name}'") for name in attr.columns]
    width = 0
    if types[0].endswith("[]") and not attr.width:
        column = sql.name(attr.columns[0])
        found = engine.run(f"SELECT len({column}) FROM {source.relation} WHERE {column} IS NOT NULL LIMIT 1", of=f"{where}: {source.title}")
        width = found[0][0] if found else 0
    return resolve(attr, [columns.input(name) for name in attr.columns], types, where, width)


def _check_times(plan: Plan, edges: EdgePlan) -> None:
    sources = plan.nodes[plan.ends(edges)[0]]
    for time in plan.source_times(edges):
        if sources.time(time) is None:
            raise InvalidError(f"{edges.where} has the time '{time}', which is no time of its own nor of {sources.where}")
