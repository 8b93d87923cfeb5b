"""Who keeps a slot and for how long: threads, forks, signals, deaths, the end of the interpreter."""

from __future__ import annotations

import gc
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import alive

import hopfeed

DEADLINE = 60  # seconds; nothing here takes a tenth of it


def run_python(text: str, environment: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=DEADLINE
    )


def all_gone(pids: list[str]) -> bool:
    """Workers go when they see that their trainer is gone, which takes a moment."""
    deadline = time.monotonic() + DEADLINE
    while any(alive(int(pid)) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(alive(int(pid)) for pid in pids)


@pytest.mark.parametrize("workers", [0, 2])
def test_arrays_outlive_batch_and_loader(small: Path, workers: int) -> None:
    loader = hopfeed.Loader(small, fanouts=[4, 3], batch_size=50, num_workers=workers)
    batch = next(iter(loader))
    x, expected = batch.x, batch.x.copy()
    del batch
    loader.close()
    del loader
    gc.collect()
    assert (x == expected).all()


def test_a_slot_is_free_when_its_last_array_is_gone(small: Path) -> None:
    with hopfeed.Loader(small, fanouts=[2], batch_size=5, num_workers=1, num_slots=4) as loader:
        kept = None
        for batch in loader:  # 100 batches through four slots, one of which an array holds
            assert not batch.is_copy
            if kept is None:
                kept, expected = batch.n_id[:3], batch.n_id[:3].copy()
        assert (kept == expected).all()


def test_batches_dropped_in_random_order_by_random_threads(small: Path) -> None:
    """10,000 batches; whatever thread drops an array, the slot comes back and no value changes before."""
    rng = random.Random(0)
    inbox: queue.Queue[object] = queue.Queue(maxsize=200)
    wrong: list[object] = []

    def drop(seed: int) -> None:
        mine, order = [], random.Random(seed)
        while (item := inbox.get()) is not None:
            mine.append(item)
            if len(mine) > 20:
                array, total = mine.pop(order.randrange(len(mine)))
                if int(array.sum()) != total:
                    wrong.append(array)

    threads = [threading.Thread(target=drop, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    batches = 0
    with hopfeed.Loader(small, fanouts=[3], batch_size=1, num_workers=1, num_slots=64) as loader, pytest.warns(UserWarning):
        while batches < 10_000:
            for batch in loader:
                array = batch.n_id if rng.random() < 0.5 else batch.edge_index
                inbox.put((array, int(array.sum())))
                batches += 1
    for _ in threads:
        inbox.put(None)
    for thread in threads:
        thread.join(DEADLINE)
    assert not wrong and batches >= 10_000


def test_a_killed_worker_costs_no_batch(small: Path) -> None:
    arguments = dict(fanouts=[4, 3], batch_size=10, seed=5)
    with hopfeed.Loader(small, num_workers=0, **arguments) as quiet:
        expected = [batch.digest() for batch in quiet]
    with hopfeed.Loader(small, num_workers=2, **arguments) as loader:
        got = []
        for batch in loader:
            got.append(batch.digest())
            if len(got) in (3, 20):
                os.kill(loader.worker_pids()[0], signal.SIGKILL)
        deadline = time.monotonic() + DEADLINE
        while loader.stats()["worker_deaths"] < 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert loader.stats()["worker_deaths"] >= 1
    assert got == expected


def test_a_fork_is_told_to_make_its_own_loader_and_hurts_nobody(small: Path) -> None:
    with hopfeed.Loader(small, fanouts=[4], batch_size=10, num_workers=1) as loader:
        batches = iter(loader)
        held = next(batches)
        expected = held.x.copy()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                next(batches)
            except hopfeed.InvalidError as error:
                status = 0 if "fork" in str(error) else 2
            del held, batches  # frees no slot of the parent's
            loader.close()
            gc.collect()
            os._exit(status)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert (held.x == expected).all()
        assert len(list(batches)) == 49
        assert all(alive(pid) for pid in loader.worker_pids())


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "raise SystemExit", "del hopfeed; gc.collect()"])
def test_an_interpreter_that_ends_with_batches_alive_ends_cleanly(
    small: Path, environment: dict[str, str], end: str
) -> None:
    text = f"""
import gc, sys, hopfeed
loader = hopfeed.Loader(sys.argv[1], fanouts=[4], batch_size=10, num_workers=1)
batches = iter(loader)
held = [next(batches), next(batches).x]
cycle = [held, loader]; cycle.append(cycle)
print(*loader.worker_pids(), flush=True)
{end}
"""
    done = run_python(text, environment, small)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()
    assert all_gone(done.stdout.split())


def test_a_killed_trainer_leaves_no_worker(small: Path, environment: dict[str, str]) -> None:
    text = """
import os, signal, sys, hopfeed
loader = hopfeed.Loader(sys.argv[1], fanouts=[4], batch_size=10, num_workers=2)
held = next(iter(loader))
print(*loader.worker_pids(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = run_python(text, environment, small)
    assert done.returncode == -signal.SIGKILL
    assert len(done.stdout.split()) == 2 and all_gone(done.stdout.split())


def test_ctrl_c_leaves_next_and_no_batch_is_lost(small: Path) -> None:
    """A stopped worker makes nothing, so that next() waits; then the epoch goes on."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background begins with it ignored
    with hopfeed.Loader(small, num_workers=0, fanouts=[4], batch_size=100) as quiet:
        expected = [batch.digest() for batch in quiet]
    with hopfeed.Loader(small, num_workers=1, fanouts=[4], batch_size=100) as loader:
        (worker,) = loader.worker_pids()
        os.kill(worker, signal.SIGSTOP)
        try:
            batches = loader.stream
            batches.begin_epoch(0)
            timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            begin = time.monotonic()
            got: list[int] = []
            with pytest.raises(KeyboardInterrupt):
                while (batch := batches.next()) is not None:  # those that were made before it was stopped
                    got.append(batch.digest())
            assert time.monotonic() - begin < DEADLINE / 2
        finally:
            os.kill(worker, signal.SIGCONT)
        while (batch := batches.next()) is not None:
            got.append(batch.digest())
        assert got == expected


def test_close_wakes_a_next_of_another_thread(small: Path) -> None:
    loader = hopfeed.Loader(small, num_workers=1, fanouts=[4], batch_size=100)
    (worker,) = loader.worker_pids()
    os.kill(worker, signal.SIGSTOP)
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            for _ in loader:
                pass
        except hopfeed.Error as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)
    loader.close()
    thread.join(DEADLINE)
    assert not thread.is_alive() and raised and "closed" in str(raised[0])


ASKED_WHILE_NEXT_WAITS = """
import os, signal, sys, threading, time
import hopfeed

loader = hopfeed.Loader(sys.argv[1], fanouts=[2], batch_size=5, num_workers=1, num_slots=2)
batches = iter(loader)
next(batches)
worker, = loader.worker_pids()
os.kill(worker, signal.SIGSTOP)
taken = []
taker = threading.Thread(target=lambda: taken.extend(len(next(batches).n_id) for _ in range(10)))
taker.start()
time.sleep(0.5)  # it has come to a batch that nobody samples
asked = []
askers = [threading.Thread(target=lambda ask=ask: asked.append(ask())) for ask in (loader.state_dict, lambda: loader.spec, loader.worker_pids)]
for asker in askers:
    asker.start()
time.sleep(0.5)  # they wait for it
os.kill(worker, signal.SIGCONT)
for thread in (taker, *askers):
    thread.join()
print(len(taken), len(asked))
"""


def test_who_asks_a_loader_while_another_thread_waits_for_a_batch_holds_up_nobody(small: Path, environment: dict[str, str]) -> None:
    finished = run_python(ASKED_WHILE_NEXT_WAITS, environment, small)
    assert (finished.returncode, finished.stdout.split()) == (0, ["10", "3"]), finished.stderr


def test_a_closed_loader_says_so(small: Path) -> None:
    loader = hopfeed.Loader(small, num_workers=0)
    loader.close()
    loader.close()
    with pytest.raises(hopfeed.InvalidError, match="closed"):
        next(iter(loader))
    with pytest.raises(hopfeed.InvalidError, match="pickled"):
        import pickle

        pickle.dumps(loader)


def test_a_truncated_file_is_an_error_and_no_death(tmp_path: Path, environment: dict[str, str]) -> None:
    from conftest import partition

    folder = tmp_path / "data"
    partition("generate", folder, "--nodes", 20000, "--edges", 40000, "--features", 64, "--classes", 3, "--seed", 1)
    text = """
import os, signal, sys, hopfeed, faulthandler
loader = hopfeed.Loader(sys.argv[1], fanouts=[2], batch_size=100, num_workers=0)
path = sys.argv[1] + "/part-0000/nodes/node/x.npy"
os.truncate(path, 4096)
try:
    for batch in loader:
        pass
except hopfeed.CorruptError as error:
    assert path in str(error) and "truncated" in str(error), error
    print("told", flush=True)
rows = hopfeed.Dataset(sys.argv[1]).attr("y")
os.truncate(sys.argv[1] + "/part-0000/nodes/node/y.npy", 4096)
try:
    rows[:]
    for _ in range(1000): pass
except hopfeed.CorruptError as error:
    print("told", flush=True)
os.kill(os.getpid(), signal.SIGBUS)  # of nobody's file: it still kills
"""
    done = run_python(text, environment, folder)
    assert done.stdout.split() == ["told", "told"], done.stderr
    assert done.returncode == -signal.SIGBUS


def test_a_handler_of_sigbus_that_was_there_before_is_still_called(environment: dict[str, str]) -> None:
    text = """
import faulthandler, mmap, os, tempfile
faulthandler.enable()
import hopfeed
with tempfile.TemporaryFile() as file:
    file.truncate(4096)
    pages = mmap.mmap(file.fileno(), 4096)
    file.truncate(0)
    pages[0]
"""
    done = run_python(text, environment)
    assert done.returncode == -signal.SIGBUS and "Bus error" in done.stderr


def test_arrays_can_be_written_and_copied(small: Path) -> None:
    with hopfeed.Loader(small, fanouts=[3], batch_size=50, num_workers=1) as loader:
        for batch in loader:
            batch.x[:] = 0
            assert not batch.x.any()
        first = next(iter(loader))
        assert first.x.any() and isinstance(np.array(first.x), np.ndarray)
