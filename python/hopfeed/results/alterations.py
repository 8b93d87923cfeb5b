"""Whether a module is as its class made it. Who computes what a module does without a call of it, or calls it on other rows than
its caller would, asks here: a hook or a method that was put on the object is not in its class, and would be left out."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.modules.module as _of_all_modules

from hopfeed.errors import UnsupportedError

# Whose hooks only make a module's weights: weight_norm, spectral_norm, pruning, lazy modules.
_OF_WEIGHTS = ("torch.nn.utils.", "torch.nn.modules.lazy", "torch_geometric.nn.dense.")


def hooks_of(module: torch.nn.Module) -> list[tuple[str, Any]]:
    """(what it is called, hook) of all that a forward runs beside the module's own code: torch's and PyG's, which has them for
    messages and the like; and torch's for every module."""
    held = {
        "global_forward_pre_hooks": _of_all_modules._global_forward_pre_hooks,
        "global_forward_hooks": _of_all_modules._global_forward_hooks,
        **{name: hooks for name, hooks in vars(module).items() if is_of_hooks(name)},
    }
    return [(name.strip("_").removesuffix("s").replace("_", " "), hook) for name, hooks in held.items() for hook in hooks.values()]


def is_of_hooks(name: str) -> bool:
    """Whether an attribute of a module has hooks of its forward."""
    return name.endswith(("_forward_hooks", "_forward_pre_hooks"))


def alteration(module: Any, *, called: bool) -> str:
    """What ``module`` has that its class did not give it, for people; empty: nothing.

    Args:
        called: it is called all the same, so that hooks which make its weights do run.
    """
    for name, hook in hooks_of(module):
        if not (called and str(getattr(hook, "__func__", type(hook)).__module__).startswith(_OF_WEIGHTS)):
            return f"a hook ({name})"
    own = {"propagate"} if getattr(module, "decomposed_layers", 1) > 1 else set()  # by PyG itself
    replaced = next((name for name in vars(module) if name not in own and callable(getattr(type(module), name, None))), None)
    if replaced is not None:
        return f"its {replaced} replaced"
    return "explain=True" if vars(module).get("_explain") else ""


def require_as_made(module: Any, title: str, instead: str) -> None:
    """Raises ``UnsupportedError`` for a module that is never called, and has what only a call of it would run."""
    if what := alteration(module, called=False):
        raise UnsupportedError(f"{title} has {what}, which would not run, since what it is made of is called one by one; remove that, or {instead}")
