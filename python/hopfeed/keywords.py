"""The keyword arguments of hopfeed's loaders: the C++ library has a table of its options, and all here is made of it.

The build writes ``keywords.pyi``, which type checkers read in place of this file: ``StreamKeywords`` has each keyword
with its type, ``PygKeywords`` those that PyG's loaders take beside PyG's own arguments.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from hopfeed import _core

Function = TypeVar("Function", bound=Callable[..., Any])


class Keyword(NamedTuple):
    name: str
    type: str
    default: str
    help: str


KEYWORDS = [Keyword(*field) for field in _core.stream_fields()]

# Keywords that are numbers, or lists of such.
NUMBERS = {keyword.name for keyword in KEYWORDS if keyword.type in ("int", "float", "Sequence[int]")} - {"fanouts"}

# Those that PyG's loaders have in arguments of their own, by another name or not at all, since they find them in a graph.
OF_PYG = {
    "fanouts", "edge_fanouts", "replace", "disjoint", "temporal_strategy", "subgraph", "weight", "time", "node_type", "split", "seeds", "seed_mask",
    "seed_times", "edge_type", "negatives", "amount", "strict", "exclude", "links", "link_split", "link_labels", "link_times", "seed", "batch_size",
    "shuffle", "num_workers", "rank", "world_size", "edge_ids", "servers", "sampler",
}  # fmt: skip

# Arguments of torch's DataLoader that PyG's loaders take too.
OF_TORCH = (
    "sampler", "batch_sampler", "pin_memory", "pin_memory_device", "persistent_workers", "prefetch_factor", "timeout", "multiprocessing_context",
    "in_order", "collate_fn", "generator", "worker_init_fn",
)  # fmt: skip


def documented(text: str) -> str:
    """``text`` with the keywords in the place of ``{keywords}``, a line each."""
    lines = []
    for keyword in KEYWORDS:
        about = f"{keyword.name} ({keyword.type}, default {keyword.default}): {keyword.help.replace('`', '``')}."
        lines += textwrap.wrap(about, 120, initial_indent=" " * 8, subsequent_indent=" " * 12)
    return text.replace("{keywords}", "\n".join(lines).strip())


def signed(function: Function) -> Function:
    """``function`` whose ``**options`` are shown as the keywords, with their defaults, by ``help()`` and by notebooks."""
    shown = inspect.signature(function)
    own = [parameter for parameter in shown.parameters.values() if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    names = {parameter.name for parameter in own}
    keywords = [
        inspect.Parameter(keyword.name, inspect.Parameter.KEYWORD_ONLY, default=_Shown(keyword.default), annotation=keyword.type)
        for keyword in KEYWORDS
        if keyword.name not in names
    ]
    setattr(function, "__signature__", shown.replace(parameters=own + keywords))
    return function


class _Shown(str):
    """A default as source has it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def stub() -> str:
    """The text of ``keywords.pyi``."""
    of_torch = "".join(f"    {name}: Any\n" for name in OF_TORCH)
    return f'''# Made of the library's table of options by keywords.py, when hopfeed is built.
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
EdgeTypeName = str | tuple[str, str, str]
ArrayLike = Any

class Keyword(NamedTuple):
    name: str
    type: str
    default: str
    help: str

KEYWORDS: list[Keyword]
NUMBERS: set[str]
OF_PYG: set[str]
OF_TORCH: tuple[str, ...]
def documented(text: str) -> str: ...
def signed(function: Function) -> Function: ...
def stub() -> str: ...

class StreamKeywords(TypedDict, total=False):
{_fields(KEYWORDS)}
class PygKeywords(TypedDict, total=False):
{_fields([keyword for keyword in KEYWORDS if keyword.name not in OF_PYG])}{of_torch}'''


def _fields(keywords: list[Keyword]) -> str:
    return "".join(f"    {keyword.name}: {keyword.type} | None  # {keyword.default}: {keyword.help}\n" for keyword in keywords)
