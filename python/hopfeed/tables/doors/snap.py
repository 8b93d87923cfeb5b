"""Edge lists as SNAP has them: text with two ids in a line, with tabs, spaces or commas between, comments before, sparse ids.
What is in further columns is named by the user."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hopfeed.errors import CorruptError, InvalidError, NotFoundError
from hopfeed.tables.description import Attribute, Description, Edges, Nodes, Table
from hopfeed.tables.names import checked, checked_attribute

_SKIPPED = "-"
_ENDS = ("src", "dst")


@dataclass(frozen=True)
class _Look:
    """What the first lines of a file show."""

    delimiter: str
    width: int
    header: bool  # texts above numbers


def described(
    files: Sequence[Path],
    columns: Sequence[str] = _ENDS,
    comment: str = "#",
    undirected: bool = False,
    node: str = "node",
    rel: str = "to",
    name: str | None = None,
) -> Description:
    """The description of edge lists, which are one edge type. Nodes are the ends of edges.

    Args:
        columns: names of the columns: ``src`` and ``dst``, ``weight``, ``time``, others, and ``-`` for one that is left out.

    Raises:
        NotFoundError, InvalidError: a file is not there or no edge list.
    """
    if not files:
        raise InvalidError("give one file at least")
    if len(comment.encode()) > 1:
        raise InvalidError(f"--comment is '{comment}'; it is one character, or '' for none")
    ends = [list(columns).index(end) if end in columns else i for i, end in enumerate(_ENDS)]
    looks = {path: _look(path, comment, ends) for path in files}
    first = looks[files[0]]
    for path, look in looks.items():
        if look.width != first.width or look.delimiter != first.delimiter or look.header != first.header:
            raise InvalidError(f"{path} has {_shown(look)}, and {files[0]} has {_shown(first)}; import files that look the same")
    if len(columns) != first.width:
        raise InvalidError(f"{files[0]} has {_shown(first)}, and {len(columns)} are named; say --columns {_guess(first.width)} (- leaves one out)")
    named = _named(columns)
    table = Table(tuple(map(str, files)), "csv", delimiter=first.delimiter, header=first.header, columns=named, comment=comment, quoted=False, once=True)
    attributes = tuple(_attribute(one) for one in columns if one not in (*_ENDS, _SKIPPED))
    node, rel = checked(node, "--node", "node type"), checked(rel, "--rel", "type")
    times = tuple(one.name for one in attributes if one.role == "time")
    edges = Edges(node, rel, node, table, "src", "dst", attributes, times, None, undirected)
    return Description(name or files[0].name.partition(".")[0], (Nodes(node, None, ""),), (edges,), files[0].absolute().parent)


def _look(path: Path, comment: str, ends: Sequence[int]) -> _Look:
    lines = _first_lines(path, comment)
    if not lines:
        raise InvalidError(f"{path} has no line of an edge{f', but for comments ({comment})' if comment else ''}")
    delimiter = next((one for one in ("\t", ",", ";", " ") if one in lines[-1]), None)
    if delimiter is None:
        raise InvalidError(f"{path} has the line {lines[-1][:60]!r}, which is no source and destination with a tab, a space or a comma between")
    if delimiter == " " and any(re.search(r"\S {2,}\S|^ ", line) for line in lines):
        raise InvalidError(f"{path} has several spaces between columns, or before them; write one: sed 's/^ *//' {path} | tr -s ' '")
    fields = [[one.strip() for one in line.rstrip(" ").split(delimiter)] for line in lines]
    if len(fields[0]) != len(fields[-1]):
        between = {"\t": "a tab", " ": "a space"}.get(delimiter, f"'{delimiter}'")
        raise InvalidError(
            f"{path} has {len(fields[0])} columns in its first line and {len(fields[-1])} in the next, with {between} between; all lines "
            "have to have the same"
        )
    numbers = [all(end < len(line) and _is_number(line[end]) for end in ends) for line in fields]
    texts = not any(end < len(fields[0]) and _is_number(fields[0][end]) for end in ends)
    return _Look(delimiter, len(fields[-1]), len(fields) > 1 and texts and numbers[-1])


def _first_lines(path: Path, comment: str) -> list[str]:
    """The first two that are no comments."""
    found = list[str]()
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig", errors="replace", newline=None) as lines:
            while len(found) < 2 and (line := lines.readline(1 << 20)):
                if line.strip() and not (comment and line.startswith(comment)):
                    found.append(line.rstrip("\r\n"))
    except (FileNotFoundError, IsADirectoryError):
        raise NotFoundError(f"{path} is no file that is there") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise CorruptError(f"{path} is no whole file of gzip; get it again") from None
    return found


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+", text.strip('"')) is not None


def _named(columns: Sequence[str]) -> Mapping[str, str]:
    """Columns, and DuckDB's types of them; empty: by what is there."""
    for end in _ENDS:
        if list(columns).count(end) != 1:
            raise InvalidError(f"--columns {','.join(columns)}: '{end}' has to be there once")
    named = [one if one != _SKIPPED else f"-{i}" for i, one in enumerate(columns)]
    if len({one.lower() for one in named}) < len(named):
        raise InvalidError(f"--columns {','.join(columns)}: a name is there twice")
    return {one: "VARCHAR" if own == _SKIPPED else "" for one, own in zip(named, columns)}


def _attribute(column: str) -> Attribute:
    name = checked_attribute(column, "--columns")
    role = {"weight": "weight", "time": "time"}.get(column, "attr")
    return Attribute(name, (column,), role, "int64" if role == "time" else "")


def _shown(look: _Look) -> str:
    between = {"\t": "tabs", " ": "spaces"}.get(look.delimiter, f"'{look.delimiter}'")
    return f"{look.width} columns with {between} between{' and a header' if look.header else ''}"


def _guess(width: int) -> str:
    return ",".join([*_ENDS, *("-" for _ in range(width - 2))][:width])
