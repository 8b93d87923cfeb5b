"""Names and values as SQL has them, whatever a user called them."""

from __future__ import annotations

import re
from collections.abc import Iterable


def name(text: str) -> str:
    """A column or table, in double quotes."""
    return '"' + text.replace('"', '""') + '"'


def text(value: str) -> str:
    """A string, in single quotes."""
    return "'" + value.replace("'", "''") + "'"


def texts(values: Iterable[str]) -> str:
    """A list of strings."""
    return "[" + ", ".join(text(value) for value in values) + "]"


def paths(files: Iterable[str]) -> str:
    """A list of files, none of them a glob: ``*``, ``?`` and ``[`` are of their names."""
    return texts(re.sub(r"([*?\[])", r"[\1]", path) for path in files)


def whole_number(column: str, kind: str = "BIGINT") -> str:
    """A column of texts as a type of whole numbers; one that is no whole number is an error, where a cast would round it."""
    is_one = f"{column} IS NULL OR regexp_full_match({column}, ' *[+-]?[0-9]+ *')"
    return f"CASE WHEN {is_one} THEN CAST({column} AS {kind}) ELSE error(concat({column}, ' is no whole number')) END"


def parquets(paths_: Iterable[object]) -> str:
    """Parquet files of ours, of the same columns, as one table."""
    return f"read_parquet({paths(map(str, paths_))}, hive_partitioning = false)"


def parquet(path: object, *, numbered: bool = False) -> str:
    """A Parquet file of ours as a table; numbered: with the column ``file_row_number``."""
    return f"read_parquet({paths([str(path)])}, hive_partitioning = false{', file_row_number = true' if numbered else ''})"
