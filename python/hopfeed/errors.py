"""The errors of hopfeed: one class for each code of the C++ library, each also what Python calls such an error."""

from __future__ import annotations


class Error(RuntimeError):
    """Base of all. ``code`` is the word that programs and reports use."""

    code: str = "error"


class InvalidError(Error, ValueError):
    """An argument or option that cannot be served."""

    code = "invalid"


class NotFoundError(Error, LookupError):
    """A file, split, type or attribute that does not exist."""

    code = "not found"


class CorruptError(Error):
    """Bytes that contradict themselves or their checksum."""

    code = "corrupt"


class VersionError(Error):
    """A format that another version of hopfeed wrote."""

    code = "version"


class InputOutputError(Error, OSError):
    """The operating system refused a read or write."""

    code = "io"


class NoSpaceError(Error, MemoryError):
    """Memory or disk would not suffice."""

    code = "no space"


class DeadlineError(Error, TimeoutError):
    """A deadline passed."""

    code = "timeout"


class PeerDiedError(Error):
    """A process that was relied on is gone."""

    code = "peer died"


class StateLost(PeerDiedError):
    """What an owner of state held is gone: it was started again, or others have begun the table anew. Go back to a checkpoint."""

    code = "state lost"


class BusyError(Error):
    """Another run has it, and it may be free later: a table of state that others learn."""

    code = "busy"


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not offered."""

    code = "unsupported"


_INPUT = (InvalidError, NotFoundError, CorruptError, VersionError, UnsupportedError)

_CLASSES = {
    kind.code: kind
    for kind in (
        InvalidError,
        NotFoundError,
        CorruptError,
        VersionError,
        InputOutputError,
        NoSpaceError,
        DeadlineError,
        PeerDiedError,
        StateLost,
        BusyError,
        UnsupportedError,
    )
}


def class_of(code: str) -> type[Error]:
    """The class of a code (:attr:`Error.code`); ``Error`` for one that is unknown."""
    return _CLASSES.get(code, Error)


def exit_code(error: Error) -> int:
    """That of a program which ends with it, as C++ has it: 2 for input that cannot be served, 1 for anything else."""
    return 2 if isinstance(error, _INPUT) else 1
