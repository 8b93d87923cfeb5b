"""One host as the launcher sees it: what it was told, what it said, what runs there."""

from __future__ import annotations

import re
import signal
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from hopfeed.launch.errors import LaunchError, RunFailed
from hopfeed.launch.messages import PROTOCOL, Message
from hopfeed.launch.plan import TRAINERS, HostPlan
from hopfeed.launch.session import Session

_KEPT_LINES = 5
_RANK = re.compile(r"^\s*rank\s*:\s*([0-9]+) \(local_rank")
_CODE = re.compile(r"^\s*exitcode\s*:\s*(-?[0-9]+)")


@dataclass
class Process:
    """What is known of a process: ``code`` once it has ended."""

    ready: bool = False
    running: bool = False
    code: int | None = None
    last: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))

    def last_line(self) -> str:
        return self.last[-1] if self.last else "it said nothing"


class Machine:
    """A host of a run.

    Args:
        on_line: gets what its processes say: the process and a line.
        on_change: called after anything has changed.
    """

    def __init__(self, plan: HostPlan, version: str, on_line: Callable[[str, str], None], on_change: Callable[[], None]) -> None:
        self.plan, self.name = plan, plan.host.name
        self._version, self._on_line, self._on_change = version, on_line, on_change
        self.session: Session | None = None
        self.forget()
        self.progress: Message = {}
        self.pushed: tuple[int, ...] = ()

    def forget(self) -> None:
        """Before it is connected to again: nothing of it is known."""
        self.state = "connecting"
        self.hello = False
        self.begun: Message | None = None
        self.refused: LaunchError | None = None
        self.lost: str | None = None
        self.gone = False  # its session has ended
        self.closing = False
        self.processes: dict[str, Process] = {}
        self.forget_trainers()

    def forget_trainers(self) -> None:
        """Before they are started again."""
        for name in (TRAINERS, *self.plan.pipes):
            self.processes.pop(name, None)
        self._failed: tuple[int | None, int | None] = (None, None)  # rank and exit code, as torchrun tells them

    def settled(self) -> bool:
        """Whether it has begun, or will not."""
        return self.begun is not None or self.failure() is not None

    def failure(self) -> LaunchError | None:
        """Why it cannot go on; None where it can. Processes are not looked at."""
        if self.refused is not None:
            return self.refused
        if self.lost is not None and not self.closing:
            kind = RunFailed if self.begun is not None else LaunchError
            return kind(f"{self.name}: {self.lost}")
        return None

    def running(self, name: str) -> bool:
        return name in self.processes and self.processes[name].running

    def start(self, name: str, command: list[str], **more: object) -> None:
        """Has the agent start a process."""
        assert self.session is not None
        self.processes[name] = Process(running=True)
        self.session.send({"do": "start", "name": name, "command": command, **more})

    def server_failure(self, name: str) -> RunFailed | None:
        process = self.processes[name]
        if process.running:
            return None
        return RunFailed(f"{self.name}: {name} {ending(process.code)}: {process.last_line().removeprefix('hopfeed-server: ')}")

    def trainer_failure(self) -> RunFailed | None:
        """In words of the trainer itself where torchrun says which it was."""
        process = self.processes.get(TRAINERS)
        if process is None or process.running or process.code == 0:
            return None
        rank, code = self._failed
        trainer = f"trainer-{rank}"
        if trainer in self.plan.pipes:
            return RunFailed(f"{self.name}: {trainer} {ending(code)}: {self.processes[trainer].last_line()}")
        told = next((line for line in reversed(process.last) if "Error" in line), process.last_line())
        return RunFailed(f"{self.name}: torchrun {ending(process.code)}: {told}")

    # ---- what the session says

    def hear(self, message: Message) -> None:
        act = {
            "hello": self._hear_hello, "begun": self._hear_begun, "refused": self._hear_refused, "ready": self._hear_ready,
            "line": self._hear_line, "ended": self._hear_ended, "progress": self._hear_progress,
            "leaving": self._hear_leaving,
        }.get(message["is"])  # fmt: skip
        if act is not None:
            try:
                act(message)
            except (KeyError, TypeError, AttributeError):
                self.refused = LaunchError(f"{self.name}: its agent says what no agent of this release does")
            self._on_change()

    def hear_end(self, why: str) -> None:
        self.gone = True
        self.lost = self.lost or why
        for process in self.processes.values():
            process.running = False
        if not self.closing:
            self.state = "lost"
        self._on_change()

    def _hear_hello(self, message: Message) -> None:
        if (message["version"], message["protocol"]) == (self._version, PROTOCOL):
            self.hello, self.state = True, "connected"
            return
        other = message["version"] if message["version"] != self._version else f"{message['version']} of another day"
        self.refused = LaunchError(f"{self.name}: it has hopfeed {other}, and here is {self._version}; install the same on all")

    def _hear_begun(self, message: Message) -> None:
        self.begun, self.state = message, "prepared"

    def _hear_refused(self, message: Message) -> None:
        self.refused = LaunchError(f"{self.name}: {message['why']}")
        self.state = "refused"

    def _hear_ready(self, message: Message) -> None:
        self.processes[message["name"]].ready = True

    def _hear_line(self, message: Message) -> None:
        name, text = message["name"], message["text"]
        process = self.processes.setdefault(name, Process())
        process.last.append(text)
        if name == TRAINERS:
            rank, code = _RANK.match(text), _CODE.match(text)
            self._failed = (int(rank[1]) if rank else self._failed[0], int(code[1]) if code else self._failed[1])
        self._on_line(name, text)

    def _hear_ended(self, message: Message) -> None:
        process = self.processes[message["name"]]
        process.running, process.code = False, message["code"]
        if message["name"] == TRAINERS:
            self._hear_trainers_ended(process.code)

    def _hear_trainers_ended(self, code: int) -> None:
        """Of trainers torchrun tells no exit code but that of the first that has failed."""
        rank, failed = self._failed
        for name in self.plan.pipes:
            if code == 0:
                self.processes.setdefault(name, Process()).code = 0
            elif name == f"trainer-{rank}":
                self.processes.setdefault(name, Process()).code = failed

    def _hear_leaving(self, message: Message) -> None:
        if not self.closing:
            self.lost, self.state = message["why"], "lost"

    def _hear_progress(self, message: Message) -> None:
        self.progress = message


def ending(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None:
        return "has ended"
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"ended with exit code {code}"
