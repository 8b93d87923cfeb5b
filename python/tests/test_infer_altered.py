"""hopfeed.infer of layers and models that are not as their class made them: rows as a forward's, or one line that says why not."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import hopfeed

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric")

from torch.nn.utils import parametrizations, prune, spectral_norm, weight_norm  # noqa: E402
from torch_geometric.nn import GAT, GCN, GATConv, GCNConv, GINConv, GraphConv, GraphSAGE, HeteroConv, Linear, SAGEConv, to_hetero  # noqa: E402
from torch_geometric.nn.aggr import MeanAggregation, SoftmaxAggregation  # noqa: E402
from torch_geometric.nn.conv import MessagePassing  # noqa: E402

from test_infer import assert_close, refused, users, whole, whole_typed  # noqa: E402, F401

Alter = Callable[[Any], object]


def twice(module: Any, given: Any, out: Any) -> Any:
    return out * 2


def twice_before(module: Any, given: Any) -> Any:
    return (given[0] * 2, *given[1:])


def message_twice(module: Any, given: Any) -> Any:
    return {**given[0], "x_j": given[0]["x_j"] * 2}


def replaced(name: str, by: Callable[..., Any]) -> Alter:
    """An object's own method of that name: ``by`` is given the class's and what a call gives."""
    return lambda module: setattr(module, name, functools.partial(by, getattr(module, name)))


def twice_of(method: Callable[..., Any], *given: Any, **named: Any) -> Any:
    return method(*given, **named) * 2


def forward_twice(layer: Any) -> None:
    forward = layer.forward
    layer.forward = lambda x, edge_index, edge_weight=None: forward(x, edge_index) * 2


def message_of_sources(layer: Any) -> None:
    layer.message = lambda x_j, **_: x_j.exp()


def pooled(layer: Any) -> None:
    layer.aggr_module = SoftmaxAggregation()


ON_A_LAYER: dict[str, Alter] = {
    "forward hook": lambda layer: layer.register_forward_hook(twice),
    "forward hook with keywords": lambda layer: layer.register_forward_hook(lambda module, given, named, out: out * 2, with_kwargs=True),
    "forward pre hook": lambda layer: layer.register_forward_pre_hook(
        lambda module, given: (tuple(rows * 2 for rows in given[0]) if isinstance(given[0], tuple) else given[0] * 2, *given[1:])
    ),
    "message hook": lambda layer: layer.register_message_forward_hook(lambda module, given, out: out.relu()),
    "message pre hook": lambda layer: layer.register_message_forward_pre_hook(message_twice),
    "aggregate hook": lambda layer: layer.register_aggregate_forward_hook(twice),
    "propagate hook": lambda layer: layer.register_propagate_forward_hook(twice),
    "hook of aggr_module": lambda layer: layer.aggr_module.register_forward_hook(twice),
    "another aggr_module": pooled,
    "forward": forward_twice,
    "message": message_of_sources,
    "aggregate": replaced("aggregate", twice_of),
    "update": replaced("update", twice_of),
}


def layer(kind: str) -> Any:
    torch.manual_seed(3)
    return {
        "sage": lambda: SAGEConv(8, 4),
        "sage-max": lambda: SAGEConv(8, 4, aggr="max"),
        "gin": lambda: GINConv(torch.nn.Linear(8, 4)),
        "graph": lambda: GraphConv(8, 4),
        "gat": lambda: GATConv(8, 4),
        "gcn": lambda: GCNConv(8, 4),
    }[kind]().eval()


@pytest.mark.parametrize("alter", ON_A_LAYER)
@pytest.mark.parametrize("kind", ["sage", "sage-max", "gin", "graph"])
def test_LayerWithSomethingOnIt_GivesTheRowsOfItsForward(small: Path, cut: Path, kind: str, alter: str) -> None:
    conv = layer(kind)
    plain = conv(*whole(small)).detach()
    ON_A_LAYER[alter](conv)
    wanted = conv(*whole(small)).detach()
    assert not torch.allclose(wanted, plain)
    for folder in (small, cut):
        assert_close(hopfeed.infer([conv], folder, memory="1M", progress=False), wanted)


def test_LayerThatPygHasDecomposed_GivesTheRowsOfItsForward(small: Path) -> None:
    conv = GCNConv(8, 4, decomposed_layers=2).eval()  # others take no pair of rows then
    assert_close(hopfeed.infer([conv], small, memory="1M", progress=False), conv(*whole(small)).detach())


@pytest.mark.parametrize("alter", ["forward hook", "message hook", "aggregate hook", "hook of aggr_module", "update"])
def test_AttentionWithSomethingOnIt_GivesTheRowsOfItsForward(small: Path, alter: str) -> None:
    conv = layer("gat")
    plain = conv(*whole(small)).detach()
    ON_A_LAYER[alter](conv)
    wanted = conv(*whole(small)).detach()
    assert not torch.allclose(wanted, plain)
    assert_close(hopfeed.infer([conv], small, memory="1M", progress=False), wanted)


@pytest.mark.parametrize("alter", [*ON_A_LAYER, "hook of lin", "lin with bias", "a lin that is no matrix", "mean", "explain"])
def test_GcnWithSomethingOnIt_IsRefusedAndNamed(small: Path, alter: str) -> None:
    others: dict[str, Alter] = {
        "hook of lin": lambda conv: conv.lin.register_forward_hook(lambda module, given, out: out.relu()),
        "lin with bias": lambda conv: setattr(conv, "lin", Linear(8, 4)),
        "a lin that is no matrix": lambda conv: setattr(conv, "lin", torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())),
        "mean": lambda conv: setattr(conv, "aggr_module", MeanAggregation()),
        "explain": lambda conv: setattr(conv, "explain", True),
    }
    for layers in ([layer("gcn")], GCN(8, 8, 2, 4)):
        conv = layers[0] if isinstance(layers, list) else layers.convs[0]
        {**ON_A_LAYER, **others}[alter](conv)
        refused(hopfeed.UnsupportedError, r"layer 1 \(GCNConv\) (has|is) .*(remove that|give a)", layers, small)


def test_HookIsCalledByItsName(small: Path) -> None:
    conv = layer("gcn")
    conv.register_message_forward_pre_hook(message_twice)
    refused(hopfeed.UnsupportedError, r"layer 1 \(GCNConv\) has a hook \(message forward pre hook\), .* remove that", [conv], small)
    conv = layer("gcn")
    conv.aggr_module.register_forward_hook(twice)
    refused(hopfeed.UnsupportedError, r"aggr_module of layer 1 \(GCNConv\) has a hook \(forward hook\)", [conv], small)
    conv = layer("gcn")
    forward_twice(conv)
    refused(hopfeed.UnsupportedError, r"layer 1 \(GCNConv\) has its forward replaced", [conv], small)


# What only makes weights, and what changes no row, is nobody's business.


WEIGHTS: dict[str, Alter] = {
    "weight_norm": lambda linear: weight_norm(linear),
    "spectral_norm": lambda linear: spectral_norm(linear),
    "parametrized weight_norm": lambda linear: parametrizations.weight_norm(linear),
    "parametrized spectral_norm": lambda linear: parametrizations.spectral_norm(linear),
    "pruning": lambda linear: prune.l1_unstructured(linear, "weight", 0.5),
    "hooks of state": lambda linear: linear.register_state_dict_pre_hook(lambda *given: None),
    "hooks of gradients": lambda linear: linear.register_full_backward_hook(lambda *given: None),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("kind", ["gcn", "sage"])
def test_WeightsThatAreMadeAnew_AreThoseOfTheForward(small: Path, kind: str, weights: str) -> None:
    conv = layer(kind)
    WEIGHTS[weights](conv.lin if kind == "gcn" else conv.lin_l)
    conv.eval()
    assert_close(hopfeed.infer([conv], small, progress=False), conv(*whole(small)))


def test_CompiledLayers_GiveTheSameRowsOrAreRefused(small: Path) -> None:
    eager: dict[str, Any] = dict(backend="eager")
    for kind in ("gcn", "sage"):
        conv = layer(kind)
        conv.compile(**eager)
        assert_close(hopfeed.infer([conv], small, progress=False), layer(kind)(*whole(small)))
    assert_close(hopfeed.infer([torch.compile(layer("sage"), **eager)], small, progress=False), layer("sage")(*whole(small)))
    refused(hopfeed.UnsupportedError, "target_to_source", [torch.compile(SAGEConv(8, 4, flow="target_to_source"), **eager)], small)
    refused(hopfeed.InvalidError, "cannot be called", [torch.compile(layer("gcn"), **eager)], small)
    refused(hopfeed.UnsupportedError, "OptimizedModule does between its layers", torch.compile(GraphSAGE(8, 4, 2), **eager), small)


# Models.


def model(kind: Any) -> Any:
    torch.manual_seed(3)
    return kind(8, 6, 3, 4, norm="batch_norm", jk="cat").eval()


@pytest.mark.parametrize("kind", [GraphSAGE, GCN, GAT])
@pytest.mark.parametrize("of", ["norms.0", "act", "dropout", "jk", "lin"])
def test_HooksInAModel_GiveTheRowsOfItsForward(small: Path, kind: Any, of: str) -> None:
    made = model(kind)
    plain = made(*whole(small)).detach()
    made.get_submodule(of).register_forward_hook(twice)
    wanted = made(*whole(small)).detach()
    assert not torch.allclose(wanted, plain)
    assert_close(hopfeed.infer(made, small, progress=False), wanted)


@pytest.mark.parametrize("alter", ["message hook", "forward hook", "forward"])
def test_HooksOfAModelsLayers_GiveTheRowsOfItsForward(small: Path, alter: str) -> None:
    made = model(GraphSAGE)
    plain = made(*whole(small)).detach()
    ON_A_LAYER[alter](made.convs[0])
    wanted = made(*whole(small)).detach()
    assert not torch.allclose(wanted, plain)
    assert_close(hopfeed.infer(made, small, progress=False), wanted)


ON_A_MODEL: dict[str, Alter] = {
    "forward hook": lambda made: made.register_forward_hook(twice),
    "forward pre hook": lambda made: made.register_forward_pre_hook(twice_before),
    "forward replaced": replaced("forward", twice_of),
}


@pytest.mark.parametrize("alter", ON_A_MODEL)
@pytest.mark.parametrize("kind", [GraphSAGE, GCN, GAT])
def test_ModelWithSomethingOnIt_IsRefusedAndNamed(small: Path, kind: Any, alter: str) -> None:
    made = model(kind)
    ON_A_MODEL[alter](made)
    refused(hopfeed.UnsupportedError, rf"{kind.__name__} has .*{alter}.* give its layers as a list", made, small)


class Halving(GraphSAGE):
    """Registers a method of its own."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.register_forward_hook(self.half)

    def half(self, module: Any, given: Any, out: Any) -> Any:
        return out / 2


class Doubling(GraphSAGE):
    def __call__(self, *given: Any) -> Any:
        return super().__call__(*given) * 2


class InOrder(torch.nn.ModuleList):
    def forward(self, x: Any, edge_index: Any) -> Any:
        for conv in self:
            x = conv(x, edge_index) * 2
        return x


def test_ModelsThatBringTheirOwn_AreRefusedAndNamed(small: Path) -> None:
    refused(hopfeed.UnsupportedError, r"Halving has a hook \(forward hook\)", Halving(8, 6, 2), small)
    refused(hopfeed.UnsupportedError, "Doubling has a forward of its own", Doubling(8, 6, 2), small)
    refused(hopfeed.UnsupportedError, "InOrder has a forward of its own; give its layers as a list", InOrder([SAGEConv(8, 8)]), small)
    made = torch.nn.ModuleList([SAGEConv(8, 8)])
    made.forward = lambda x, edge_index: made[0](x, edge_index) * 2
    refused(hopfeed.UnsupportedError, "ModuleList has a forward of its own", made, small)


@contextmanager
def everywhere() -> Iterator[None]:
    """A hook of every module, which makes what layers of messages give twice as much."""
    handle = torch.nn.modules.module.register_module_forward_hook(lambda module, given, out: out * 2 if isinstance(module, MessagePassing) else None)
    try:
        yield
    finally:
        handle.remove()


def test_HooksOfEveryModule_RunOrAreNamed(small: Path) -> None:
    conv = layer("sage")
    with everywhere():
        assert_close(hopfeed.infer([conv], small, progress=False), conv(*whole(small)))
        for layers in ([layer("gcn")], model(GraphSAGE)):
            refused(hopfeed.UnsupportedError, "has a hook .global forward hook.", layers, small)
    assert_close(hopfeed.infer([conv], small, progress=False), conv(*whole(small)))


# Layers of several types.


def typed() -> HeteroConv:
    torch.manual_seed(3)
    return HeteroConv({
        ("user", "likes", "item"): SAGEConv((5, 7), 4), ("item", "liked", "user"): GraphConv((7, 5), 4), ("user", "knows", "user"): GCNConv(5, 4),
    })  # fmt: skip


def test_HeteroConvWithSomethingOnIt_IsRefusedAndOfItsLayersHonoured(users: Path) -> None:  # noqa: F811
    for alter in ("forward hook", "forward pre hook", "forward replaced"):
        layers = typed()
        ON_A_MODEL[alter](layers)
        refused(hopfeed.UnsupportedError, rf"layer 1 \(HeteroConv\) has .*{alter}.*, which would not run", layers, users)
    layers = typed()
    layers.convs["user", "likes", "item"].register_message_forward_hook(lambda module, given, out: out.relu())
    ON_A_LAYER["forward"](layers.convs["item", "liked", "user"])
    wanted, found = layers(*whole_typed(users)), hopfeed.infer(layers, users, memory="1M", progress=False)
    for name in wanted:
        assert_close(found[name], wanted[name])
    layers.convs["user", "knows", "user"].register_forward_hook(twice)
    refused(hopfeed.UnsupportedError, r"layer 1 \(HeteroConv, user__knows__user: GCNConv\) has a hook", layers, users)


def test_ToHeteroWithSomethingOnIt_IsRefusedAndOfItsModulesHonoured(users: Path) -> None:  # noqa: F811
    torch.manual_seed(5)
    x, edges = whole_typed(users)
    made = to_hetero(GraphSAGE((-1, -1), 8, 2, 4), (list(x), list(edges))).eval()
    plain = made(x, edges)
    made.get_submodule("convs.0.user__likes__item").register_message_forward_hook(lambda module, given, out: out.relu())
    made.get_submodule("act.user").register_forward_hook(twice)
    wanted, found = made(x, edges), hopfeed.infer(made, users, memory="1M", progress=False)
    for name in wanted:
        assert not torch.allclose(plain[name], wanted[name])
        assert_close(found[name], wanted[name])
    for alter in ON_A_MODEL:
        made = to_hetero(GraphSAGE((5, 5), 8, 2, 4), (list(x), list(edges))).eval()
        ON_A_MODEL[alter](made)
        refused(hopfeed.UnsupportedError, rf"has .*{alter}.*, which would not run", made, users)
