"""One process that an agent holds, with what it says: started in a session of its own, dead when the agent is, ended with all that
it has started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from hopfeed.launch.messages import MAX_TEXT, Lines
from hopfeed.launch.processes import MARK, descendants, die_with_parent, kill_all, marked

_KILLED_WITHIN = 10.0  # seconds
READ_AT_ONCE = 1 << 16


class Stream:
    """What comes through one pipe.

    Attributes:
        name: who says it.
        process: whose first line is the number of its process, where the pipe is a trainer's; else None.
    """

    def __init__(self, name: str, fd: int, *, tells_process: bool = False) -> None:
        self.name, self.fd, self.process = name, fd, None if not tells_process else 0
        self._lines = Lines(MAX_TEXT, b"\r\n")

    def read(self) -> tuple[list[str], bool]:
        """The lines that are whole now, and whether there may be more, now or later."""
        try:
            chunk = os.read(self.fd, READ_AT_ONCE)
        except BlockingIOError:
            return [], True
        except OSError:
            chunk = b""
        lines = list(self._lines.add(chunk) if chunk else self._lines.rest())
        return self._texts(lines), bool(chunk)

    def drain(self) -> list[str]:
        """All that is there, where nobody writes any more."""
        texts: list[str] = []
        while True:
            try:
                chunk = os.read(self.fd, READ_AT_ONCE)
            except OSError:
                chunk = b""
            if not chunk:
                return texts + self._texts(self._lines.rest())
            texts += self._texts(self._lines.add(chunk))

    def _texts(self, lines: object) -> list[str]:
        texts = [line.decode(errors="replace").rstrip() for line in lines]  # type: ignore[attr-defined]
        while self.process == 0 and texts:
            first = texts.pop(0)
            self.process = int(first) if first.isdecimal() else None
        return [text for text in texts if text]


class Child:
    """A process of a run.

    Args:
        pipes: names of trainers that write to pipes ``trainer-0``, ... in ``folder``; they come and go with the process.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: dict[str, str], *, cwd: str, folder: Path, pipes: Sequence[str] = (), ready: str = ""
    ) -> None:
        self.name, self.ready, self.trains = name, ready, bool(pipes)
        self.deadline: float | None = None  # of a stop
        self._mark = f"{folder}/{name}"
        self._paths: list[Path] = []
        self.streams: list[Stream] = []
        try:
            for number, pipe in enumerate(pipes):
                self._open_pipe(folder / f"trainer-{number}", pipe)
            self._process = subprocess.Popen(
                list(command), cwd=cwd, env=environment | {MARK: self._mark}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=die_with_parent,
            )  # fmt: skip
        except BaseException:
            self._close()
            raise
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self.streams.append(Stream(name, self._process.stdout.fileno()))

    def _open_pipe(self, path: Path, name: str) -> None:
        os.mkfifo(path, 0o600)
        self._paths.append(path)
        # For both, so that whoever opens it to write never waits, and nobody's end is the end of it.
        self.streams.append(Stream(name, os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC), tells_process=True))

    def stop(self, grace: float) -> None:
        """SIGTERM, and once ``grace`` seconds are over ``kill``. A second call can only shorten that."""
        until = time.monotonic() + grace
        if self.deadline is None:
            self._process.send_signal(signal.SIGTERM)
        self.deadline = until if self.deadline is None else min(self.deadline, until)

    def kill(self) -> bool:
        """SIGKILL to it and to what it has started; whether all of it is gone."""
        tree = descendants(self._process.pid) if self._process.returncode is None else set()
        self._process.kill()
        try:
            self._process.wait(_KILLED_WITHIN)
        except subprocess.TimeoutExpired:
            return False
        return kill_all(lambda: self._left_of(tree), within=_KILLED_WITHIN)

    def _left_of(self, tree: set[int]) -> set[int]:
        below = descendants(os.getpid())
        return tree & below | marked(self._mark, below)

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def finish(self) -> tuple[int, list[tuple[str, str]]]:
        """After its end: what it left behind ends too. Gives its exit code, and what it had said last."""
        self.kill()
        said = [(stream.name, text) for stream in self.streams for text in stream.drain()]
        self._close()
        return self._process.returncode, said

    def _close(self) -> None:
        for stream in self.streams:
            if stream.name != self.name:
                os.close(stream.fd)
        for path in self._paths:
            path.unlink(missing_ok=True)
        self.streams = [stream for stream in self.streams if stream.name == self.name]
        if self.streams and self._process.stdout is not None:
            self._process.stdout.close()
