"""What an import of tables refuses at the cut, and what it says of its memory."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="the extra [tables] is not installed")
pytest.importorskip("duckdb", reason="the extra [tables] is not installed")

from hopfeed.errors import NoSpaceError, UnsupportedError  # noqa: E402
from hopfeed.tables import import_tables  # noqa: E402
from hopfeed.tables.engine import machine_memory, memory_available  # noqa: E402
from hopfeed.tables.limits import MOST_ROWS, require_enough_parts, require_rows_fit  # noqa: E402
from made_tables import make_shop, write_shop  # noqa: E402


def test_too_few_parts_say_how_many_it_takes() -> None:
    require_enough_parts("node type 'user'", 3 * MOST_ROWS, 3)
    with pytest.raises(UnsupportedError, match="^node type 'user': --parts is 2, and 12,000,000,000 nodes take 3 at least: [^\n]*$"):
        require_enough_parts("node type 'user'", 12_000_000_000, 2)
    with pytest.raises(UnsupportedError, match="--parts is 1, and 4,294,967,296 nodes take 2 at least"):
        require_enough_parts("node type 'user'", 1 << 32, 1)


def test_an_uneven_cut_names_the_partition() -> None:
    require_rows_fit("node type 'user'", [0, MOST_ROWS, 2 * MOST_ROWS])
    with pytest.raises(UnsupportedError, match="^node type 'user': partition 1 would have 4,294,967,296 nodes: .*give more --parts than 2"):
        require_rows_fit("node type 'user'", [0, 5, 5 + (1 << 32)])


def test_an_import_refuses_them_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = write_shop(make_shop(), tmp_path)
    monkeypatch.setattr("hopfeed.tables.limits.MOST_ROWS", 3)
    with pytest.raises(UnsupportedError, match="--parts is 2, and [0-9]+ nodes take [0-9]+ at least"):
        import_tables(tmp_path / "dataset", shop, parts=2)
    assert not (tmp_path / "dataset").exists()


def test_memory_is_told_before_the_first_stage_and_in_the_report(tmp_path: Path) -> None:
    said = list[str]()
    report = import_tables(tmp_path / "dataset", write_shop(make_shop(), tmp_path), memory="1G", say=said.append)
    assert said[0].startswith("the import takes up to 1,024 MB of memory (--memory); ") and report["memory_bytes"] == 1 << 30
    assert import_tables(tmp_path / "other", write_shop(make_shop(), tmp_path), memory="1G", dry_run=True)["memory_bytes"] == 1 << 30


def test_more_memory_than_the_machine_has_is_refused(tmp_path: Path) -> None:
    assert 0 < memory_available() <= machine_memory()
    with pytest.raises(NoSpaceError, match="--memory is [0-9,]+ MB, and this machine, or its memory cgroup, has [0-9,]+ MB; give less"):
        import_tables(tmp_path / "dataset", write_shop(make_shop(), tmp_path), memory=machine_memory() + (1 << 20))
