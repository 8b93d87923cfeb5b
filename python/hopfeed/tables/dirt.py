"""What is wrong in tables is told: how many rows of which kind, the first of them by its key, and what to do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopfeed.errors import InvalidError
from hopfeed.tables import sql
from hopfeed.tables.engine import Engine
from hopfeed.tables.stored import Check

if TYPE_CHECKING:
    from hopfeed.tables.job import Job
    from hopfeed.tables.plan import Columns


def shown(key: Any) -> str:
    """A key, as a line shows it."""
    text = repr(key) if isinstance(key, str) else str(key)
    return text if len(text) <= 80 else text[:77] + "..."


def counted(rows: int, what: str = "row") -> str:
    """``1 row``, ``1,234 rows``."""
    return f"{rows:,} {what}{'' if rows == 1 else 's'}"


@dataclass
class Rejected:
    """Where rows are kept that were left out, or that an import failed by; one JSON object a line.

    Attributes:
        path: of the file; None: they are not kept.
        folder: of what was kept so far, by this process or by one before it that was killed.
    """

    engine: Engine
    path: Path | None
    folder: Path

    def keep(self, kind: str, title: str, query: str) -> None:
        """Adds the rows of a query, which has their columns under the table's own names; once, however often it is told."""
        if self.path is None:
            return
        self.folder.mkdir(exist_ok=True)
        part = self.folder / f"{hashlib.blake2b(f'{kind}/{title}/{query}'.encode(), digest_size=16).hexdigest()}.json"
        self.engine.run(f"COPY ({as_json(kind, title, query)}) TO {sql.text(str(part))} (FORMAT json)")

    def finish(self) -> None:
        """Writes the file, empty where there is nothing to keep."""
        if self.path is None:
            return
        with open(self.path, "wb") as out:
            for part in sorted(self.folder.glob("*.json"), key=lambda part: (part.stat().st_mtime_ns, part.name)):
                with open(part, "rb") as rows:
                    while block := rows.read(1 << 20):
                        out.write(block)


@dataclass
class Told:
    """Counts of each kind of dirt and the lines that told of it.

    Attributes:
        say: is told lines that are no errors.
    """

    say: Callable[[str], None]
    counts: list[dict[str, Any]] = field(default_factory=list)

    def note(self, where: str, kind: str, rows: int, line: str) -> None:
        """A line that does not end the import."""
        self.counts.append({"where": where, "kind": kind, "rows": rows, "line": line})
        self.say(f"warning: {line}")


def counting(columns: Columns, checks: Sequence[Check], relation: str) -> str:
    """Query of a table's rows, of the values of each column, and of the rows that each check is for."""
    asked = ["count(*)", *(f"count({column})" for column in columns.inputs), *(f"count(*) FILTER (WHERE {check.condition})" for check in checks)]
    return f"SELECT {', '.join(asked)} FROM {relation}"


def check_line(check: Check, rows: int, first: Sequence[Any], where: str, title: str) -> str:
    """What is told of the rows that a check is for."""
    return f"{where}: {counted(rows)} of {title} {_agreed(check.what, rows)}; the first is {' -> '.join(map(shown, first))}"


def as_json(kind: str, title: str, query: str) -> str:
    """Query of the lines that :class:`Rejected` keeps of rows."""
    return f"SELECT {sql.text(kind)} AS kind, {sql.text(title)} AS \"table\", to_json(r) AS row FROM ({query}) AS r"


def check_rows(
    job: Job, relation: str, keys: Sequence[str], checks: Sequence[Check], columns: Columns, where: str, title: str, own_keys: str, shown_relation: str = ""
) -> dict[str, Any]:
    """Reads a table once: its rows, how many have each column, and what is wrong.

    Args:
        relation: the table in our queries.
        keys: its key columns there.
        own_keys: the same under the table's own names, in a SELECT.
        shown_relation: the table with its keys, where ``relation`` has none; slower.

    Returns:
        ``rows``, ``values`` (of each column) and ``warnings`` (kind, rows, line).

    Raises:
        InvalidError: for the first check that is no warning and that a row does not pass.
    """
    found = job.engine.one(counting(columns, checks, relation), of=f"{where}: {title}")
    counts, warnings = found[1 + len(columns.names) :], list[list[Any]]()
    shown_relation = shown_relation or relation
    for check, rows in zip(checks, counts):
        if not rows:
            continue
        of = f"FROM {shown_relation} WHERE {check.condition}"
        first = job.engine.one(f"SELECT {', '.join(keys)} {of} ORDER BY {', '.join(keys)} LIMIT 1")
        line = check_line(check, rows, first, where, title)
        if check.remedy:
            job.rejected.keep(check.kind, title, f"SELECT {own_keys}{columns.shown()} {of}")
            raise InvalidError(f"{line}; {check.remedy}")
        warnings.append([check.kind, rows, line])
    return {"rows": found[0], "values": list(found[1 : 1 + len(columns.names)]), "warnings": warnings}


def _agreed(what: str, rows: int) -> str:
    """``have`` of one row is ``has``."""
    return what.replace("have ", "has ", 1) if rows == 1 and what.startswith("have ") else what
