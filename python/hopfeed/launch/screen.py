"""What the user sees: on a terminal one screen, drawn again where it stands; elsewhere lines as they come."""

from __future__ import annotations

import re
import shutil
import sys
from collections import deque
from collections.abc import Sequence
from typing import TextIO

from hopfeed.launch.machine import Machine, ending
from hopfeed.launch.output import Writer
from hopfeed.launch.plan import TRAINERS

_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Without what would move a terminal's cursor, or turn its text around."""
    return _CONTROLS.sub("", text)


class Lines:
    """For files and pipes: what happens on standard error, what trainers say on standard output."""

    def __init__(self, out: TextIO | None = sys.stdout, err: TextIO | None = sys.stderr) -> None:
        self._err = Writer(err) if err is not None else None
        self._out = Writer(out, self._broken) if out is not None else None

    def _broken(self, why: str) -> None:
        self.tell(f"cannot write to standard output ({why}); the run goes on, and the logs have all (--logs)")

    @property
    def full(self) -> bool:
        """Nobody reads what trainers say."""
        return self._out is not None and self._out.full

    def tell(self, text: str) -> None:
        if self._err is not None:
            self._err.write(plain(text) + "\n")

    def line(self, machine: Machine, process: str, text: str) -> None:
        if self._out is not None and process.startswith("trainer-"):
            self._out.write(f"{machine.name} {process}: {plain(text)}\n")

    def draw(self, machines: Sequence[Machine], *, last: bool = False) -> None:
        pass

    def close(self, within: float) -> None:
        """Waits for who reads, but for nobody who has taken nothing for so many seconds."""
        if self._out is not None and not self._out.close(within):
            self.tell("nobody reads standard output to its end; the logs have all (--logs)")
        if self._err is not None:
            self._err.write(self._untold())
            self._err.close(within)

    def _untold(self) -> str:
        return ""


class Screen(Lines):
    """For terminals: what happened, and below it a paragraph for each host, with its state, its processes and their last lines. What
    trainers say is written where standard output is no terminal.
    """

    def __init__(self, out: TextIO | None = sys.stdout, err: TextIO | None = sys.stderr) -> None:
        super().__init__(None if out is None or out.isatty() else out, err)
        self._rows = 0
        self._told: deque[str] = deque()

    def tell(self, text: str) -> None:
        self._told.append(plain(text))

    def draw(self, machines: Sequence[Machine], *, last: bool = False) -> None:
        if self._err is None or not (self._err.idle or last):  # a terminal that is held (Ctrl-S)
            return
        columns, rows = shutil.get_terminal_size()
        lines = [line[: columns - 1] for line in picture(machines)][: max(1, rows - 1)]
        up = f"\x1b[{self._rows}A" if self._rows else ""
        self._err.write(f"{up}\r\x1b[J" + self._untold() + "".join(line + "\n" for line in lines))
        self._rows = len(lines)

    def _untold(self) -> str:
        return "".join(self._told.popleft() + "\n" for _ in range(len(self._told)))


def picture(machines: Sequence[Machine]) -> list[str]:
    """The screen's lines."""
    lines = []
    progress = machines[0].progress if machines else {}
    if progress:
        share = progress["taken"] / max(1, progress["steps"])
        bar = "#" * round(28 * share)
        lines.append(f"epoch {progress['epoch']} [{bar:<28}] {share:.0%}, {progress['taken']} of {progress['steps']} batches, {progress['batches_per_s']:.1f} batches/s")
    width = max((len(machine.name) for machine in machines), default=0)
    for machine in machines:
        lines.append(f"{machine.name:<{width}}  {machine.state}" + (f": {machine.lost}" if machine.state == "lost" else ""))
        for name, process in machine.processes.items():
            if name == TRAINERS and (process.running or process.code == 0):
                continue
            state = "" if process.code is None else f" {ending(process.code)}"
            lines.append(f"{'':<{width}}  {name}{state}: {plain(process.last[-1]) if process.last else ''}")
    return lines
