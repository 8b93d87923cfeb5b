"""State of training at servers that own the partitions of a graph: rows that anybody writes, and rows that ranks learn."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hopfeed
import hopfeed.state
from state_owners import DEADLINE, NODES, owner, start


def run_python(text: str, environment: dict[str, str], arguments: Sequence[object], count: int = 2) -> list[Any]:
    """What processes leave in ``result``, each of a ``number``."""
    begin = "import json, sys\nimport numpy as np\nimport hopfeed, hopfeed.state\nnumber, *arguments = int(sys.argv[1]), *sys.argv[2:]\n"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", f"{begin}{text}\nprint(json.dumps(result))", str(number), *map(str, arguments)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(count)
    ]  # fmt: skip
    try:
        told = [process.communicate(timeout=DEADLINE) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, (_, errors) in zip(processes, told):
        assert process.returncode == 0, errors
    return [json.loads(output.splitlines()[-1]) for output, _ in told]


class TestDistTensor:
    def test_rows_that_one_puts_another_reads_over_both_owners(self, two: list[str]) -> None:
        rng = np.random.default_rng(0)
        with hopfeed.state.connect(two) as here, hopfeed.state.connect(",".join(two), "generated") as there:
            assert here.num_owners == 2 and here.node_types == ["node"]
            for dtype, wanted in [("float32", np.float32), ("float16", np.float16), ("int64", np.int64), ("bfloat16", np.uint16)]:
                one = hopfeed.DistTensor(here, f"of-{dtype}", "node", 3, dtype)
                other = hopfeed.DistTensor(there, f"of-{dtype}", "node", 3, dtype)
                assert one.shape == (NODES, 3) and len(one) == NODES and one.dtype == dtype
                ids = rng.permutation(NODES)
                rows = rng.integers(0, 1000, (NODES, 3)).astype(wanted)
                assert not one[:].any() and one[[5]].dtype == wanted
                one[ids] = rows
                np.testing.assert_array_equal(other[ids], rows)
                np.testing.assert_array_equal(other[ids[[7, 7, 3]].tolist()], rows[[7, 7, 3]])
                np.testing.assert_array_equal(other[10:20], other.pull(np.arange(10, 20)))
                other.push([4, 4], rows[:2])
                np.testing.assert_array_equal(one[[4]], rows[1:2])
                assert one[[]].shape == (0, 3)

    def test_two_processes_add_and_nothing_is_lost(self, two: list[str], environment: dict[str, str]) -> None:
        text = """
with hopfeed.state.connect(arguments) as owners:
    counts = hopfeed.DistTensor(owners, "counts", "node", 2, "int64")
    ids = np.arange(2000)
    for _ in range(20):
        counts.add(ids, np.full((2000, 2), number + 1))
    mine = hopfeed.DistTensor(owners, "mine", "node", 1, "int64")
    mine[ids[number::2]] = ids[number::2, None] * 10
    result = owners.num_owners
"""
        assert run_python(text, environment, two) == [2, 2]
        with hopfeed.state.connect(two) as owners:
            counts = hopfeed.DistTensor(owners, "counts", "node", 2, "int64")
            np.testing.assert_array_equal(counts[:], np.full((NODES, 2), 20 * (1 + 2)))
            np.testing.assert_array_equal(hopfeed.DistTensor(owners, "mine", "node", 1, "int64")[:], np.arange(NODES)[:, None] * 10)

    def test_first_values_are_of_the_original_node_whatever_the_cut(self, cut: Path, small: Path, tmp_path: Path, two: list[str]) -> None:
        of_nodes = []  # their dataset ids
        for folder in (small, cut):
            options = dict(fanouts=[0], seeds=np.arange(NODES), batch_size=NODES, shuffle=False, num_workers=0, dataset_ids=True)
            with hopfeed.Loader(folder, **options) as loader:
                of_nodes.append(next(iter(loader)).dataset_id.copy())
        assert sorted(of_nodes[1]) == list(range(NODES)) and of_nodes[0].tolist() != of_nodes[1].tolist()
        with owner(small, tmp_path / "whole", "0") as whole, hopfeed.state.connect([whole]) as one, hopfeed.state.connect(two) as both:
            tables = [hopfeed.DistTensor(owners, "random", "node", 4, first_values="uniform", seed=7) for owners in (one, both)]
            np.testing.assert_array_equal(tables[0][of_nodes[0]], tables[1][of_nodes[1]])
            assert 0.5 < np.linalg.norm(tables[0][:], axis=1).mean() < 1.5

    def test_rows_of_torch_are_torchs(self, two: list[str]) -> None:
        torch = pytest.importorskip("torch")
        with hopfeed.state.connect(two) as owners:
            for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.int64):
                table = hopfeed.DistTensor(owners, str(dtype), "node", 2, str(dtype).removeprefix("torch."))
                ids = torch.tensor([1999, 0, 7])
                rows = torch.tensor([[1.5, 2.0], [3.0, 4.0], [-1.0, 0.0]]).to(dtype)
                table[ids] = rows
                table.add(ids[:2], rows[:2])
                got = table[ids]
                assert got.dtype == dtype and torch.equal(got, torch.cat([rows[:2] * 2, rows[2:]]))
                assert isinstance(table[ids.numpy()], np.ndarray)

    def test_a_thread_that_waits_gives_up_the_interpreter(self, two: list[str]) -> None:
        with hopfeed.state.connect(two) as owners:
            table = hopfeed.DistTensor(owners, "x", "node", 4)
            threads = [threading.Thread(target=lambda: [table.add([1], np.ones((1, 4), np.float32)) for _ in range(50)]) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            np.testing.assert_array_equal(table[[1]], np.full((1, 4), 200, np.float32))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (dict(node_type="papers"), "papers"),
            (dict(width=0), "table 't' is 0 wide"),
            (dict(width=2.5), "width is 2.5"),
            (dict(width=True), "width is True"),
            (dict(dtype="float64"), "dtype is 'float64'; give float32"),
            (dict(first_values="ones"), "first_values is 'ones'; give zeros or uniform"),
            (dict(dtype="int64", first_values="uniform"), "int64"),
            (dict(name="../x"), "use 1 to 128 letters"),
            (dict(seed=-1), "seed is -1"),
            (dict(owners=3), "give what hopfeed.state.connect"),
        ],
    )
    def test_a_table_that_cannot_be_is_one_line(self, two: list[str], arguments: dict[str, Any], message: str) -> None:
        with hopfeed.state.connect(two) as owners:
            with pytest.raises(hopfeed.Error, match=message) as raised:
                hopfeed.DistTensor(**(dict(owners=owners, name="t", node_type="node", width=2) | arguments))
            assert "\n" not in str(raised.value)

    def test_what_does_not_fit_a_table_is_said_and_changes_nothing(self, two: list[str]) -> None:
        with hopfeed.state.connect(two) as owners:
            table = hopfeed.DistTensor(owners, "t", "node", 2)
            with pytest.raises(hopfeed.InvalidError, match="width 2 there and 3 here"):
                hopfeed.DistTensor(owners, "t", "node", 3)
            with pytest.raises(hopfeed.InvalidError, match='dtype "float32" there and "int64" here'):
                hopfeed.DistTensor(owners, "t", "node", 2, "int64")
            rows = np.ones((2, 2), np.float32)
            for wrong, message in [
                (rows.astype(np.float64), r"rows are float64 \[2, 2\]; give float32 \[2, 2\]"),
                (rows[:1], r"rows are float32 \[1, 2\]; give float32 \[2, 2\], a row for each id"),
                (rows[:, :1], r"rows are float32 \[2, 1\]"),
                (0, "rows are int64"),
            ]:
                with pytest.raises(hopfeed.InvalidError, match=message):
                    table[[1, 2]] = wrong
            for ids, message in [
                ([1, 2000], r"node 2000 \(dataset id\) has no row in table 't' of 2000 rows"),
                ([-1, 1], r"node -1 \(dataset id\)"),
                ([0.5, 1.5], "ids is float64"),
                (3, "ids is int64"),
                (np.ones(2, bool), "ids is bool"),
                (None, "ids is None"),
            ]:
                with pytest.raises(hopfeed.InvalidError, match=message):
                    table[ids] = rows
                with pytest.raises(hopfeed.InvalidError, match=message):
                    table[ids]
            assert not table[:].any()
            table.close()
            with pytest.raises(hopfeed.InvalidError, match="closed"):
                table[[1]]


class TestOwners:
    def test_who_cannot_be_an_owner_is_named(self, cut: Path, tmp_path: Path, two: list[str]) -> None:
        with pytest.raises(hopfeed.NotFoundError, match="partition 1 is neither"):
            hopfeed.state.connect(two[:1])
        with pytest.raises(hopfeed.InvalidError, match="is named twice; name each once"):
            hopfeed.state.connect([two[0], two[0], two[1]])
        with pytest.raises(hopfeed.NotFoundError, match="papers"):
            hopfeed.state.connect(two, "papers")
        with pytest.raises(hopfeed.DeadlineError, match="nowhere"):
            hopfeed.state.connect([f"unix:{tmp_path}/nowhere"], connect_timeout=0.3)
        for servers in ([], 3, None):
            with pytest.raises(hopfeed.InvalidError, match="servers is"):
                hopfeed.state.connect(servers)
        with owner(cut, tmp_path / "again", "1") as again, pytest.raises(hopfeed.InvalidError, match="partition 1 has 2 owners"):
            hopfeed.state.connect([*two, again])

    def test_a_server_without_state_says_so(self, cut: Path, tmp_path: Path, two: list[str]) -> None:
        with owner(cut, tmp_path / "without", "1", keeps_state=False) as without:
            with pytest.raises(hopfeed.Error, match="keeps no state"), hopfeed.state.connect([two[0], without]) as owners:
                hopfeed.DistTensor(owners, "t", "node", 2)

    def test_an_owner_that_was_started_again_has_lost_what_it_held(self, cut: Path, tmp_path: Path) -> None:
        first = f"unix:{tmp_path}/first"
        processes = [start(cut, first, "0,1", "--state", tmp_path)]
        try:
            with owner(cut, tmp_path / "second", "2") as second, hopfeed.state.connect([first, second]) as owners:
                table = hopfeed.DistTensor(owners, "t", "node", 2)
                table[[1, 1999]] = np.ones((2, 2), np.float32)
                processes[0].kill()
                processes[0].wait()
                processes.append(start(cut, first, "0,1", "--state", tmp_path))
                with pytest.raises(hopfeed.StateLost, match="was started again, and what it held is gone"):
                    table[:]
                with pytest.raises(hopfeed.StateLost):
                    table[:] = np.ones((NODES, 2), np.float32)
                assert issubclass(hopfeed.StateLost, hopfeed.PeerDiedError)
                assert not hopfeed.DistTensor(owners, "t", "node", 2)[[1]].any()  # a new one
        finally:
            for process in processes:
                process.kill()
                process.wait()

    def test_an_owner_that_is_gone_is_no_lost_state(self, cut: Path, tmp_path: Path) -> None:
        address = f"unix:{tmp_path}/first"
        process = start(cut, address, "0,1,2", "--state", tmp_path)
        owners = hopfeed.state.connect([address], reconnect_deadline=0.5)
        table = hopfeed.DistTensor(owners, "t", "node", 2)
        process.kill()
        process.wait()
        with pytest.raises(hopfeed.PeerDiedError, match="socket|first") as raised:
            table[:]
        assert not isinstance(raised.value, hopfeed.StateLost)
        owners.close()
        with pytest.raises(hopfeed.InvalidError, match="closed"):
            table[:]
        with pytest.raises(hopfeed.InvalidError, match="connect anew"):
            hopfeed.DistTensor(owners, "t", "node", 2)

    def test_a_fork_has_owners_of_its_own(self, two: list[str], environment: dict[str, str]) -> None:
        text = """
import os
owners = hopfeed.state.connect(arguments)
table = hopfeed.DistTensor(owners, "t", "node", 2, "int64")
child = os.fork()
if child == 0:
    try:
        table[[1]]
    except hopfeed.InvalidError as error:
        del table, owners
        with hopfeed.state.connect(arguments) as mine:
            hopfeed.DistTensor(mine, "t", "node", 2, "int64").add([1], np.full((1, 2), 5))
        sys.exit(0 if "fork" in str(error) else 1)
    sys.exit(2)
result = os.waitpid(child, 0)[1], table[[1]].tolist()
"""
        assert run_python(text, environment, two, 1) == [[0, [[5, 5]]]]


def plain_steps(torch: Any, ids_of: list[list[Any]], targets: Any, values: Any, make: Any) -> Any:
    """Rows that ``torch`` learns in one place, of the mean over the ranks' losses."""
    table = torch.nn.Embedding.from_pretrained(values.clone(), freeze=False, sparse=True)
    optimizer = make([table.weight])
    for ids_of_ranks in ids_of:
        optimizer.zero_grad()
        losses = [((table(ids) - targets[ids]) ** 2).sum() for ids in ids_of_ranks if len(ids)]
        (sum(losses) / len(ids_of_ranks)).backward()
        optimizer.step()
    return table.weight.detach()


LEARN = """
import torch, hopfeed.torch
def learn(owners, rank, ranks, steps, ahead=0, name="learned", optimizer="sparse_adam", **options):
    emb = hopfeed.torch.DistEmbedding(owners, name, "node", 8, optimizer, 0.05, seed=3, rank=rank, world_size=ranks, **options)
    targets = torch.linspace(-1, 1, 2000 * 8).view(2000, 8)
    ids_of = [[batch_of(step, one) for one in range(ranks)] for step in range(steps)]
    for step in range(min(ahead, steps)):
        emb.look(ids_of[step][rank])
    for step in range(steps):
        if ahead and step + ahead < steps:
            emb.look(ids_of[step + ahead][rank])
        ids = ids_of[step][rank]
        if len(ids):
            ((emb(ids) - targets[ids]) ** 2).sum().backward()
        emb.step()
    return emb, emb.pull(torch.arange(2000)), ids_of, targets

def batch_of(step, rank):
    if step == 4 and rank == 1:
        return torch.empty(0, dtype=torch.int64)
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randint(0, 2000, (300,), generator=generator)  # some twice
"""


class TestDistEmbedding:
    @pytest.fixture(autouse=True)
    def torch(self) -> Any:
        return pytest.importorskip("torch")

    @pytest.fixture
    def learn(self) -> Any:
        names: dict[str, Any] = {"hopfeed": hopfeed}
        exec(LEARN, names)
        return names["learn"]

    @pytest.mark.parametrize(
        ("optimizer", "options"),
        [("sparse_adam", {}), ("sgd", {}), ("adagrad", {"epsilon": 1e-10})],
    )
    def test_it_learns_what_torch_learns(self, torch: Any, learn: Any, two: list[str], optimizer: str, options: dict[str, Any]) -> None:
        make = {"sparse_adam": torch.optim.SparseAdam, "sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad}[optimizer]
        with hopfeed.state.connect(two) as owners:
            before = hopfeed.DistTensor(owners, "first", "node", 8, first_values="uniform", seed=3)[torch.arange(NODES)]
            emb, rows, ids_of, targets = learn(owners, 0, 1, 12, ahead=2, optimizer=optimizer, **options)
            assert emb.next_step == 12 and not list(emb.parameters()) and not rows.requires_grad
        expected = plain_steps(torch, ids_of, targets, before, lambda weights: make(weights, lr=0.05))
        assert not torch.equal(rows, before)
        torch.testing.assert_close(rows, expected, rtol=2e-4, atol=2e-5)

    @pytest.mark.parametrize("optimizer", ["row_wise_adagrad", "sgd"])
    def test_it_learns_what_the_formula_says(self, torch: Any, learn: Any, two: list[str], optimizer: str) -> None:
        lr, epsilon = 0.05, 1e-6
        options = {"epsilon": epsilon} if optimizer == "row_wise_adagrad" else {}
        with hopfeed.state.connect(two) as owners:
            rows = hopfeed.DistTensor(owners, "first", "node", 8, first_values="uniform", seed=3)[torch.arange(NODES)]
            _, learned, ids_of, targets = learn(owners, 0, 1, 12, optimizer=optimizer, **options)
        squares = torch.zeros(NODES)  # FBGEMM's exact_row_wise_adagrad: a sum of mean squares for each row
        for (ids,) in ids_of:
            gradients = torch.zeros(NODES, 8).index_add_(0, ids, 2 * (rows[ids] - targets[ids]))
            if optimizer == "sgd":
                rows = rows - lr * gradients
            else:
                squares += (gradients**2).mean(1)
                rows = rows - lr * gradients / (squares.sqrt() + epsilon)[:, None]  # rows without a gradient stay
        torch.testing.assert_close(learned, rows, rtol=1e-4, atol=1e-6)

    def test_two_ranks_learn_what_torch_learns_and_the_same_bits_over_one_server_and_two(
        self, torch: Any, learn: Any, cut: Path, small: Path, tmp_path: Path, two: list[str], environment: dict[str, str]
    ) -> None:
        from process_group import run_ranks

        text = f"""
import hopfeed.state
{LEARN}
with hopfeed.state.connect(arguments[1:]) as owners:
    emb, rows, *_ = learn(owners, rank, world, 10, ahead=rank)
    defaults = hopfeed.torch.DistEmbedding(owners, "defaults", "node", 4)
    assert (defaults.rank, defaults.world_size, defaults.run) == (rank, world, emb.run)
    np.save(f"{{arguments[0]}}-{{rank}}.npy", rows.numpy())
    dist.barrier()
    result = str(emb.run)
"""
        over_two = run_ranks(text, environment, tmp_path / "two", *two)
        assert over_two[0] == over_two[1]
        with owner(cut, tmp_path / "all", "0,1,2") as one:
            run_ranks(text, environment, tmp_path / "one", one)
        rows = [np.load(tmp_path / f"{name}-{rank}.npy") for name in ("two", "one") for rank in (0, 1)]
        for other in rows[1:]:
            np.testing.assert_array_equal(rows[0].view(np.uint32), other.view(np.uint32))
        names: dict[str, Any] = {"hopfeed": hopfeed}
        exec(LEARN, names)
        ids_of = [[names["batch_of"](step, rank) for rank in (0, 1)] for step in range(10)]
        with hopfeed.state.connect(two) as owners:
            before = hopfeed.DistTensor(owners, "first", "node", 8, first_values="uniform", seed=3)[torch.arange(NODES)]
        targets = torch.linspace(-1, 1, NODES * 8).view(NODES, 8)
        expected = plain_steps(torch, ids_of, targets, before, lambda weights: torch.optim.SparseAdam(weights, lr=0.05))
        torch.testing.assert_close(torch.from_numpy(rows[0]), expected, rtol=2e-4, atol=2e-5)

    def test_lookups_of_one_step(self, torch: Any, two: list[str]) -> None:
        with hopfeed.state.connect(two) as owners, hopfeed.torch.DistEmbedding(owners, "e", "node", 4, "sgd", 1.0) as emb:
            before = emb.pull(torch.tensor([5, 6, 7]))
            emb.look(torch.tensor([7, 5, 6, 5]))
            first, second = emb(torch.tensor([5, 6])), emb(torch.tensor([6, 6]))
            with torch.no_grad():
                assert not emb(torch.tensor([7])).requires_grad
            assert first.is_leaf and first.requires_grad and torch.equal(first.detach(), before[:2])
            (first.sum() + 2 * second.sum()).backward()
            emb.step()
            assert torch.allclose(emb.pull(torch.tensor([5, 6, 7])), before - torch.tensor([[1.0], [5.0], [0.0]]))
            with pytest.raises(hopfeed.InvalidError, match=r"node 8 \(dataset id\) is looked up in step 1 of table 'e', which has looked"):
                emb.look(torch.tensor([7]))
                emb(torch.tensor([8]))
            emb(torch.tensor([7]))
            emb.step()  # without a gradient
            assert emb.next_step == 2 and torch.allclose(emb.pull(torch.tensor([7])), before[2:])
            assert not emb.eval()(torch.tensor([8])).requires_grad

    def test_a_gradient_with_nan_is_refused_before_it_is_brought(self, torch: Any, two: list[str]) -> None:
        with hopfeed.state.connect(two) as owners, hopfeed.torch.DistEmbedding(owners, "e", "node", 4) as emb:
            before = emb.pull(torch.tensor([5]))
            (emb(torch.tensor([5])) * float("nan")).sum().backward()
            for _ in range(2):
                with pytest.raises(hopfeed.InvalidError, match=r"a gradient of node 5 \(dataset id\) has NaN or infinity in step 0 of table 'e'"):
                    emb.step()
            emb.forget()
            emb.step()
            assert emb.next_step == 1 and torch.equal(emb.pull(torch.tensor([5])), before)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (dict(optimizer="adam"), "optimizer is 'adam'; give sparse_adam, adagrad, row_wise_adagrad, sgd"),
            (dict(node_type="papers"), "papers"),
            (dict(dim=-1), "dim is -1"),
            (dict(lr="fast"), "lr is 'fast'"),
            (dict(lr=-1.0), "lr"),
            (dict(rank=1), "rank and world_size go together"),
            (dict(rank=2, world_size=2), "give a rank below the world size"),
            (dict(rank=0, world_size=2), "run is missing"),
            (dict(timeout=0), "timeout is 0"),
        ],
    )
    def test_an_embedding_that_cannot_be_is_one_line(self, two: list[str], arguments: dict[str, Any], message: str) -> None:
        with hopfeed.state.connect(two) as owners:
            with pytest.raises(hopfeed.Error, match=message) as raised:
                hopfeed.torch.DistEmbedding(**(dict(owners=owners, name="e", node_type="node", dim=4) | arguments))
            assert "\n" not in str(raised.value)

    def test_another_run_is_refused_and_the_same_goes_on(self, torch: Any, learn: Any, two: list[str]) -> None:
        with hopfeed.state.connect(two) as owners:
            emb, rows, *_ = learn(owners, 0, 1, 3)
            with pytest.raises(hopfeed.BusyError, match="is learned by another run"):
                learn(owners, 0, 1, 1, run=77)
            with pytest.raises(hopfeed.InvalidError, match="table 'learned' is there, and another one: .*kind"):
                hopfeed.DistTensor(owners, "learned", "node", 8)
            emb.close()
            with pytest.raises(hopfeed.InvalidError, match="closed"):
                emb.step()
            again = hopfeed.torch.DistEmbedding(owners, "learned", "node", 8, lr=0.05, seed=3)
            assert again.next_step == 3 and torch.equal(again.pull(torch.arange(NODES)), rows)
            anew = hopfeed.torch.DistEmbedding(owners, "learned", "node", 8, lr=0.05, seed=3, attempt=1)
            assert anew.next_step == 0
            with pytest.raises(hopfeed.StateLost, match="begun anew"):
                again.pull(torch.tensor([1]))

    def test_an_owner_that_was_started_again_has_lost_what_was_learned(self, torch: Any, learn: Any, cut: Path, tmp_path: Path) -> None:
        first = f"unix:{tmp_path}/first"
        processes = [start(cut, first, "0,1", "--state", tmp_path)]
        try:
            with owner(cut, tmp_path / "second", "2") as second, hopfeed.state.connect([first, second]) as owners:
                emb, *_ = learn(owners, 0, 1, 3)
                processes[0].kill()
                processes[0].wait()
                processes.append(start(cut, first, "0,1", "--state", tmp_path))
                for _ in range(2):
                    with pytest.raises(hopfeed.StateLost, match="go back to a checkpoint"):
                        for _ in range(3):
                            emb(torch.arange(NODES)).sum().backward()
                            emb.step()
        finally:
            for process in processes:
                process.kill()
                process.wait()

    def test_an_owner_that_is_gone_keeps_no_process_from_ending(self, cut: Path, tmp_path: Path, environment: dict[str, str]) -> None:
        text = """
import os, sys, hopfeed.state, hopfeed.torch, torch
both = [hopfeed.state.connect(sys.argv[1], reconnect_deadline=3600) for _ in range(2)]
tables = [hopfeed.torch.DistEmbedding(owners, name, "node", 4, lr=0.1) for owners, name in zip(both, ("a", "b"))]
for table in tables:
    table(torch.tensor([1])).sum().backward()
    table.step()
os.kill(int(sys.argv[2]), 9)
print("at its end")
"""
        address = f"unix:{tmp_path}/owner"
        process = start(cut, address, "0,1,2", "--state", tmp_path)
        try:
            command = [sys.executable, "-c", text, address, str(process.pid)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
        finally:
            process.kill()
            process.wait()
        assert done.returncode == 0 and done.stdout == "at its end\n"
        assert done.stderr.startswith("hopfeed: the process ends without the word of all owners of state: table '") and done.stderr.count("\n") == 1

    def test_a_rank_that_leaves_is_named_and_no_state_is_lost(self, torch: Any, two: list[str]) -> None:
        with hopfeed.state.connect(two) as here, hopfeed.state.connect(two) as there:
            stays = hopfeed.torch.DistEmbedding(here, "e", "node", 4, rank=0, world_size=2, run=5)
            leaves = hopfeed.torch.DistEmbedding(there, "e", "node", 4, rank=1, world_size=2, run=5)
            stays(torch.tensor([1])).sum().backward()
            stays.step()
            leaves.close()
            with pytest.raises(hopfeed.PeerDiedError, match="rank 1 has left before step 0") as raised:
                stays.pull(torch.tensor([1]))
            assert not isinstance(raised.value, hopfeed.StateLost)

    def test_a_wait_is_left_by_ctrl_c_and_goes_on(self, torch: Any, two: list[str]) -> None:
        with hopfeed.state.connect(two) as here, hopfeed.state.connect(two) as there:
            waits = hopfeed.torch.DistEmbedding(here, "e", "node", 4, "sgd", 1.0, rank=0, world_size=2, run=5)
            late = hopfeed.torch.DistEmbedding(there, "e", "node", 4, "sgd", 1.0, rank=1, world_size=2, run=5)
            ids = torch.arange(0, NODES, 3)
            first = waits(ids)
            first.sum().backward()
            waits.step()
            timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
            timer.start()
            began = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                waits(ids)
            assert time.monotonic() - began < DEADLINE
            timer.join()
            late.step()
            second = waits(ids)
            assert torch.allclose(second, first - 0.5)  # the mean over two ranks, of which one learned nothing

    def test_closing_ends_the_wait_of_another_thread(self, torch: Any, two: list[str]) -> None:
        with hopfeed.state.connect(two) as owners:
            emb = hopfeed.torch.DistEmbedding(owners, "e", "node", 4, rank=0, world_size=2, run=5)
            emb.step()
            said: list[str] = []

            def wait() -> None:
                try:
                    emb.pull(torch.tensor([1]))
                except hopfeed.InvalidError as error:
                    said.append(str(error))

            thread = threading.Thread(target=wait)
            thread.start()
            time.sleep(0.3)
            emb.close()
            thread.join()
            assert said and "closed" in said[0]
