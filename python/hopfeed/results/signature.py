"""What decides the bytes of a run, as text that two runs compare."""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch


def digest_of(things: list[Any]) -> str:
    """Of modules and functions: their parameters, what they are called and what they hold. 32 hex digits."""
    state = hashlib.sha256()
    for thing in things:
        _feed(state, thing, set())
    return state.hexdigest()[:32]


def _feed(state: Any, thing: Any, seen: set[int]) -> None:
    if id(thing) in seen:
        return
    if isinstance(thing, torch.nn.Module):
        seen.add(id(thing))
        state.update(repr(thing).encode())
        for name, inner in thing.named_modules():
            state.update(f"{name}{type(inner).__qualname__}{_plain(inner)}".encode())
        for name, value in (*thing.named_parameters(), *thing.named_buffers()):
            state.update(name.encode())
            _feed(state, value.detach(), seen)
    elif isinstance(thing, torch.Tensor):
        values = thing.detach().cpu().contiguous()
        state.update(f"{values.dtype}{list(values.shape)}".encode())
        state.update(values.flatten().view(torch.uint8).numpy().tobytes() if values.numel() else b"")
    elif isinstance(thing, np.ndarray):
        state.update(f"{thing.dtype}{list(thing.shape)}".encode())
        state.update(np.ascontiguousarray(thing).tobytes())
    elif isinstance(thing, FunctionType):
        seen.add(id(thing))
        _feed_code(state, thing.__code__)
        for inner in (*(thing.__defaults__ or ()), *(cell.cell_contents for cell in thing.__closure__ or ())):
            _feed(state, inner, seen)
        for name in thing.__code__.co_names:
            _feed(state, thing.__globals__.get(name), seen)
    elif isinstance(thing, MethodType):
        _feed(state, thing.__self__, seen)
        _feed(state, thing.__func__, seen)
    elif isinstance(thing, functools.partial):
        for inner in (thing.func, *thing.args, *thing.keywords.items()):
            _feed(state, inner, seen)
    elif isinstance(thing, (list, tuple)):
        for inner in thing:
            _feed(state, inner, seen)
    elif isinstance(thing, Mapping):
        for item in thing.items():
            _feed(state, item, seen)
    elif thing is None or isinstance(thing, (str, int, float, bytes, bool)):
        state.update(repr(thing).encode())
    else:
        state.update(f"{type(thing).__module__}.{type(thing).__qualname__}.{getattr(thing, '__name__', '')}".encode())


def _plain(module: torch.nn.Module) -> list[tuple[str, Any]]:
    """Numbers and words that a module holds beside its parameters, which its repr may leave out."""
    return sorted((name, value) for name, value in vars(module).items() if isinstance(value, (bool, int, float, str)) and name != "training")


def _feed_code(state: Any, code: CodeType) -> None:
    state.update(code.co_code)
    state.update(repr(code.co_names).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _feed_code(state, constant)
        else:
            state.update(repr(constant).encode())


def processor(device: torch.device) -> str:
    """What computes: numbers may differ in their last bits on another."""
    if device.type == "cuda":
        return f"cuda: {torch.cuda.get_device_name(device)}"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "cpu: " + next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return f"cpu: {platform.machine()}"


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The first thing that is another, for people."""
    for key in now:
        if before.get(key) != now[key]:
            was, new = before.get(key), now[key]
            if key in ("layers", "nodes", "inputs", "cut"):
                return f"the {key} {'are' if key.endswith('s') else 'is'} other"
            return f"{key} was {was!r} and is {new!r}"
    return "it was made by another version"
