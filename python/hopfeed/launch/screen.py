"""What the user sees: on a terminal one screen, drawn again where it stands; elsewhere lines as they come."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from typing import TextIO

from hopfeed.launch.machine import Machine, ending
from hopfeed.launch.plan import TRAINERS

_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Without what would move a terminal's cursor, or turn its text around."""
    return _CONTROLS.sub("", text)


class Lines:
    """For files and pipes: what happens on standard error, what trainers say on standard output."""

    def __init__(self, out: TextIO = sys.stdout, err: TextIO = sys.stderr) -> None:
        self._out, self._err = out, err

    def tell(self, text: str) -> None:
        print(plain(text), file=self._err, flush=True)

    def line(self, machine: Machine, process: str, text: str) -> None:
        if process.startswith("trainer-"):
            print(f"{machine.name} {process}: {plain(text)}", file=self._out, flush=True)

    def draw(self, machines: Sequence[Machine]) -> None:
        pass


class Screen:
    """For terminals: a paragraph for each host, with its state, its processes and their last lines."""

    def __init__(self, err: TextIO = sys.stderr) -> None:
        self._err, self._rows, self._told = err, 0, ""

    def tell(self, text: str) -> None:
        self._told = plain(text)

    def line(self, machine: Machine, process: str, text: str) -> None:
        pass

    def draw(self, machines: Sequence[Machine]) -> None:
        columns, rows = shutil.get_terminal_size()
        lines = [line[: columns - 1] for line in picture(machines)][: max(1, rows - 2)] + [self._told[: columns - 1]]
        up = f"\x1b[{self._rows}A" if self._rows else ""
        self._err.write(f"{up}\r\x1b[J" + "\n".join(lines) + "\n")
        self._err.flush()
        self._rows = len(lines)


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
