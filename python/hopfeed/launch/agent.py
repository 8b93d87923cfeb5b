"""``hopfeed-launch agent``: what runs on each host. It starts what the launcher's messages say, passes on what that says, and ends
all of it when its input ends, whatever became of the launcher.

Two processes: the keeper has the run's folder and adopts what others leave behind; the agent, its child, does the work. Where
the agent is killed the keeper ends what it has started; where the keeper is, the agent is told and ends.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from hopfeed.folders import TemporaryFolder
from hopfeed.launch import host_checks
from hopfeed.launch.children import READ_AT_ONCE, Child, Stream
from hopfeed.launch.host_checks import Refusal
from hopfeed.launch.messages import MAX_MESSAGE, PING_EVERY, PROTOCOL, SILENT_AFTER, Lines, Message, decode, encode
from hopfeed.launch.processes import adopt_orphans, descendants, die_with_parent, kill_all
from hopfeed.version import __version__

_MOST_UNSENT = 4 << 20  # bytes for the launcher; while there are more, what is held waits with what it says
_LAST_WORDS = 10.0  # seconds that the launcher has to take what is said at the end
_KILLED_WITHIN = 10.0
_GRACE = 5.0  # seconds where nobody says another number
_LOOK_EVERY = 2.0  # seconds between two looks at the first trainer's loader


def main() -> None:
    """The keeper. Ends when the agent has, with its code."""
    try:
        with TemporaryFolder() as folder:
            code = _keep(folder)
    except OSError as error:
        os.write(1, encode(_hello()) + encode({"is": "refused", "why": f"cannot make a folder for the run: {error.strerror}: {error.filename}"}))
        code = 1
    sys.exit(code)


def _hello() -> Message:
    return {"is": "hello", "version": __version__, "protocol": PROTOCOL}


def _keep(folder: Path) -> int:
    adopt_orphans()
    agent = os.fork()
    if agent == 0:
        code = 1
        try:
            die_with_parent(signal.SIGTERM)
            adopt_orphans()
            code = Agent(folder).run()
        except BaseException:  # noqa: B036: nothing of the keeper's may run here
            sys.excepthook(*sys.exc_info())
        os._exit(code)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: os.kill(agent, signal.SIGTERM))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # its end is the agent's to see
    _, status = os.waitpid(agent, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    kill_all(lambda: descendants(os.getpid()), within=_KILLED_WITHIN)
    return os.waitstatus_to_exitcode(status) and 1


class Agent:
    """One thread, one loop; every wait is in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._keeper = os.getppid()
        self._children: dict[str, Child] = {}
        self._input = Lines(MAX_MESSAGE)
        self._unsent = bytearray()
        self._heard = self._turned = time.monotonic()
        self._ends = False
        self._grace = _GRACE
        self._cwd = os.getcwd()
        self._environment = dict(os.environ)
        self._watched: str | None = None
        self._look: Child | None = None
        self._looked = 0.0
        self._selector = selectors.PollSelector()  # unlike epoll it takes files as input, /dev/null too
        self._reading: set[int] = set()

    def run(self) -> int:
        woken, wake = socket.socketpair()
        for end in (woken, wake):
            end.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._leave)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        os.set_blocking(0, False)
        os.set_blocking(1, False)
        self._selector.register(woken, selectors.EVENT_READ, lambda: self._wake(woken))
        self._selector.register(0, selectors.EVENT_READ, self._hear)
        self._say(_hello())
        while not self._ends or self._children or self._look:
            self._turn()
        self._last_words()
        return 0

    def _turn(self) -> None:
        self._listen_to_children()
        for key, _ in self._selector.select(self._patience()):
            key.data()
        now = time.monotonic()
        if now - self._turned > PING_EVERY:  # this process was asleep, or its machine: that is nobody's silence
            self._heard += now - self._turned
        self._turned = now
        for child in [*self._children.values(), *([self._look] if self._look else [])]:
            if child.has_ended():
                self._reap(child)
            elif child.deadline is not None and now > child.deadline:
                child.kill()
        if not self._ends and now - self._heard > SILENT_AFTER:
            self._say({"is": "leaving", "why": f"it has heard nothing for {SILENT_AFTER:g} s"})
            self._end()
        if self._ends:
            self._stop_in_turn()
        self._look_at_loader(now)

    def _patience(self) -> float:
        deadlines = [child.deadline for child in self._children.values() if child.deadline is not None]
        until = min([*deadlines, self._heard + SILENT_AFTER, time.monotonic() + 1])
        return max(0.0, until - time.monotonic())

    def _listen_to_children(self) -> None:
        """Where the launcher does not keep up, nobody is read; a pipe that is full holds its writer."""
        streams = {} if len(self._unsent) > _MOST_UNSENT else {s.fd: s for child in self._children.values() for s in child.streams}
        for fd in self._reading - set(streams):
            self._selector.unregister(fd)
        for fd in set(streams) - self._reading:
            self._selector.register(fd, selectors.EVENT_READ, self._reader_of(streams[fd]))
        self._reading = set(streams)

    def _reader_of(self, stream: Stream) -> Any:
        return lambda: self._read(stream)

    def _read(self, stream: Stream) -> None:
        if stream.fd not in self._reading:
            return
        lines, goes_on = stream.read()
        for text in lines:
            self._pass_on(stream.name, text)
        if not goes_on:
            self._selector.unregister(stream.fd)
            self._reading.discard(stream.fd)
            for child in self._children.values():
                if stream in child.streams:
                    child.streams.remove(stream)

    def _pass_on(self, name: str, text: str) -> None:
        child = self._children.get(name)
        if child is not None and child.ready and text.startswith(child.ready):
            child.ready = ""
            self._say({"is": "ready", "name": name})
        self._say({"is": "line", "name": name, "text": text})

    def _reap(self, child: Child) -> None:
        fds = {stream.fd for stream in child.streams} & self._reading
        for fd in fds:
            self._selector.unregister(fd)
        self._reading -= fds
        code, said = child.finish()
        if child is self._look:
            self._look = None
            if code == 0:
                self._tell_progress()
            return
        for name, text in said:
            self._pass_on(name, text)
        del self._children[child.name]
        self._say({"is": "ended", "name": child.name, "code": code})

    # ---- what the launcher says

    def _wake(self, woken: socket.socket) -> None:
        try:
            while woken.recv(4096):
                pass
        except BlockingIOError:
            pass

    def _hear(self) -> None:
        try:
            chunk = os.read(0, READ_AT_ONCE)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._selector.unregister(0)
            self._end()
            return
        self._heard = time.monotonic()
        for line in self._input.add(chunk):
            message = decode(line)
            act = {"begin": self._begin, "start": self._start, "stop": self._stop, "ping": self._ping, "end": self._end_by_message}.get(
                (message or {}).get("do", "")
            )
            if message is None or act is None:
                self._say({"is": "refused", "why": "the launcher says what no launcher of this release does"})
                self._end()
                return
            try:
                act(message)
            except Refusal as refusal:
                self._say({"is": "refused", "why": str(refusal)})
            except OSError as error:
                where = f": {error.filename}" if error.filename else ""
                self._say({"is": "refused", "why": f"{message['do']} failed: {error.strerror}{where}"})

    def _begin(self, message: Message) -> None:
        self._grace = message["grace"]
        if os.path.isdir(message["cwd"]):
            self._cwd = message["cwd"]
        path = host_checks.search_path()
        self._environment |= {"PATH": path}
        for name, value in message["defaults"].items():
            self._environment.setdefault(name, value)
        programs = {name: host_checks.find_program(name, path, self._cwd) for name in message["programs"]}
        for port in message["ports"]:
            host_checks.require_free(port)
        if message["interface"] and (interface := host_checks.interface_of(message["address"])):
            self._environment.setdefault("GLOO_SOCKET_IFNAME", interface)
            self._environment.setdefault("NCCL_SOCKET_IFNAME", f"={interface}")
        listen = host_checks.listening_address(message["address"])
        for name, text in message["files"].items():
            self._write(name, text)
        if message["makes_folders"]:
            os.makedirs(os.path.dirname(message["data"]), exist_ok=True)
        self._say(
            {"is": "begun", "folder": str(self._folder), "programs": programs, "listen": listen, "cores": len(os.sched_getaffinity(0))}
            | host_checks.dataset_at(message["data"])
        )

    def _write(self, name: str, text: str) -> None:
        path = self._folder / name
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(fd)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error

    def _start(self, message: Message) -> None:
        name = message["name"]
        if name in self._children:
            raise Refusal(f"{name} runs already")
        try:
            self._children[name] = Child(
                name, message["command"], self._environment | message["environment"], cwd=self._cwd, folder=self._folder,
                pipes=message.get("pipes", ()), ready=message.get("ready", ""),
            )  # fmt: skip
        except OSError as error:
            raise Refusal(f"cannot start {message['command'][0]}: {error.strerror}") from error
        if message.get("watched"):
            self._watched = name

    def _stop(self, message: Message) -> None:
        for name in message["names"]:
            if name in self._children:
                self._children[name].stop(message["grace"])

    def _ping(self, _: Message) -> None:
        self._say({"is": "alive"})

    def _end_by_message(self, message: Message) -> None:
        self._grace = message.get("grace", self._grace)
        self._end()

    def _end(self) -> None:
        self._ends = True
        self._stop_in_turn()

    def _leave(self, number: int, _: object) -> None:
        if not self._ends:
            self._say({"is": "leaving", "why": f"its agent was told to end ({signal.Signals(number).name})"})
            self._end()

    def _stop_in_turn(self) -> None:
        """Trainers first: while they keep a checkpoint they need their servers."""
        running = [*self._children.values(), *([self._look] if self._look else [])]
        trainers = [child for child in running if child.trains]
        for child in trainers or running:
            child.stop(self._grace)

    # ---- what the launcher hears

    def _say(self, message: Message) -> None:
        self._unsent += encode(message)
        self._send()

    def _send(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(1, self._unsent[:READ_AT_ONCE])]
        except BlockingIOError:
            self._wait_to_send()
        except OSError:  # nobody listens any more
            self._unsent.clear()
            if not self._ends:
                self._end()
        else:
            if 1 in self._selector.get_map():
                self._selector.unregister(1)

    def _wait_to_send(self) -> None:
        if 1 not in self._selector.get_map():
            self._selector.register(1, selectors.EVENT_WRITE, self._send)

    def _last_words(self) -> None:
        if os.getppid() != self._keeper:  # whose work this was
            shutil.rmtree(self._folder, ignore_errors=True)
        self._say({"is": "bye"})
        until = time.monotonic() + _LAST_WORDS
        while self._unsent and time.monotonic() < until:
            self._selector.select(0.1)
            self._send()

    # ---- the epoch, as hopfeed-top sees it in the first trainer

    def _look_at_loader(self, now: float) -> None:
        child = self._children.get(self._watched or "")
        if child is None or self._look or self._ends or now - self._looked < _LOOK_EVERY:
            return
        process = next((stream.process for stream in child.streams if stream.process), None)
        if process is None:
            return
        self._looked = now
        command = ["hopfeed-top", str(process), "--once", "--json", str(self._folder / "progress.json")]
        try:
            (self._folder / "progress.json").unlink(missing_ok=True)  # of the last look
            command[0] = host_checks.find_program("hopfeed-top", "", "")
            self._look = Child("look", command, self._environment, cwd=self._cwd, folder=self._folder)
        except (OSError, Refusal):
            self._watched = None

    def _tell_progress(self) -> None:
        try:
            loaders = json.loads((self._folder / "progress.json").read_text())["loaders"]
            loader = max((one for one in loaders if one["steps"]), key=lambda one: one["steps"])
            self._say({"is": "progress"} | {key: loader[key] for key in ("epoch", "taken", "steps", "batches_per_s")})
        except (OSError, ValueError, KeyError, TypeError):
            pass  # it has no loader, yet or any more
