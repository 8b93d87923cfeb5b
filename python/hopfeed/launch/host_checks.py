"""What an agent finds out about its host before anything starts: ports, programs, addresses, the dataset that is there."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import socket
import struct
import sys
from pathlib import Path

from hopfeed.errors import Error
from hopfeed.launch.cut import PARTITION, manifest_of
from hopfeed.programs import program

_SIOCGIFADDR = 0x8915


class Refusal(Exception):
    """What this host cannot do; one line."""


def search_path() -> str:
    """PATH for what is started: the folder of this Python comes first where logins lack it, hopfeed's programs last."""
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder]
    own = os.path.dirname(sys.executable)
    if own and own not in folders:
        folders.insert(0, own)
    try:
        folders.append(os.path.dirname(os.path.abspath(program("hopfeed-worker"))))
    except Error:
        pass  # who samples says so
    return os.pathsep.join(dict.fromkeys(folders))


def find_program(name: str, path: str, cwd: str) -> str:
    """Where a program is.

    Raises:
        Refusal: nowhere.
    """
    if name.startswith("hopfeed-"):
        try:
            return os.path.abspath(program(name))
        except Error as error:
            raise Refusal(str(error)) from error
    found = shutil.which(os.path.join(cwd, name) if os.sep in name else name, path=path)
    if found is None:
        hint = "activate the environment that has Torch for logins by ssh" if name == "torchrun" else "it must be on every host, in PATH"
        raise Refusal(f"there is no program '{name}'; {hint}")
    return found


def require_free(port: int) -> None:
    """Raises Refusal where somebody listens on a port of this host."""
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise Refusal(f"port {port} is in use there; name another (--port, --meeting-port), or end who has it") from error
            if error.errno == errno.EACCES:
                raise Refusal(f"port {port} is not this user's to listen on; name one above 1023") from error
            # no such family here


def listening_address(address: str) -> str:
    """Where a server of this host listens for those who know it by ``address``: many a host calls itself by its loopback."""
    try:
        found = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as error:
        raise Refusal(f"it does not know its own address '{address}' ({error.strerror}); give address=ADDRESS in the hosts file") from error
    loopback = str(found).startswith("127.") or found == "::1"
    literal = address == "localhost" or address == found
    return "0.0.0.0" if loopback and not literal else address


def interface_of(address: str) -> str | None:
    """The interface that has an IPv4 address, which Gloo and NCCL are told of; None where it is not found."""
    try:
        wanted = socket.gethostbyname(address)
    except OSError:
        return None
    if wanted.startswith("127."):
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            if socket.inet_ntoa(answer[20:24]) == wanted:
                return name
    return None


def dataset_at(folder: str) -> dict[str, object]:
    """What lies there: the hash of a manifest, None without one, the partitions, bytes that each of them holds,
    and what stands beside them ("-1"), and bytes that are free there.
    """
    path = Path(folder)
    try:
        sha256: str | None = hashlib.sha256(manifest_of(path)).hexdigest()
        partitions = sorted(int(found[1]) for name in os.listdir(path) if (found := PARTITION.fullmatch(name)))
    except OSError:
        sha256, partitions = None, []
    held = {"-1": 0}
    for where, _, names in os.walk(path):
        found = PARTITION.match(os.path.relpath(where, path))
        of = str(int(found[1])) if found else "-1"
        held[of] = held.get(of, 0) + sum(os.lstat(os.path.join(where, name)).st_size for name in names)
    while not path.exists() and path != path.parent:
        path = path.parent
    return {"sha256": sha256, "partitions": partitions, "held": held, "free": shutil.disk_usage(path).free}
