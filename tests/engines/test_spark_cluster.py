"""What ``Cluster`` promises, of Spark: against plain Python on the same rows."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from hopfeed.errors import Error
from made_rows import FEW, MANY, SCHEMA, Row, all_rows, batch_of, by_bytes, note, read, rows_in, rows_of, take_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hopfeed.spark import SparkCluster


def test_tasks_give_their_results_in_the_order_of_items(cluster: SparkCluster) -> None:
    assert cluster.slots == 2
    assert cluster.tasks([], lambda item: item) == []
    items = [{"name": f"ü{i}", "list": list(range(i))} for i in range(23)]
    assert cluster.tasks(items, lambda item: (item["name"], sum(item["list"]))) == [(f"ü{i}", sum(range(i))) for i in range(23)]


def test_each_item_has_a_task_of_its_own(cluster: SparkCluster) -> None:
    def partition(item: int) -> tuple[int, int]:
        from pyspark import TaskContext

        return item, TaskContext.get().partitionId()

    assert cluster.tasks(list(range(9)), partition) == [(i, i) for i in range(9)]


def test_ranges_are_all_rows_in_order(cluster: SparkCluster) -> None:
    found = cluster.ranges(cluster.rows(MANY, read, SCHEMA), ["key", "number"], ["bytes"], take_rows())
    assert [number for number, _ in found] == list(range(len(found)))
    assert len([rows for _, rows in found if rows]) > 2
    assert [row for _, rows in found for row in rows] == sorted(all_rows(MANY), key=by_bytes)


def test_ranges_by_int64_have_its_extremes_at_the_ends(cluster: SparkCluster) -> None:
    found = cluster.ranges(cluster.rows(MANY, read, SCHEMA), ["number"], ["bytes"], take_rows())
    assert [row for _, rows in found for row in rows] == sorted(all_rows(MANY), key=lambda row: (row[2], row[3]))


def test_rows_of_equal_by_are_in_one_range(cluster: SparkCluster) -> None:
    def one_of_two(item: int) -> Iterator[pa.RecordBatch]:  # nearly all rows have one value, which borders would fall into
        yield batch_of([(0, "中" if i % 50 else f"{i}", i, item.to_bytes(2, "big")) for i in range(5000)])

    found = cluster.ranges(cluster.rows(range(6), one_of_two, SCHEMA), ["key"], ["number", "bytes"], take_rows())
    places = defaultdict(set)
    for number, rows in found:
        for row in rows:
            places[row[1]].add(number)
    assert len(places) == 101 and all(len(numbers) == 1 for numbers in places.values())
    rows = [row for _, rows in found for row in rows]
    assert len(rows) == 30_000 and rows == sorted(rows, key=by_bytes)


@pytest.mark.parametrize("items,count", [(MANY, 5), (MANY, 8), ([(9, 4000, 150)], 151)], ids=["few", "some_empty", "many"])
def test_groups_have_their_rows_in_order(cluster: SparkCluster, items: list[tuple[int, int, int]], count: int) -> None:
    found = cluster.groups(cluster.rows(items, read, SCHEMA), "group", count, ["key", "number", "bytes"], take_rows())
    expected: list[list[Row]] = [[] for _ in range(count)]
    for row in sorted(all_rows(items), key=by_bytes):
        expected[row[0]].append(row)
    assert found == list(enumerate(expected))


def test_rows_of_no_group_are_left_out(cluster: SparkCluster) -> None:
    def beyond(item: int) -> Iterator[pa.RecordBatch]:
        yield batch_of([(group, "", 0, b"") for group in (-1, 0, 1, 2, 3, 1 << 40, -(1 << 63))])

    found = cluster.groups(cluster.rows([0], beyond, SCHEMA), "group", 3, [], lambda number, batches: [row[0] for row in rows_in(batches)])
    assert found == [[0], [1], [2]]


def test_frames_without_rows_have_their_groups(cluster: SparkCluster) -> None:
    def nothing(item: int) -> Iterator[pa.RecordBatch]:
        return iter(())

    full = cluster.rows(FEW, read, SCHEMA)
    for frame in (cluster.rows([], read, SCHEMA), cluster.rows([1, 2], nothing, SCHEMA)):
        assert cluster.groups(frame, "group", 3, ["key"], take_rows()) == [(0, []), (1, []), (2, [])]
        assert [rows for _, rows in cluster.ranges(frame, ["key"], ["bytes"], take_rows()) if rows] == []
        found = cluster.groups(cluster.union([frame, full, frame]), "group", 3, ["key", "number", "bytes"], take_rows())
        assert sum(len(rows) for _, rows in found) == 1200
        sums = cluster.sums(frame, ["group"], ["number"])
        assert cluster.groups(sums, "group", 2, [], lambda number, batches: sum(batch.num_rows for batch in batches)) == [0, 0]
        other = cluster.rows([], read, pa.schema([("key", pa.string()), ("other", pa.int64())]))
        for how, expected in (("inner", 0), ("left", 1200)):
            joined = cluster.join(full, other, "key", how)
            assert sum(cluster.groups(joined, "group", 3, [], lambda number, batches: sum(batch.num_rows for batch in batches))) == expected


def test_union_has_the_rows_of_all_by_names_of_columns(cluster: SparkCluster) -> None:
    turned = pa.schema([SCHEMA.field(i) for i in (3, 2, 1, 0)])

    def read_turned(item: tuple[int, int, int]) -> Iterator[pa.RecordBatch]:
        yield from (batch.select(["bytes", "number", "key", "group"]) for batch in read(item))

    union = cluster.union([cluster.rows(FEW[:2], read, SCHEMA), cluster.rows(FEW[2:], read_turned, turned), cluster.rows(FEW[:1], read, SCHEMA)])
    found = cluster.ranges(union, ["key"], ["number", "bytes"], take_rows())
    assert [row for _, rows in found for row in rows] == sorted(all_rows(FEW + FEW[:1]), key=by_bytes)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_join_finds_partners_by_bytes(cluster: SparkCluster, how: str) -> None:
    names = pa.schema([("key", pa.string()), ("id", pa.int64()), ("text", pa.string())])
    keys = sorted({row[1] for row in all_rows(FEW)}, key=str.encode)[::2]
    ids = {key: (place, key[::-1]) for place, key in enumerate(keys)}

    def read_keys(part: list[tuple[str, int, str]]) -> Iterator[pa.RecordBatch]:
        yield batch_of(part, names)

    table = [(key, *ids[key]) for key in keys]
    left, right = cluster.rows(FEW, read, SCHEMA), cluster.rows([table[:50], table[50:]], read_keys, names)
    joined = cluster.join(left, right, "key", how)
    schema = pa.schema([*SCHEMA, names.field("id"), names.field("text")])
    found = cluster.groups(joined, "group", 3, ["key", "number", "bytes"], lambda number, batches: rows_in(batches, schema))
    expected = [(*row, *ids.get(row[1], (None, None))) for row in sorted(all_rows(FEW), key=by_bytes) if how == "left" or row[1] in ids]
    assert 0 < len(expected) and found == [[row for row in expected if row[0] == group] for group in range(3)]


def test_no_join_sends_a_table_to_all_by_a_guess_of_its_size(cluster: SparkCluster, capsys: pytest.CaptureFixture[str]) -> None:
    names = pa.schema([("key", pa.string()), ("id", pa.int64())])
    cluster.join(cluster.rows(FEW, read, SCHEMA), cluster.rows([0], read, names), "key").data.explain()
    assert "SortMergeJoin" in capsys.readouterr().out


def test_sums_of_each_set_of_values(cluster: SparkCluster) -> None:
    def small(item: tuple[int, int, int]) -> Iterator[pa.RecordBatch]:
        yield batch_of([(group, key, number % 1000, text) for group, key, number, text in rows_of(item)])

    expected: Counter[tuple[str, int]] = Counter()
    for group, key, number, _ in all_rows(MANY):
        expected[key, group] += number % 1000
    sums = cluster.sums(cluster.rows(MANY, small, SCHEMA), ["key", "group"], ["number"])
    schema = pa.schema([SCHEMA.field(name) for name in ("key", "group", "number")])
    found = cluster.ranges(sums, ["key"], ["group"], lambda number, batches: rows_in(batches, schema))
    assert [row for rows in found for row in rows] == [(*by, expected[by]) for by in sorted(expected, key=lambda by: (by[0].encode(), by[1]))]


def test_a_sum_beyond_int64_is_an_error(cluster: SparkCluster) -> None:
    def most(item: int) -> Iterator[pa.RecordBatch]:
        yield batch_of([(0, "", (1 << 63) - 1, b"")] * 2)

    with pytest.raises(Error, match="overflow|OVERFLOW"):
        cluster.ranges(cluster.sums(cluster.rows([0], most, SCHEMA), ["group"], ["number"]), ["group"], [], lambda number, batches: None)


def test_names_of_columns_that_differ_by_case_or_begin_with_a_digit(cluster: SparkCluster) -> None:
    schema = pa.schema([("a", pa.int64()), ("A", pa.int64()), ("1_x", pa.string())])

    def few(item: int) -> Iterator[pa.RecordBatch]:
        yield batch_of([(1, 0, "y"), (0, 1, "x")], schema)

    found = cluster.ranges(cluster.rows([0], few, schema), ["1_x"], ["A", "a"], lambda number, batches: rows_in(batches, schema))
    assert [row for rows in found for row in rows] == [(0, 1, "x"), (1, 0, "y")]


def test_kept_rows_are_made_once(cluster: SparkCluster, tmp_path: Path) -> None:
    folder = str(tmp_path)

    def noting(item: tuple[int, int, int]) -> Iterator[pa.RecordBatch]:
        note(folder, "read")
        yield from read(item)

    kept = cluster.kept(cluster.rows(FEW, noting, SCHEMA))
    for _ in range(2):
        assert sum(cluster.ranges(kept, ["key"], [], lambda number, batches: len(rows_in(batches)))) == 1200
    sums = cluster.sums(kept, ["key"], ["group"])
    assert sum(cluster.ranges(sums, ["key"], [], lambda number, batches: sum(batch.num_rows for batch in batches))) == len({row[1] for row in all_rows(FEW)})
    assert sum(cluster.groups(cluster.union([kept, kept]), "group", 3, [], lambda number, batches: len(rows_in(batches)))) == 2400
    assert (tmp_path / "read").read_text() == "x\n" * len(FEW)
    cluster.let_go(kept)
    assert sum(cluster.groups(kept, "group", 3, [], lambda number, batches: len(rows_in(batches)))) == 1200
    assert (tmp_path / "read").read_text() == "x\n" * 2 * len(FEW)


def test_wide_rows_come_in_batches_of_some_bytes(cluster: SparkCluster) -> None:
    schema = pa.schema([("group", pa.int64()), ("bytes", pa.binary())])

    def wide(item: int) -> Iterator[pa.RecordBatch]:  # 100 MB as one batch of larger types
        yield pa.record_batch({"bytes": pa.array([bytes(1 << 20)] * 100, pa.large_binary()), "group": pa.array([0] * 100, pa.int64())})

    def take(number: int, batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
        sizes = [batch.nbytes for batch in batches]
        return sum(sizes) >> 20, max(sizes) >> 20

    [(whole, most)] = cluster.groups(cluster.rows([0], wide, schema), "group", 1, [], take)
    assert whole == 100 and most <= 34


def test_a_task_may_leave_rows_unread(cluster: SparkCluster) -> None:
    frame = cluster.rows(MANY, read, SCHEMA)
    found = cluster.groups(frame, "group", 5, ["key"], lambda number, batches: next(batches).num_rows > 0)
    assert found == [True] * 5


def test_import_tables_is_the_clusters_import_with_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    import hopfeed.spark

    importing = ModuleType("importing")
    importing.import_tables = lambda *given, **options: (given, options)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hopfeed.tables.cluster.importing", importing)
    (cluster, *given), options = hopfeed.spark.import_tables(spark, "shop.json", "out", parts=3)
    assert isinstance(cluster, hopfeed.spark.SparkCluster) and (given, options) == (["shop.json", "out"], {"parts": 3})


def test_the_users_session_stays_as_it_is(spark: SparkSession, cluster: SparkCluster) -> None:
    from hopfeed.spark import SparkCluster

    before = spark.conf.getAll
    cluster.groups(cluster.rows(FEW, read, SCHEMA), "group", 3, ["key"], lambda number, batches: None)
    assert spark.conf.getAll == before and spark.conf.get("spark.sql.caseSensitive") == "false"
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "77")
    try:
        found = SparkCluster(spark)
        most = found.groups(found.rows(FEW, read, SCHEMA), "group", 3, [], lambda number, batches: max(batch.num_rows for batch in batches))
        assert max(most) == 77
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
