"""Partitions onto a host that lacks them: hopfeed-partition push."""

from __future__ import annotations

import asyncio
import shlex
import signal
from collections.abc import Mapping, Sequence

from hopfeed.launch.cut import Cut
from hopfeed.launch.errors import LaunchError
from hopfeed.launch.plan import HostPlan
from hopfeed.launch.processes import die_with_parent
from hopfeed.programs import program

_ENDS_WITHIN = 10  # seconds


def missing_there(host: HostPlan, cut: Cut, sha256: str | None, there: Sequence[int]) -> tuple[int, ...]:
    """Partitions that a host lacks: all of its own where what is there is not the same cut, which push then says."""
    return tuple(p for p in host.partitions if sha256 != cut.sha256 or p not in there)


def require_room(host: HostPlan, cut: Cut, partitions: Sequence[int], held: Mapping[str, int], free: int) -> None:
    """Before anything is sent: what has come already, as of a push that was interrupted, needs no room again.

    Args:
        held: bytes in the folder there, of each partition and beside them ("-1").
        free: bytes that are free on its disk.

    Raises:
        LaunchError: it does not fit.
    """
    needed = sum(max(0, cut.bytes_of[p] - held.get(str(p), 0)) for p in (*partitions, -1))
    if needed > free:
        raise LaunchError(
            f"{host.host.name}: its disk is full: {host.data} needs {needed / 1e6:,.1f} MB more, and {free / 1e6:,.1f} MB are free; make room "
            "there, or name a folder on another disk (--remote-data)"
        )


async def push(host: HostPlan, cut: Cut, partitions: Sequence[int], ssh: Sequence[str]) -> None:
    """Sends these to the host, as far as they are not there.

    Raises:
        LaunchError: they cannot be sent.
    """
    login = host.host.login
    if ":" in host.host.name:  # an IPv6 address
        login = login.replace(host.host.name, f"[{host.host.name}]")
    words = [program("hopfeed-partition"), "push", cut.folder, "--to", f"{','.join(map(str, partitions))}={login}:{host.data}", "--ssh", shlex.join(ssh)]
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, start_new_session=True,
        preexec_fn=lambda: die_with_parent(signal.SIGTERM),
    )  # fmt: skip
    try:
        _, said = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _ENDS_WITHIN)
        except asyncio.TimeoutError:
            process.kill()
        raise
    if process.returncode != 0:
        lines = [line.strip() for line in said.decode(errors="replace").replace("\r", "\n").splitlines() if line.strip()]
        why = lines[-1].removeprefix("hopfeed-partition: ") if lines else f"hopfeed-partition ended with {process.returncode}"
        raise LaunchError(f"{host.host.name}: cannot copy its partitions: {why}")
