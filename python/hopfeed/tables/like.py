"""A description brought to what another import has: so that tomorrow's tables give tomorrow's graph for today's model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hopfeed.dataset import Dataset
from hopfeed.errors import CorruptError, InvalidError
from hopfeed.tables.description import Attribute, Description, Nodes

_NAME, _FORMAT = "tables.json", 1  # beside meta.json


def as_like(description: Description, folder: Path) -> Description:
    """Takes the classes of the other dataset's labels, and the types of its attributes where none are said.

    Raises:
        NotFoundError: it is no dataset.
    """
    other = Dataset(folder).meta
    description = _columns_like(description, folder)
    types = {node["name"]: {attr["name"]: attr for attr in node["attrs"]} for node in other["node_types"]}
    classes = tuple(other.get("class_names", ()))
    nodes = [_nodes_like(one, types.get(one.name, {}), classes if i == 0 else ()) for i, one in enumerate(description.nodes)]
    edge_types = {f"{edge['src']}__{edge['rel']}__{edge['dst']}": {attr["name"]: attr for attr in edge["attrs"]} for edge in other["edge_types"]}
    edges = [replace(one, attributes=tuple(_attribute_like(attr, edge_types.get(one.full_name, {})) for attr in one.attributes)) for one in description.edges]
    return replace(description, nodes=tuple(nodes), edges=tuple(edges))


def columns_of(description: Description) -> str:
    """What an import keeps of its tables in ``tables.json``: which columns each attribute has, in order."""
    told = {
        kind: {name: {attr.name: attr.columns for attr in one.attributes} for name, one in types.items()}
        for kind, types in (("nodes", {one.name: one for one in description.nodes}), ("edges", {one.full_name: one for one in description.edges}))
    }
    return json.dumps({"format": _FORMAT, **told}, indent=1) + "\n"


def _columns_like(description: Description, folder: Path) -> Description:
    """Columns of attributes in the order of the other import. One that was cut or changed since does not tell its order."""
    try:
        told = json.loads((folder / _NAME).read_text())
    except FileNotFoundError:
        return description
        if told["format"] != _FORMAT:
            raise ValueError(f"its format is {told['format']}")
        for types in (told["nodes"], told["edges"]):
            if not all(isinstance(column, str) for attributes in types.values() for columns in attributes.values() for column in columns):
                raise ValueError("a column is no text")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptError(f"{folder / _NAME} cannot be read ({error}); remove it, and columns are taken as they are described") from None

    def ordered(where: str, attr: Attribute, theirs: list[str]) -> Attribute:
        if max(len(attr.columns), len(theirs)) < 2 or list(attr.columns) == theirs:
            return attr
        if sorted(attr.columns) != sorted(theirs):
            raise InvalidError(f"{where}: '{attr.name}' has the columns {', '.join(attr.columns)}, and in {folder} {', '.join(theirs)}; --like wants the same")
        return replace(attr, columns=tuple(theirs))

    def like(one: Any, where: str, of_type: dict[str, list[str]]) -> Any:
        return replace(one, attributes=tuple(ordered(where, attr, of_type.get(attr.name, list(attr.columns))) for attr in one.attributes))

    nodes = [like(one, one.where, told["nodes"].get(one.name, {})) for one in description.nodes]
    edges = [like(one, f"edge type '{one.full_name}'", told["edges"].get(one.full_name, {})) for one in description.edges]
    return replace(description, nodes=tuple(nodes), edges=tuple(edges))


def _nodes_like(nodes: Nodes, types: dict[str, Any], classes: tuple[str, ...]) -> Nodes:
    attributes = [_attribute_like(attr, types) for attr in nodes.attributes]
    attributes = [replace(attr, classes=classes) if attr.role == "label" and not attr.classes else attr for attr in attributes]
    return replace(nodes, attributes=tuple(attributes))


def _attribute_like(attr: Attribute, types: dict[str, Any]) -> Attribute:
    found = types.get(attr.name)
    if found is None or attr.element:
        return attr
    return replace(attr, element=found["element_type"])


def check_like(draft: str, folder: Path) -> str:
    """The draft with as many classes as the other dataset has; refuses what a model of that could not take.

    Raises:
        InvalidError: types, attributes or classes differ, by the first that does.
    """
    this, other = json.loads(draft), Dataset(folder).meta
    for kind, names in (("node", ("name",)), ("edge", ("src", "rel", "dst"))):
        called = [["__".join(one[name] for name in names) for one in meta[f"{kind}_types"]] for meta in (this, other)]
        if called[0] != called[1]:
            raise InvalidError(f"the {kind} types are {', '.join(called[0])}, and those of {folder} are {', '.join(called[1])}; --like wants the same, in the same order")
        for name, one, there in zip(called[0], this[f"{kind}_types"], other[f"{kind}_types"]):
            mine, theirs = ([(attr["name"], attr["element_type"], attr["shape"]) for attr in meta["attrs"]] for meta in (one, there))
            if mine != theirs:
                raise InvalidError(f"{kind} type '{name}' has the attributes {_shown(mine)}, and in {folder} {_shown(theirs)}; --like wants the same, in the same order")
    labels = [node.get("num_classes", 0) for node in this["node_types"]], [node.get("num_classes", 0) for node in other["node_types"]]
    for node, mine, theirs in zip(this["node_types"], *labels):
        if mine > theirs:
            raise InvalidError(f"node type '{node['name']}' has {mine} classes, and {theirs} in {folder}; a model of that knows no others")
        node["num_classes"] = theirs
    return json.dumps(this)


def _shown(attrs: list[tuple[str, str, list[int]]]) -> str:
    return ", ".join(f"{name} ({kind}{f' [{shape[0]}]' if shape else ''})" for name, kind, shape in attrs) or "none"
