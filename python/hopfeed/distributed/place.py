"""Where this trainer's graph is: what ``initialize`` was told, by its arguments or by the launcher's environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import hopfeed.state
from hopfeed.dataset import folder_of
from hopfeed.errors import InvalidError, UnsupportedError
from hopfeed.ranks import process_group, this_rank
from hopfeed.tool import PathLike

_PATIENCE = 30  # seconds that servers have to answer at the start, as programs give them


@dataclass
class Place:
    """What a run was begun with. ``initialize`` makes it.

    Attributes:
        data: the dataset's folder on this host; None where servers sample.
        peers: addresses of the servers that answer for the partitions that this host lacks.
        servers: addresses of the servers that sample, in place of ``data`` and ``peers``.
        owners: addresses of the servers that hold learned rows.
        token_file, tls_ca: what these servers want.
        restart: how often the run was begun again.
        num_workers: sampling processes of each trainer, where it samples itself.
        graph_name: of the dataset, once a ``DistGraph`` was opened by its name.
        nodes: of the graph that was opened last, for all that ask for it (:func:`hopfeed.distributed.nodes.nodes_of`).
    """

    data: str | None = None
    peers: list[str] = field(default_factory=list)
    servers: list[str] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    token_file: str | None = None
    tls_ca: str | None = None
    restart: int = 0
    num_workers: int = 1
    graph_name: str | None = None
    nodes: Any = field(default=None, repr=False)
    _owners: hopfeed.state.Owners | None = field(default=None, repr=False)

    def stream(self, name: str | None) -> dict[str, Any]:
        """The options of a stream that say where its batches come from; ``name``: of the dataset at servers that have several."""
        if self.servers:
            remote = {"token_file": self.token_file, "tls_ca": self.tls_ca, "connect_timeout": _PATIENCE}
            return _given({"dataset": name, "servers": self.servers, **remote})
        options: dict[str, Any] = {"dataset": self.data}
        if self.peers:
            options |= {"peers": self.peers, "peer_token_file": self.token_file, "peer_ca": self.tls_ca, "peer_connect_timeout": _PATIENCE}
        return _given(options)

    def connected_owners(self) -> hopfeed.state.Owners:
        """The servers with learned rows, connected when they are first asked for.

        Raises:
            InvalidError: there are none.
        """
        if not self.owners:
            raise InvalidError(
                "nobody holds learned rows: start servers with --state DIR, and give owners= ('peers', 'servers' or addresses) or HOPFEED_OWNERS"
            )
        if self._owners is None:
            self._owners = hopfeed.state.connect(
                self.owners, self.graph_name, token_file=self.token_file, tls_ca=self.tls_ca, connect_timeout=_PATIENCE
            )
        return self._owners

    def close(self) -> None:
        """Leaves the owners of learned rows."""
        owners, self._owners = self._owners, None
        if owners is not None:
            owners.close()


_here: Place | None = None


def initialize(
    ip_config: Any = None,
    *,
    data: PathLike | None = None,
    peers: Sequence[str] | str | None = None,
    servers: Sequence[str] | str | None = None,
    owners: Sequence[str] | str | None = None,
    token_file: PathLike | None = None,
    tls_ca: str | None = None,
    restart: int | None = None,
    num_workers: int = 1,
) -> Place:
    """Says where the graph is. What is not given is taken from the environment, which ``hopfeed-launch`` sets; ranks are torchrun's.

    A trainer samples for itself, from ``data`` and, where that folder has some partitions only, ``peers``; or ``servers`` sample for
    it. Where one of these two is given, the environment's dataset, peers, servers, owners, token and authority stand for nothing.

    Args:
        ip_config: DGL's; refused.
        data: the dataset's folder on this host; ``HOPFEED_DATA``.
        peers: servers that answer for the partitions that this host lacks, all of them; ``HOPFEED_PEERS``.
        servers: servers that sample, in place of the two above; ``HOPFEED_SERVERS``.
        owners: who holds learned rows: ``"peers"``, ``"servers"``, or addresses; ``HOPFEED_OWNERS``. By default those of the two that
            there are; only servers with ``--state`` can.
        token_file: file with the servers' token; ``HOPFEED_TOKEN_FILE``.
        tls_ca: they talk TLS, and this signed their certificates; ``HOPFEED_TLS_CA``.
        restart: how often the run was begun again; ``HOPFEED_RESTART``.
        num_workers: sampling processes of each trainer, where it samples itself; 0: in its own process.

    Raises:
        InvalidError: neither a folder nor servers; or what does not go together.
    """
    global _here
    if ip_config is not None:
        raise UnsupportedError(
            f"ip_config is {ip_config!r}, and hopfeed reads no such file; give data=, with peers= where other machines have partitions, or servers="
        )
    told: Mapping[str, str] = os.environ if data is None and servers is None else {}
    if data is None and servers is None:
        data, servers = told.get("HOPFEED_DATA"), told.get("HOPFEED_SERVERS")
        if data and servers:
            raise InvalidError("HOPFEED_DATA and HOPFEED_SERVERS are set: trainers sample for themselves, or servers do; unset one of them")
    if data and servers:
        raise InvalidError("data and servers are given: trainers sample for themselves, or servers do; give one of them")
    if not data and not servers:
        raise InvalidError(
            "nothing says where the graph is: give data=FOLDER or servers=ADDRESSES, set HOPFEED_DATA or HOPFEED_SERVERS, or use hopfeed-launch"
        )
    if peers is None and data:
        peers = told.get("HOPFEED_PEERS")
    if peers and not data:
        raise InvalidError("peers is given without data: they answer for the partitions that this host lacks; give data= too, or servers= alone")
    place = Place(
        data=folder_of("data", data) if data else None,
        peers=_addresses("peers", peers),
        servers=_addresses("servers", servers),
        token_file=_path(token_file or told.get("HOPFEED_TOKEN_FILE")),
        tls_ca=_path(tls_ca or told.get("HOPFEED_TLS_CA")),
        restart=_restarts(os.environ.get("HOPFEED_RESTART") or 0 if restart is None else restart),
        num_workers=num_workers,
    )
    place.owners = _owners_among(place, owners or told.get("HOPFEED_OWNERS"))
    exit_client()
    _here = place
    return place


def here() -> Place:
    """What ``initialize`` has said. Raises ``InvalidError`` where it was not called."""
    if _here is None:
        raise InvalidError("hopfeed.distributed.initialize() was not called; call it first")
    return _here


def exit_client() -> None:
    """Leaves the owners of learned rows, so that no other rank waits for this one. The end of the interpreter does it too."""
    global _here
    place, _here = _here, None
    if place is not None:
        place.close()


def rank_and_world(rank: int | None = None, world_size: int | None = None) -> tuple[int, int]:
    """Which trainer this is, of how many: what is given, else the process group, else the launcher, else it is alone."""
    alone = process_group() is None and not {"RANK", "WORLD_SIZE", "SLURM_STEP_ID"} & set(os.environ)
    if rank is None or world_size is None:
        found = (0, 1) if alone else this_rank()
        rank, world_size = found[0] if rank is None else rank, found[1] if world_size is None else world_size
    if not 0 <= rank < world_size:
        raise InvalidError(f"rank is {rank} and world_size is {world_size}; give a rank from 0 on, below the world size")
    return rank, world_size


def hosts_of(world_size: int) -> int:
    """Hosts that trainers are on, as many on each, by torchrun's LOCAL_WORLD_SIZE; 1 where nothing says it, or hosts differ."""
    beside = os.environ.get("LOCAL_WORLD_SIZE", "")
    return world_size // int(beside) if beside.isdecimal() and int(beside) and world_size % int(beside) == 0 else 1


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _path(given: PathLike | None) -> str | None:
    return os.fspath(given) if given else None


def _addresses(name: str, given: Sequence[str] | str | None) -> list[str]:
    addresses = given.split(",") if isinstance(given, str) and given else given or []
    if not isinstance(addresses, (list, tuple)) or not all(isinstance(address, str) for address in addresses):
        raise InvalidError(f"{name} is {given!r}; give a list of addresses")
    return list(addresses)


def _owners_among(place: Place, given: Sequence[str] | str | None) -> list[str]:
    if given not in ("peers", "servers"):
        return _addresses("owners", given) or place.peers or place.servers
    found: list[str] = getattr(place, given)
    if not found:
        raise InvalidError(f"owners is '{given}', and there are no {given}; give {given}=, or the owners' addresses")
    return found


def _restarts(given: Any) -> int:
    if isinstance(given, bool) or not str(given).isdecimal():
        raise InvalidError(f"restart is {given!r}; give how often the run was begun again, a whole number from 0 on")
    return int(given)
