"""The options of hopfeed-launch."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import NoReturn

_TORCHRUN_KILLS_AFTER = 30  # seconds from SIGTERM, whatever anybody says

_EPILOG = """\
Trainers find what they need in HOPFEED_DATA, HOPFEED_PEERS, HOPFEED_SERVERS, HOPFEED_OWNERS, HOPFEED_TOKEN_FILE,
HOPFEED_TLS_CA, HOPFEED_RUN and HOPFEED_RESTART; docs/cluster.md has the table.

Example: hopfeed-launch --hosts hosts --data data/cut --trainers 2 -- node_classification --epochs 20 --out /shared/run
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def _number(low: int, high: int):  # type: ignore[no-untyped-def]
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"'{text}' is no whole number from {low} to {high}")
        return int(text)

    return parse


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"'{text}': {error}") from error


def parser() -> argparse.ArgumentParser:
    found = _Parser(
        prog="hopfeed-launch", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=_EPILOG, allow_abbrev=False,
        usage="hopfeed-launch --hosts FILE --data CUT [OPTION...] -- COMMAND [ARGUMENT...]",
        description="Trains on several hosts from one command: copies partitions where they are missing, starts servers and trainers over\n"
        "ssh, shows what they do, and ends all of it. Hosts need hopfeed, torchrun for the trainers, and a login by key.",
    )  # fmt: skip
    add = found.add_argument
    add("--hosts", metavar="FILE", required=True, help="a host on each line: [USER@]HOST [PORT] [address=ADDRESS]; DGL's ip_config.txt is one")
    add("--data", metavar="CUT", required=True, help="the dataset's folder here, in as many partitions as there are servers, or more")
    add("--servers", metavar="N", type=_number(0, 64), default=1, help="servers on each host (1); 0: each host has all partitions")
    add("--trainers", metavar="M", type=_number(1, 1024), default=1, help="trainers on each host (1)")
    add("--sampling", choices=("trainers", "servers"), default="trainers", help="who samples: the trainers, which ask servers for what their host lacks, or the servers (trainers)")
    add("--state", metavar="DIR", help="servers keep learned rows, with checkpoints in this folder of each host")
    add("--remote-data", metavar="PATH", help="the dataset's folder on the hosts; default: CUT's path")
    add("--num-workers", metavar="N", type=_number(1, 4096), help="sampling workers of each server; default: 1, with --sampling servers the host's cores")
    add("--server-options", metavar="TEXT", type=_words, default=[], help='more options of hopfeed-server: "--row-cache 4G"')
    add("--port", metavar="N", type=_number(1, 65535), default=9470, help="of the first server of each host, for those whose line names none (9470)")
    add("--meeting-port", metavar="N", type=_number(1, 65535), default=29500, help="where trainers meet on the first host (29500)")
    add("--no-tls", action="store_true", help="what servers say is not encrypted, for private networks; they want the token all the same")
    add("--restarts", metavar="K", type=_number(0, 1_000_000), default=0, help="times that the run is begun again, at its last checkpoint, where anything fails (0)")
    add("--ssh", metavar="COMMAND", default="ssh", help='what reaches a host, with its options: "ssh -p 2222 -i key"')
    add("--agent", metavar="PROGRAM", default="hopfeed-launch", help="hopfeed-launch on the hosts, where logins do not have it in PATH")
    add("--connect-within", metavar="S", type=_number(1, 3600), default=30, help="seconds that a host has to answer (30)")
    add("--servers-within", metavar="S", type=_number(1, 86400), default=300, help="seconds that servers have to start (300)")
    add("--grace", metavar="S", type=_number(0, _TORCHRUN_KILLS_AFTER), default=30, help="seconds, up to 30, that trainers have to keep a checkpoint when they are asked to end (30)")
    add("--logs", metavar="DIR", default="hopfeed-launch.logs", help="folder here for a log of each process (hopfeed-launch.logs)")
    add("--json", metavar="FILE", help="write a report of the run to this file")
    add("--dry-run", action="store_true", help="show what would run where; nobody is asked")
    add("--version", action="store_true", help="the release")
    add("command", nargs="*", metavar="COMMAND", help=argparse.SUPPRESS)
    return found


def _joined(arguments: list[str]) -> list[str]:
    """argparse takes a value that begins with dashes only behind an equals sign."""
    joined: list[str] = []
    for word in arguments:
        if joined and joined[-1] == "--server-options":
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options; ``command`` is what stands behind ``--``."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    line = parser()
    options = line.parse_args(_joined(arguments[:split]))
    if options.command:
        line.error(f"'{options.command[0]}' is no option; the trainers' command stands behind --")
    options.command = arguments[split + 1 :]
    if not options.command:
        line.error("name the trainers' command behind --")
    return options
