"""Tables that are none yet: a door to another system's folder (hopfeed.tables.doors) says what columns they will have, and a
stage makes them, by blocks of rows, before anything reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hopfeed.tables.engine import Engine

ROWS = "rows.parquet"  # in the folder of the stage
PAIRS, LABELS = "pairs.npy", "labels.npy"  # likewise, of links


@dataclass(frozen=True)
class Made:
    """How a table is made. Two that look the same as text are the same table.

    Attributes:
        where: of the type that it is the table of, for people.
        title: what it is made of, for people.
        columns: name -> DuckDB's type, in order.
        of: what each column is of.
        rows: how many there will be.
        write: writes ``ROWS`` into a folder.
    """

    where: str
    title: str
    columns: Mapping[str, str]
    of: tuple[str, ...]
    rows: Callable[[Engine], int] = field(repr=False, compare=False)
    write: Callable[[Engine, Path], None] = field(repr=False, compare=False)


@dataclass(frozen=True)
class MadeLinks:
    """A split of links that is in another system's files, by ids that are the dataset's.

    Attributes:
        files: that it is made of.
        rows: links.
        labelled: whether each has a label.
        write: writes ``PAIRS`` (int64, a source and a destination behind each other) and ``LABELS`` into a folder.
    """

    name: str
    files: tuple[str, ...]
    rows: int
    labelled: bool
    write: Callable[[Engine, Path], None] = field(repr=False, compare=False)
