"""What decides the bytes of a run, as text that two runs compare."""

from __future__ import annotations

import copyreg
import hashlib
import pickle
import platform
import re
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import BuiltinMethodType, CodeType, EllipsisType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from hopfeed.results.alterations import hooks_of, is_of_hooks

_LIBRARIES = {"torch", "torch_geometric", "numpy", *sys.stdlib_module_names}  # what is theirs is known by its name
_OF_EVERY_MODULE = set(vars(torch.nn.Module()))


def digest_of(things: list[Any]) -> str:
    """Of modules, functions and other objects: their parameters, their code, and what they hold. 32 hex digits.

    An object is what pickle would keep of it, each part of that read in the same way. One that pickle cannot take apart, as
    many of those made in C, is never equal to another nor to itself: the digest is another one each time.
    """
    state = hashlib.sha256()
    try:
        seen: dict[int, tuple[int, Any]] = {}
        for thing in things:
            _feed(state, thing, seen)
    except RecursionError:
        _feed_unknown(state)
    return state.hexdigest()[:32]


def _feed(state: Any, thing: Any, seen: dict[int, tuple[int, Any]]) -> None:
    """``seen`` has the number of each thing that has parts, and keeps it, so that its id stays its own."""
    if thing is None or isinstance(thing, (str, int, float, complex, bytes, EllipsisType)) and type(thing).__module__ == "builtins":
        _say(state, repr(thing))
        return
    if id(thing) in seen:
        _say(state, f"again {seen[id(thing)][0]}")
        return
    seen[id(thing)] = len(seen), thing
    if isinstance(thing, torch.nn.Module):
        _feed_module(state, thing, seen)
    elif isinstance(thing, torch.Tensor):
        values = thing.detach().cpu().contiguous()
        _say(state, f"{values.dtype}{list(values.shape)}")
        state.update(values.flatten().view(torch.uint8).numpy().tobytes() if values.numel() else b"")
    elif isinstance(thing, np.ndarray) and thing.dtype.kind != "O":
        _say(state, f"{thing.dtype}{list(thing.shape)}")
        state.update(np.ascontiguousarray(thing).tobytes())
    elif isinstance(thing, (type, ModuleType)):
        _feed_named(state, thing, seen)
    elif isinstance(thing, FunctionType):
        _feed_function(state, thing, seen)
    elif isinstance(thing, CodeType):
        _say(state, repr(thing.co_names))
        state.update(thing.co_code)
        _feed(state, thing.co_consts, seen)
    elif isinstance(thing, MethodType):
        _feed_all(state, "method", [thing.__self__, thing.__func__], seen)
    elif isinstance(thing, BuiltinMethodType):
        _feed_all(state, "builtin", [thing.__module__, thing.__qualname__, thing.__self__], seen)
    elif isinstance(thing, (list, tuple)) and type(thing).__module__ == "builtins":
        _feed_all(state, type(thing).__name__, thing, seen)
    elif isinstance(thing, Mapping) and type(thing).__module__ in ("builtins", "collections"):
        _feed_all(state, "mapping", [part for item in thing.items() for part in item], seen)
    elif isinstance(thing, (set, frozenset)) and type(thing).__module__ == "builtins":
        _feed_all(state, type(thing).__name__, sorted(_digest(inner, seen) for inner in thing), seen)
    else:
        _feed_object(state, thing, seen)


def _say(state: Any, text: str) -> None:
    """Words, behind how many bytes they are, so that no two become one."""
    state.update(f"{len(text.encode())}:{text}".encode())


def _feed_all(state: Any, what: str, things: Any, seen: dict[int, tuple[int, Any]]) -> None:
    _say(state, f"{what} {len(things)}")
    for thing in things:
        _feed(state, thing, seen)


def _digest(thing: Any, seen: dict[int, tuple[int, Any]]) -> str:
    state = hashlib.sha256()
    _feed(state, thing, dict(seen))
    return state.hexdigest()


def _feed_unknown(state: Any) -> None:
    _say(state, f"unknown {uuid.uuid4()}")


def _feed_module(state: Any, module: torch.nn.Module, seen: dict[int, tuple[int, Any]]) -> None:
    _say(state, repr(module))
    for name, inner in module.named_modules():
        _say(state, name)
        _feed(state, type(inner), seen)
        # what a library's class holds beside numbers and arrays follows from these, and from its code
        held = {key: value for key, value in vars(inner).items() if key not in _OF_EVERY_MODULE and not is_of_hooks(key)}
        _feed(state, {key: value for key, value in sorted(held.items()) if _is_plain(value) or not _is_library(type(value))}, seen)
        _feed(state, [part for hook in hooks_of(inner) for part in hook], seen)
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        _say(state, name)
        _feed(state, value.detach(), seen)


def _is_plain(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, np.ndarray)) or type(value).__module__ in ("builtins", "collections")


def _is_library(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).partition(".")[0] in _LIBRARIES


def _feed_named(state: Any, thing: Any, seen: dict[int, tuple[int, Any]]) -> None:
    """A class, or a module of Python: by name, and a user's class by its methods and values too."""
    _say(state, f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', thing.__name__)}")
    if isinstance(thing, ModuleType) or _is_library(thing):
        return
    for name, value in sorted(vars(thing).items()):
        value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        method = isinstance(value, FunctionType) and value.__module__ == thing.__module__
        if method or (not name.startswith("__") and not isinstance(value, FunctionType) and _is_plain(value)):
            _feed_all(state, "member", [name, value], seen)
    _feed(state, thing.__bases__, seen)


def _feed_function(state: Any, function: FunctionType, seen: dict[int, tuple[int, Any]]) -> None:
    if _is_library(function) and getattr(sys.modules.get(function.__module__), function.__name__, None) is function:
        _say(state, f"{function.__module__}.{function.__qualname__}")
        return
    held = [_held_by(cell) for cell in function.__closure__ or ()]
    _feed_all(state, "function", [function.__code__, function.__defaults__, function.__kwdefaults__, tuple(held), vars(function)], seen)
    names = _names(function.__code__)
    for name in names:
        if name in function.__globals__:
            value = function.__globals__[name]
            _feed_all(state, "global", [name, value], seen)
            if isinstance(value, ModuleType) and value.__name__.partition(".")[0] not in _LIBRARIES:
                _feed_all(state, "of a module", [part for inner in names if inner in vars(value) for part in (inner, vars(value)[inner])], seen)


def _held_by(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # a name that has no value yet


def _names(code: CodeType) -> list[str]:
    """That it reads, and the functions in it do."""
    return [*code.co_names, *(name for inner in code.co_consts if isinstance(inner, CodeType) for name in _names(inner))]


def _feed_object(state: Any, thing: Any, seen: dict[int, tuple[int, Any]]) -> None:
    """What pickle would keep of it."""
    _feed(state, type(thing), seen)
    try:
        reduce = copyreg.dispatch_table.get(type(thing))
        kept = thing.__reduce_ex__(4) if reduce is None else reduce(thing)
        if isinstance(kept, str):  # it is found by its name
            owner = sys.modules[pickle.whichmodule(thing, kept)]  # type: ignore[attr-defined]
            for name in kept.split("."):
                found = owner = getattr(owner, name)
            if found is not thing:
                raise TypeError
            kept = (kept, getattr(thing, "__dict__", {}))
        # items of a list or a dict come as iterators, which are fed as what they give
        kept = tuple(list(part) if at in (3, 4) and part is not None else part for at, part in enumerate(kept))
    except RecursionError:
        raise
    except Exception:  # whatever a type's own way says
        _feed_unknown(state)
        return
    _feed(state, kept, seen)


def processor(device: torch.device) -> str:
    """What computes: numbers may differ in their last bits on another."""
    if device.type == "cuda":
        return f"cuda: {torch.cuda.get_device_name(device)}"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "cpu: " + next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return f"cpu: {platform.machine()}"


def is_signature(found: Any) -> bool:
    """Whether a file of JSON has what a run writes of itself."""
    if not isinstance(found, Mapping) or not isinstance(found.get("format"), int) or not isinstance(found.get("name"), str):
        return False
    return isinstance(found.get("fingerprint"), str) and all(re.fullmatch("[0-9a-f]{32}", str(found.get(key))) for key in ("layers", "inputs", "nodes"))


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The first thing that is another, for people."""
    for key in now:
        if before.get(key) != now[key]:
            was, new = before.get(key), now[key]
            if key in ("layers", "nodes", "inputs", "cut"):
                return f"the {key} {'are' if key.endswith('s') else 'is'} other"
            return f"{key} was {was!r} and is {new!r}"
    return "it was made by another version"
