"""Calls on workers of Ray: what is sent there, and how what they give is waited for.

A worker first compares its hopfeed with the driver's, and only then reads what is to be called: so a node without hopfeed, or with
another one, is one line that names it. What does that is sent by value, and uses nothing of hopfeed before.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import GeneratorType
from typing import Any

from hopfeed.errors import PeerDiedError
from hopfeed.ray.errors import AS_RAISED, MARK, as_ours, require_ray
from hopfeed.version import __version__

RETRIES = 4  # of a task whose worker or node died; what it raises itself is not tried again, since it would be raised again
_AHEAD = 2  # tasks that are begun, for each that can run
_LOOKED_AT_EACH, _COMES_WITHIN, _END_WITHIN = 2.0, 20.0, 10.0  # seconds
_MADE_WITHIN = float(os.environ.get("HOPFEED_RAY_MADE_WITHIN", 180))  # seconds that rows may take behind the death of a node


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
    """A node died that had what tasks want.

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


def fetched(ref: Any, there: set[str]) -> Any:
    """On a worker: an object, which nodes of ``there`` have. Ray may wait for ever for what a node had that died.

    Raises:
        PeerDiedError: such a node died, and the object does not come.
    """
    import ray

    since: float | None = None  # that one is known to be dead
    while True:
        try:
            return ray.get(ref, timeout=_LOOKED_AT_EACH)
        except ray.exceptions.GetTimeoutError:
            if there <= nodes():
                continue
            since = since or time.monotonic()
            if time.monotonic() - since > _COMES_WITHIN:
                raise PeerDiedError("a node of Ray died (its raylet is lost), and rows with it, which do not come again") from None


def materialized(dataset: Any, there: set[str]) -> Any:
    """The rows of a dataset of Ray Data, in blocks that are there. Nodes of ``there`` work on it, or have what it is made of.

    Raises:
        PeerDiedError: one of them died, and some time later the rows are still not there: Ray Data may wait for ever for those
            that it had exchanged. What waits goes on to do so in a thread of its own.
    """
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((dataset.materialize(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread, since = threading.Thread(target=run, daemon=True, name="hopfeed.ray"), None
    thread.start()
    while thread.is_alive():
        thread.join(_LOOKED_AT_EACH)
        if not thread.is_alive():
            break
        if since is None and not there <= nodes():
            since = time.monotonic()
        if since is not None and time.monotonic() - since > _MADE_WITHIN:
            raise PeerDiedError("a node of Ray died (its raylet is lost), and Ray Data does not go on without it")
    made, error = outcome[0]
    if error is not None:
        raise error
    return made


def gathered(calls: Sequence[Callable[[], Any]], slots: int, there: set[str] | None = None) -> list[Any]:
    """What tasks give, in their order. Once one has failed no more begin, and those that run have some seconds to end.

    Tasks are begun as others end, and never taken back: ray.cancel() may abort the process that calls it.

    Args:
        calls: each begins a task and gives its reference.
        there: nodes that have what the tasks want.

    Raises:
        Error: what a task raised.
        NodeLost: one of the nodes died, and a task misses what it had.
    """
    import ray

    waiting, results, begun, lost = dict[Any, int](), dict[int, Any](), 0, False
    while waiting or (begun < len(calls) and not lost):
        while begun < len(calls) and len(waiting) < _AHEAD * slots and not lost:
            waiting[calls[begun]()] = begun
            begun += 1
        for ref in ray.wait(list(waiting), num_returns=1)[0]:
            at = waiting.pop(ref)
            try:
                results[at] = ray.get(ref)
            except Exception as error:
                ours = as_ours(error)
                if there is None or not isinstance(ours, PeerDiedError) or there <= nodes():
                    if waiting:
                        ray.wait(list(waiting), num_returns=len(waiting), timeout=_END_WITHIN, fetch_local=False)
                    raise ours from None
                lost = True
    if lost:
        raise NodeLost(results)
    return [results[at] for at in range(len(calls))]
