"""What an import asks of a cluster, each promise on 90,000 rows against plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import promises as p
import pyarrow as pa
import pytest
from ray_fixtures import _machines, engine, machines  # noqa: F401

from hopfeed.errors import InvalidError
from hopfeed.ray import RayCluster
from hopfeed.ray.engine import Frame

NOTHING = pa.schema([("key", pa.string()), ("more", pa.int64())])


@pytest.fixture(scope="module")
def facts(_machines: Any) -> Iterator[Frame]:  # noqa: F811
    engine = RayCluster()  # noqa: F811
    frame = engine.kept(engine.rows(list(range(p.ITEMS)), p.read_facts, p.FACTS))
    yield frame
    engine.let_go(frame)


@pytest.fixture(scope="module")
def names(_machines: Any) -> Frame:  # noqa: F811
    return RayCluster().rows([0, 1], p.read_names, p.NAMES)


def rows_of(engine: RayCluster, frame: Frame) -> list[p.Row]:  # noqa: F811
    """All rows, by one group for all of them."""
    [(_, types, rows)] = engine.ranges(one_column_more(engine, frame), ["all of them"], [], p.told)
    assert types in ("", "all of them int64, " + p.types_of(frame.schema))
    return [row[1:] for row in rows]


def one_column_more(engine: RayCluster, frame: Frame) -> Frame:  # noqa: F811
    schema = pa.schema([("all of them", pa.int64()), *frame.schema])

    def widened() -> Any:
        return engine._of(frame).map_batches(lambda table: table.add_column(0, "all of them", [[0] * len(table)]), batch_format="pyarrow", batch_size=None)

    return Frame(schema, widened, [frame])


def no_rows(engine: RayCluster) -> Frame:  # noqa: F811
    return engine.rows([1, 2], lambda item: iter(()), NOTHING)


def test_tasks_give_what_they_tell_in_the_order_of_their_items(engine: RayCluster) -> None:  # noqa: F811
    assert engine.tasks([{"a": item, "b": Path("x")} for item in range(20)], lambda item: (item["a"] ** 2, item["b"] / "y")) == [
        (item**2, Path("x/y")) for item in range(20)
    ]
    assert engine.tasks([], lambda item: item) == []
    assert engine.name == "Ray" and engine.slots == 2


def test_rows_are_those_of_all_items_each_read_once_where_they_are_kept(engine: RayCluster, tmp_path: Path) -> None:  # noqa: F811
    def read(item: int) -> Iterator[pa.RecordBatch]:
        with (tmp_path / "reads").open("a") as file:
            file.write(f"{item}\n")
        return p.read_facts(item)

    frame = engine.rows(list(range(4)), read, p.FACTS)
    assert not (tmp_path / "reads").exists()
    kept = engine.kept(frame)
    assert p.as_bag(rows_of(engine, kept)) == p.as_bag([row for item in range(4) for row in p.facts_of(item)])
    assert len(rows_of(engine, engine.union([kept, kept]))) == 80_000
    assert sorted((tmp_path / "reads").read_text().split()) == list("0123")
    engine.let_go(kept)
    assert len(rows_of(engine, kept)) == 40_000
    assert sorted((tmp_path / "reads").read_text().split()) == list("00112233")


def test_a_union_has_the_rows_of_all_also_of_those_that_have_none(engine: RayCluster) -> None:  # noqa: F811
    one, other = (engine.rows([item], p.read_facts, p.FACTS) for item in (0, 1))
    swapped = pa.schema([p.FACTS.field(name) for name in ("bytes", "key", "group", "number")])
    turned = engine.rows([2], lambda item: (batch.select(swapped.names) for batch in p.read_facts(item)), swapped)
    none = engine.rows([4], p.read_facts, p.FACTS)
    assert p.as_bag(rows_of(engine, engine.union([one, none, other, turned]))) == p.as_bag([row for item in range(3) for row in p.facts_of(item)])


@pytest.mark.parametrize("how", ["inner", "left"])
def test_joins_by_texts(engine: RayCluster, facts: Frame, names: Frame, how: str) -> None:  # noqa: F811
    found = rows_of(engine, engine.join(facts, names, "key", how))
    assert p.as_bag(found) == p.as_bag(p.joined(p.facts(), p.names(), how))


@pytest.mark.parametrize("how", ["inner", "left"])
def test_joins_by_numbers_behind_a_join(engine: RayCluster, facts: Frame, names: Frame, how: str) -> None:  # noqa: F811
    numbers = pa.schema([("number", pa.int64()), ("what", pa.binary())])
    rows = [(p.LEAST, b"\0"), (p.MOST, b""), (0, b"0\0")]
    right = engine.rows([0], lambda item: p.batches(rows, numbers), numbers)
    found = rows_of(engine, engine.join(engine.join(facts, names, "key"), right, "number", how))
    left = [(row[1], row[0], *row[2:]) for row in p.joined(p.facts(), p.names(), "inner")]
    expected = [(row[1], row[0], *row[2:]) for row in p.joined(left, rows, how)]
    assert p.as_bag(found) == p.as_bag(expected)


def test_joins_with_frames_that_have_no_rows(engine: RayCluster, facts: Frame) -> None:  # noqa: F811
    assert rows_of(engine, engine.join(no_rows(engine), engine.rows([0], p.read_names, p.NAMES), "key", "left")) == []
    assert rows_of(engine, engine.join(facts, no_rows(engine), "key")) == []
    assert p.as_bag(rows_of(engine, engine.join(facts, no_rows(engine), "key", "left"))) == p.as_bag([(*row, None) for row in p.facts()])
    with pytest.raises(InvalidError, match="inner or left"):
        engine.join(facts, facts, "key", "outer")


def test_sums(engine: RayCluster, facts: Frame) -> None:  # noqa: F811
    small = pa.schema([("key", pa.string()), ("group", pa.int64()), ("one", pa.int64()), ("large", pa.int64())])
    rows = [(row[0], row[2], 1, row[1] // 100_000) for item in range(3) for row in p.facts_of(item)]
    frame = engine.rows(list(range(3)), lambda item: p.batches(rows[item * 10_000 :][:10_000], small), small)
    assert p.as_bag(rows_of(engine, engine.sums(frame, ["key", "group"], ["large", "one"]))) == p.as_bag(p.summed(rows, (0, 1), (3, 2)))
    assert p.as_bag(rows_of(engine, engine.sums(frame, ["group"], []))) == [(group,) for group in range(p.GROUPS) if group != p.EMPTY_GROUP]
    assert rows_of(engine, engine.sums(no_rows(engine), ["key"], ["more"])) == []
    assert len(rows_of(engine, engine.sums(facts, ["key"], []))) == len({row[0] for row in p.facts()})


@pytest.mark.parametrize(
    ("by", "within"),
    [(["key"], ["number", "bytes"]), (["number"], ["key", "bytes"]), (["group", "key"], ["bytes", "number"]), (["key", "number"], [])],
)
def test_ranges_have_all_rows_in_order_and_no_two_have_equal_ones(engine: RayCluster, facts: Frame, by: list[str], within: list[str]) -> None:  # noqa: F811
    ranges = engine.ranges(facts, by, within, p.told)
    columns = [p.FACTS.get_field_index(name) for name in (*by, *within)]
    assert [number for number, _, _ in ranges] == list(range(len(ranges)))
    assert {types for _, types, _ in ranges} <= {"", p.types_of(p.FACTS)}
    rows = [row for _, _, rows in ranges for row in rows]
    assert [[row[column] for column in columns] for row in rows] == [[row[column] for column in columns] for row in p.in_order(p.facts(), columns)]
    assert p.as_bag(rows) == p.as_bag(p.facts())
    values = [{tuple(row[column] for column in columns[: len(by)]) for row in rows} for _, _, rows in ranges]
    assert sum(map(len, values)) == len(set().union(*values))
    assert len(ranges) > 1


def test_a_range_of_many_equal_rows_comes_in_order_over_several_blocks(engine: RayCluster, facts: Frame) -> None:  # noqa: F811
    [(_, _, rows)] = [told for told in engine.ranges(one_column_more(engine, facts), ["all of them"], ["bytes", "number", "key"], p.told) if told[2]]
    expected = p.in_order(p.facts(), [3, 1, 0])
    assert [(row[4], row[2], row[1]) for row in rows] == [(row[3], row[1], row[0]) for row in expected]


def test_a_frame_without_rows_has_ranges_and_groups_without_rows(engine: RayCluster) -> None:  # noqa: F811
    assert engine.ranges(no_rows(engine), ["key"], ["more"], p.told) == [(0, "", [])]
    assert engine.groups(no_rows(engine), "more", 3, ["key"], p.told) == [(number, "", []) for number in range(3)]
    assert engine.ranges(engine.rows([], p.read_facts, p.FACTS), ["key"], [], p.told) == [(0, "", [])]


def test_each_group_has_its_rows_in_order_and_those_without_are_told_too(engine: RayCluster, facts: Frame) -> None:  # noqa: F811
    groups = engine.groups(facts, "group", p.GROUPS + 2, ["key", "bytes", "number"], p.told)
    assert [number for number, _, _ in groups] == list(range(p.GROUPS + 2))
    for number, types, rows in groups:
        assert rows == p.in_order([row for row in p.facts() if row[2] == number], [0, 3, 1])
        assert types == (p.types_of(p.FACTS) if rows else "")
    assert [bool(rows) for _, _, rows in groups] == [number not in (p.EMPTY_GROUP, p.GROUPS, p.GROUPS + 1) for number in range(p.GROUPS + 2)]


def test_a_task_need_not_take_all_rows(engine: RayCluster, facts: Frame) -> None:  # noqa: F811
    take: Callable[[int, Iterator[pa.RecordBatch]], int] = lambda number, given: next(given).num_rows if number == p.LARGE_GROUP else 0  # noqa: E731
    assert engine.groups(facts, "group", p.GROUPS, ["key"], take)[p.LARGE_GROUP] > 0
