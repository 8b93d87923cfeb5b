"""What ends a run: lines for the user, each of which names the host or the option that it is about."""

from __future__ import annotations

from collections.abc import Sequence


class LaunchError(Exception):
    """Input that cannot be served: nothing was started, or all of it is to end.

    Attributes:
        lines: what to tell, one for each host that has something to complain of.
    """

    code = 2

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


class RunFailed(LaunchError):
    """What ran has failed, so that the run may be begun again."""

    code = 1


def all_of(errors: Sequence[BaseException]) -> None:
    """Raises what hosts have complained of, together; another error first. Returns where there is none."""
    for error in errors:
        if not isinstance(error, LaunchError):
            raise error
    complaints = [error for error in errors if isinstance(error, LaunchError)]
    if complaints:
        kind = RunFailed if all(isinstance(error, RunFailed) for error in complaints) else LaunchError
        raise kind(*(line for error in complaints for line in error.lines))
