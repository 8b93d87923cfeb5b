"""A run from its first connection to its end: connect, copy, servers, trainers, watch, begin again.

All state is the machines'. What their agents say changes it and wakes whoever waits here; no wait is without a deadline but that
for the trainers.
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hopfeed.launch.errors import LaunchError, RunFailed, all_of
from hopfeed.launch.machine import Machine
from hopfeed.launch.messages import LOST_AFTER, PING_EVERY
from hopfeed.launch.plan import TRAINERS, HostPlan, Plan, ServerPlan
from hopfeed.launch.pushes import missing_there, push, require_room
from hopfeed.launch.session import Session

_SETTLES = 0.5  # seconds after the first failure, in which that of other hosts is heard too
_LEFT_ALONE = 3.0  # seconds that trainers have to end when one of them has failed: there is nothing for them to keep
_SLACK = 15.0  # seconds beyond a grace in which an agent has ended what does not end
_COMES_BACK_WITHIN = 120.0  # seconds for a host that was lost, before the run is begun again

# Where logins say nothing else: torchrun would name the threads, at length; Python's lines come as they are written.
_DEFAULTS = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True)
class Reaching:
    """How hosts are reached, and how long everything may take, in seconds."""

    ssh: Sequence[str]
    agent: str
    connect_within: float = 30.0
    servers_within: float = 300.0
    grace: float = 30.0
    restarts: int = 0


class Run:
    """One run.

    Args:
        secrets: files of the run, by name.
        tell: gets what happens, a line each, with the host's name in front.
        watched: the epoch's progress is wanted.
        held: whether nobody takes what ``on_line`` gets, so that hosts wait with what they say. Not while the run ends.

    Attributes:
        ending: ``end`` has begun, after which ``stop`` says nothing.
    """

    def __init__(
        self, plan: Plan, reaching: Reaching, secrets: dict[str, str], version: str, *, on_line: Callable[[Machine, str, str], None],
        tell: Callable[[str], None], watched: bool, held: Callable[[], bool],
    ) -> None:  # fmt: skip
        self.plan, self.reaching, self._secrets, self._tell, self._watched = plan, reaching, secrets, tell, watched
        self._held = held
        self._changed = asyncio.Event()
        self.machines = [self._machine(host, version, on_line) for host in plan.hosts]
        self.restarts = 0  # of --restarts, used up
        self.begun_again = 0
        self._name = uuid.uuid4().hex
        self.times: dict[str, float] = {}
        self._begin = time.monotonic()
        self._pings: asyncio.Task[None] | None = None
        self._stopped = self.ending = False

    def _machine(self, host: HostPlan, version: str, on_line: Callable[[Machine, str, str], None]) -> Machine:
        machine = Machine(host, version, lambda name, text: on_line(machine, name, text), self._changed.set)
        return machine

    async def go(self) -> None:
        """Returns once all trainers have ended well.

        Raises:
            LaunchError: they have not; whatever runs is for ``end`` to end.
        """
        self._pings = asyncio.create_task(self._ping())
        await self._connect(self.machines)
        self._note("connected")
        await self._copy(self.machines)
        self._note("copied")
        while True:
            try:
                await self._start_servers()
                self._note("servers_ready")
                self._start_trainers()
                self._note("trainers_started")
                await self._watch()
                self._note("trained")
                return
            except RunFailed as failure:
                if not self._may_restart():
                    raise
                self.begun_again += 1
                for line in failure.lines:
                    self._tell(line)
                self._tell(f"beginning again ({self.restarts} of {self.reaching.restarts} restarts)")
                await self._recover()

    def stop(self) -> None:
        """Has ``go`` raise CancelledError, soon. A task's own cancellation may be lost where it meets a change (asyncio.wait_for)."""
        self._stopped = True
        self._changed.set()

    async def end(self, grace: float) -> None:
        """Ends all that runs, trainers first, then the agents. Never raises."""
        self.ending = True
        for machine in self.machines:
            machine.closing = True
            machine.state = machine.state if machine.gone else "ending"
        self._stop_trainers(grace)
        await self._wait(lambda: not self._trainers_run(), grace + _SLACK)
        ending = [machine for machine in self.machines if machine.session is not None and machine.hello]
        for machine in ending:
            assert machine.session is not None
            machine.session.send({"do": "end", "grace": min(grace, _LEFT_ALONE)})
        await self._wait(lambda: all(machine.gone for machine in ending), _LEFT_ALONE + 2 * _SLACK)
        await asyncio.gather(*(m.session.close(1) for m in self.machines if m.session is not None), return_exceptions=True)
        for machine in self.machines:
            machine.state = "ended" if machine.state == "ending" else machine.state
        if self._pings is not None:
            self._pings.cancel()

    def kill(self) -> None:
        """Of an impatient user: agents are told to wait for nobody."""
        for machine in self.machines:
            if machine.session is not None:
                machine.session.send({"do": "end", "grace": 0})

    # ---- steps

    async def _connect(self, machines: Sequence[Machine]) -> None:
        for machine in machines:
            machine.forget()
            machine.session = Session(machine.plan.host, self.reaching.ssh, self.reaching.agent, machine.hear, machine.hear_end, self._is_held)
            await machine.session.open()
        within = self.reaching.connect_within
        await self._wait(lambda: all(m.hello or m.settled() for m in machines), within)
        for machine in machines:
            if machine.hello:
                self._send_begin(machine)
        await self._wait(lambda: all(m.settled() for m in machines), within)
        late = [LaunchError(f"{m.name}: it has not answered within {within:g} s; see that ssh {m.plan.host.login} works") for m in machines if not m.settled()]
        all_of([*filter(None, (machine.failure() for machine in machines)), *late])

    def _is_held(self) -> bool:
        return self._held() and not self.ending

    def _send_begin(self, machine: Machine) -> None:
        plan, options = machine.plan, self.plan.options
        assert machine.session is not None
        machine.session.send(
            {
                "do": "begin", "grace": self.reaching.grace, "cwd": os.getcwd(), "defaults": _DEFAULTS, "address": plan.host.address,
                "files": self._secrets,
                "programs": (["hopfeed-server"] if options.servers else []) + ["torchrun", options.command[0]],
                "ports": self.plan.ports_of(plan), "interface": len(self.plan.hosts) > 1, "data": plan.data,
                "makes_folders": bool(plan.partitions),
            }
        )  # fmt: skip

    async def _copy(self, machines: Sequence[Machine]) -> None:
        tasks = []
        all_missing = [self._missing(machine) for machine in machines]  # raises before anything is sent
        for machine, missing in zip(machines, all_missing):
            if missing:
                machine.state = f"copying {len(missing)} partition{'s' * (len(missing) > 1)}"
                machine.pushed = missing
                self._tell(f"{machine.name}: {machine.state}")
                tasks.append(asyncio.create_task(push(machine.plan, self.plan.cut, missing, self.reaching.ssh)))
        try:
            if tasks:
                await self._until(lambda: all(task.done() for task in tasks), None, "", tasks=tasks)
            all_of([error for task in tasks if (error := task.exception()) is not None])
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=_SLACK)
        for machine in machines:
            machine.state = "prepared"

    def _missing(self, machine: Machine) -> tuple[int, ...]:
        begun, cut = machine.begun, self.plan.cut
        assert begun is not None
        missing = missing_there(machine.plan, cut, begun["sha256"], begun["partitions"])
        if missing:
            require_room(machine.plan, cut, missing, begun["held"], begun["free"])
        return missing

    async def _start_servers(self) -> None:
        started = [(m, s) for m in self.machines for s in m.plan.servers if not m.running(s.name)]
        for machine, server in started:
            self._start_server(machine, server)
        await self._until(lambda: all(m.processes[s.name].ready for m, s in started), self.reaching.servers_within, "its server does not listen")
        for machine in self.machines:
            machine.state = "serving" if machine.plan.servers else machine.state

    def _start_server(self, machine: Machine, server: ServerPlan) -> None:
        begun = machine.begun
        assert begun is not None
        listen = server.address if begun["listen"] == machine.plan.host.address else f"{begun['listen']}:{server.port}"
        command = self.plan.server_command(
            machine.plan, server, program=begun["programs"]["hopfeed-server"], folder=begun["folder"], listen=listen, cores=begun["cores"]
        )
        machine.state = "starting servers"
        machine.start(server.name, command, environment={}, ready="listening on ")

    def _start_trainers(self) -> None:
        for machine in self.machines:
            plan, begun = machine.plan, machine.begun
            assert begun is not None
            command = self.plan.trainer_command(plan, folder=begun["folder"])
            environment = self.plan.trainer_environment(plan, folder=begun["folder"], run=self._name, restart=self.begun_again)
            machine.start(
                TRAINERS, [begun["programs"]["torchrun"], *command[1:]], environment=environment, pipes=plan.pipes,
                watched=self._watched and plan.rank == 0,
            )  # fmt: skip
            machine.state = "training"
            self._tell(f"{machine.name}: training")

    async def _watch(self) -> None:
        """Until all trainers have ended. A server that ends alone is started again, which is one of the restarts: who asks it waits."""
        while self._trainers_run():
            await self._until(lambda: not self._trainers_run() or bool(self._dead_servers()), None, "", servers_may_end=True)
            for machine, server in self._dead_servers() if self._trainers_run() else []:
                failure = machine.server_failure(server.name)
                assert failure is not None
                if not self._may_restart():
                    raise failure
                self._tell(failure.lines[0])
                self._tell(f"{machine.name}: starting {server.name} again ({self.restarts} of {self.reaching.restarts} restarts)")
                self._start_server(machine, server)
                machine.state = "training"
        await self._settle(servers_may_end=True)

    async def _recover(self) -> None:
        """Before the run is begun again: trainers are ended, lost hosts connected to once more."""
        self._stop_trainers(_LEFT_ALONE)
        await self._wait(lambda: not self._trainers_run(), _LEFT_ALONE + _SLACK)
        for machine in self.machines:
            machine.forget_trainers()
        until = time.monotonic() + _COMES_BACK_WITHIN
        while lost := [m for m in self.machines if m.lost is not None or m.refused is not None]:
            closing = [asyncio.create_task(m.session.close(1 if m.gone else self.reaching.grace + _SLACK)) for m in lost if m.session is not None]
            await self._finished(closing)
            try:
                await self._connect(lost)
                await self._copy(lost)
            except LaunchError as error:
                if time.monotonic() > until:
                    raise LaunchError(*(f"{line} ({_COMES_BACK_WITHIN:g} s after it was lost)" for line in error.lines)) from error
                await self._wait(lambda: False, 1)

    # ---- waiting

    async def _finished(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Until these have ended, each of which has a deadline of its own; who is stopped cancels them."""
        try:
            for task in tasks:
                task.add_done_callback(lambda _: self._changed.set())
                while not task.done():
                    await self._change(1)
        finally:
            for task in tasks:
                task.cancel()

    async def _wait(self, done: Callable[[], bool], within: float) -> bool:
        """Whether it came in time."""
        until = time.monotonic() + within
        while not done():
            if time.monotonic() >= until:
                return False
            await self._change(until - time.monotonic())
        return True

    async def _change(self, within: float) -> None:
        """Until anything has changed, or the time is over."""
        try:
            await asyncio.wait_for(self._changed.wait(), within)
        except asyncio.TimeoutError:
            pass
        self._changed.clear()
        if self._stopped and not self.ending:
            raise asyncio.CancelledError

    async def _until(
        self, done: Callable[[], bool], within: float | None, late: str, *, tasks: Sequence[asyncio.Task[None]] = (), servers_may_end: bool = False
    ) -> None:
        """Until something is so, or anything has failed."""
        until = None if within is None else time.monotonic() + within
        for task in tasks:
            task.add_done_callback(lambda _: self._changed.set())
        while not done():
            if self._failures(servers_may_end):
                await self._settle(servers_may_end)
            all_of([error for task in tasks if task.done() and (error := task.exception()) is not None])
            if until is not None and time.monotonic() > until:
                waiting = [m for m in self.machines if any(not m.processes[s.name].ready for s in m.plan.servers)]
                raise RunFailed(*(f"{m.name}: {late} within {within:g} s" for m in waiting))
            await self._change(1)
        if self._failures(servers_may_end):
            await self._settle(servers_may_end)

    def _failures(self, servers_may_end: bool) -> list[LaunchError]:
        found = [machine.failure() or machine.trainer_failure() for machine in self.machines]
        if not servers_may_end:
            found += [m.server_failure(s.name) for m, s in self._dead_servers() if m.failure() is None]
        return [failure for failure in found if failure is not None]

    async def _settle(self, servers_may_end: bool) -> None:
        """Raises what has failed, once others had time to say theirs."""
        if first := self._failures(servers_may_end):
            await asyncio.sleep(_SETTLES)
            lines = [str(failure) for failure in first]
            all_of([*first, *(f for f in self._failures(servers_may_end) if str(f) not in lines)])

    def _dead_servers(self) -> list[tuple[Machine, ServerPlan]]:
        return [(m, s) for m in self.machines if m.lost is None for s in m.plan.servers if s.name in m.processes and not m.running(s.name)]

    def _trainers_run(self) -> bool:
        return any(machine.running(TRAINERS) for machine in self.machines)

    def _stop_trainers(self, grace: float) -> None:
        for machine in self.machines:
            if machine.running(TRAINERS) and machine.session is not None:
                machine.session.send({"do": "stop", "names": [TRAINERS], "grace": grace})

    def _may_restart(self) -> bool:
        """Whether one of --restarts is left, which is then used up."""
        if self.restarts == self.reaching.restarts:
            return False
        self.restarts += 1
        return True

    def _note(self, what: str) -> None:
        self.times.setdefault(what, time.monotonic() - self._begin)

    async def _ping(self) -> None:
        """Tells agents that somebody is here, and takes a host for lost that says nothing, unless it is this process that was asleep."""
        last = time.monotonic()
        while True:
            slept, last = time.monotonic() - last, time.monotonic()
            for machine in self.machines:
                session = machine.session
                if session is not None and machine.hello and not machine.gone:
                    session.heard = session.heard if slept < 2 * PING_EVERY else last
                    session.send({"do": "ping"})
                    if time.monotonic() - session.heard > LOST_AFTER:
                        machine.hear_end(f"it is lost: it has said nothing for {LOST_AFTER:g} s")
                        session.kill()
            await asyncio.sleep(PING_EVERY)
