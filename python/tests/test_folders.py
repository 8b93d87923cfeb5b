"""Folders that hopfeed makes for itself: who removes them, what a killed process left, a disk that is full."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from test_conversion import graph  # noqa: E402

from hopfeed import conversion, folders  # noqa: E402
from hopfeed.folders import TemporaryFolder, remove_abandoned  # noqa: E402
from hopfeed.pyg import NeighborLoader  # noqa: E402

DEADLINE = 120  # seconds; nothing here takes a tenth of it

START = f"""
import gc, os, resource, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_conversion import graph
import hopfeed
from hopfeed.pyg import NeighborLoader

def count(loader):
    return sum(1 for _ in loader)
"""


def run(text: str, environment: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A Python whose temporary folder is ``folder``."""
    return subprocess.run(
        [sys.executable, *words, "-c", START + text], env=environment | {"TMPDIR": str(folder)}, capture_output=True, text=True, timeout=DEADLINE
    )


def can_run(*words: str) -> bool:
    return shutil.which(words[0]) is not None and subprocess.run(words, capture_output=True).returncode == 0


def made_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*hopfeed-*"))


@pytest.mark.parametrize("end", ["sys.exit(0)", "del loader; gc.collect(); sys.exit(0)", "other = NeighborLoader(data, [3]); sys.exit(count(other) - 50)"])
def test_a_fork_that_ends_removes_nothing_of_its_parent(tmp_path: Path, environment: dict[str, str], end: str) -> None:
    text = f"""
data = graph()
loader = NeighborLoader(data, [2], num_workers=1)
child = os.fork()
if child == 0:
    {end}
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os.kill(loader.worker_pids()[0], signal.SIGKILL)  # the one in its place opens the folder again
print(count(loader), count(NeighborLoader(data, [3], num_workers=1)))
"""
    done = run(text, environment, tmp_path)
    assert (done.stdout.split(), done.stderr) == (["0", "50", "50"], "")
    assert made_in(tmp_path) == []


def test_a_fork_shares_no_folder_that_its_parent_may_remove(tmp_path: Path, environment: dict[str, str]) -> None:
    text = """
data = graph()
loader = NeighborLoader(data, [2])
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    mine = NeighborLoader(data, [2], num_workers=1)
    os.write(ready[1], b"x")
    os.read(go[0], 1)
    os.kill(mine.worker_pids()[0], signal.SIGKILL)
    sys.exit(count(mine) - 50)
os.read(ready[0], 1)
del loader
gc.collect()
os.write(go[1], b"x")
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = run(text, environment, tmp_path)
    assert (done.stdout.split(), done.stderr) == (["0"], "")
    assert made_in(tmp_path) == []


def test_what_a_killed_process_left_goes_with_the_next_and_what_is_in_use_stays(tmp_path: Path, environment: dict[str, str]) -> None:
    killed = run("loader = NeighborLoader(graph(), [2]); os.kill(os.getpid(), signal.SIGKILL)", environment, tmp_path)
    assert killed.returncode == -signal.SIGKILL
    (left,) = made_in(tmp_path)
    words = [sys.executable, "-c", START + "loader = NeighborLoader(graph(), [2], num_workers=1); print(flush=True); sys.stdin.read(1); print(count(loader))"]
    with subprocess.Popen(words, env=environment | {"TMPDIR": str(tmp_path)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as living:
        assert living.stdout is not None and living.stdout.readline() == b"\n"
        (in_use,) = made_in(tmp_path)
        assert in_use != left
        done = run("print(count(NeighborLoader(graph(), [2])))", environment, tmp_path)
        assert (done.stdout.strip(), done.stderr) == ("50", "")
        assert made_in(tmp_path) == [in_use]
        assert living.communicate(b"x", timeout=DEADLINE)[0] == b"50\n"
    assert made_in(tmp_path) == []


def test_folders_that_are_none_of_ours_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    other = tmp_path / "hopfeed-other"  # nobody has locked it, since it has no lock of ours
    other.mkdir()
    (other / "file").write_text("kept")
    (other / "lock").touch()  # a user's own
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "hopfeed.lock").touch()
    (tmp_path / "hopfeed-link").symlink_to(elsewhere)
    remove_abandoned()
    assert (other / "file").read_text() == "kept" and (elsewhere / "hopfeed.lock").exists()
    ours = left_by(folders._owner(), tmp_path / "hopfeed-ours")
    monkeypatch.setattr("os.getuid", lambda: 12345)
    remove_abandoned()
    assert ours.exists()
    monkeypatch.undo()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    remove_abandoned()
    assert not ours.exists()


def left_by(owner: str | None, folder: Path, *, seconds_ago: float = 0) -> Path:
    """What a killed process left. ``owner``: what its lock says; None: there is no lock yet."""
    folder.mkdir()
    if owner is not None:
        (folder / "hopfeed.lock").write_text(owner)
    then = time.time() - seconds_ago
    os.utime(folder, (then, then))
    return folder


def test_a_folder_tells_whose_it_is_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rename, told = os.rename, []

    def look(source: Path, target: Path) -> None:
        told.append((Path(source) / "hopfeed.lock").read_text().split("\n"))
        rename(source, target)

    monkeypatch.setattr(folders.os, "rename", look)
    with TemporaryFolder():
        assert told == [[socket.gethostname(), Path("/proc/sys/kernel/random/boot_id").read_text().strip(), ""]]


def test_only_folders_of_this_host_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    host, boot, _ = folders._owner().split("\n")
    kept = {
        "of another host": f"another-{host}\nanother-{boot}\n",
        "of a host without a name of its own": f"localhost\nanother-{boot}\n",
        "of nobody that can be told": "",
    }
    gone = {
        "of this host": f"{host}\n{boot}\n",
        "of this host before it was started again": f"{host}\nanother-{boot}\n",
        "of a container on this host": f"another-{host}\n{boot}\n",
    }
    for name, owner in (kept | gone).items():
        left_by(owner, tmp_path / f"hopfeed-{name}", seconds_ago=1e6)
    remove_abandoned()
    assert made_in(tmp_path) == sorted(f"hopfeed-{name}" for name in kept)
    monkeypatch.setattr(folders, "_owner", lambda: f"localhost\n{boot}\n")
    remove_abandoned()  # all that are called so are not one host
    assert made_in(tmp_path) == sorted(f"hopfeed-{name}" for name in kept)


def test_what_was_left_before_it_had_its_name_goes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    hour, other = 3600, f"another-{folders._owner()}"
    left_by(None, tmp_path / ".hopfeed-00000000", seconds_ago=hour)
    left_by("", tmp_path / ".hopfeed-11111111", seconds_ago=hour)
    left_by(folders._owner(), tmp_path / ".hopfeed-22222222", seconds_ago=hour)
    kept = [
        left_by(None, tmp_path / ".hopfeed-being_mad"),
        left_by("", tmp_path / ".hopfeed-also_now"),
        left_by(other.replace("\n", "\nanother-", 1), tmp_path / ".hopfeed-elsewher", seconds_ago=hour),
        left_by(None, tmp_path / ".hopfeed-users-own-name", seconds_ago=hour),
    ]
    full = tmp_path / ".hopfeed-full_one"
    full.mkdir()
    (full / "file").touch()
    os.utime(full, (0, 0))
    locked = left_by("", tmp_path / ".hopfeed-is_alive", seconds_ago=hour)
    with open(locked / "hopfeed.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_abandoned()
        assert made_in(tmp_path) == sorted(path.name for path in [*kept, full, locked])
    remove_abandoned()
    assert made_in(tmp_path) == sorted(path.name for path in [*kept, full])


@pytest.mark.parametrize("moment", ["before the lock", "before it is locked", "before it has its name"])
def test_who_loses_a_folder_before_it_has_its_name_makes_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """A process that stood still for long is taken for dead by another one; here that happens at each moment, once."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    taken: list[Path] = []

    def take(function: Any) -> Any:
        def first(*arguments: Any, **named: Any) -> Any:
            if not taken:
                taken.extend(tmp_path.glob(".hopfeed-*"))
                (folder,) = taken
                if moment == "before it is locked":
                    theirs = os.open(folder / "hopfeed.lock", os.O_RDWR)
                    fcntl_flock(theirs, fcntl.LOCK_EX)
                else:
                    shutil.rmtree(folder)
            return function(*arguments, **named)

        return first

    fcntl_flock = fcntl.flock
    module, name = {
        "before the lock": (folders.os, "open"), "before it is locked": (folders.fcntl, "flock"), "before it has its name": (folders.os, "rename"),
    }[moment]  # fmt: skip
    monkeypatch.setattr(module, name, take(getattr(module, name)))
    with TemporaryFolder() as made:
        assert len(taken) == 1 and made.name != taken[0].name[1:] and made.is_dir()


def test_a_folder_is_locked_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rename, locked = os.rename, []

    def look(source: Path, target: Path) -> None:
        with open(Path(source) / "hopfeed.lock") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        locked.append(Path(target).name)
        rename(source, target)

    monkeypatch.setattr(folders.os, "rename", look)
    with TemporaryFolder() as made:
        assert locked == [made.name] and made.name.startswith("hopfeed-")
    assert not list(tmp_path.iterdir())


def test_a_temporary_folder_is_not_synced(tmp_path: Path, environment: dict[str, str]) -> None:
    if not can_run("strace", "-o", "/dev/null", "true"):
        pytest.skip("needs strace, and the right to trace")
    log = tmp_path / "calls"
    words = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync,renameat,renameat2", "-o", str(log), sys.executable, "-c", START]
    for made, synced in (("NeighborLoader(graph(), [2], num_workers=1)", False), ("NeighborLoader(graph(), [2], cache_dir=sys.argv[1])", True)):
        subprocess.run([*words[:-1], START + made, str(tmp_path / "cache")], env=environment, check=True, timeout=DEADLINE)
        calls = log.read_text()
        assert "renameat" in calls and ("sync(" in calls) == synced


def test_files_that_are_limited_in_size_are_one_line_that_names_the_way(tmp_path: Path, environment: dict[str, str]) -> None:
    text = """
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
for cache in (None, os.environ["TMPDIR"] + "/cache"):
    try:
        NeighborLoader(graph(20_000), [2], num_workers=1, cache_dir=cache)
    except hopfeed.InputOutputError as error:
        print(error)
"""
    done = run(text, environment, tmp_path)
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and done.stderr == ""
    for line in lines:
        assert line.startswith(f"cannot write {tmp_path}") and "it needs" in line and "ulimit -f" in line and "cache_dir=" in line
    assert made_in(tmp_path) == []


def test_a_disk_that_is_full_is_one_line_that_names_folder_needed_free_and_the_way(tmp_path: Path, environment: dict[str, str]) -> None:
    if not can_run("unshare", "-m", "true"):
        pytest.skip("needs the right to mount (unshare -m)")
    text = """
try:
    NeighborLoader(graph(20_000), [2], num_workers=1)
except hopfeed.NoSpaceError as error:
    print(error)
print(*os.listdir(os.environ["TMPDIR"]))
"""
    for kib in (300, 1500):
        script = f'mount -t tmpfs -o size={kib}k tmpfs "$TMPDIR" && exec "$0" -c "$1"'
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script, sys.executable, START + text],
            env=environment | {"TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=DEADLINE,
        )  # fmt: skip
        (line, left), errors = done.stdout.split("\n")[:2], done.stderr
        assert errors == "" and left == ""
        assert line.startswith(f"cannot write {tmp_path}") and "it needs" in line and "are free" in line and "cache_dir=" in line


def test_nothing_is_left_open(tmp_path: Path, environment: dict[str, str]) -> None:
    text = """
hopfeed.from_pyg(graph(), os.environ["TMPDIR"] + "/made")
hopfeed.generate(os.environ["TMPDIR"] + "/one", nodes=100, edges=500, features=4, classes=3)
for workers in (0, 1):
    count(NeighborLoader(graph(), [2], num_workers=workers))
    count(NeighborLoader(graph(), [2], num_workers=workers, cache_dir=os.environ["TMPDIR"]))
gc.collect()
"""
    done = run(text, environment, tmp_path, "-W", "error", "-X", "dev")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_conversion_that_is_interrupted_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    @contextmanager
    def shown(_: object) -> Iterator[object]:
        def stop(step: str, percent: int) -> None:
            if step == "Writing edges":
                raise KeyboardInterrupt

        yield stop

    monkeypatch.setattr(conversion, "shown_progress", shown)
    for cache in (None, tmp_path / "cache"):
        with pytest.raises(KeyboardInterrupt):
            NeighborLoader(graph(), [2], num_workers=1, cache_dir=cache)
    assert made_in(tmp_path) == [] and not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]
