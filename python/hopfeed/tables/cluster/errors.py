"""Errors on their way from a task to the driver. An engine tells of a task's exception by its text alone, and puts much around it:
so the text of one of hopfeed's errors has a mark, its code and its line as JSON, which the driver finds again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hopfeed.errors import Error, InvalidError, NoSpaceError, VersionError, class_of

_MARK = "hopfeed-error:"
_LONGEST = 600  # characters of a line that others wrote
_OTHER_VERSION = re.compile(
    r"No module named 'hopfeed\.|cannot import name '\w+' from 'hopfeed|attribute '[\w.]+' on <module 'hopfeed|module 'hopfeed[\w.]*' has no attribute"
)
_JAVA = re.compile(r"^(?:[\w$]+\.)+[\w$]*(?:Exception|Error): ")


def marked(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a task calls in place of ``function``: hopfeed's errors leave it with their mark, also those that come while a result
    is iterated over. It ends at once where the worker process has another version of hopfeed than the process that made it."""
    import hopfeed

    version = hopfeed.__version__

    def run(*given: Any) -> Any:  # not a name of this module: it is pickled whole, whatever a worker has of this file
        from hopfeed.tables.cluster.errors import check_version, each_marked, marking

        with marking():
            check_version(version)
            result = function(*given)
        return each_marked(result) if hasattr(result, "__next__") else result

    return run


@contextmanager
def marking() -> Iterator[None]:
    """Gives hopfeed's errors their mark."""
    try:
        yield
    except Error as error:
        raise RuntimeError(_MARK + json.dumps({"code": error.code, "line": str(error)})) from None


def each_marked(results: Iterator[Any]) -> Iterator[Any]:
    """The same results; errors on the way have the mark."""
    with marking():
        yield from results


def check_version(version: str) -> None:
    """Raises ``VersionError``: this process has another version of hopfeed than the driver's."""
    import hopfeed

    if hopfeed.__version__ != version:
        raise VersionError(f"a worker process has hopfeed {hopfeed.__version__}, and the driver {version}; install the same version on all machines")


def unmarked(error: BaseException) -> Error:
    """What an engine raised, as one of hopfeed's errors of one line: the one that a task raised, or else an ``Error`` that says what
    is known."""
    if isinstance(error, Error):
        return error
    text = str(error)
    return _told(text) or _not_there(text) or _of_others(text, type(error).__name__)


def _told(text: str) -> Error | None:
    """The marked error in a text."""
    for place in re.finditer(re.escape(_MARK), text):
        try:
            told, _ = json.JSONDecoder().raw_decode(text, place.end())
            return class_of(told["code"])(told["line"])
        except (ValueError, KeyError, TypeError):
            continue  # cut off, or somebody's words
    return None


def _not_there(text: str) -> Error | None:
    """A worker process that could not read the task, since it lacks what the task is of."""
    if re.search(r"No module named 'hopfeed'", text):
        return InvalidError("a worker process has no hopfeed; install the driver's version on all machines: pip install 'hopfeed[tables]'")
    if _OTHER_VERSION.search(text):
        return VersionError("a worker process has another version of hopfeed than the driver; install the same version on all machines")
    return None


def _of_others(text: str, kind: str) -> Error:
    line = _line_of(text) or kind
    if re.search(r"No space left on device|ENOSPC|OutOfDiskError", text):
        return NoSpaceError(f"a disk of the cluster is full ({line}); make room there and run the same again")
    return Error(f"the cluster could not do it: {line}")


def _line_of(text: str) -> str:
    """The line that says most: what ends the last traceback of Python, or else the first line."""
    if "Traceback (most recent call last)" in text:
        ends = [line for line in text.rsplit("Traceback (most recent call last)", 1)[1].splitlines()[1:] if re.match(r"[\w.]+(:|$)", line)]
        if ends:
            return ends[0][:_LONGEST].rstrip()
    for line in text.splitlines():
        line = _JAVA.sub("", line.strip().lstrip(": "))
        if line and not line.startswith("An error occurred while calling"):
            return line[:_LONGEST].rstrip()
    return ""
