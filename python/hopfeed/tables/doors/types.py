"""What becomes of another system's node and edge types: which array is the features, which the label, what they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from hopfeed.conversion import TAKEN
from hopfeed.errors import InvalidError
from hopfeed.tables.arrays import Array
from hopfeed.tables.description import Attribute, Description, Edges, Nodes, Split
from hopfeed.tables.doors.columns import Column, Field, field_of, flat_field, numbers_field, table, titled
from hopfeed.tables.made import MadeLinks
from hopfeed.tables.names import checked

FEATURES = ("x", "feat", "features")  # the first of these that a type has as floats is its features
LABELS = ("y", "label", "labels")  # and of these as whole numbers its label
NONE = "none"  # what stands for no array, where an option names one
_DEFAULTS = {"_N": "node", "_E": "to"}  # what DGL calls the types of a graph that has one


@dataclass(frozen=True)
class Wishes:
    """What a user says of a folder beside the folder.

    Attributes:
        features, label: names of arrays of nodes that are these, or ``none``; without, by their usual names.
        weight, time: names of arrays of edges that are these.
        rename: another system's names of types, relations and arrays -> ours.
        drop: whether edges with an end that is no node are left out.
    """

    features: str | None = None
    label: str | None = None
    weight: str | None = None
    time: str | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    drop: bool = False


@dataclass(frozen=True)
class NodeType:
    """A node type as it was found: its own name, how many nodes, and in the order of their ids what they have."""

    name: str
    count: int
    columns: Sequence[Column] = ()
    label: Field | None = None
    split: Field | None = None
    split_values: Mapping[str, int] = field(default_factory=dict)  # of the split's column
    num_classes: int = 0
    files: Sequence[Path] = ()


@dataclass(frozen=True)
class EdgeType:
    """An edge type as it was found: its three names, pairs of ids, in the same order what edges have, and splits of links."""

    src: str
    rel: str
    dst: str
    pairs: Column
    columns: Sequence[Column] = ()
    links: Sequence[MadeLinks] = ()


class Types:
    """Makes a description of types.

    Args:
        metadata: the file that describes the folder.
    """

    def __init__(self, metadata: Path, wishes: Wishes) -> None:
        if wishes.features is not None and wishes.features == wishes.label != NONE:
            raise InvalidError(f"--features {wishes.features} and --label {wishes.label}: an array is one of the two")
        self._metadata, self._wishes = metadata, wishes
        self._seen = {"nodes": set[str](), "edges": set[str]()}
        self._renamed = set[str]()

    def description(self, name: str, nodes: Sequence[NodeType], edges: Sequence[EdgeType], notes: Sequence[str] = ()) -> Description:
        """Of all types. ``notes``: lines that do not end the import.

        Raises:
            InvalidError: a name that cannot be one, or an option that names nothing.
        """
        counts = {one.name: one.count for one in nodes}
        described = tuple(self._nodes(one) for one in nodes)
        led = [self._edges(one, counts) for one in edges]
        self._check_once([one.name for one in described], "node types")
        self._check_once([one.full_name for one in led], "edge types")
        self._check_used()
        return Description(name, described, tuple(_with_reverses(led)), self._metadata.parent, tuple(notes))

    def name(self, own: str, where: str, what: str) -> str:
        """What a type, relation or array is called here."""
        if own in self._wishes.rename:
            self._renamed.add(own)
        name = self._wishes.rename.get(own, _DEFAULTS.get(own, own))
        try:
            if (known := checked(name, where, what)) in TAKEN and what == "attribute":
                raise InvalidError(f"{where}: batches have a field '{known}' of their own")
            return known
        except InvalidError as error:
            raise InvalidError(f"{error}; --rename {own}=NAME gives it another") from None

    def _nodes(self, of: NodeType) -> Nodes:
        name = self.name(of.name, str(self._metadata), "node type")
        where = f"node type '{name}'"
        self._seen["nodes"] |= {column.name for column in of.columns}
        features, label = self._features(of), self._label(of)
        fields, attributes = [numbers_field(free("id", of.columns), of.count)], list[Attribute]()
        if features is not None:
            fields.append(field_of(features, features.name))
            attributes.append(Attribute("x", (features.name,), "features", "float32", width=features.width))
        label_field = of.label if of.label is not None else flat_field(label, label.name) if label is not None else None
        if label_field is not None:
            fields.append(label_field)
            attributes.append(Attribute("y", label_field.names, "label", "int64", num_classes=of.num_classes))
        for column in of.columns:
            if column is not features and column is not label:
                fields.append(field_of(column, column.name))
                attributes.append(self._attribute(column, where, "attr"))
        if of.split is not None:
            fields.append(of.split)
        self._check_twice(attributes, where)
        split = Split("column", of.split.names[0], values={name: (str(value),) for name, value in of.split_values.items()}, of="all") if of.split else None
        files = [path for column in of.columns for path in column.paths] + list(of.files)
        title = titled(list(dict.fromkeys(files)) or [self._metadata], self._metadata.parent)
        rows = table(where, title, fields, [self._metadata, *files], lambda _: of.count)
        return Nodes(name, rows, fields[0].names[0], tuple(attributes), split, numbered=True)

    def _features(self, of: NodeType) -> Column | None:
        asked = self._wishes.features
        if asked is not None:
            return next((column for column in of.columns if column.name == asked and asked != NONE), None)
        return next((column for name in FEATURES for column in of.columns if column.name == name and column.dtype.kind == "f"), None)

    def _label(self, of: NodeType) -> Column | None:
        asked = self._wishes.label
        if asked is not None:
            found = next((column for column in of.columns if column.name == asked and asked != NONE), None)
            if found is not None and of.label is not None:
                raise InvalidError(f"--label {asked}: the task's labels are those of node type '{of.name}'; --task none leaves them out")
            return found
        if of.label is not None:
            return None
        return next((column for name in LABELS for column in of.columns if column.name == name and column.dtype.kind in "iu" and column.width < 2), None)

    def _edges(self, of: EdgeType, counts: Mapping[str, int]) -> Edges:
        own = f"{of.src}:{of.rel}:{of.dst}"
        src, rel, dst = (self.name(one, f"{self._metadata}: edge type '{own}'", "type") for one in (of.src, of.rel, of.dst))
        where = f"edge type '{src}__{rel}__{dst}'"
        self._seen["edges"] |= {column.name for column in of.columns}
        pairs = of.pairs if self._wishes.drop else replace(of.pairs, check=_within(of, counts))
        names = (free("src", of.columns), free("dst", of.columns))
        fields = [field_of(pairs, *names), *(field_of(column, column.name) for column in of.columns)]
        roles = {self._wishes.time: "time", self._wishes.weight: "weight"}
        attributes = [self._attribute(column, where, roles.get(column.name, "attr")) for column in of.columns]
        self._check_twice(attributes, where)
        times = tuple(attr.name for attr in attributes if attr.role == "time")
        files = [path for column in (pairs, *of.columns) for path in column.paths] + [Path(path) for links in of.links for path in links.files]
        rows = table(where, titled(pairs.paths, self._metadata.parent), fields, [self._metadata, *files], pairs.rows)
        return Edges(src, rel, dst, rows, *names, tuple(attributes), times, links=tuple(of.links))

    def _attribute(self, column: Column, where: str, role: str) -> Attribute:
        name = self.name(column.name, f"{where}: {column.where}", "attribute")
        return Attribute(name, (column.name,), role, "int64" if role == "time" else "", width=column.width)

    def _check_twice(self, attributes: Sequence[Attribute], where: str) -> None:
        names = [attr.name for attr in attributes]
        for attr in attributes:
            if names.count(attr.name) > 1:
                own = next(one.columns[0] for one in reversed(attributes) if one.name == attr.name)
                raise InvalidError(f"{where} has two attributes '{attr.name}'; --rename {own}=NAME gives one of them another name")

    def _check_once(self, names: Sequence[str], what: str) -> None:
        for name in names:
            if names.count(name) > 1:
                raise InvalidError(f"{self._metadata} has two {what} '{name}'; make them one, or --rename gives one of them another name")

    def _check_used(self) -> None:
        for kind, options in (("nodes", ("features", "label")), ("edges", ("weight", "time"))):
            for option in options:
                asked = getattr(self._wishes, option)
                if asked is not None and asked != NONE and asked not in self._seen[kind]:
                    raise InvalidError(f"--{option} {asked}: no {kind[:-1]} type has that; there are: {', '.join(sorted(self._seen[kind])) or 'none'}")
        if unused := sorted(set(self._wishes.rename) - self._renamed):
            raise InvalidError(f"--rename {unused[0]}={self._wishes.rename[unused[0]]}: nothing in {self._metadata} is called '{unused[0]}'")


def free(name: str, columns: Iterable[Column]) -> str:
    """A name for a column of ours that none of these has, whatever case letters have."""
    taken = {column.name.lower() for column in columns}
    while name in taken:
        name += "_"
    return name


def _within(of: EdgeType, counts: Mapping[str, int]) -> Callable[[Path, int, Array], None]:
    """What refuses an edge with an end that is no node."""

    def check(path: Path, begin: int, block: Array) -> None:
        for end, column in ((of.src, 0), (of.dst, 1)):
            wrong = np.flatnonzero((block[:, column] < 0) | (block[:, column] >= counts[end]))
            if len(wrong):
                src, dst = (int(one) for one in block[wrong[0]])
                raise InvalidError(
                    f"{path}: edge {begin + int(wrong[0])} (from 0) is {src} -> {dst}, and node type '{end}' has {counts[end]:,} nodes, from 0 on;"
                    " correct it, or --dangling drop leaves such edges out"
                )

    return check


def _with_reverses(edges: Sequence[Edges]) -> Iterable[Edges]:
    """An edge type ``rev_REL`` that leads back is known as the reverse of ``REL``."""
    number = {(one.src, one.rel, one.dst): i for i, one in enumerate(edges)}
    for one in edges:
        of = number.get((one.dst, one.rel.removeprefix("rev_"), one.src)) if one.rel.startswith("rev_") else None
        yield one if of is None else replace(one, rev_of=of)
