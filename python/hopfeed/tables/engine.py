"""DuckDB, as an import has it: within its memory, in UTC, with its spill folder; errors are one line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopfeed.errors import CorruptError, Error, InputOutputError, InvalidError, NoSpaceError
from hopfeed.tables import sql

if TYPE_CHECKING:
    import pyarrow

BEYOND = 300 << 20  # what DuckDB takes beyond its limit
OURS = 256 << 20  # Python, Arrow's batches and the rows of a shard
LEAST_MEMORY = 1 << 30
_ROW_GROUP, _GROUP_BYTES = 122_880, 16 << 20  # rows that are written together, and their bytes
_QUIET = "SET enable_progress_bar = false"  # which a connection has of its own


def require_packages() -> None:
    """Raises ``InvalidError``: what the extra brings is not there."""
    for package in ("duckdb", "pyarrow"):
        try:
            __import__(package)
        except ImportError:
            raise InvalidError(f"tables need the package {package}: pip install 'hopfeed[tables]'") from None


def machine_memory() -> int:
    """Bytes of this machine, or of the memory cgroup of this process, of either version, where that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return total
    for _, controllers, below in lines:
        if controllers == "":
            total = _least(total, "/sys/fs/cgroup", below, "memory.max")
        elif "memory" in controllers.split(","):
            total = _least(total, "/sys/fs/cgroup/memory", below, "memory.limit_in_bytes")
    return total


def memory_available() -> int:
    """Bytes that are free at the moment, or would be if files were not kept in memory; no more than ``machine_memory()``."""
    try:
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return min(machine_memory(), int(fields["MemAvailable"].split()[0]) << 10)
    except (OSError, ValueError, KeyError):
        return machine_memory()


def _least(total: int, root: str, below: str, name: str) -> int:
    """The least of ``total`` and the limits of a cgroup and of those that it is in."""
    while True:
        try:
            total = min(total, int(Path(f"{root}{below}/{name}").read_text()))
        except (OSError, ValueError):
            pass  # no limit, or none that this process may see
        if below in ("", "/"):
            return total
        below = os.path.dirname(below).rstrip("/")


class Engine:
    """One database in memory.

    Attributes:
        threads: of DuckDB.

    Args:
        memory: bytes that the process may take.
        threads: of DuckDB; no result depends on them.
        spill: a folder for what does not fit.

    Raises:
        InvalidError: too little memory.
    """

    def __init__(self, memory: int, threads: int, spill: Path) -> None:
        import duckdb

        if memory < LEAST_MEMORY:
            raise InvalidError(f"the memory is {memory >> 20} MB; an import of tables needs {LEAST_MEMORY >> 20} MB at least")
        self._memory, self.threads = memory, threads
        spill.mkdir(parents=True, exist_ok=True)
        settings = {"threads": threads, "temp_directory": str(spill), "memory_limit": f"{self._limit(0)}B"}
        self._connection = duckdb.connect(":memory:", config=settings)
        self._tables = dict[str, object]()
        for setting in ("TimeZone = 'UTC'", "arrow_lossless_conversion = true"):
            self._connection.execute(f"SET GLOBAL {setting}")
        self._connection.execute(_QUIET)

    def _limit(self, arrays: int) -> int:
        return max(self._memory - BEYOND - OURS - arrays, self._memory // 4)

    @property
    def memory_left(self) -> int:
        """Bytes that this process leaves of its memory to others at the moment."""
        return max(self._memory - int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"), 0)

    @property
    def memory(self) -> int:
        """Bytes that this process may take."""
        return self._memory

    @property
    def piece(self) -> int:
        """Bytes of a table's files that are joined at a time."""
        return self._memory

    @property
    def row_memory(self) -> int:
        """Bytes that the edges of one node may take while they are written."""
        return self._memory // 4

    def leave_room(self, arrays: int) -> None:
        """Lets our own arrays of so many bytes have their place."""
        self._connection.execute(f"SET memory_limit = '{self._limit(arrays)}B'")

    def close(self) -> None:
        self._connection.close()

    def register(self, name: str, table: object) -> None:
        """Gives a table of Python's a name."""
        self._tables[name] = table
        self._connection.register(name, table)

    def unregister(self, name: str) -> None:
        del self._tables[name]
        self._connection.unregister(name)

    def run(self, query: str, *, of: str = "") -> list[tuple[Any, ...]]:
        """The rows of a short answer. ``of`` begins the line of an error."""
        with errors_as_lines(of):
            return self._connection.execute(query).fetchall()

    def one(self, query: str, *, of: str = "") -> tuple[Any, ...]:
        """The one row of an answer."""
        return self.run(query, of=of)[0]

    def types(self, relation: str, *, of: str = "") -> dict[str, str]:
        """Columns of a table, and DuckDB's names of their types, in order."""
        return {row[0]: row[1] for row in self.run(f"DESCRIBE SELECT * FROM {relation}", of=of)}

    def write(self, query: str, path: Path, *, ordered: bool, of: str = "", row_bytes: int = 0) -> None:
        """Writes what a query gives as Parquet; ordered: in the order of the query. ``row_bytes``: of wide rows, so that fewer
        of them are in memory together."""
        group = max(2048, min(_ROW_GROUP, _GROUP_BYTES // max(row_bytes, 1)))
        self._connection.execute(f"SET preserve_insertion_order = {'true' if ordered else 'false'}")
        self.run(f"COPY ({query}) TO {sql.text(str(path))} (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE {group})", of=of)
        self._connection.execute("SET preserve_insertion_order = true")

    def stream(self, query: str, *, of: str = "", rows: int = 0) -> pyarrow.RecordBatchReader:
        """What a query gives, batch by batch, in its order. ``rows``: of a batch, about; without, DuckDB decides."""
        import pyarrow

        with errors_as_lines(of):
            connection = self._connection.cursor()  # others go on while it is read
            connection.execute(_QUIET)
            for name, table in self._tables.items():
                connection.register(name, table)
            found = connection.sql(query)
            if rows:
                return found.to_arrow_reader(rows) if hasattr(found, "to_arrow_reader") else found.fetch_arrow_reader(rows)
            return pyarrow.RecordBatchReader.from_stream(found)

    def numbers(self, query: str, *, of: str = "") -> Iterator[Sequence[Any]]:
        """The columns of a query as NumPy arrays, batch by batch."""
        for batch in self.batches(query, of=of):
            yield [column.to_numpy(zero_copy_only=False) for column in batch.columns]

    def batches(self, query: str, *, of: str = "") -> Iterator[pyarrow.RecordBatch]:
        """The batches of a query."""
        with errors_as_lines(of):
            yield from self.stream(query, of=of)


@contextmanager
def errors_as_lines(of: str = "") -> Iterator[None]:
    """DuckDB's and Arrow's errors as hopfeed's."""
    import duckdb
    import pyarrow

    try:
        yield
    except (duckdb.Error, pyarrow.ArrowException, OSError) as error:
        if isinstance(error, Error):
            raise
        raise _translated(error, of) from None


def _translated(error: Exception, of: str) -> Error:
    import duckdb
    import pyarrow

    text = str(error)
    line = _one_line(text)
    prefix = f"{of}: " if of else ""
    if re.search(r"No space left|max_temp_directory_size|failed to offload|ENOSPC", text, re.IGNORECASE):
        return NoSpaceError(f"{prefix}the disk is full ({line}); make room and run the same again, which goes on from here")
    if "Out of Memory" in text or isinstance(error, MemoryError):
        return NoSpaceError(f"{prefix}the memory does not suffice ({line}); give more with --memory, or run with fewer --threads")
    if re.search(r"GZIP stream|Unknown frame descriptor|corruption detected|doesn't match checksum", text, re.IGNORECASE):
        return CorruptError(f"{prefix}{line}; it is no whole file, get it again")
    if isinstance(error, (duckdb.IOException, OSError)) or re.search(r"AWS Error|HTTP Error|curlCode", text):
        return InputOutputError(f"{prefix}{line}; nothing was made, and the same command goes on when the tables can be read")
    if re.search(r"not valid UTF|invalid UTF|invalid unicode|not utf-?8 encoded|Invalid string encoding", text, re.IGNORECASE):
        return InvalidError(f"{prefix}{line}; texts have to be UTF-8: write the table again with another encoding")
    if isinstance(error, (duckdb.InvalidInputException, duckdb.ConversionException, pyarrow.ArrowInvalid)) or re.search(r"TProtocol|thrift|snappy|zstd", text):
        return CorruptError(f"{prefix}cannot be parsed: {line}; repair the file, or leave it out")
    return Error(f"{prefix}{line}")


def _one_line(text: str) -> str:
    """What an error says first, without the query and the hints that follow."""
    kept = []
    if inner := re.search(r'"exception_message":"((?:[^"\\]|\\.)*)"', text):
        return inner[1].replace('\\"', "'")
    for line in text.split("\n\nLINE ", 1)[0].splitlines():
        if line.strip().startswith(("Possible", "* ", "Candidate", "file = ", "The search space")):
            break
        kept.append(line.strip())
    path = re.search(r"^\s*file = (.*)$", text, re.MULTILINE)
    told = " ".join(filter(None, kept)) + (f" ({path[1]})" if path and path[1] not in " ".join(kept) else "")
    return re.sub(r"^(Invalid Input|IO|Conversion) Error: ", "", told)[:600].rstrip(".;: ")
