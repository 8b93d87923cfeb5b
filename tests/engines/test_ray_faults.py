"""Workers that are killed, raylets that are lost, and what tasks raise: the same result, or one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import promises as p
import pyarrow as pa
import pytest
from ray_fixtures import Machines, _machines, engine, machines, once  # noqa: F401

from hopfeed import errors
from hopfeed.ray import RayCluster
from hopfeed.ray.calls import gathered

GROUPS = [(number, p.in_order([row for row in p.facts() if row[2] == number], [0, 3, 1])) for number in range(p.GROUPS)]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def grouped(engine: RayCluster, frame: Any, take: Callable[..., Any] = p.told) -> list[Any]:  # noqa: F811
    return [(number, rows) for number, _, rows in engine.groups(frame, "group", p.GROUPS, ["key", "bytes", "number"], take)]


def test_a_worker_that_is_killed_in_a_task_changes_nothing(engine: RayCluster, tmp_path: Path) -> None:  # noqa: F811
    def task(item: int) -> int:
        if item in (0, 3) and once(tmp_path, f"task-{item}"):
            die()
        return item

    assert engine.tasks(list(range(5)), task) == list(range(5))
    assert len(list(tmp_path.iterdir())) == 2


def test_workers_that_are_killed_while_they_read_and_take_change_nothing(engine: RayCluster, tmp_path: Path) -> None:  # noqa: F811
    def read(item: int) -> Iterator[pa.RecordBatch]:
        for at, batch in enumerate(p.read_facts(item)):
            yield batch
            if at == 1 and item in (0, 7) and once(tmp_path, f"read-{item}"):
                die()

    def take(number: int, given: Iterator[pa.RecordBatch]) -> Any:
        first = next(given, None)
        if number in (1, p.LARGE_GROUP) and once(tmp_path, f"take-{number}"):
            die()
        return p.told(number, iter([] if first is None else [first, *given]))

    assert grouped(engine, engine.rows(list(range(p.ITEMS)), read, p.FACTS), take) == GROUPS
    assert len(list(tmp_path.iterdir())) == 4


def test_a_raylet_that_is_lost_takes_rows_along_which_are_made_again(engine: RayCluster, machines: Machines) -> None:  # noqa: F811
    frame = engine.kept(engine.rows(list(range(p.ITEMS)), p.read_facts, p.FACTS))
    machines.kill_other()
    assert grouped(engine, frame) == GROUPS
    machines.bring_other()
    assert grouped(engine, frame) == GROUPS


def test_a_raylet_that_is_lost_while_groups_are_taken_changes_nothing(engine: RayCluster, machines: Machines, tmp_path: Path) -> None:  # noqa: F811
    def take(number: int, given: Iterator[pa.RecordBatch]) -> Any:
        (tmp_path / str(number)).touch()
        time.sleep(0.5)
        return p.told(number, given)

    def kill() -> None:
        while not any(tmp_path.iterdir()):
            time.sleep(0.05)
        machines.kill_other()

    killer = threading.Thread(target=kill)
    frame = engine.rows(list(range(p.ITEMS)), p.read_facts, p.FACTS)
    killer.start()
    try:
        assert grouped(engine, frame, take) == GROUPS
    finally:
        killer.join()


@pytest.mark.parametrize("after", [0.5, 3.0])
def test_a_raylet_that_is_lost_while_rows_are_exchanged_changes_nothing(engine: RayCluster, machines: Machines, tmp_path: Path, after: float) -> None:  # noqa: F811
    def read(item: int) -> Iterator[pa.RecordBatch]:
        yield from p.read_facts(item)
        (tmp_path / str(item)).touch()

    def kill() -> None:
        while len(list(tmp_path.iterdir())) < p.ITEMS:
            time.sleep(0.05)
        time.sleep(after)
        machines.kill_other()

    killer = threading.Thread(target=kill)
    joined = engine.kept(engine.join(engine.rows([0, 1], p.read_facts, p.FACTS), engine.rows([0, 1], p.read_names, p.NAMES), "key", "left"))
    frame = engine.rows(list(range(p.ITEMS)), read, p.FACTS)
    killer.start()
    try:
        assert grouped(engine, frame) == GROUPS
        rows = [row for _, _, rows in engine.ranges(joined, ["key"], ["number"], p.told) for row in rows]
        assert p.as_bag(rows) == p.as_bag(p.joined([row for item in range(2) for row in p.facts_of(item)], p.names(), "left"))
    finally:
        killer.join()


def test_a_task_that_kills_each_worker_is_one_line(engine: RayCluster) -> None:  # noqa: F811
    for call in (lambda: engine.tasks([1], lambda item: die()), lambda: engine.kept(engine.rows([1], lambda item: die(), p.FACTS))):  # type: ignore[arg-type,return-value]
        with pytest.raises(errors.PeerDiedError, match="^a worker of Ray died again and again in one task: [^\n]+$"):
            call()


def test_a_node_that_is_lost_is_named(engine: RayCluster, machines: Machines, tmp_path: Path) -> None:  # noqa: F811
    import ray

    @ray.remote(resources={"other": 1}, max_retries=0)  # type: ignore[untyped-decorator]
    def wait() -> None:
        (tmp_path / "begun").touch()
        time.sleep(60)

    def kill() -> None:
        while not (tmp_path / "begun").exists():
            time.sleep(0.05)
        machines.kill_other()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with pytest.raises(errors.PeerDiedError, match="its raylet is lost[^\n]+$"):
            gathered([wait.remote], 1)
    finally:
        killer.join()


KINDS = [errors.InvalidError, errors.NotFoundError, errors.CorruptError, errors.VersionError, errors.InputOutputError, errors.NoSpaceError,
         errors.DeadlineError, errors.PeerDiedError, errors.BusyError, errors.UnsupportedError, errors.Error]  # fmt: skip
LINE = "users.parquet: 3 keys are there twice, the first is 'Zo\u00eb'; --duplicates same takes one"


@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_tasks_are_raised_as_they_were(engine: RayCluster, kind: type[errors.Error]) -> None:  # noqa: F811
    def task(item: int) -> int:
        if item == 2:
            raise kind(LINE)
        return item

    with pytest.raises(errors.Error) as raised:
        engine.tasks([1, 2, 3], task)
    assert type(raised.value) is kind and str(raised.value) == LINE


@pytest.mark.parametrize("where", ["read", "later", "range", "group"])
@pytest.mark.parametrize("kind", [errors.InvalidError, errors.InputOutputError, errors.NoSpaceError])
def test_errors_of_reads_and_takes_are_raised_as_they_were(engine: RayCluster, kind: type[errors.Error], where: str, capfd: Any) -> None:  # noqa: F811
    def read(item: int) -> Iterator[pa.RecordBatch]:
        if where == "read":
            raise kind(LINE)
        yield next(p.read_facts(item))
        if where == "later":
            raise kind(LINE)

    def take(number: int, given: Iterator[pa.RecordBatch]) -> None:
        raise kind(LINE)

    frame = engine.rows([0, 1], read, p.FACTS)
    with pytest.raises(errors.Error) as raised:
        if where == "group":
            engine.groups(frame, "group", 3, [], take)
        else:
            engine.ranges(frame, ["key"], [], take)
    assert type(raised.value) is kind and str(raised.value) == LINE
    told = "".join(capfd.readouterr())  # Ray may still tell of a raylet that an earlier test has killed
    assert LINE not in told and "Traceback" not in told


def test_what_is_no_error_of_hopfeed_is_one_line(engine: RayCluster) -> None:  # noqa: F811
    def task(item: Any) -> Any:
        raise ZeroDivisionError("this\nthat")

    for call in (lambda: engine.tasks([1], task), lambda: engine.kept(engine.rows([1], task, p.FACTS))):
        with pytest.raises(errors.Error) as raised:
            call()
        assert str(raised.value) == "a task of Ray failed: ZeroDivisionError: this that"


def test_no_task_begins_behind_an_error(engine: RayCluster, tmp_path: Path) -> None:  # noqa: F811
    def task(item: int) -> None:
        (tmp_path / f"{item}").touch()
        if item == 0:
            raise errors.InvalidError("no")
        time.sleep(0.3)

    with pytest.raises(errors.InvalidError):
        engine.tasks(list(range(100)), task)
    begun = len(list(tmp_path.iterdir()))
    time.sleep(1)
    assert begun == len(list(tmp_path.iterdir())) < 10


DRIVER = """
import ray, sys
from hopfeed.errors import VersionError
from hopfeed.ray import RayCluster
from hopfeed.ray.calls import gathered
import pyarrow as pa
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR", runtime_env={"env_vars": {"PYTHONPATH": sys.argv[2]}})
engine = RayCluster()
schema = pa.schema([("a", pa.int64())])
for call in (lambda: engine.tasks([1], len), lambda: engine.kept(engine.rows([1], list, schema))):
    try:
        call()
    except VersionError as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("module", "has"),
    [('__version__ = "0.0.7"', "hopfeed 0.0.7"), ("raise ModuleNotFoundError(\"No module named 'hopfeed'\")", "hopfeed none that can be imported (No module named 'hopfeed')")],
)
def test_workers_with_another_hopfeed_or_none_are_one_line(machines: Machines, tmp_path: Path, module: str, has: str) -> None:  # noqa: F811
    (tmp_path / "hopfeed").mkdir()
    (tmp_path / "hopfeed" / "__init__.py").write_text(module)
    ran = subprocess.run([sys.executable, "-c", DRIVER, machines.address, str(tmp_path)], capture_output=True, text=True, timeout=120)
    lines = ran.stdout.splitlines()
    assert len(lines) == 2, ran.stderr
    for line in lines:
        assert f" has {has}, and the driver has " in line and line.startswith("a worker of Ray on ") and line.endswith("; install the same on all nodes")


WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
import hopfeed.ray
from hopfeed.errors import InvalidError
for call in (hopfeed.ray.RayCluster, ):
    try:
        call()
    except InvalidError as error:
        print(error)
"""


@pytest.mark.parametrize("package", ["ray", "polars"])
def test_without_ray_one_line_names_the_extra(package: str) -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT, package], capture_output=True, text=True, timeout=120)
    assert ran.stdout == f"hopfeed.ray needs the package {package}: pip install 'hopfeed[ray]'\n", ran.stderr
