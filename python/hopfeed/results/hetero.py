"""Models that ``to_hetero`` has made, by stages: their graph of calls is cut where a convolution reads other nodes' rows.

A row's value depends on its own node's values alone, but in a convolution. So a value's depth is how many convolutions it
stands behind, and each depth is a stage; what a deeper one reads lies in files between them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from hopfeed.dataset import Dataset
from hopfeed.errors import UnsupportedError
from hopfeed.results.convolutions import convolution
from hopfeed.results.rowwise import require_rowwise
from hopfeed.results.stages import EdgeType, Model, Relation, Task, Value


class _Given:
    """A dict that the model is called with, or a field of one: rows of nodes, edges, or something else, which is None."""

    def __init__(self, argument: str, key: Any = None) -> None:
        self.argument, self.key = argument, key


class _Rows:
    """Rows of a type's nodes, behind so many convolutions, and the call that gives them."""

    def __init__(self, node_type: str, depth: int, call: fx.Node) -> None:
        self.node_type, self.depth, self.call = node_type, depth, call

    @property
    def value(self) -> Value:
        is_given = self.call.op == "call_method" and self.call.target == "get" and self.depth == 0
        return Value(self.node_type, "x" if is_given else self.call.name)


def stages_of_graph_module(model: fx.GraphModule, dataset: Dataset, edge: dict[str, str]) -> Model:
    """Raises ``UnsupportedError`` naming the call that is no convolution and does not go row by row."""
    return _Reading(model, dataset, edge).model()


class _Reading:
    def __init__(self, module: fx.GraphModule, dataset: Dataset, edge: dict[str, str]) -> None:
        self._module, self._dataset, self._edge = module, dataset, edge
        self._meaning: dict[fx.Node, Any] = {}
        self._relations: dict[fx.Node, Relation] = {}
        self._reads: dict[fx.Node, list[_Rows]] = {}
        for node in module.graph.nodes:
            self._meaning[node] = self._read(node)

    def _of(self, argument: Any) -> Any:
        """What an argument stands for, tuples and lists of such included."""
        if isinstance(argument, fx.Node):
            return self._meaning[argument]
        if isinstance(argument, (tuple, list)):
            return tuple(self._of(inner) for inner in argument)
        return argument

    def _read(self, node: fx.Node) -> Any:
        if node.op == "placeholder":
            return _Given(node.target)
        if node.op == "output":
            return None
        args = self._of(node.args)
        if node.op == "call_function" and getattr(node.target, "__name__", "") == "get_dict":
            return args[0]
        if node.op == "call_method" and node.target == "get" and isinstance(args[0], _Given):
            return self._field(node, args[0].argument, args[1])
        if node.op == "call_function" and node.target is operator.getitem and isinstance(args[0], tuple):
            return args[0][args[1]]
        if node.op == "call_module":
            module = self._module.get_submodule(node.target)
            if type(module).__name__ == "TrimToLayer":
                return args[3:6]  # nothing was sampled, so nothing is trimmed
            if type(module).__module__.startswith("torch_geometric.nn.conv"):
                return self._convolution(node, module)
            require_rowwise(module, f"{node.target} of the model")
        if node.kwargs.get("training") is True:
            raise UnsupportedError(f"the model has {node.format_node()}, fixed when it was traced in training; use torch.nn.Dropout")
        return self._by_rows(node)

    def _field(self, node: fx.Node, argument: str, key: Any) -> Any:
        if isinstance(key, tuple):
            self._dataset._edge(key)
            return _Given(argument, key)
        if argument == "x":
            self._dataset._node(key)
            return _Rows(key, 0, node)
        return None

    def _convolution(self, node: fx.Node, module: Any) -> _Rows:
        x, edges, *others = self._of(node.args)
        source, own = x if isinstance(x, tuple) else (x, x)
        if not (isinstance(source, _Rows) and isinstance(own, _Rows) and isinstance(edges, _Given) and isinstance(edges.key, tuple)):
            raise UnsupportedError(f"{node.target} of the model is called in a way that is not known: {node.format_node()}")
        edge_type: EdgeType = edges.key
        given = {given.argument for given in (*others, *self._of(tuple(node.kwargs.values()))) if isinstance(given, _Given)}
        edge = {argument: attribute for argument, attribute in self._edge.items() if argument in given}
        made = convolution(module, f"{node.target} ({type(module).__name__})", edge)
        self._relations[node] = Relation(edge_type, source.value, own.value, made)
        self._reads[node] = [source, own]
        return _Rows(edge_type[2], 1 + max(source.depth, own.depth), node)

    def _by_rows(self, node: fx.Node) -> Any:
        read = [self._meaning[argument] for argument in node.all_input_nodes]
        rows = [meaning for meaning in read if isinstance(meaning, _Rows)]
        if not rows:
            return None
        if len({meaning.node_type for meaning in rows}) > 1 or any(meaning is not None for meaning in read if meaning not in rows):
            raise UnsupportedError(f"the model does something else than convolutions and calls by rows: {node.format_node()}")
        self._reads[node] = rows
        return _Rows(rows[0].node_type, max(meaning.depth for meaning in rows), node)

    def model(self) -> Model:
        output = next(node for node in self._module.graph.nodes if node.op == "output").args[0]
        found = {name: self._meaning[node] for name, node in output.items()} if isinstance(output, dict) else {}
        if not found or not all(isinstance(rows, _Rows) for rows in found.values()):
            raise UnsupportedError("the model gives no dict of rows by node type; make it by to_hetero")
        kept = {rows.call for rows in found.values()} | self._kept()
        made = [node for node in self._module.graph.nodes if node in kept and self._meaning[node].value.name != "x"]
        stages = []
        for depth in range(1 + max((self._meaning[node].depth for node in made), default=0)):
            here = [self._meaning[node] for node in made if self._meaning[node].depth == depth]
            types = dict.fromkeys(rows.node_type for rows in here)
            stages.append([self._task(name, depth, [rows for rows in here if rows.node_type == name]) for name in types])
        return Model([stage for stage in stages if stage], {name: rows.value for name, rows in found.items()}, [self._module], [])

    def _kept(self) -> set[fx.Node]:
        """Calls whose rows lie between stages: what convolutions read, and what is read at a greater depth."""
        return {
            rows.call for node, read in self._reads.items() for rows in read if node in self._relations or rows.depth < self._meaning[node].depth
        }

    def _task(self, node_type: str, depth: int, made: list[_Rows]) -> Task:
        needed = self._calls(made, depth)
        relations = [node for node in needed if node in self._relations]
        steps = [node for node in needed if node not in self._relations]
        read = {rows.call: rows.value for node in steps for rows in self._reads[node] if self._is_there(rows, depth)}

        def finish(outs: list[torch.Tensor], own: dict[Value, torch.Tensor]) -> list[torch.Tensor]:
            known: dict[fx.Node, Any] = {**dict(zip(relations, outs)), **{call: own[value] for call, value in read.items()}}
            for node in steps:
                known[node] = self._call(node, lambda argument: self._known(known, argument))
            return [known[rows.call] for rows in made]

        title = f"depth {depth} of the model"
        return Task(node_type, title, [self._relations[node] for node in relations], [rows.value for rows in made], finish, list(read.values()))

    def _known(self, known: dict[fx.Node, Any], argument: fx.Node) -> Any:
        """What a call is given; what nobody gives to the model is None."""
        meaning = self._meaning[argument]
        return None if meaning is None else known[meaning.call]

    @staticmethod
    def _is_there(rows: _Rows, depth: int) -> bool:
        """Whether they come from an earlier stage, or are given."""
        return rows.depth < depth or rows.value.name == "x"

    def _calls(self, made: list[_Rows], depth: int) -> list[fx.Node]:
        """All calls of this depth that these rows need, in the model's order."""
        needed: set[fx.Node] = set()
        look = list(made)
        while look:
            rows = look.pop()
            if rows.call in needed or self._is_there(rows, depth):
                continue
            needed.add(rows.call)
            if rows.call not in self._relations:
                look += self._reads[rows.call]
        return [node for node in self._module.graph.nodes if node in needed]

    def _call(self, node: fx.Node, known: Callable[[fx.Node], Any]) -> Any:
        args, kwargs = fx.map_arg(node.args, known), fx.map_arg(node.kwargs, known)
        if node.op == "call_module":
            return self._module.get_submodule(node.target)(*args, **kwargs)
        if node.op == "call_method":
            first, *others = args
            return getattr(first, node.target)(*others, **kwargs)
        return node.target(*args, **kwargs)
