"""The program hopfeed-launch, and ``hopfeed-launch agent``, its other half on the hosts.

Exit codes: 0, 2 for input that cannot be served, 130 after Ctrl-C or SIGTERM, 1 for anything else.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from typing import Any

from hopfeed.errors import Error
from hopfeed.launch.errors import LaunchError
from hopfeed.version import __version__

_INTERRUPTED = 130
_DRAWN_EVERY = 0.5  # seconds
_READS_WITHIN = 60.0  # seconds for who reads the launcher's output, at its end


def main() -> None:
    arguments = sys.argv[1:]
    if arguments == ["agent"]:
        from hopfeed.launch import agent

        agent.main()
        return
    if arguments == ["--version"]:
        print(__version__)
        return
    try:
        code, lines = _launch(arguments)
    except LaunchError as error:
        code, lines = error.code, error.lines
    except Error as error:
        code, lines = 1, (str(error),)
    for line in lines:
        print(f"hopfeed-launch: {line}", file=sys.stderr)
    sys.exit(code)


def _launch(arguments: list[str]) -> tuple[int, Any]:
    from hopfeed.launch.command_line import parse
    from hopfeed.launch.report import report_without_run, require_writable

    told = parse(arguments)
    if told.json is not None and not told.dry_run:
        require_writable(told.json)
    try:
        return _launch_as_told(told)
    except LaunchError as error:
        if told.json is not None and not told.dry_run:
            return error.code, (*error.lines, *_report(told.json, report_without_run(error.lines)))
        raise


def _report(path: str, report: dict[str, Any]) -> tuple[str, ...]:
    """Lines that say why it cannot be written; they stand below what the run has to say."""
    from hopfeed.launch.report import write_report

    try:
        write_report(path, report)
    except LaunchError as error:
        return error.lines
    return ()


def _launch_as_told(told: argparse.Namespace) -> tuple[int, Any]:
    from hopfeed.launch.cut import read_cut
    from hopfeed.launch.hosts import read_hosts
    from hopfeed.launch.logs import Logs
    from hopfeed.launch.plan import RunOptions, describe, make_plan
    from hopfeed.launch.run import Reaching
    from hopfeed.launch.run_secrets import make_secrets
    from hopfeed.launch.screen import Lines, Screen
    from hopfeed.launch.session import agent_words, ssh_words

    options = RunOptions(
        command=tuple(told.command), servers=told.servers, trainers=told.trainers, sampling=told.sampling, state=told.state,
        remote_data=told.remote_data, num_workers=told.num_workers, server_options=tuple(told.server_options), meeting_port=told.meeting_port,
        tls=not told.no_tls,
    )  # fmt: skip
    for option, path in (("--state", told.state), ("--remote-data", told.remote_data)):
        if path is not None and not os.path.isabs(path):
            raise LaunchError(f"{option} is '{path}'; give an absolute path, which means the same on every host")
    plan = make_plan(read_hosts(told.hosts, port=told.port), read_cut(told.data), options)
    reaching = Reaching(
        ssh=ssh_words(told.ssh, told.connect_within), agent=agent_words(told.agent), connect_within=told.connect_within,
        servers_within=told.servers_within, grace=told.grace, restarts=told.restarts,
    )  # fmt: skip
    if told.dry_run:
        print(describe(plan))
        return 0, ()
    secrets = make_secrets([host.host.address for host in plan.hosts], tls=options.tls) if options.servers else {}
    shown = Screen() if sys.stderr.isatty() else Lines()
    logs = Logs(told.logs, shown.tell)
    code = _INTERRUPTED
    try:
        code, lines = asyncio.run(_run(told, plan, reaching, secrets, shown, logs))
        return code, lines
    finally:
        logs.close()
        try:
            shown.close(_READS_WITHIN if code != _INTERRUPTED else 1)
        except KeyboardInterrupt:
            pass


async def _run(told: argparse.Namespace, plan: Any, reaching: Any, secrets: dict[str, str], shown: Any, logs: Any) -> tuple[int, Any]:
    from hopfeed.launch.report import report_of
    from hopfeed.launch.run import Run
    from hopfeed.launch.screen import Screen

    def line(machine: Any, process: str, text: str) -> None:
        logs.write(machine.name, process, text)
        shown.line(machine, process, text)

    run = Run(
        plan, reaching, secrets, __version__, on_line=line, tell=shown.tell,
        watched=isinstance(shown, Screen) or told.json is not None, held=lambda: shown.full,
    )  # fmt: skip
    drawing = asyncio.create_task(_draw(shown, run))
    going = asyncio.create_task(run.go())
    asked = 0

    def interrupt() -> None:
        nonlocal asked
        asked += 1
        if run.ending or asked > 1:
            run.kill()
        else:
            run.stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, interrupt)
    try:
        await going
        code, outcome, lines = 0, "done", ()
    except asyncio.CancelledError:
        shown.tell("ending all that was started; a second Ctrl-C does not wait for checkpoints")
        code, outcome, lines = _INTERRUPTED, "interrupted", ("interrupted; all that it started is ended",)
    except LaunchError as error:
        code, outcome, lines = error.code, "failed", error.lines
    finally:
        await run.end(reaching.grace if asked else min(reaching.grace, 3))
        drawing.cancel()
        shown.draw(run.machines, last=True)
    if told.json is not None:
        unwritten = _report(told.json, report_of(run, outcome, lines))
        return code or int(bool(unwritten)), (*lines, *unwritten)
    return code, lines


async def _draw(shown: Any, run: Any) -> None:
    while True:
        shown.draw(run.machines)
        await asyncio.sleep(_DRAWN_EVERY)
