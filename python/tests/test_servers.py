"""Batches from hopfeed-server: the bytes of worker mode, also when a server is killed."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import hopfeed
from hopfeed.programs import program

ARGUMENTS = dict(fanouts=[4, 3], batch_size=20, seed=3, edge_ids=True)


@contextmanager
def server(folder: Path, address: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server that answers; killed at the end."""
    process = subprocess.Popen(
        [program("hopfeed-server"), "--data", folder, "--listen", address, "--num-workers", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30
        while subprocess.run([program("hopfeed-server"), "status", address], capture_output=True).returncode != 0:
            assert time.monotonic() < deadline and process.poll() is None, "the server does not come up"
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/socket"


def digests(loader: hopfeed.Loader) -> list[int]:
    return [batch.digest() for batch in loader]


def test_servers_give_the_bytes_of_worker_mode(small: Path, address: str) -> None:
    with hopfeed.Loader(small, num_workers=2, **ARGUMENTS) as local:
        expected = [digests(local), digests(local)]
    with server(small, address):
        for more in ({}, {"cache": "0.3"}, {"servers": address}):
            with hopfeed.Loader(**({"servers": [address]} | more), **ARGUMENTS) as remote:
                assert [digests(remote), digests(remote)] == expected
                assert remote.node_types == ["node"] and remote.stats()["workers"] >= 1
        with hopfeed.Loader(servers=[address], seeds=np.arange(100), **ARGUMENTS) as remote:
            seeds = np.concatenate([batch.n_id[batch.input_id.argsort()][:0].tolist() + [len(batch.input_id)] for batch in remote])
            assert seeds.sum() == 100


def test_empty_hops_and_empty_epochs_are_those_of_worker_mode(small: Path, address: str) -> None:
    with server(small, address):
        for fanouts in ([3, 0], [0]):
            arguments = ARGUMENTS | {"fanouts": fanouts}
            with hopfeed.Loader(small, **arguments) as local, hopfeed.Loader(servers=[address], **arguments) as remote:
                assert digests(remote) == digests(local)
        with hopfeed.Loader(servers=[address], seeds=np.arange(10), drop_last=True, **ARGUMENTS) as remote:
            assert len(remote) == 0 and list(remote) == []


def test_a_killed_server_costs_no_batch(small: Path, tmp_path: Path) -> None:
    with hopfeed.Loader(small, num_workers=0, **ARGUMENTS) as local:
        expected = digests(local)
    one, two = f"unix:{tmp_path}/one", f"unix:{tmp_path}/two"
    with server(small, one) as first, server(small, two):
        with hopfeed.Loader(servers=[one, two], connect_all=True, **ARGUMENTS) as remote:
            got = []
            for batch in remote:
                got.append(batch.digest())
                if len(got) == 3:
                    first.send_signal(signal.SIGKILL)
            assert got == expected


def test_no_server_left_is_an_error_that_names_it(small: Path, address: str) -> None:
    with server(small, address) as process:
        remote = hopfeed.Loader(servers=[address], reconnect_deadline=1, batches_ahead=1, **ARGUMENTS)
        batches = iter(remote)
        next(batches)
        process.kill()
        process.wait()
        with pytest.raises(hopfeed.Error, match="socket"):
            for _ in batches:
                pass
        remote.close()


def test_what_a_server_lacks_is_said(small: Path, address: str) -> None:
    with server(small, address):
        with pytest.raises(hopfeed.NotFoundError, match="papers"):
            hopfeed.Loader("papers", servers=[address])
        with pytest.raises(hopfeed.Error, match="nothing"):
            hopfeed.Loader(servers=[address], split="nothing")
        with pytest.raises(hopfeed.InvalidError, match="cache"):
            hopfeed.Loader(servers=[address], cache="lots")


def test_digests_are_those_of_the_cpp_programs(small: Path) -> None:
    """The key and the digest of each batch, as hopfeed-sample prints them."""
    done = subprocess.run(
        [program("hopfeed-sample"), small, "--fanouts", "4,3", "--batch-size", "20", "--seed", "3", "--num-workers", "1"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    with hopfeed.Loader(small, num_workers=2, **(ARGUMENTS | {"edge_ids": False})) as loader:
        got = [(*map(str, batch.key), f"{batch.digest():016x}") for batch in loader]
    assert got == [(*line[:3], line[-1]) for line in lines] and len(got) == 25


def test_partitions_on_two_machines_give_the_bytes_of_one(small: Path, tmp_path: Path) -> None:
    with hopfeed.Loader(small, num_workers=2, **ARGUMENTS) as one:
        expected = digests(one)
    cut = tmp_path / "cut"
    subprocess.run([program("hopfeed-partition"), "partition", small, cut, "--parts", "2"], check=True, capture_output=True)
    address = f"unix:{tmp_path}/socket"
    command = [program("hopfeed-server"), "--data", cut, "--partitions", "1", "--listen", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None and process.stdout.readline().startswith("listening")
        try:
            for workers in (0, 2):
                with hopfeed.Loader(cut, partitions=[0], peers=[address], num_workers=workers, **ARGUMENTS) as machine:
                    assert digests(machine) == expected
        finally:
            process.kill()
    with pytest.raises(hopfeed.Error, match="nobody serves partition 1"):
        hopfeed.Loader(cut, partitions=[0], peers=[address], peer_connect_timeout=0.3, **ARGUMENTS)
