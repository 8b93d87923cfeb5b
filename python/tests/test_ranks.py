"""Which trainer a loader is of, and what the ranks of a training are told of each other's loaders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hopfeed
from hopfeed import ranks

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")


def set_variables(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"RANK": "1", "WORLD_SIZE": "3"}, (1, 3)),
        ({"SLURM_STEP_ID": "0", "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "8"}, (2, 4)),
        # torchrun in a step of srun: the ranks are torchrun's.
        ({"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "RANK": "3", "WORLD_SIZE": "8"}, (3, 8)),
        # The script of the job says how many, srun who.
        ({"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "WORLD_SIZE": "2"}, (1, 2)),
    ],
)
def test_the_launcher_says_which_trainer_this_is(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: tuple[int, int]) -> None:
    set_variables(monkeypatch, variables)
    assert ranks.this_rank() == expected


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "RANK and WORLD_SIZE are not set"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, "RANK and WORLD_SIZE are not set"),  # the script of a job, and no step
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, "RANK is not set and WORLD_SIZE is '2'"),  # as Lightning sets them
        ({"RANK": "0"}, "RANK is '0' and WORLD_SIZE is not set"),
        ({"RANK": "first", "WORLD_SIZE": "2"}, "RANK is 'first'"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK is '2' and WORLD_SIZE is '2'"),
        ({"SLURM_STEP_ID": "0", "SLURM_PROCID": "0"}, "SLURM_STEP_NUM_TASKS is not set"),
        ({"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "WORLD_SIZE": "4"}, "RANK is not set and WORLD_SIZE is '4'"),
    ],
)
def test_where_nothing_says_which_trainer_this_is_one_line_names_the_way(
    small: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    set_variables(monkeypatch, variables)
    with pytest.raises(hopfeed.InvalidError, match=message) as raised:
        hopfeed.Loader(small, distributed=True, num_workers=0)
    assert "rank=0, world_size=1" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("variables", [{"LOCAL_RANK": "1"}, {"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, {"WORLD_SIZE": "2"}])
def test_a_loader_opens_where_lightning_has_set_a_part_of_the_variables(
    small: Path, environment: dict[str, str], variables: dict[str, str], workers: int
) -> None:
    text = "import sys, hopfeed; print(len(list(hopfeed.Loader(sys.argv[1], fanouts=[1], batch_size=250, num_workers=int(sys.argv[2])))))"
    clean = {name: value for name, value in environment.items() if name not in _VARIABLES}
    done = subprocess.run([sys.executable, "-c", text, small, str(workers)], env=clean | variables, capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.returncode) == ("2", 0), done.stderr


class TestProcessGroup:
    """What ranks find by the process group alone."""

    @pytest.fixture(autouse=True)
    def torch(self) -> None:
        pytest.importorskip("torch")

    def test_distributed_ranks_of_a_process_group_share_the_seeds(self, small: Path, environment: dict[str, str]) -> None:
        from process_group import run_ranks

        text = """
with hopfeed.Loader(arguments[0], fanouts=[2], batch_size=50, distributed=True, num_workers=1) as loader:
    result = [int(position) for batch in loader for position in batch.input_id], told
"""
        (first, told), (second, also_told) = run_ranks(text, environment, small)
        assert sorted(first + second) == list(range(500)) and len(first) == len(second)
        assert told == also_told == []

    def test_two_ranks_that_train_on_the_same_batches_are_told_once(self, small: Path, environment: dict[str, str]) -> None:
        from process_group import run_ranks

        text = """
loaders = [hopfeed.Loader(arguments[0], fanouts=[2], num_workers=0, shuffle=True) for _ in range(2)]
for loader in loaders:
    iter(loader)
result = told
"""
        told = [line for lines in run_ranks(text, environment, small) for line in lines]
        assert told and len(told) <= 2 and all("distributed=True" in line and "same seeds" in line for line in told)
        assert {line.partition(" has ")[0] for line in told} <= {"rank 0", "rank 1"}

    def test_shards_evaluations_and_a_loader_of_one_rank_are_no_reason_for_a_warning(self, small: Path, environment: dict[str, str]) -> None:
        from process_group import run_ranks

        text = """
seeds = np.arange(500)
kept = [
    hopfeed.Loader(arguments[0], fanouts=[2], num_workers=0, seeds=seeds[rank * 250 : (rank + 1) * 250], shuffle=True),
    hopfeed.Loader(arguments[0], fanouts=[2], num_workers=0, seeds=seeds, shuffle=False),
    hopfeed.Loader(arguments[0], fanouts=[2], num_workers=0, seeds=seeds, shuffle=True, seed=rank),
    hopfeed.Loader(arguments[0], fanouts=[2], num_workers=0, seeds=[], shuffle=True),
]
if rank == 0:
    kept.append(hopfeed.Loader(arguments[0], fanouts=[2], num_workers=0, shuffle=True))
result = told, [len(list(loader)) for loader in kept][:3]
"""
        assert run_ranks(text, environment, small) == [[[], [1, 1, 1]]] * 2

    @pytest.mark.parametrize(
        ("arguments", "named"),
        [
            ("seed=rank", ["seed is 0 at rank 0 and 1 at rank 1", "seed is 1 at rank 1 and 0 at rank 0"]),
            ("fanouts=[2 + rank]", ["fanouts is [2] at rank 0 and [3] at rank 1", "fanouts is [3] at rank 1 and [2] at rank 0"]),
            ("batch_size=50 + rank", ["batch_size is 50 at rank 0 and 51 at rank 1", "batch_size is 51 at rank 1 and 50 at rank 0"]),
            ("seeds=np.arange(100 + rank)", ["the hash of the seeds is "]),
            ("drop_last=rank == 0", ["drop_last is true at rank 0 and false at rank 1", "drop_last is false at rank 1 and true at rank 0"]),
        ],
    )
    def test_ranks_that_would_make_different_batches_of_one_epoch_are_refused(
        self, small: Path, environment: dict[str, str], arguments: str, named: list[str]
    ) -> None:
        """Whoever comes second is refused at once, and the other one where its epoch begins."""
        from process_group import run_ranks

        text = f"""
try:
    loader = hopfeed.Loader(arguments[0], num_workers=0, distributed=True, **(dict(fanouts=[2], batch_size=50) | dict({arguments})))
except hopfeed.InvalidError as error:
    result = str(error)
dist.barrier()
if result is None:
    try:
        iter(loader)
    except hopfeed.InvalidError as error:
        result = str(error)
dist.barrier()
"""
        first, second = run_ranks(text, environment, small)
        assert first == second and any(name in first for name in named) and "\n" not in first
        assert first.count(" at rank 0") == first.count(" at rank 1") == 1 and "in the same order" in first

    def test_loaders_of_parts_of_the_group_are_not_compared_and_count_for_no_others(self, small: Path, environment: dict[str, str]) -> None:
        """Two models of one process group, each trained by some of its ranks; then a loader of all ranks."""
        from process_group import run_ranks

        text = """
model, place = divmod(rank, 2)
mine = [hopfeed.Loader(arguments[0], fanouts=[2], num_workers=0, seed=model, rank=place, world_size=2) for _ in range(1 + model)]
dist.barrier()
of_all = hopfeed.Loader(arguments[0], fanouts=[3], num_workers=0, distributed=True)
dist.barrier()
result = [len(list(loader)) for loader in [*mine, of_all]], told
"""
        assert run_ranks(text, environment, small, world=4) == [[[1, 1], []], [[1, 1], []], [[1, 1, 1], []], [[1, 1, 1], []]]

    def test_ranks_of_other_datasets_are_refused_and_folders_elsewhere_are_not(
        self, small: Path, tmp_path: Path, environment: dict[str, str]
    ) -> None:
        import shutil

        from conftest import partition
        from process_group import run_ranks

        shutil.copytree(small, tmp_path / "copy")
        partition("generate", tmp_path / "other", "--nodes", 2000, "--edges", 20000, "--features", 8, "--classes", 5, "--train-fraction", 0.25, "--seed", 2)
        text = """
kept = hopfeed.Loader(arguments[rank], fanouts=[2], num_workers=0, distributed=True)
dist.barrier()
try:
    loader = hopfeed.Loader(arguments[2 * rank], fanouts=[2], num_workers=0, distributed=True)
    dist.barrier()
    iter(loader)
except hopfeed.InvalidError as error:
    if "loader" not in globals():
        dist.barrier()
    result = str(error)
"""
        first, second = run_ranks(text, environment, small, tmp_path / "copy", tmp_path / "other")
        assert first == second and "the dataset's fingerprint is" in first
