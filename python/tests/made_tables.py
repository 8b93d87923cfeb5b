"""Made-up tables for the tests of ``hopfeed.tables``: a shop of users, items and purchases, as files and as the oracle
takes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tables_oracle import EdgeTable, NodeTable

EPOCH = np.datetime64("2026-01-01", "s").astype(np.int64)
SEGMENTS = ["bulk", "casual", "é-shop"]  # in the order of their bytes


@dataclass
class Shop:
    """Its tables, and what they are to become."""

    users: pa.Table
    items: pa.Table
    buys: pa.Table
    friends: pa.Table
    nodes: dict[str, NodeTable]
    edges: list[EdgeTable]


def make_shop(users: int = 60, items: int = 25, buys: int = 500, seed: int = 0) -> Shop:
    """Texts as keys with quotes, accents and astral characters; integers below 0; parallel edges that differ in one bit;
    NaN, -0 and infinities; nulls where they mean something."""
    rng = np.random.default_rng(seed)
    names = [f"{'u' if i % 3 else 'ü' if i % 2 else '𝓾'}'\"{i * 7919 % 1000}" for i in range(users)]
    numbers = [int(i) for i in rng.choice(np.arange(-500, 500), items, replace=False)]
    x = rng.normal(size=(users, 3))
    x[0] = [-0.0, np.inf, 1e300]
    x32 = _quiet(x)
    label = [None if i % 5 == 0 else SEGMENTS[i % 3] for i in range(users)]
    joined = EPOCH * 10**6 + rng.integers(-(10**12), 10**12, users)
    user_table = pa.table(
        {
            "user id": names,
            "vec": pa.array([list(row) for row in x], pa.list_(pa.float64())),
            "segment": label,
            "fold": ["train" if i % 2 else "valid" for i in range(users)],
            "joined": pa.array(joined, pa.timestamp("us")),
            "vip": [bool(i % 2) for i in range(users)],
        }
    )
    price = rng.normal(size=items).astype(np.float32)
    stock = rng.integers(0, 2**31 - 1, items)
    item_table = pa.table({"sku": pa.array(numbers, pa.int32()), "price": price, "stock": pa.array(stock, pa.int64()), "cat": pa.array(stock % 4, pa.int8())})
    who, what = rng.integers(0, users, buys), rng.integers(0, items, buys)
    who[: buys // 5], what[: buys // 5] = 3, 4  # parallel ones
    amount = rng.random(buys).astype(np.float32)
    at = EPOCH + rng.integers(0, 40, buys)
    note = rng.normal(size=(buys, 2)).astype(np.float32)
    note[0] = [np.nan, -0.0]
    buy_table = pa.table(
        {
            "user": [names[i] for i in who],
            "item": pa.array([numbers[i] for i in what], pa.int16()),
            "amount": amount,
            "at": pa.array(at * 1000 + 999, pa.timestamp("ms", "Europe/Berlin")),
            "note": pa.array([list(row) for row in note], pa.list_(pa.float32(), 2)),
        }
    )
    one, other = rng.integers(0, users, 80), rng.integers(0, users, 80)
    other[:5] = one[:5]  # loops
    friend_table = pa.table({"a": [names[i] for i in one], "b": [names[i] for i in other]})
    classes = np.array([-1 if one is None else SEGMENTS.index(one) for one in label], np.int64)
    folds = {"train": {names[i] for i in range(users) if i % 2}, "valid": {names[i] for i in range(users) if not i % 2}}
    nodes = {
        "user": NodeTable(names, {"x": x32, "y": classes, "joined": joined // 10**6, "vip": np.arange(users) % 2 == 1}, folds),
        "item": NodeTable(numbers, {"x": np.stack([price, stock.astype(np.float32)], 1), "cat": (stock % 4).astype(np.int8)}),
    }
    bought = EdgeTable("user", "buys", "item", [names[i] for i in who], [numbers[i] for i in what], {"amount": amount, "at": at, "note": _one_nan(note)}, ("at", "joined"))
    loops = one == other
    both = EdgeTable("user", "knows", "user", [names[i] for i in (*one, *other[~loops])], [names[i] for i in (*other, *one[~loops])])
    return Shop(user_table, item_table, buy_table, friend_table, nodes, [bought, bought.other_way("bought_by", ("at",)), both])


def _quiet(x: Any) -> Any:
    with np.errstate(over="ignore"):
        return x.astype(np.float32)


def _one_nan(values: Any) -> Any:
    out = values.copy()
    out.view(np.uint32)[np.isnan(values)] = 0x7FC00000
    return out


DESCRIPTION: dict[str, Any] = {
    "name": "shop",
    "nodes": [
        {"name": "user", "table": "users", "key": "user id", "features": "vec", "label": "segment", "times": ["joined"], "attrs": ["vip"], "split": "fold"},
        {"name": "item", "table": "items", "key": "sku", "features": ["price", "stock"], "attrs": ["cat"]},
    ],
    "edges": [
        {"src": "user", "rel": "buys", "dst": "item", "table": "buys", "src_key": "user", "dst_key": "item",
         "weight": {"name": "amount", "column": "amount"}, "time": {"name": "at", "column": "at"}, "times": ["joined"],
         "attrs": ["note"]},
        {"src": "item", "rel": "bought_by", "dst": "user", "rev_of": "buys"},
        {"src": "user", "rel": "knows", "dst": "user", "table": "friends", "src_key": "a", "dst_key": "b", "undirected": True},
    ],
}  # fmt: skip


def write_shop(shop: Shop, folder: Path, order: int | None = None, files: int = 1) -> Path:
    """The tables as folders of Parquet files, in an order of their own, and the description; gives its path."""
    for name in ("users", "items", "buys", "friends"):
        write_table(getattr(shop, name), folder / name, order, files)
    path = folder / "shop.json"
    path.write_text(json.dumps(DESCRIPTION))
    return path


def write_table(table: pa.Table, folder: Path, order: int | None = None, files: int = 1) -> None:
    """A folder of Parquet files; rows are shuffled where an order is given."""
    folder.mkdir(parents=True, exist_ok=True)
    if order is not None:
        table = table.take(np.random.default_rng(order).permutation(len(table)))
    cuts = np.linspace(0, len(table), files + 1).astype(int)
    for i, (begin, end) in enumerate(zip(cuts, cuts[1:])):
        pa.parquet.write_table(table.slice(begin, end - begin), folder / f"part-{(i * 7 + (order or 0)) % 100:02}.parquet", row_group_size=max(1, 37 + (order or 0)))


def write_csv(columns: dict[str, Sequence[Any]], path: Path) -> Path:
    """A CSV file."""
    pa.csv.write_csv(pa.table(columns), path)
    return path
