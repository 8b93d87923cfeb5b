"""What launcher and agent say to each other: a JSON object a line, over the agent's standard input and output.

The agent speaks first, and says which release it is of (`hello`), so that nothing secret goes to another one.

    launcher to agent                                agent to launcher
    begin  secrets, ports, programs, dataset         hello    version, protocol
    start  name, command, environment                begun    the run's folder, partitions that are there; or refused  why
    stop   names, grace                              ready    name: it has said that it listens
    ping                                             line     name, text
    end                                              ended    name, code
                                                     progress of the first trainer's epoch
                                                     alive    answers ping
                                                     leaving  why it ends, where the launcher has not said so
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

PROTOCOL = 1
MAX_MESSAGE = 8 << 20  # bytes of a line
MAX_TEXT = 64 << 10  # of what a program says in one line; the rest becomes another one
PING_EVERY = 5.0  # seconds
SILENT_AFTER = 60.0  # seconds without a word after which a launcher is gone
LOST_AFTER = 60.0  # and an agent; ssh notices earlier that a host is gone

Message = dict[str, Any]


def encode(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Message | None:
    """None for a line that is no message, as a login's greeting."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


class Lines:
    """Bytes as they come, in lines.

    Args:
        most: bytes of a line; what is longer is cut into several.
        breaks: what ends a line: ``\\r`` too where a bar moves.
    """

    def __init__(self, most: int, breaks: bytes = b"\n") -> None:
        self._most, self._breaks, self._rest = most, breaks, b""

    def add(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that are whole now."""
        if self._breaks != b"\n":
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            yield from self._cut(line)
        if len(self._rest) >= self._most:
            *cut, self._rest = self._cut(self._rest)
            yield from cut

    def rest(self) -> Iterator[bytes]:
        """What came behind the last line."""
        rest, self._rest = self._rest, b""
        if rest:
            yield rest

    def _cut(self, line: bytes) -> list[bytes]:
        return [line[at : at + self._most] for at in range(0, len(line), self._most)] or [b""]
