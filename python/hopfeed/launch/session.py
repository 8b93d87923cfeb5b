"""A host's agent over ssh: its messages, and in one line why there is none."""

from __future__ import annotations

import asyncio
import re
import shlex
import time
from collections import deque
from collections.abc import Callable, Sequence

from hopfeed.launch.errors import LaunchError
from hopfeed.launch.hosts import Host
from hopfeed.launch.messages import MAX_MESSAGE, Message, decode, encode

_ALIVE_EVERY, _ALIVE_TIMES = 5, 4  # of ssh itself: a host that is gone is noticed after 20 s
_HELD_FOR = 0.1  # seconds between two looks at who does not read
_MOST_GREETING = 1000  # lines that a login may say before the agent does
_AGENT = re.compile(r"[A-Za-z0-9_./+@%:,~-]+")
_DENIED = re.compile(r"Permission denied \(([a-z0-9,-]+)\)")


def ssh_words(command: str, connect_timeout: int) -> list[str]:
    """How ssh is called: it asks nothing, checks host keys and is no master of the user's other sessions, whatever else --ssh says.

    Raises:
        LaunchError: ``command`` is none.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise LaunchError(f"--ssh is '{command}': {error}") from error
    if not words:
        raise LaunchError("--ssh is empty; give a command like ssh, with its options")
    return [
        words[0], "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ControlMaster=no", *words[1:], "-o", f"ConnectTimeout={connect_timeout}",
        "-o", f"ServerAliveInterval={_ALIVE_EVERY}", "-o", f"ServerAliveCountMax={_ALIVE_TIMES}",
    ]  # fmt: skip


def agent_words(program: str) -> str:
    """The remote command, in which nothing has to be quoted.

    Raises:
        LaunchError: ``program`` would have to be.
    """
    if not _AGENT.fullmatch(program):
        raise LaunchError(f"--agent is '{program}'; give a program's name or path, of letters, digits and _ . / + @ % : , ~ -")
    return f"{program} agent"


def why_no_agent(login: str, ssh: str, code: int, said: Sequence[str], *, was_there: bool) -> str:
    """What ssh's end means, in one line without the host's name in front.

    Args:
        said: what came on its standard error.
        was_there: the agent had answered before.
    """
    text = "\n".join(said)
    last = next((line for line in reversed(said) if line.strip()), "it gave no reason").strip()
    if "Host key verification failed" in text:
        changed = "has changed" if "IDENTIFICATION HAS CHANGED" in text else "is not known here"
        return f"its host key {changed}; compare it, then log in once by hand ({ssh} {login}), or put it into known_hosts"
    if denied := _DENIED.search(text):
        if {"password", "keyboard-interactive"} & set(denied[1].split(",")):
            return f"it asks for a password, and nobody answers here; put a key there (ssh-copy-id {login})"
        return f"it lets nobody in ({denied[0]}); make `{ssh} {login}` work without a question"
    if was_there and code == 0 and not text:  # as where its input ends
        return "its agent has ended, because its input has; what --ssh starts has to pass input on (without -n)"
    if was_there:
        return f"it is lost: {last}" if code == 255 else f"its agent has ended ({_code(code)}): {last}"
    if code == 127:
        return f"there is no hopfeed-launch there ({last}); install hopfeed on it, or say where it is (--agent)"
    if code == 255:
        return f"it does not answer: {last}"
    return f"its agent does not start ({_code(code)}): {last}"


def _code(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


class Session:
    """One connection. ``on_message`` gets what the agent says, ``on_end`` why it says nothing any more; each in the event loop.

    Args:
        held: whether the agent is not read from, because nobody takes what it says. Its silence is no silence then.
    """

    def __init__(
        self, host: Host, ssh: Sequence[str], agent: str, on_message: Callable[[Message], None], on_end: Callable[[str], None],
        held: Callable[[], bool],
    ) -> None:  # fmt: skip
        self.host, self._held = host, held
        self._ssh, self._agent, self._on_message, self._on_end = list(ssh), agent, on_message, on_end
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._said: deque[str] = deque(maxlen=40)
        self._was_there = False
        self.heard = time.monotonic()

    async def open(self) -> None:
        """Starts ssh; what comes of it is told later.

        Raises:
            LaunchError: there is no such program.
        """
        words = [*self._ssh, "-T", self.host.login, self._agent]
        try:
            # A session of its own: Ctrl-C is the launcher's, and there is no terminal that ssh could ask on.
            self._process = await asyncio.create_subprocess_exec(
                *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, limit=MAX_MESSAGE,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise LaunchError(f"--ssh: cannot start '{words[0]}': {error.strerror}") from error
        self.heard = time.monotonic()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._read_errors())]

    def send(self, message: Message) -> None:
        """Does not wait; what an agent that is gone does not take is dropped."""
        if self._process is not None and self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(encode(message))

    async def close(self, within: float) -> None:
        """Ends the agent's input, and waits for its end; ends ssh itself where that does not come."""
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(asyncio.shield(self._tasks[0]), within)
        except (asyncio.TimeoutError, asyncio.CancelledError):
            pass
        self.kill()
        await asyncio.wait(self._tasks, timeout=5)

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            try:
                self._process.kill()
            except ProcessLookupError:
                pass

    async def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        greeting = 0
        while line := await self._next_line():
            message = decode(line)
            if message is not None and "is" in message:
                self._was_there = True
                self._on_message(message)
            elif (greeting := greeting + 1) > _MOST_GREETING:
                self._distrust()
                break
        code = await self._process.wait()
        if len(self._tasks) > 1:
            await asyncio.wait([self._tasks[1]], timeout=5)
        self._on_end(why_no_agent(self.host.login, shlex.join(self._ssh[:1]), code, list(self._said), was_there=self._was_there))

    async def _next_line(self) -> bytes:
        """Empty at the end."""
        assert self._process is not None and self._process.stdout is not None
        while self._held():
            self.heard = time.monotonic()
            await asyncio.sleep(_HELD_FOR)
        try:
            line = await self._process.stdout.readline()
        except ValueError:  # longer than any message
            self._distrust()
            return b""
        self.heard = time.monotonic()
        return line

    def _distrust(self) -> None:
        self._said.append("it says what no agent does")
        self.kill()

    async def _read_errors(self) -> None:
        assert self._process is not None and self._process.stderr is not None
        while chunk := await self._process.stderr.read(1 << 16):
            self._said.extend(line for line in chunk.decode(errors="replace").replace("\r", "").split("\n") if line.strip())
