"""From a user's layers to stages: a list of layers, one of PyG's models, or HeteroConv; of ``to_hetero`` see hetero.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from hopfeed.dataset import Dataset
from hopfeed.errors import InvalidError, NotFoundError, UnsupportedError
from hopfeed.results.alterations import require_as_made
from hopfeed.results.convolutions import convolution, require_layer
from hopfeed.results.hetero import stages_of_graph_module
from hopfeed.results.rowwise import require_rowwise
from hopfeed.results.stages import EdgeType, Model, Relation, Task, Value

Activation = Callable[[torch.Tensor], torch.Tensor]


def model_of(layers: Any, dataset: Dataset, edge: dict[str, str], act: Activation | None) -> Model:
    """The stages of what a user gives.

    Args:
        edge: arguments of layers by name, and which attribute of the edges each gets.
        act: between layers of a list.

    Raises:
        InvalidError, UnsupportedError: naming what cannot be.
    """
    from torch_geometric.nn import HeteroConv
    from torch_geometric.nn.models.basic_gnn import BasicGNN

    if isinstance(layers, torch.fx.GraphModule):
        _refuse_act(act, layers)
        require_as_made(layers, type(layers).__name__, "put it on the modules in it")
        model = stages_of_graph_module(layers, dataset, edge)
    elif isinstance(layers, BasicGNN):
        _refuse_act(act, layers)
        model = _basic(layers, dataset, edge)
    else:
        if isinstance(layers, torch.nn.ModuleList) and getattr(layers.forward, "__func__", None) is not torch.nn.ModuleList.forward:
            raise UnsupportedError(f"{type(layers).__name__} has a forward of its own; give its layers as a list: layers=[...], act=...")
        if isinstance(layers, torch.nn.Module) and not isinstance(layers, torch.nn.ModuleList) and hasattr(layers, "convs") and type(layers) is not HeteroConv:
            raise UnsupportedError(f"what {type(layers).__name__} does between its layers is not known; give them as a list: layers=[...], act=...")
        several = list(layers) if isinstance(layers, (Sequence, torch.nn.ModuleList)) else [layers]
        if not several:
            raise InvalidError("layers is empty; give one at least")
        if any(isinstance(layer, HeteroConv) for layer in several):
            model = _typed(several, dataset, edge, act)
        else:
            model = _listed(several, dataset, edge, act)
    taken = {argument for stage in model.stages for task in stage for relation in task.relations for argument in relation.convolution.edge}
    if missing := sorted(set(edge) - taken):
        raise InvalidError(f"{missing[0]}={edge[missing[0]]!r} is given, and no layer has an argument {missing[0]}")
    for stage in model.stages:
        for task in stage:
            for relation in task.relations:
                _require_edge_attributes(dataset, relation)
    return model


def _refuse_act(act: Activation | None, model: Any) -> None:
    if act is not None:
        raise InvalidError(f"act is for a list of layers; {type(model).__name__} has its own")


def _require_edge_attributes(dataset: Dataset, relation: Relation) -> None:
    there = [attr["name"] for attr in dataset._edge(relation.edge_type)["attrs"]]
    for argument, attribute in relation.convolution.edge.items():
        if attribute not in there:
            raise NotFoundError(f"{argument}={attribute!r}: edge type {relation.edge_type} has no attribute '{attribute}'; it has {there}")


def _only_types(dataset: Dataset) -> tuple[str, EdgeType]:
    """Of a graph of one node type and one edge type."""
    if len(dataset.node_types) != 1 or len(dataset.edge_types) != 1:
        raise InvalidError(
            f"the dataset has node types {dataset.node_types} and edge types {dataset.edge_types}; give layers of several types: HeteroConv, or to_hetero(model)"
        )
    return dataset.node_types[0], dataset.edge_types[0]


def _name(layer: Any, at: int) -> str:
    kind = type(layer).__name__ if isinstance(layer, torch.nn.Module) else getattr(layer, "__name__", type(layer).__name__)
    return f"layer {at + 1} ({kind})"


def _listed(layers: list[Any], dataset: Dataset, edge: dict[str, str], act: Activation | None) -> Model:
    node_type, edge_type = _only_types(dataset)
    stages, before = [], Value(node_type, "x")
    for at, layer in enumerate(layers):
        title = _name(layer, at)
        require_layer(layer, title)
        after = Value(node_type, f"layer-{at + 1}")
        finish = _activated(act if at + 1 < len(layers) else None)
        relation = Relation(edge_type, before, before, convolution(layer, title, edge))
        stages.append([Task(node_type, title, [relation], [after], finish)])
        before = after
    return Model(stages, {node_type: before}, _modules([*layers, act]), [*layers, act])


def _activated(act: Activation | None) -> Callable[[list[torch.Tensor], Mapping[Value, torch.Tensor]], list[torch.Tensor]]:
    return lambda outs, _: [outs[0] if act is None else act(outs[0])]


def _modules(candidates: list[Any]) -> list[torch.nn.Module]:
    return [module for module in candidates if isinstance(module, torch.nn.Module)]


def _basic(model: Any, dataset: Dataset, edge: dict[str, str]) -> Model:
    """GraphSAGE, GCN, GAT and the like, with what their ``forward`` does between the layers, jumping knowledge too."""
    from torch_geometric.nn.models.basic_gnn import BasicGNN

    kind = type(model).__name__
    if type(model).forward is not BasicGNN.forward or type(model).__call__ is not BasicGNN.__call__:
        raise UnsupportedError(f"{kind} has a forward of its own; give its layers as a list: layers=[...], act=...")
    require_as_made(model, kind, "give its layers as a list: layers=[...], act=...")
    for inner in (model.act, model.dropout, *model.norms):
        require_rowwise(inner, kind)
    edge = {
        argument: attribute
        for argument, attribute in edge.items()
        if {"edge_weight": model.supports_edge_weight, "edge_attr": model.supports_edge_attr}.get(argument, False)
    } or edge  # none that it takes: the error is the one of all layers
    node_type, edge_type = _only_types(dataset)
    stages: list[list[Task]] = []
    before = Value(node_type, "x")
    held: list[Value] = []
    for at, layer in enumerate(model.convs):
        title = _name(layer, at)
        after = Value(node_type, f"layer-{at + 1}")
        last = at + 1 == len(model.convs)
        rows = list(held) if last and model.jk_mode is not None else []
        relation = Relation(edge_type, before, before, convolution(layer, title, edge))
        stages.append([Task(node_type, title, [relation], [after], _after_layer(model, at, rows, last), rows)])
        held.append(after)
        before = after
    return Model(stages, {node_type: before}, [model], [])


def _after_layer(model: Any, at: int, rows: list[Value], last: bool) -> Callable[[list[torch.Tensor], Mapping[Value, torch.Tensor]], list[torch.Tensor]]:
    def finish(outs: list[torch.Tensor], own: Mapping[Value, torch.Tensor]) -> list[torch.Tensor]:
        x = outs[0]
        if not last or model.jk_mode is not None:
            if model.act is not None and model.act_first:
                x = model.act(x)
            x = model.norms[at](x)
            if model.act is not None and not model.act_first:
                x = model.act(x)
            x = model.dropout(x)
        if last and hasattr(model, "jk"):
            x = model.jk([*(own[value] for value in rows), x])
        return [model.lin(x) if last and hasattr(model, "lin") else x]

    return finish


def _typed(layers: list[Any], dataset: Dataset, edge: dict[str, str], act: Activation | None) -> Model:
    """Layers that are HeteroConv all."""
    from torch_geometric.nn import HeteroConv

    before = {name: Value(name, "x") for name in dataset.node_types}
    stages = []
    for at, layer in enumerate(layers):
        title = _name(layer, at)
        if type(layer) is not HeteroConv:
            raise UnsupportedError(f"{title} stands among HeteroConv layers; give HeteroConv alone, and act= between them")
        require_as_made(layer, title, "put it on the layers in it")
        if layer.aggr is None and at + 1 < len(layers):
            raise UnsupportedError(f"{title} has aggr=None, which stacks rows; the next layer wants matrices")
        after, tasks = {}, []
        for node_type in dict.fromkeys(key[-1] for key in layer.convs.keys()):
            relations = []
            for edge_type, inner in layer.convs.items():
                if edge_type[-1] != node_type or edge_type[0] not in before or node_type not in before:
                    continue
                dataset._edge(edge_type)
                named = f"{title[:-1]}, {'__'.join(edge_type)}: {type(inner).__name__})"
                relations.append(Relation(tuple(edge_type), before[edge_type[0]], before[node_type], convolution(inner, named, edge)))
            if relations:
                after[node_type] = Value(node_type, f"layer-{at + 1}")
                tasks.append(Task(node_type, title, relations, [after[node_type]], _grouped(layer.aggr, act if at + 1 < len(layers) else None)))
        if not tasks:
            raise InvalidError(f"{title} has no edge type whose nodes have rows; there are {dataset.edge_types}")
        stages.append(tasks)
        before = after
    return Model(stages, before, _modules([*layers, act]), [*layers, act])


def _grouped(aggr: str | None, act: Activation | None) -> Callable[[list[torch.Tensor], Mapping[Value, torch.Tensor]], list[torch.Tensor]]:
    def finish(outs: list[torch.Tensor], _: Mapping[Value, torch.Tensor]) -> list[torch.Tensor]:
        from torch_geometric.nn.conv.hetero_conv import group

        out = group(outs, aggr)
        return [out if act is None else act(out)]

    return finish
