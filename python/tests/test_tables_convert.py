"""Our reader: each type of a column to the elements of a dataset, at its edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="the extra [tables] is not installed")
pytest.importorskip("duckdb", reason="the extra [tables] is not installed")

from hopfeed.errors import InvalidError  # noqa: E402
from hopfeed.tables import bounds, convert  # noqa: E402
from hopfeed.tables.description import Attribute  # noqa: E402
from hopfeed.tables.stored import resolve  # noqa: E402


@pytest.mark.parametrize(
    "values, kind, unit, expected",
    [
        ([-1, 0, 999_999, 1_000_000], pa.timestamp("us"), "s", [-1, 0, 0, 1]),
        ([-1, 1], pa.timestamp("ns"), "ms", [-1, 0]),
        ([-1, 7], pa.timestamp("s"), "ns", [-(10**9), 7 * 10**9]),
        ([1500], pa.timestamp("ms", "America/New_York"), "us", [1_500_000]),
        ([-1, 2], pa.date32(), "s", [-86_400, 172_800]),
        ([-5, 2**62], pa.int64(), "ns", [-5, 2**62]),
        ([None, 3], pa.timestamp("s"), "s", [0, 3]),
        ([None, 3], pa.int16(), "s", [0, 3]),
    ],
)
def test_times_are_whole_numbers_in_utc_rounded_down(values: list[Any], kind: Any, unit: str, expected: list[int]) -> None:
    found = convert.times(pa.array(values, kind), unit)
    assert found.dtype == np.int64 and found.tolist() == expected


def test_a_nan_is_one_pattern_and_minus_zero_stays() -> None:
    stored = resolve(Attribute("a", ("a",), "attr"), ["c0"], ["FLOAT"], "n", 0)
    bits = np.array([0x7F800001, 0xFFC12345, 0x80000000, 0x00000001, 0xFF800000], np.uint32)
    found = np.asarray(convert.rows(stored, [pa.array(bits.view(np.float32))], [])).view(np.uint32)
    assert [hex(word) for word in found] == [hex(word) for word in (0x7FC00000, 0x7FC00000, 0x80000000, 0x00000001, 0xFF800000)]
    doubles = resolve(Attribute("a", ("a",), "attr"), ["c0"], ["DOUBLE"], "n", 0)
    found = np.asarray(convert.rows(doubles, [pa.array(np.array([0xFFF8000000000001], np.uint64).view(np.float64))], [])).view(np.uint64)
    assert found.tolist() == [0x7FF8000000000000]


def test_doubles_become_the_nearest_float32() -> None:
    stored = resolve(Attribute("x", ("a",), "features", "float32"), ["c0"], ["DOUBLE"], "n", 0)
    found = convert.rows(stored, [pa.array([0.1, 1e300, -1e-300, 1 + 2**-25])], [])
    assert found.type == convert.arrow_type(stored) == pa.list_(pa.float32(), 1)
    assert np.asarray(found.flatten()).tobytes() == np.array([0.1, np.inf, -0.0, 1.0], np.float32).tobytes()


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.list_(pa.float64(), 2)])
def test_lists_that_are_missing_are_zeros(kind: Any) -> None:
    stored = resolve(Attribute("x", ("a",), "features", "float32"), ["c0"], ["DOUBLE[]"], "n", 2)
    rows = pa.array([[9.0, 9.0], [1.0, 2.0], None, [None, 4.0]], kind).slice(1)
    assert np.asarray(convert.rows(stored, [rows], []).flatten()).tolist() == [1, 2, 0, 0, 0, 4]


def test_lists_of_another_length_are_no_rows() -> None:
    stored = resolve(Attribute("x", ("a",), "features", "float32"), ["c0"], ["DOUBLE[]"], "n", 2)
    with pytest.raises(InvalidError, match="a list is not of 2 numbers"):
        convert.rows(stored, [pa.array([[1.0, 2.0], [3.0]])], [])


def test_labels() -> None:
    assert convert.labels(pa.array(["b", None, "a", "c"]), ["a", "b"]).tolist() == [1, -1, 0, -1]
    assert convert.labels(pa.array([2, None, -7], pa.int8()), []).tolist() == [2, -1, -1]
    assert convert.labels(pa.array([2.0, None, np.nan, -1.0]), []).tolist() == [2, -1, -1, -1]
    assert convert.labels(pa.array([True, None, False]), []).tolist() == [1, -1, 0]


@pytest.mark.parametrize("kind, element", [("USMALLINT", "int32"), ("UBIGINT", "int64"), ("UINTEGER", "uint32"), ("TINYINT", "int8"), ("BOOLEAN", "bool"), ("DOUBLE", "float64")])
def test_attributes_keep_their_type_where_a_dataset_has_it(kind: str, element: str) -> None:
    assert resolve(Attribute("a", ("a",), "attr"), ["c0"], [kind], "n", 0).element == element


@pytest.mark.parametrize("kind, element", [("TINYINT", "int32"), ("USMALLINT", "int32"), ("UINTEGER", "int64"), ("BIGINT", "int64"), ("FLOAT", "float32")])
def test_weights_are_of_types_that_can_be_drawn_by(kind: str, element: str) -> None:
    assert resolve(Attribute("w", ("w",), "weight"), ["c0"], [kind], "e", 0).element == element


def test_a_sample_of_times_does_not_hang_on_batches_or_ties() -> None:
    rng = np.random.default_rng(0)
    edges = 30_000
    dst, src = np.sort(rng.integers(0, 40, edges)), rng.integers(0, 3, edges)
    src = src[np.lexsort((src, dst))]
    times, weight = rng.integers(0, 100, edges), rng.integers(0, 2**31, edges).astype(np.int32)
    first = np.searchsorted(dst, np.arange(41))
    stored = np.concatenate([bounds.row_bytes(weight, edges), bounds.row_bytes(times, edges)], 1)
    ordered = np.lexsort((*stored.T[::-1], src, dst))
    expected = bounds.bounds(times[ordered][::7])
    for cuts in ([], [1, 2, 10_000], list(range(100, edges, 101))):
        sampler = bounds.Sampler(edges, lambda row: first[row])
        sampler._step = 7
        shuffled = np.lexsort((rng.random(edges), src, dst))  # edges of one pair in any order
        for part in np.split(shuffled, cuts):
            sampler.add(dst[part], src[part], times[part], [bounds.row_bytes(weight[part], len(part)), bounds.row_bytes(times[part], len(part))])
        assert (bounds.bounds(sampler.finish()) == expected).all()
