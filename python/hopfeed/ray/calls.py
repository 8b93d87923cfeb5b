"""Calls on workers of Ray: what is sent there, and how what they give is waited for.

A worker first compares its hopfeed with the driver's, and only then reads what is to be called: so a node without hopfeed, or with
another one, is one line that names it. What does that is sent by value, and uses nothing of hopfeed before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from types import GeneratorType
from typing import Any

from hopfeed.errors import PeerDiedError
from hopfeed.ray.errors import AS_RAISED, MARK, as_ours, require_ray
from hopfeed.version import __version__

RETRIES = 4  # of a task whose worker or node died; what it raises itself is not tried again, since it would be raised again
_LOOKED_AT_EACH, _STALLED = 1.0, 10.0  # seconds
_ENDED_WITHIN = 10.0  # seconds that running tasks have to end once one has failed


def shipped(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` for workers. It and what it has with it are read there after the versions were compared."""
    cloudpickle = require_ray("ray.cloudpickle").cloudpickle
    text, version, mark = cloudpickle.dumps(function), __version__, MARK

    def call(*arguments: Any, **named: Any) -> Any:  # by value, as all nested functions
        import pickle

        try:
            import hopfeed

            other = hopfeed.__version__
        except ImportError as error:
            other = f"none that can be imported ({error})"
        if other != version:
            import ray

            node = ray.util.get_node_ip_address()
            raise RuntimeError(f"{mark}a worker of Ray on {node} has hopfeed {other}, and the driver has {version}; install the same on all nodes")
        from hopfeed.ray.calls import as_raised

        return as_raised(lambda *given, **more: pickle.loads(text)(*given, **more))(*arguments, **named)

    return call


def as_raised(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, whose errors remember their text: Ray Data adds advice to it on their way."""

    def remembered(error: Exception) -> None:
        error.__dict__.setdefault(AS_RAISED, error.args)

    def rows(generated: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from generated
        except Exception as error:
            remembered(error)
            raise

    def call(*arguments: Any, **named: Any) -> Any:
        try:
            result = function(*arguments, **named)
        except Exception as error:
            remembered(error)
            raise
        return rows(result) if isinstance(result, GeneratorType) else result

    return call


def packed(item: Any) -> bytes:
    """An item for :func:`unpacked`, which is to be called behind :func:`shipped`."""
    text: bytes = require_ray("ray.cloudpickle").cloudpickle.dumps(item)
    return text


def unpacked(text: bytes) -> Any:
    """What :func:`packed` was given."""
    import pickle

    return pickle.loads(text)


def called(task: Callable[[Any], Any], text: bytes) -> Any:
    """On a worker: calls a task with an item."""
    return task(unpacked(text))


class NodeLost(Exception):
    """A node died, and tasks that want what lay on it may wait for ever.

    Attributes:
        results: of those that have ended, by their place.
    """

    def __init__(self, results: dict[int, Any]) -> None:
        super().__init__("a node of Ray died")
        self.results = results


def nodes() -> set[str]:
    """The nodes that live."""
    import ray

    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}


def gathered(refs: Sequence[Any], there: set[str] | None = None) -> list[Any]:
    """What tasks give, in their order. The first one that fails ends the others.

    Args:
        there: nodes that have what the tasks want.

    Raises:
        Error: what a task raised.
        NodeLost: one of the nodes died, and no task has ended since.
    """
    import ray

    waiting, results = {ref: at for at, ref in enumerate(refs)}, dict[int, Any]()
    moved = time.monotonic()
    try:
        while waiting:
            for ref in ray.wait(list(waiting), num_returns=1, timeout=_LOOKED_AT_EACH)[0]:
                results[waiting[ref]] = ray.get(ref)
                del waiting[ref]
                moved = time.monotonic()
            if there is not None and time.monotonic() - moved > _STALLED and not there <= nodes():
                raise NodeLost(results)
    except BaseException as error:
        lost = isinstance(error, NodeLost) or (there is not None and not there <= nodes() and isinstance(as_ours(error), PeerDiedError))
        _end(list(waiting), at_once=lost)
        if lost:
            raise NodeLost(results) from None
        if isinstance(error, Exception):
            raise as_ours(error) from None
        raise
    return [results[at] for at in range(len(refs))]


def _end(refs: list[Any], at_once: bool) -> None:
    """Takes tasks back that have not begun, and waits for those that have, so that nobody writes behind the error."""
    import ray

    try:
        for ref in refs:
            ray.cancel(ref, force=at_once, recursive=True)
        if refs:
            ray.wait(refs, num_returns=len(refs), timeout=_ENDED_WITHIN, fetch_local=False)
    except Exception:  # of Ray, which may be what failed
        pass
