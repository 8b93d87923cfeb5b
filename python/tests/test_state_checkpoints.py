"""Checkpoints of state at servers: who goes back learns the bits of who was never interrupted."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hopfeed
import hopfeed.state
from conftest import environment_of_python, partition
from hopfeed.state_checkpoint import StateCheckpoint
from state_owners import DEADLINE, NODES, Owners

torch = pytest.importorskip("torch")

import hopfeed.torch  # noqa: E402
from process_group import run_ranks  # noqa: E402

KILLS = 5
STEPS_OF_LOOP = 40 * (KILLS + 1)

# The loop of docs/python.md. At milestones it waits until the test has killed a server.
LOOP = """
import os, random, time
import hopfeed.state, hopfeed.torch
data, out, kills, *servers = arguments
FILE, EVERY, STEPS, DEADLINE = f"{out}/checkpoint.pt", 8, 40 * (int(kills) + 1), 120

def checkpoint():
    state = {"emb": emb.save(), "loader": loader.state_dict()}
    state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    with open(FILE + ".new", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(FILE + ".new", FILE)
    emb.keep([state["emb"]["checkpoint"]])
    return state["emb"]["steps"]

def load():
    if not os.path.exists(FILE):
        loader.load_state_dict(first)
        return None
    state = torch.load(FILE)
    loader.load_state_dict(state["loader"])
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["emb"]

def any_rank(lost):
    flag = torch.tensor(float(lost))
    dist.all_reduce(flag)
    return bool(flag > 0)

def forever(loader):
    while True:
        yield from loader

def wait_for_kill(step):
    number = step // 40
    if rank != 0 or number >= int(kills):
        return
    if step % 40 == 5:
        open(f"{out}/reached-{number}", "w").close()
    elif step % 40 == 35:
        until = time.monotonic() + DEADLINE
        while not os.path.exists(f"{out}/killed-{number}"):
            assert time.monotonic() < until
            time.sleep(0.005)

torch.manual_seed(7)
owners = hopfeed.state.connect(servers)
loader = hopfeed.torch.Loader(data, fanouts=[3], batch_size=32, dataset_ids=True, distributed=True, num_workers=0, seed=4)
first = loader.state_dict()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
targets = torch.linspace(-1, 1, 2000 * 8).view(2000, 8)
resumes = any_rank(os.path.exists(FILE))
emb = hopfeed.torch.DistEmbedding(owners, "rows", "node", 8, lr=0.05, restore=load() if resumes else None)
step, saved = emb.next_step, emb.next_step if resumes else -1
returns, began, first_attempt = 0, step, emb.attempt
lost, batches = False, forever(loader)
while True:
    try:
        if not lost:
            wait_for_kill(step)
            if rank == 0 and step % EVERY == 0 and step != saved:
                saved = checkpoint()
            if step < STEPS:
                batch = next(batches)
                x = emb(batch.dataset_id)
    except hopfeed.PeerDiedError:
        lost = True
    if any_rank(lost):
        state = load()
        emb.go_back(state)
        step, saved = emb.next_step, -1 if state is None else emb.next_step
        lost, batches, returns = False, forever(loader), returns + 1
        continue
    if step == STEPS:
        break
    ((model(x) - targets[batch.n_id]) ** 2).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    try:
        emb.step()
    except hopfeed.PeerDiedError:
        lost = True
    step += 1

np.save(f"{out}/rows-{rank}.npy", emb.pull(torch.arange(2000)).numpy())
weights = [parameter.detach().double().sum().item().hex() for parameter in model.parameters()]
result = {"returns": returns, "weights": weights, "steps": emb.next_step, "began": began, "attempts": [first_attempt, emb.attempt]}
dist.barrier()
"""


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < until, "nothing comes"
        time.sleep(0.005)


def rows_of(folder: Path, ranks: int = 2) -> np.ndarray[Any, Any]:
    """As bits; the same at all ranks."""
    rows = [np.load(folder / f"rows-{rank}.npy").view(np.uint32) for rank in range(ranks)]
    for other in rows[1:]:
        np.testing.assert_array_equal(rows[0], other)
    return rows[0]


def dataset_ids(folder: Path) -> np.ndarray[Any, Any]:
    """Of the nodes in their original order."""
    options = dict(fanouts=[0], seeds=np.arange(NODES), batch_size=NODES, shuffle=False, num_workers=0, dataset_ids=True)
    with hopfeed.Loader(folder, **options) as loader:
        return next(iter(loader)).dataset_id.copy()


@pytest.fixture
def owners(cut: Path, tmp_path: Path) -> Iterator[Owners]:
    with Owners(cut, tmp_path / "owners", ["0,2", "1"]) as both:
        yield both


UNDISTURBED = LOOP.replace("def wait_for_kill(step):", "def wait_for_kill(step):\n    return")


@pytest.fixture(scope="module")
def calm(cut: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], np.ndarray[Any, Any]]:
    """What the ranks learn whom nobody disturbs, of one owner: the model's weights, and rows."""
    folder = tmp_path_factory.mktemp("calm")
    with Owners(cut, folder / "owners", ["0,1,2"]) as one:
        results = run_ranks(UNDISTURBED, environment_of_python(), cut, folder, KILLS, *one.addresses)
    assert [(result["returns"], result["steps"]) for result in results] == [(0, STEPS_OF_LOOP)] * 2
    assert results[0]["weights"] == results[1]["weights"]
    return results[0]["weights"], rows_of(folder)


class TestTraining:
    def test_owners_are_killed_again_and_again_and_ranks_learn_the_same_bits(
        self, owners: Owners, cut: Path, tmp_path: Path, environment: dict[str, str], calm: tuple[list[str], np.ndarray[Any, Any]]
    ) -> None:
        out = tmp_path / "killed"
        out.mkdir()
        draw = random.Random(3)
        done = threading.Event()

        def kill_some() -> None:
            for number in range(KILLS):
                wait_until(lambda: done.is_set() or (out / f"reached-{number}").exists())
                time.sleep(draw.uniform(0, 0.3))
                if not done.is_set():
                    owners.kill(number % 2)
                if number == 2:  # while they go back, perhaps
                    time.sleep(draw.uniform(0, 0.1))
                    owners.kill(1)
                (out / f"killed-{number}").touch()

        killer = threading.Thread(target=kill_some)
        killer.start()
        try:
            results = run_ranks(LOOP, environment, cut, out, KILLS, *owners.addresses)
        finally:
            done.set()
            killer.join()
        assert [result["returns"] >= KILLS for result in results] == [True, True], results
        assert results[0]["attempts"][0] == 0 and results[0]["attempts"] == results[1]["attempts"] and results[0]["attempts"][1] > 0
        assert len(owners.shards()) == 2  # of the last checkpoint
        for result in results:
            assert (result["weights"], result["steps"]) == (calm[0], STEPS_OF_LOOP)
        np.testing.assert_array_equal(rows_of(out), calm[1])

    def test_owners_are_killed_before_the_first_checkpoint_and_all_go_back_to_first_values(
        self, owners: Owners, cut: Path, tmp_path: Path, environment: dict[str, str], calm: tuple[list[str], np.ndarray[Any, Any]]
    ) -> None:
        early = UNDISTURBED.replace(
            "def wait_for_kill(step):\n    return",
            """def wait_for_kill(step):
    number = returns
    if rank == 0 and step == 0 and saved < 0 and number < 2:
        open(f"{out}/reached-{number}", "w").close()
        until = time.monotonic() + DEADLINE
        while not os.path.exists(f"{out}/killed-{number}"):
            assert time.monotonic() < until
            time.sleep(0.005)
    return""",
        )

        def kill_both() -> None:
            for number in range(2):
                wait_until(lambda: (tmp_path / f"reached-{number}").exists())
                owners.kill(1 - number)
                (tmp_path / f"killed-{number}").touch()

        killer = threading.Thread(target=kill_both)
        killer.start()
        results = run_ranks(early, environment, cut, tmp_path, KILLS, *owners.addresses)
        killer.join()
        for result in results:
            assert (result["began"], result["weights"], result["steps"]) == (0, calm[0], STEPS_OF_LOOP)
            assert result["returns"] >= 2 and result["attempts"][1] > result["attempts"][0] == 0
        np.testing.assert_array_equal(rows_of(tmp_path), calm[1])

    def test_all_processes_die_and_new_ones_go_on(
        self, owners: Owners, cut: Path, tmp_path: Path, environment: dict[str, str], calm: tuple[list[str], np.ndarray[Any, Any]]
    ) -> None:
        dies = UNDISTURBED.replace("    if step == STEPS:", "    if step == 30:\n        print('null', flush=True)\n        os._exit(0)\n    if step == STEPS:")
        run_ranks(dies, environment, cut, tmp_path, KILLS, *owners.addresses)
        for which in (0, 1):
            owners.kill(which)
        results = run_ranks(UNDISTURBED, environment, cut, tmp_path, KILLS, *owners.addresses)
        for result in results:
            assert (result["began"], result["returns"], result["weights"]) == (24, 0, calm[0])
        np.testing.assert_array_equal(rows_of(tmp_path), calm[1])


# A few steps of ranks that learn from ids of their own, and what rank 0 saved then.
STEPS = """
import hopfeed.state, hopfeed.torch
def learn(emb, ids_of):
    for ids in ids_of:
        (emb(ids) ** 2).sum().backward()
        emb.step()
def ids_of(steps):
    return [torch.randint(0, 2000, (100,), generator=torch.Generator().manual_seed(10 * step + rank)) for step in steps]
owners = hopfeed.state.connect(arguments[1:])
"""


def learned(owners: hopfeed.state.Owners, steps: int = 3, **options: Any) -> Any:
    emb = hopfeed.torch.DistEmbedding(owners, "rows", "node", 4, lr=0.1, **options)
    for step in range(steps):
        (emb(torch.arange(step, NODES, 7)) ** 2).sum().backward()
        emb.step()
    return emb


class TestDistEmbedding:
    @pytest.fixture
    def here(self, owners: Owners) -> Iterator[hopfeed.state.Owners]:
        with hopfeed.state.connect(owners.addresses) as connected:
            yield connected

    def test_a_state_is_a_plain_dict(self, here: hopfeed.state.Owners) -> None:
        emb = learned(here)
        state = emb.save(7)
        assert json.loads(json.dumps(state)) == pickle.loads(pickle.dumps(state)) == state
        shards = state.pop("shards")
        assert state == {"table": "rows", "dataset": here.fingerprint, "run": emb.run, "attempt": 0, "checkpoint": 7, "steps": 3}
        assert [shard["first_partition"] for shard in shards] == [0, 1] and sum(shard["rows"] for shard in shards) > 800
        assert all(len(shard["xxh3"]) == 16 for shard in shards)

    def test_one_who_learns_alone_goes_back_and_forth(self, here: hopfeed.state.Owners, owners: Owners) -> None:
        emb = learned(here, 2)
        early = emb.save()
        before = emb.pull(torch.arange(NODES))
        ids = torch.arange(0, NODES, 3)
        emb(ids).sum().backward()
        emb.step()
        later, after = emb.save(), emb.pull(torch.arange(NODES))
        assert (early["checkpoint"], later["checkpoint"], later["steps"]) == (0, 1, 3)
        emb.look(ids)  # and is forgotten
        emb(ids).sum().backward()
        emb.go_back(early)
        assert emb.next_step == 2 and emb.attempt > 0 and torch.equal(emb.pull(torch.arange(NODES)), before)
        emb(ids).sum().backward()
        emb.step()
        assert torch.equal(emb.pull(torch.arange(NODES)), after)
        for which in (0, 1):
            owners.kill(which)
        with pytest.raises(hopfeed.StateLost):
            emb.pull(ids)
        attempt = emb.attempt
        emb.go_back(later)
        assert emb.next_step == 3 and emb.attempt > attempt and torch.equal(emb.pull(torch.arange(NODES)), after)

    def test_numbers_rise_and_others_are_removed(self, here: hopfeed.state.Owners, owners: Owners) -> None:
        emb = learned(here)
        states = [emb.save(), emb.save(5), emb.save()]
        assert [state["checkpoint"] for state in states] == [0, 5, 6] and len(owners.shards()) == 6
        for wrong, message in [(6, "checkpoint 6 of table 'rows' is not above 6"), (-1, "checkpoint is -1"), (True, "checkpoint is True")]:
            with pytest.raises(hopfeed.InvalidError, match=message):
                emb.save(wrong)
        for wrong in (3, "6", None, [True]):
            with pytest.raises(hopfeed.InvalidError, match="checkpoint"):
                emb.keep(wrong)
        emb.keep([5, 6])
        assert len(owners.shards()) == 4
        emb.go_back(states[1])
        with pytest.raises(hopfeed.InvalidError, match="not above 6"):
            emb.save(5)
        with pytest.raises(hopfeed.NotFoundError, match="rows.*is not there") as raised:
            emb.go_back(states[0])
        assert "\n" not in str(raised.value)
        emb.go_back(states[1])  # after one that failed
        assert emb.next_step == 3

    def test_a_damaged_shard_is_one_line_and_an_older_checkpoint_helps(self, here: hopfeed.state.Owners, owners: Owners) -> None:
        emb = learned(here)
        older, newer = emb.save(), emb.save()
        damaged = next(path for path in owners.shards() if path.parent.name == "1")
        content = bytearray(damaged.read_bytes())
        content[len(content) // 2] ^= 1
        damaged.write_bytes(content)
        with pytest.raises(hopfeed.CorruptError, match=f"cut-0: checkpoint 1 of table 'rows' cannot be restored: {damaged.name} is damaged: its checksum is another one; go back to an older") as raised:
            hopfeed.torch.DistEmbedding(here, "rows", "node", 4, lr=0.1, restore=newer)
        assert "\n" not in str(raised.value)
        emb.go_back(older)
        assert emb.next_step == 3
        swapped = older | {"shards": newer["shards"][:1] + [older["shards"][1] | {"xxh3": "0" * 16}]}
        with pytest.raises(hopfeed.CorruptError, match="is not the file that the checkpoint names"):
            emb.go_back(swapped)

    def test_a_disk_that_is_full_is_one_line_and_training_goes_on(self, here: hopfeed.state.Owners, owners: Owners) -> None:
        emb = learned(here)
        older, before = emb.save(), emb.pull(torch.arange(NODES))
        ids = torch.arange(0, NODES, 3)
        emb(ids).sum().backward()
        emb.step()
        files = {path: path.read_bytes() for path in owners.shards()}
        with owners.disk_is_full(0), pytest.raises(hopfeed.Error, match="checkpoint 1 of table 'rows' cannot be written: ") as raised:
            emb.save()
        assert isinstance(raised.value, (hopfeed.NoSpaceError, hopfeed.InputOutputError))
        assert "\n" not in str(raised.value) and "give its owner's --state folder room, and save again" in str(raised.value)
        left = [path for path in owners.shards() if path not in files]
        assert {path: path.read_bytes() for path in files} == files
        assert [path.name for path in left] in ([], ["rows.1.rows"])  # of the other owner, which may still be writing
        emb(ids).sum().backward()
        emb.step()
        after = emb.pull(torch.arange(NODES))
        newer = emb.save()
        assert (newer["checkpoint"], newer["steps"]) == (1, 5)
        emb.keep([0, 1])
        assert len(owners.shards()) == 4
        emb.go_back(older)
        assert torch.equal(emb.pull(torch.arange(NODES)), before)
        emb.go_back(newer)
        assert torch.equal(emb.pull(torch.arange(NODES)), after)

    def test_without_a_checkpoint_one_goes_back_to_first_values(self, here: hopfeed.state.Owners, owners: Owners) -> None:
        emb = learned(here, 0)
        run, first = emb.run, emb.pull(torch.arange(NODES))
        for lost in (False, True):
            emb(torch.arange(NODES)).sum().backward()
            emb.step()
            if lost:
                owners.kill(1)
            attempt = emb.attempt
            emb.go_back(None)
            assert emb.next_step == 0 and emb.run == run and emb.attempt > attempt
            assert torch.equal(emb.pull(torch.arange(NODES)), first)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (dict(table="items"), "the state is of table 'items', and this is table 'rows'"),
            (dict(dataset="0123"), "the state is of dataset '0123', and this is dataset"),
            (dict(run=0), r"state\['run'\] is 0"),
            (dict(steps=1.5), r"state\['steps'\] is 1.5; give what save\(\) gave"),
            (dict(steps=4), "is of step 3, and its state says 4"),
            (dict(attempt=-1), r"state\['attempt'\] is -1"),
            (dict(shards=[]), "names no shards"),
            (dict(shards=[{}]), "names no shards"),
            (dict(shards=[dict(first_partition=0, rows=1, bytes=2, xxh3="xyz")]), "xxh3 of a shard is 'xyz'"),
            (dict(more=1), "is a dict of table, dataset, .*more; give what its save"),
            (None, "is a int; give what its save"),
        ],
    )
    def test_a_state_that_is_none_of_this_table_is_one_line(self, here: hopfeed.state.Owners, change: Any, message: str) -> None:
        emb = learned(here)
        state = emb.save()
        with pytest.raises(hopfeed.Error, match=message) as raised:
            emb.go_back(3 if change is None else state | change)
        assert "\n" not in str(raised.value)
        emb.go_back(state)

    def test_another_kind_of_table_is_told(self, here: hopfeed.state.Owners) -> None:
        state = learned(here).save()
        with pytest.raises(hopfeed.InvalidError, match="width 4 there and 5 here|width 5 there and 4 here"):
            hopfeed.torch.DistEmbedding(here, "rows", "node", 5, lr=0.1, restore=state)

    def test_what_does_not_go_together_is_refused(self, here: hopfeed.state.Owners) -> None:
        emb = learned(here)
        state = emb.save()
        for options in (dict(run=5), dict(attempt=1)):
            with pytest.raises(hopfeed.InvalidError, match="restore goes with neither run nor attempt"):
                hopfeed.torch.DistEmbedding(here, "rows", "node", 4, lr=0.1, restore=state, **options)
        with pytest.raises(hopfeed.InvalidError, match="2 ranks go back to a checkpoint together, and there is no process group"):
            hopfeed.torch.DistEmbedding(here, "rows", "node", 4, lr=0.1, restore=state, rank=0, world_size=2)
        other = hopfeed.torch.DistEmbedding(here, "two", "node", 4, rank=1, world_size=2, run=5)
        for call in (other.save, lambda: other.keep([1])):
            with pytest.raises(hopfeed.InvalidError, match="is for rank 0, and this is rank 1"):
                call()

    def test_another_number_of_ranks_on_another_cut(
        self, cut: Path, small: Path, owners: Owners, tmp_path: Path, environment: dict[str, str]
    ) -> None:
        text = f"""
{STEPS}
emb = hopfeed.torch.DistEmbedding(owners, "rows", "node", 4, lr=0.1)
learn(emb, ids_of(range(10)))
result = emb.save() if rank == 0 else None
if rank == 0:
    np.save(arguments[0], emb.pull(torch.arange(2000)).numpy())
dist.barrier()
"""
        state = run_ranks(text, environment, tmp_path / "rows.npy", *owners.addresses, world=3)[0]
        values = np.load(tmp_path / "rows.npy")[dataset_ids(cut)]
        other = tmp_path / "data" / "other"
        partition("partition", small, other, "--parts", 4)
        with Owners(other, tmp_path / "owners", ["0", "1,3", "2"]) as now:  # of the same --state folder
            with hopfeed.state.connect(now.addresses) as here:
                emb = hopfeed.torch.DistEmbedding(here, "rows", "node", 4, lr=0.1, restore=state)
                assert emb.next_step == 10 and emb.run == state["run"]
                np.testing.assert_array_equal(emb.pull(torch.from_numpy(dataset_ids(other))).numpy(), values)
                again = emb.save()
                assert [shard["first_partition"] for shard in again["shards"]] == [0, 1, 2]
            text = f"""
{STEPS}
state = json.loads(arguments[0])
emb = hopfeed.torch.DistEmbedding(owners, "rows", "node", 4, lr=0.1, restore=state)
began = emb.next_step
learn(emb, ids_of(range(10, 13)))
result = [began, emb.next_step, emb.pull(torch.arange(5)).tolist(), emb.attempt]
dist.barrier()
"""
            results = run_ranks(text, environment, json.dumps(again), *now.addresses)
        assert results[0] == results[1] and results[0][:2] == [10, 13] and results[0][3] > again["attempt"]

    def test_what_one_rank_cannot_do_all_hear(self, owners: Owners, tmp_path: Path, environment: dict[str, str]) -> None:
        text = f"""
{STEPS}
import time
emb = hopfeed.torch.DistEmbedding(owners, "rows", "node", 4, lr=0.1, timeout=60)
learn(emb, ids_of(range(3)))
states = [emb.save(), emb.save()] if rank == 0 else [None, None]
dist.broadcast_object_list(states)
def refused(state, emb=emb):
    try:
        emb.go_back(state)
        return "gone back"
    except hopfeed.Error as error:
        return [type(error).__name__, str(error)]
result = [
    refused(states[rank]),
    refused(states[0] | {{"table": "x"}} if rank == 1 else states[0]),
    refused(states[0] | {{"checkpoint": 9}}),
    refused(states[1]),
]
learn(emb, ids_of(range(3, 5)))
result += [emb.next_step, emb.attempt]
result.append(refused(states[0] if rank == 0 else None))
opened = hopfeed.torch.DistEmbedding._opened
def slowly(self, *given):
    if self.rank == 0:
        time.sleep(3)  # as where owners read for long
    return opened(self, *given)
slow = hopfeed.torch.DistEmbedding(owners, "slow", "node", 4, timeout=1)
hopfeed.torch.DistEmbedding._opened = slowly
slow.go_back(None)
hopfeed.torch.DistEmbedding._opened = opened
late = hopfeed.torch.DistEmbedding(owners, "late", "node", 4, timeout=0.5)
state = [late.save() if rank == 0 else None]
dist.broadcast_object_list(state)
if rank == 0:
    result.append(refused(state[0], late))
dist.barrier()
if rank == 1:
    result.append(refused(state[0], late))  # the others have given up
dist.barrier()
"""
        first, second = run_ranks(text, environment, "", *owners.addresses)
        differs = "rank 1 goes back to checkpoint 1 of attempt 0 of table 'rows', and rank 0 to checkpoint 0 of attempt 0; give all ranks the state of one file"
        assert first[0] == ["InvalidError", f"rank 1: {differs}"] and second[0] == ["InvalidError", differs]
        assert first[1][0] == second[1][0] == "InvalidError" and "the state is of table 'x'" in first[1][1]
        assert first[2][0] == second[2][0] == "NotFoundError" and second[2][1] == f"rank 0: {first[2][1]}"
        assert first[3:6] == second[3:6] and first[3:5] == ["gone back", 5]
        assert first[6] == ["InvalidError", f"rank 1: {second[6][1]}"] and "goes back to the first values of table 'rows', and rank 0 to checkpoint 0" in second[6][1]
        assert first[7][0] == second[7][0] == "DeadlineError" and "rank 1 has not come within 0.5 s" in first[7][1]

    def test_a_store_that_is_gone_is_one_line(self) -> None:
        from hopfeed.meeting import Meeting

        class Gone:
            def add(self, *_: object) -> int:
                raise RuntimeError("connection reset\nat frame 5")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("hopfeed.meeting._store_of", lambda world: Gone())
            with pytest.raises(hopfeed.PeerDiedError, match=r"gives no answer \(connection reset\)") as raised:
                Meeting("x", 0, 2, timeout=1)
        assert "\n" not in str(raised.value)

    def test_what_a_dead_attempt_has_left_in_torchruns_store_is_nobodys(self, owners: Owners, environment: dict[str, str]) -> None:
        text = f"""
{STEPS}
import os
import hopfeed.agreement
from hopfeed.meeting import Meeting
def deal(batch_size):
    hopfeed.agreement._deals = 0  # as in a new process
    hopfeed.agreement.Notice({{}}, {{"batch_size": batch_size, "drop_last": False, "rank": rank, "world_size": world}}).post()
os.environ |= {{"GROUP_WORLD_SIZE": "1", "TORCHELASTIC_RESTART_COUNT": "0"}}
emb = hopfeed.torch.DistEmbedding(owners, "rows", "node", 4, lr=0.1, timeout=60)
learn(emb, ids_of(range(3)))
states = [emb.save() if rank == 0 else None]
dist.broadcast_object_list(states)
if rank == 0:
    deal(10)
    try:
        with Meeting("state/rows", rank, world, timeout=0.2) as meeting:
            meeting.say({{"attempt": 1, "state": None}})
    except hopfeed.DeadlineError:  # rank 1 has died before it came
        pass
emb.close()
dist.barrier()
os.environ["TORCHELASTIC_RESTART_COUNT"] = "1"
deal(20)
again = hopfeed.torch.DistEmbedding(owners, "rows", "node", 4, lr=0.1, timeout=20, restore=states[0])
fresh = hopfeed.torch.DistEmbedding(owners, "fresh", "node", 4, lr=0.1, timeout=20)
result = [emb.run, again.run, again.attempt, again.next_step, fresh.run]
dist.barrier()
"""
        first, second = run_ranks(text, environment, "", *owners.addresses)
        assert first == second and first[0] == first[1] and first[2] > 1 and first[3] == 3
        assert first[4] != first[0], "a training that begins anew is another run"

    def test_a_failure_between_two_looks_into_the_store_is_no_success(self) -> None:
        import torch.distributed
        from hopfeed.meeting import Meeting

        class FailsAfterALook:
            """Of rank 0. Rank 1 fails just after rank 0 has looked for the outcome in vain."""

            def __init__(self) -> None:
                self.store = torch.distributed.HashStore()

            def __getattr__(self, name: str) -> Any:
                return getattr(self.store, name)

            def check(self, keys: list[str]) -> bool:
                there = self.store.check(keys)
                if keys == ["x/1/outcome"]:
                    self.store.compare_set(keys[0], "", json.dumps([1, hopfeed.InvalidError.code, "differs"]))
                return there

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("hopfeed.meeting._store_of", lambda world: FailsAfterALook())
            with pytest.raises(hopfeed.InvalidError, match="^rank 1: differs$"), Meeting("x", 0, 2, timeout=10) as meeting:
                meeting.say(1)


class TestDistTensor:
    def test_it_goes_back_after_all_servers_were_started_again(self, owners: Owners) -> None:
        with hopfeed.state.connect(owners.addresses) as here, hopfeed.state.connect(owners.addresses) as there:
            table = hopfeed.DistTensor(here, "seen", "node", 2, "bfloat16", first_values="uniform", seed=1, run=8)
            table[[1, 2, 1999]] = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=torch.bfloat16)
            state, before = table.save(), table[:]
            assert state["run"] == 8 and state["steps"] == 0 and sum(shard["rows"] for shard in state["shards"]) == 3
            table.add([1, 7], torch.ones((2, 2), dtype=torch.bfloat16))
            assert (table[:] != before).any()
            table.restore(state)
            np.testing.assert_array_equal(table[:], before)
            table.add([7], torch.ones((1, 2), dtype=torch.bfloat16))
            assert (table[:] != before).any()
            for which in (0, 1):
                owners.kill(which)
            with pytest.raises(hopfeed.StateLost):
                table[:]
            table.restore(state)
            other = hopfeed.DistTensor(there, "seen", "node", 2, "bfloat16", first_values="uniform", seed=1)
            np.testing.assert_array_equal(other[:], before)
            other.push([5], table[torch.tensor([1])])
            np.testing.assert_array_equal(table[[5]], before[[1]])
            again = hopfeed.DistTensor(there, "seen", "node", 2, "bfloat16", first_values="uniform", seed=1, run=9)
            wait_until(lambda: StateCheckpoint.of(state, "seen", here.fingerprint).attempt_after() > table.attempt)  # as another process has it
            again.restore(state)
            assert again.run == 8 and again.attempt >= table.attempt
            np.testing.assert_array_equal(again[:], before)

    def test_what_cannot_be_is_one_line(self, owners: Owners) -> None:
        with hopfeed.state.connect(owners.addresses) as here:
            without = hopfeed.DistTensor(here, "t", "node", 1)
            with pytest.raises(hopfeed.InvalidError, match="table 't' was opened without a run"):
                without.save()
            with pytest.raises(hopfeed.InvalidError, match="table 't' was opened without a run"):
                without.keep([])
            table = hopfeed.DistTensor(here, "t", "node", 1, run=8)
            states = [table.save(), table.save(4)]
            with pytest.raises(hopfeed.InvalidError, match="checkpoint 4 of table 't' is not above 4"):
                table.save(4)
            table.keep([4])
            assert len(owners.shards()) == 2
            for state, message in [
                (states[0], "is not there"),
                (states[1] | {"table": "u"}, "the state is of table 'u'"),
                (states[1] | {"dataset": "u"}, "the state is of dataset 'u'"),
            ]:
                with pytest.raises(hopfeed.Error, match=message) as raised:
                    table.restore(state)
                assert "\n" not in str(raised.value)
            table.restore(states[1])
            assert not table[:].any()
