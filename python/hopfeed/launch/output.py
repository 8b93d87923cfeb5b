"""What the launcher writes, by a thread for each file: who does not read it, or a disk that is full, stops nobody else.

Bytes go straight to the descriptor, so that no lock of Python's is held where a write never returns.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TextIO

MOST_WAITING = 4 << 20  # bytes, after which hosts are not read from


class Writer:
    """Writes to one file, in order. The first error is told and ends that; what comes later is dropped.

    Args:
        broken: gets the reason, in the writer's thread.
    """

    def __init__(self, file: TextIO, broken: Callable[[str], None] = lambda why: None) -> None:
        file.flush()
        self._fd, self._encoding, self._broken = file.fileno(), file.encoding, broken
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._closed = self._failed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="hopfeed-output", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Does not wait. Beyond twice the most it drops: whoever could wait has been told (``full``)."""
        data = text.encode(self._encoding, errors="replace")
        with self._changed:
            if not self._failed and self._bytes < 2 * MOST_WAITING:
                self._waiting.append(data)
                self._bytes += len(data)
                self._changed.notify_all()

    @property
    def idle(self) -> bool:
        """All is written."""
        return self._bytes == 0

    @property
    def full(self) -> bool:
        return self._bytes > MOST_WAITING

    def close(self, within: float) -> bool:
        """Waits while somebody reads; False where nobody has taken a byte for so many seconds."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            left, since = self._bytes, time.monotonic()
            while self._bytes and time.monotonic() - since < within:
                self._changed.wait(0.1)
                if self._bytes != left:
                    left, since = self._bytes, time.monotonic()
            return self._bytes == 0

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                data = self._waiting.popleft()
            try:
                while data:
                    data = self._some_of(data)
            except OSError as error:
                with self._changed:
                    self._failed, self._bytes = True, 0
                    self._waiting.clear()
                    self._changed.notify_all()
                self._broken(error.strerror)
                return

    def _some_of(self, data: bytes) -> bytes:
        """Writes what goes at once; gives what is left."""
        try:
            written = os.write(self._fd, data)
        except BlockingIOError:  # whoever started this process has it so
            select.select([], [self._fd], [], 1)
            return data
        with self._changed:
            self._bytes -= written
            self._changed.notify_all()
        return data[written:]
