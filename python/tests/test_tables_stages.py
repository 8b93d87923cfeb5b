"""A killed import goes on behind its last whole stage; what has changed begins anew and says why; two do not meet."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="the extra [tables] is not installed")
pytest.importorskip("duckdb", reason="the extra [tables] is not installed")

import hopfeed  # noqa: E402
from hopfeed.errors import InvalidError, NoSpaceError  # noqa: E402
from hopfeed.tables import import_tables  # noqa: E402
from hopfeed.tables.work import Work  # noqa: E402
from made_tables import make_shop, write_shop  # noqa: E402


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, list[str]]:
    """The folder of the shop's tables, the fingerprint of its dataset, and what its import said."""
    folder = tmp_path_factory.mktemp("whole")
    said = list[str]()
    report = import_tables(folder / "dataset", write_shop(make_shop(), folder), parts=2, say=said.append)
    return folder, report["fingerprint"], said


def begun(said: list[str]) -> list[str]:
    """Stages; parts of the dataset are no stages, nor is what the memory is."""
    return [line for line in said if "warning" not in line and "writing " not in line and "of memory (--memory)" not in line]


class Stopped(Exception):
    """Raised in place of a stage."""


def stop_at(line: int, said: list[str]) -> Any:
    def say(text: str) -> None:
        said.append(text)
        if len(begun(said)) == line:
            raise Stopped

    return say


def test_each_stage_that_is_whole_is_kept(whole: tuple[Path, str, list[str]], tmp_path: Path) -> None:
    source, fingerprint, all_said = whole
    steps = len(begun(all_said))
    rounds = list[list[str]]()
    for line in (3, 4, 4, 5):  # each goes on where the one before it was
        rounds.append([])
        with pytest.raises(Stopped):
            import_tables(tmp_path / "dataset", source / "shop.json", parts=2, say=stop_at(line, rounds[-1]))
        assert not (tmp_path / "dataset").exists()
    rounds.append([])
    assert import_tables(tmp_path / "dataset", source / "shop.json", parts=2, say=rounds[-1].append)["fingerprint"] == fingerprint
    done = [begun(said)[:-1] for said in rounds[:-1]] + [begun(rounds[-1])]
    assert [line for several in done for line in several] == begun(all_said)
    assert 0 < len(begun(rounds[-1])) == steps - 2 - 3 - 3 - 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset"]


@pytest.mark.parametrize("at", ["hashing keys", "counting the edges", "sorting edges", "writing partition 1"])
def test_a_killed_process_is_gone_on_from(whole: tuple[Path, str, list[str]], tmp_path: Path, environment: dict[str, str], at: str) -> None:
    source, fingerprint, _ = whole
    command = [sys.executable, "-m", "hopfeed.tables", "tables", str(tmp_path / "dataset"), str(source / "shop.json"), "--parts", "2"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while at not in (line := process.stderr.readline()):
            assert line, "the import ended"
        os.kill(process.pid, signal.SIGKILL)
    assert not (tmp_path / "dataset").exists()
    said = list[str]()
    assert import_tables(tmp_path / "dataset", source / "shop.json", parts=2, say=said.append)["fingerprint"] == fingerprint
    assert not [line for line in said if "checking" in line]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset"]


def test_what_has_changed_begins_anew(tmp_path: Path) -> None:
    path = write_shop(make_shop(), tmp_path)

    def stopped(**options: Any) -> list[str]:
        said = list[str]()
        with pytest.raises(Stopped):
            import_tables(tmp_path / "dataset", path, say=stop_at(6, said), **options)
        return [line.replace(f"{tmp_path}/", "") for line in said if "anew" in line]

    assert stopped() == []
    assert stopped(seed=1) == [".dataset.import: seed was 0 and is 1, so the import begins anew"]
    with open(next((tmp_path / "users").iterdir()), "ab"):
        os.utime(next((tmp_path / "users").iterdir()), ns=(1, 1))
    assert re.fullmatch(r"\.dataset\.import: users/part-.*\.parquet has changed, so the import begins anew", stopped(seed=1)[0])
    shutil.copy(next((tmp_path / "users").iterdir()), tmp_path / "users" / "one_more.parquet")
    assert stopped(seed=1, duplicates="same") == [".dataset.import: duplicates was 'error' and is 'same', so the import begins anew"]
    described = json.loads(path.read_text())
    described["nodes"][0]["attrs"] = []
    path.write_text(json.dumps(described))
    assert stopped(seed=1, duplicates="same") == [".dataset.import: the description has changed, so the import begins anew"]


def test_a_table_that_changes_while_it_is_read_makes_no_dataset(tmp_path: Path) -> None:
    path = write_shop(make_shop(), tmp_path)
    table = next((tmp_path / "buys").iterdir())

    def say(line: str) -> None:
        if "writing new ids" in line:
            os.utime(table, ns=(1, 1))

    with pytest.raises(InvalidError, match=f"{table} has changed while it was imported; run the same again, which begins anew"):
        import_tables(tmp_path / "dataset", path, say=say)
    assert not (tmp_path / "dataset").exists()


def test_two_imports_into_one_folder_do_not_meet(whole: tuple[Path, str, list[str]], tmp_path: Path) -> None:
    other = Work(tmp_path / ".dataset.import", lambda _: None)
    with pytest.raises(InvalidError, match=r"another import works in .*\.dataset\.import; wait for it, or import into another folder"):
        import_tables(tmp_path / "dataset", whole[0] / "shop.json")
    other.close()
    import_tables(tmp_path / "dataset", whole[0] / "shop.json")


def test_a_dataset_that_is_there_is_replaced_when_asked_alone(whole: tuple[Path, str, list[str]]) -> None:
    folder, fingerprint, _ = whole
    with pytest.raises(InvalidError, match="dataset is there already; --overwrite replaces a dataset"):
        import_tables(folder / "dataset", folder / "shop.json")
    assert import_tables(folder / "dataset", folder / "shop.json", overwrite=True)["fingerprint"] == fingerprint
    assert hopfeed.Dataset(folder / "dataset").num_partitions == 1


@pytest.mark.skipif(subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0, reason="no mount namespaces here")
def test_a_full_disk_is_told_and_gone_on_from(whole: tuple[Path, str, list[str]], tmp_path: Path, environment: dict[str, str]) -> None:
    source, fingerprint, _ = whole
    (tmp_path / "small").mkdir()
    script = f"""
mount -t tmpfs -o size=400k none {tmp_path}/small
run() {{ {sys.executable} -m hopfeed.tables tables {tmp_path}/small/dataset {source}/shop.json --parts 2 2>&1; }}
run && exit 1
echo ---
find {tmp_path}/small -name meta.json
mount -o remount,size=64m {tmp_path}/small
run
"""
    done = subprocess.run(["unshare", "-rm", "bash", "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    first, second = done.stdout.split("---\n")
    assert "make room" in first.splitlines()[-1] or "No space" in first.splitlines()[-1], first
    assert "meta.json" not in second and fingerprint in second.splitlines()[-1], second
    assert NoSpaceError.code == "no space"
