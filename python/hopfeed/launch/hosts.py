"""The hosts file: one host a line, as ssh takes it, and the port of its first server. DGL's ip_config.txt is one.

    # comments, and empty lines
    node1
    alice@node2 9480
    10.0.0.3        9470
    gpu3            address=10.0.1.3       # ssh knows it as gpu3, the other hosts by its address
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hopfeed.launch.errors import LaunchError

MAX_HOSTS = 4096
MAX_FILE_BYTES = 1 << 20

_HOST = re.compile(r"(?:[A-Za-z0-9._][A-Za-z0-9._-]*@)?[A-Za-z0-9_.:%][A-Za-z0-9_.:%-]*")
_ADDRESS = re.compile(r"[A-Za-z0-9_.:%][A-Za-z0-9_.:%-]*")


@dataclass(frozen=True)
class Host:
    """One of the hosts.

    Attributes:
        login: what ssh is given: ``[USER@]HOST``.
        address: how the other hosts reach it.
        port: that its first server listens on.
    """

    login: str
    address: str
    port: int

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.login.rpartition("@")[2]

    def at(self, port: int) -> str:
        """``HOST:PORT`` of something on it."""
        return f"[{self.address}]:{port}" if ":" in self.address else f"{self.address}:{port}"


def read_hosts(path: str, *, port: int) -> list[Host]:
    """The hosts of a file, in its order; ``port`` is that of those which name none.

    Raises:
        LaunchError: there is no such file, a line is no host, or a host stands there twice.
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise LaunchError(f"--hosts: cannot read {path}: {error.strerror}") from error
    if len(text) > MAX_FILE_BYTES:
        raise LaunchError(f"--hosts: {path} has more than {MAX_FILE_BYTES} bytes; it is no list of hosts")
    hosts: list[Host] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(text.decode(errors="replace").splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        host = _host_of(words, f"--hosts: line {number} of {path}", port)
        for name in {host.name.lower(), host.address.lower()}:
            if name in seen:
                raise LaunchError(f"--hosts: line {number} of {path} names {name}, and so does line {seen[name]}; give each host once")
        seen |= dict.fromkeys((host.name.lower(), host.address.lower()), number)
        hosts.append(host)
    if not hosts:
        raise LaunchError(f"--hosts: {path} names no host; give one on each line")
    if len(hosts) > MAX_HOSTS:
        raise LaunchError(f"--hosts: {path} names {len(hosts)} hosts, and {MAX_HOSTS} are the most")
    return hosts


def _host_of(words: list[str], where: str, port: int) -> Host:
    login, *rest = words
    if not _HOST.fullmatch(login):
        raise LaunchError(f"{where}: '{login}' is no host; give [USER@]HOST, as ssh takes it")
    address = login.rpartition("@")[2]
    for word in rest:
        name, equals, value = word.partition("=")
        if equals and name == "address" and _ADDRESS.fullmatch(value):
            address = value
        elif word is rest[0] and re.fullmatch(r"[0-9]{1,5}", word) and 1 <= int(word) <= 65535:
            port = int(word)
        else:
            raise LaunchError(f"{where}: '{word}' is neither a port nor address=ADDRESS; a line is HOST [PORT] [address=ADDRESS]")
    return Host(login, address, port)
