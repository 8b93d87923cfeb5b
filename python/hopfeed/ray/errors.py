"""What goes wrong on Ray, as hopfeed's errors of one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hopfeed.errors import Error, InvalidError, NoSpaceError, NotFoundError, PeerDiedError, VersionError

MARK = "hopfeed.ray: "  # begins the text of what a worker raises that cannot use hopfeed's own classes
AS_RAISED = "_hopfeed_args"  # attribute of an error: its arguments, as they were where it was raised
_PACKAGES = {"ray": "ray", "ray.data": "ray[data]", "pyarrow": "pyarrow"}
_LONGEST = 500  # characters of a line that is not ours
_LOST = {
    "NodeDiedError": "a node of Ray died (its raylet is lost)",
    "LocalRayletDiedError": "the raylet of this machine died",
    "WorkerCrashedError": "a worker of Ray died again and again in one task",
    "ActorDiedError": "an actor of Ray died",
    "ActorUnavailableError": "an actor of Ray cannot be reached",
    "OwnerDiedError": "the process of Ray that had begun a task died",
    "ObjectLostError": "rows were lost with a node of Ray (its raylet is lost), and could not be made again",
    "ObjectReconstructionFailedError": "rows were lost with a node of Ray (its raylet is lost), and could not be made again",
    "ObjectFetchTimedOutError": "rows of another node of Ray do not come; its raylet is lost, or the network between",
}
_LOST["StreamingGeneratorReplayInconsistentError"] = _LOST["ObjectLostError"]
_LOST["GetTimeoutError"] = _LOST["ObjectFetchTimedOutError"]
_ADVICE = "\nFailed to apply UDF transform after"  # of Ray Data, behind the text of an error
_FULL = ("OutOfMemoryError", "ObjectStoreFullError", "OutOfDiskError")


def require_ray(*more: str) -> Any:
    """The package ray.

    Args:
        more: packages that are needed too.

    Raises:
        InvalidError: one of them is not there; the message says what brings it.
    """
    for package in ("ray", *more):
        try:
            __import__(package)
        except ImportError:
            raise InvalidError(f"hopfeed.ray needs the package {_PACKAGES.get(package, package)}: pip install 'hopfeed[ray]'") from None
    import ray

    return ray


@contextmanager
def one_line() -> Iterator[None]:
    """What Ray raises within is raised as one of hopfeed's errors."""
    try:
        yield
    except Exception as error:
        raise as_ours(error) from None


def as_ours(error: BaseException) -> Error:
    """What a task raised of hopfeed's errors, as it was; of anything else a line that names it."""
    causes = list(_causes(error))
    for cause in causes:
        cause.args = getattr(cause, AS_RAISED, cause.args)
    for cause in causes:
        if isinstance(cause, Error):
            return cause
        if isinstance(cause, RuntimeError) and str(cause).startswith(MARK):
            return VersionError(_line(cause).removeprefix(MARK))
    for cause in causes:
        name = type(cause).__name__
        if name in _LOST:
            return PeerDiedError(f"{_LOST[name]}: {_told(cause)}")
        if name in _FULL:
            return NoSpaceError(f"a node of Ray has no space: {_told(cause)}")
        if name in ("RuntimeEnvSetupError", "RaySystemError") and "hopfeed" in str(cause):
            return VersionError(f"a worker of Ray cannot load hopfeed: {_told(cause)}; install the same hopfeed on all nodes")
    last = causes[0]
    if isinstance(last, ConnectionError) or "Could not find any running Ray instance" in str(last):
        return NotFoundError(f"Ray cannot be reached: {_told(last)}")
    return Error(f"a task of Ray failed: {type(last).__name__}: {_told(last)}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what it came of, the outermost first. Ray's errors of tasks only carry another one."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        cause = getattr(at, "cause", None)
        if isinstance(cause, BaseException):  # a RayTaskError, which may look like an instance of its cause's class
            at = cause
            continue
        yield at
        at = at.__cause__ if type(at.__cause__).__name__ != "SystemException" else None


def _line(error: BaseException) -> str:
    return " ".join(str(error).split(_ADVICE)[0].split())


def _told(error: BaseException) -> str:
    """What an error of others says, in one line and without its traceback."""
    text = str(error).strip()
    if "Traceback (most recent call last)" in text:
        text = text.rsplit("\n", 1)[-1]
    text = " ".join(text.split()) or type(error).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
