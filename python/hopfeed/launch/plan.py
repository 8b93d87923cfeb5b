"""What runs where: partitions, servers, trainers, their commands and environments. Pure: nobody is asked.

Partition p is host p modulo the hosts'. A host's partitions are dealt to its servers in turn, so each partition has one server,
and its state one owner. Without servers nobody could answer for a partition, so each host has all of them.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from hopfeed.launch.cut import Cut
from hopfeed.launch.errors import LaunchError
from hopfeed.launch.hosts import Host

TRAINERS = "trainers"  # torchrun's process on each host

# Each trainer's words come by a pipe of its own, so that they are told from torchrun's; the first is its process.
_TRAINER = 'exec >"$1/trainer-$LOCAL_RANK" 2>&1 && echo "$$" && shift && exec "$@"'


@dataclass(frozen=True)
class RunOptions:
    """What the command line says of a run."""

    command: tuple[str, ...]
    servers: int = 1
    trainers: int = 1
    sampling: str = "trainers"
    state: str | None = None
    remote_data: str | None = None
    num_workers: int | None = None
    server_options: tuple[str, ...] = ()
    meeting_port: int = 29500
    tls: bool = True


@dataclass(frozen=True)
class ServerPlan:
    name: str
    port: int
    address: str
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class HostPlan:
    """What one host has and runs.

    Attributes:
        rank: its number, from 0 on.
        data: the dataset's folder there.
    """

    host: Host
    rank: int
    data: str
    partitions: tuple[int, ...]
    servers: tuple[ServerPlan, ...]
    pipes: tuple[str, ...]

    @property
    def ports(self) -> list[int]:
        return [server.port for server in self.servers]


@dataclass(frozen=True)
class Plan:
    options: RunOptions
    cut: Cut
    hosts: tuple[HostPlan, ...]

    @property
    def addresses(self) -> str:
        """Of all servers."""
        return ",".join(server.address for host in self.hosts for server in host.servers)

    def ports_of(self, host: HostPlan) -> list[int]:
        """What has to be free there before anything starts."""
        return host.ports + ([self.options.meeting_port] if host.rank == 0 else [])

    def server_command(self, host: HostPlan, server: ServerPlan, *, program: str, folder: str, listen: str, cores: int) -> list[str]:
        """How a server is started.

        Args:
            folder: that of the run on its host, where token and certificate are.
            listen: its address there.
            cores: of its host.
        """
        options = self.options
        workers = options.num_workers or (max(1, cores // options.servers) if options.sampling == "servers" else 1)
        words = [program, "--data", host.data, "--listen", listen, "--num-workers", str(workers), "--token-file", f"{folder}/token"]
        words += ["--tls-cert", f"{folder}/cert.pem", "--tls-key", f"{folder}/key.pem"] if options.tls else ["--insecure"]
        if len(self.hosts) * options.servers > 1:
            words += ["--partitions", ",".join(map(str, server.partitions)), "--peers", self.addresses]
            words += ["--peer-token-file", f"{folder}/token", *(["--peer-ca", f"{folder}/cert.pem"] if options.tls else [])]
        if options.state is not None:
            words += ["--state", options.state]
        return [*words, *options.server_options]

    def trainer_command(self, host: HostPlan, *, folder: str) -> list[str]:
        """How a host's trainers are started."""
        first = self.hosts[0].host.address
        return [
            "torchrun", f"--nnodes={len(self.hosts)}", f"--node-rank={host.rank}", f"--nproc-per-node={self.options.trainers}",
            f"--master-addr={first}", f"--master-port={self.options.meeting_port}", "--max-restarts=0", f"--log-dir={folder}/torchrun",
            "--no-python",
            "sh", "-c", _TRAINER, "sh", folder, *self.options.command,
        ]  # fmt: skip

    def trainer_environment(self, host: HostPlan, *, folder: str, run: str, restart: int) -> dict[str, str]:
        """What trainers learn of their run (docs/cluster.md has the table).

        Args:
            run: a name that all its starts have, and no other run.
            restart: how often it was begun again.
        """
        options = self.options
        told = {"HOPFEED_RUN": run, "HOPFEED_RESTART": str(restart)}
        if options.sampling == "servers":
            told["HOPFEED_SERVERS"] = self.addresses
        else:
            told["HOPFEED_DATA"] = host.data
            if options.servers:
                told["HOPFEED_PEERS"] = self.addresses
        if options.servers:
            told["HOPFEED_TOKEN_FILE"] = f"{folder}/token"
            if options.tls:
                told["HOPFEED_TLS_CA"] = f"{folder}/cert.pem"
        if options.state is not None:
            told["HOPFEED_OWNERS"] = "servers" if options.sampling == "servers" else "peers"
        return told


def make_plan(hosts: Sequence[Host], cut: Cut, options: RunOptions) -> Plan:
    """Who runs what.

    Raises:
        LaunchError: options that contradict each other, or the dataset.
    """
    if not options.servers and (options.sampling == "servers" or options.state is not None):
        option = "--sampling servers" if options.sampling == "servers" else "--state"
        raise LaunchError(f"{option} wants servers, and --servers is 0")
    wanted = len(hosts) * options.servers
    if cut.partitions < wanted and wanted > 1:
        raise LaunchError(
            f"{cut.folder} has {cut.partitions} partition{'s' * (cut.partitions > 1)}, and {wanted} servers want one each; cut it into "
            f"{wanted} or more (hopfeed-partition partition --parts), or start fewer"
        )
    return Plan(options, cut, tuple(_plan_host(host, rank, len(hosts), cut, options) for rank, host in enumerate(hosts)))


def _plan_host(host: Host, rank: int, hosts: int, cut: Cut, options: RunOptions) -> HostPlan:
    own = tuple(p for p in range(cut.partitions) if not options.servers or p % hosts == rank)
    servers = []
    for number in range(options.servers):
        port = host.port + number
        if port > 65535:
            raise LaunchError(f"{host.name}: its server {number} would listen on port {port}; name a lower one for the first")
        servers.append(ServerPlan(f"server-{number}", port, host.at(port), own[number :: options.servers]))
    if rank == 0 and options.meeting_port in range(host.port, host.port + options.servers):
        raise LaunchError(f"{host.name}: port {options.meeting_port} is that of --meeting-port and of a server; name another")
    pipes = tuple(f"trainer-{rank * options.trainers + local}" for local in range(options.trainers))
    return HostPlan(host, rank, options.remote_data or cut.folder, own, tuple(servers), pipes)


def describe(plan: Plan) -> str:
    """What would run where, for --dry-run. RUN is the folder that a run has on each host, ID its name."""
    text = []
    for host in plan.hosts:
        text.append(f"{host.host.login}: partition{'s' * (len(host.partitions) != 1)} {','.join(map(str, host.partitions))} in {host.data}")
        for server in host.servers:
            words = plan.server_command(host, server, program="hopfeed-server", folder="RUN", listen=server.address, cores=1)
            if plan.options.sampling == "servers" and not plan.options.num_workers:
                words[words.index("--num-workers") + 1] = "CORES" if plan.options.servers == 1 else f"CORES/{plan.options.servers}"
            text.append(f"  {server.name}: {shlex.join(words)}")
        environment = plan.trainer_environment(host, folder="RUN", run="ID", restart=0)
        text.append("  trainers: " + " ".join(f"{name}={value}" for name, value in environment.items()))
        words = plan.trainer_command(host, folder="RUN")
        text.append(f"    {shlex.join([*words[:words.index('sh')], *plan.options.command])}")
    return "\n".join(text)
