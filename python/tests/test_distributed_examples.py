"""The examples of hopfeed.distributed as users run them: alone, and as two ranks of torchrun over two servers on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hopfeed
from conftest import environment_of_python, partition
from machines import Machines, machines

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

import hopfeed.distributed as hd  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"
DEADLINE = 600  # seconds; torchrun imports torch and PyG three times, and the machine may be busy
FANOUTS, EPOCHS, BATCH = [3, 4], 2, 100  # as DGL has them

pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are in hopfeed's checkout")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def two(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    with machines(small, tmp_path_factory.mktemp("machines") / "small", addresses) as found:
        yield found


def run(name: str, place: dict[str, str], *arguments: object, ranks: int = 0) -> str:
    """What an example prints, alone or under torchrun."""
    clean = {key: value for key, value in environment_of_python().items() if not key.startswith("HOPFEED_") or key == "HOPFEED_BIN"}
    clean |= {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"} | place
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks else []
    command = [sys.executable, *launcher, EXAMPLES / name, *map(str, arguments)]
    with subprocess.Popen(command, env=clean, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            out, errors = process.communicate(timeout=DEADLINE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)  # torchrun ends its ranks
    assert process.returncode == 0, errors
    return out


SAGE = ["--fanouts", *FANOUTS, "--epochs", EPOCHS, "--batch-size", BATCH, "--hidden", 16]


def expected_digests(small: Path, two: Machines, rank: int, world: int, epochs: int = EPOCHS) -> list[list[str]]:
    """Of a rank's seeds, sampled from the graph that was never cut."""
    hd.initialize(data=two.whole)
    seeds = hd.node_split(hd.DistGraph().ndata["train_mask"], rank=rank, world_size=world)
    hd.exit_client()
    with hopfeed.Loader(small, seeds=seeds, fanouts=FANOUTS[::-1], batch_size=BATCH // world, seed=hd.seed_of_rank(0, rank), num_workers=0) as loader:
        return [[f"{batch.digest():016x}" for batch in loader] for _ in range(epochs)]


def test_two_ranks_over_servers_have_the_batches_of_one_machine(small: Path, two: Machines) -> None:
    out = run("distributed_sage.py", {"HOPFEED_SERVERS": ",".join(two.addresses)}, *SAGE, "--digests", ranks=2)
    told = json.loads(out.splitlines()[-1])
    assert told["ranks"] == [{"rank": rank, "seeds": 250, "digests": expected_digests(small, two, rank, 2)} for rank in range(2)]
    assert [len(epoch) for epoch in told["ranks"][0]["digests"]] == [5, 5] and 0 <= told["test_accuracy"] <= 1
    place = {"HOPFEED_DATA": str(two.folders[1]), "HOPFEED_PEERS": ",".join(two.addresses)}
    again = json.loads(run("distributed_sage.py", place, *SAGE, "--replay", "1/2"))
    assert again["ranks"] == told["ranks"][1:]


def test_alone_it_is_the_same_script(small: Path, two: Machines, tmp_path: Path) -> None:
    place, more = {"HOPFEED_DATA": str(two.whole), "HOPFEED_RUN": "a1"}, ("--digests", "--checkpoint", tmp_path / "kept")
    out = run("distributed_sage.py", place, *SAGE, *more)
    assert out.count("\nepoch") + out.startswith("epoch") == EPOCHS and "test accuracy" in out
    assert json.loads(out.splitlines()[-1])["ranks"] == [{"rank": 0, "seeds": 500, "digests": expected_digests(small, two, 0, 1)}]
    again = run("distributed_sage.py", place | {"HOPFEED_RESTART": "1"}, *SAGE, "--epochs", EPOCHS + 1, *more)
    assert [line.split(":")[0] for line in again.splitlines() if line.startswith("epoch")] == [f"epoch {EPOCHS + 1}"]  # it goes on
    assert json.loads(again.splitlines()[-1])["ranks"][0]["digests"] == expected_digests(small, two, 0, 1, EPOCHS + 1)[EPOCHS:]
    another = run("distributed_sage.py", place | {"HOPFEED_RESTART": "1", "HOPFEED_RUN": "b2"}, *SAGE, *more)
    assert another.startswith("epoch 1:")  # what an earlier run has kept is none of its own


def test_two_ranks_learn_rows_at_their_owners(two: Machines) -> None:
    place = {"HOPFEED_DATA": str(two.folders[0]), "HOPFEED_PEERS": ",".join(two.addresses), "HOPFEED_OWNERS": "peers"}
    out = run("distributed_rows.py", place, "--fanouts", *FANOUTS, "--epochs", 6, "--batch-size", BATCH, "--dim", 8, ranks=2)
    losses = [float(line.split()[3]) for line in out.splitlines() if line.startswith("epoch")]
    assert len(losses) == 6 and losses[-1] < losses[0] and "test accuracy" in out


def test_links_that_were_held_out_score_above_drawn_pairs(two: Machines, tmp_path: Path) -> None:
    partition("split-links", two.whole, tmp_path / "split", "--num-val", 0.1, "--num-test", 0.1)
    out = run("distributed_links.py", {"HOPFEED_DATA": str(tmp_path / "split")}, "--fanouts", *FANOUTS, "--epochs", 2, "--hidden", 16)
    assert out.count("epoch") == 2 and 0.5 < float(out.split()[-1]) < 1
