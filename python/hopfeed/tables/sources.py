"""The tables that a description names: which files they are, and how DuckDB reads them. The same rows have the same
columns and types in whatever files they lie and in whatever order."""

from __future__ import annotations

import csv
import glob
import gzip
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hopfeed.errors import CorruptError, Error, InvalidError, NotFoundError
from hopfeed.tables import sql
from hopfeed.tables.description import Table
from hopfeed.tables.engine import Engine, errors_as_lines
from hopfeed.tables.made import ROWS, Made
from hopfeed.tables.work import Work

_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".csv.zst")
_PARQUET = (".parquet", ".parq", ".pq")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "INT", "LONG", "SHORT")
_CODECS = {".gz": "gzip", ".zst": "zstd"}  # by the suffix, of Arrow
_PIECE = 1 << 20  # bytes
_INTEGERS = ("BIGINT", "HUGEINT", "UBIGINT", "INTEGER")


@dataclass(frozen=True)
class StoreFiles:
    """Files of an object store.

    Attributes:
        uri: of a file or folder there; it may have secrets.
        files: (path in the store, size).
        schema: of their columns, those that folders name too; ``whole``: of the table.
        folders: types of the columns that folders name.
    """

    uri: str
    format: str
    files: tuple[tuple[str, int], ...]
    schema: Any
    whole: Any
    folders: Any

    def parts(self, most: int) -> list[StoreFiles]:
        """The same in parts of about so many bytes."""
        found, bytes_ = list[list[tuple[str, int]]](), 0
        for file in self.files:
            if not found or bytes_ + file[1] > most:
                found, bytes_ = [*found, []], 0
            found[-1].append(file)
            bytes_ += file[1]
        return [replace(self, files=tuple(files)) for files in found]

    def opened(self) -> Any:
        """The files as a dataset of Arrow's, with the columns of the table."""
        import pyarrow.dataset as arrow_dataset
        import pyarrow.fs as arrow_fs

        store, inner = arrow_fs.FileSystem.from_uri(self.uri)
        folders = arrow_dataset.partitioning(self.folders, flavor="hive") if len(self.folders) else None
        paths = [path for path, _ in self.files]
        files = arrow_dataset.dataset(paths, schema=self.schema, filesystem=store, format=self.format, partitioning=folders, partition_base_dir=inner)
        return arrow_dataset.dataset([files], schema=self.whole)


@dataclass(frozen=True)
class Source:
    """A table that was found.

    Attributes:
        title: for people: as the description names it.
        relation: what stands behind FROM.
        columns: name -> DuckDB's type, in order.
        files: (path, size, time of the last change in ns), by path.
        stage: of a table that is made: name of the stage that makes it.
        made: and how.
        stores: where its files are in object stores, one for each path of the description.
    """

    title: str
    relation: str
    columns: dict[str, str]
    files: tuple[tuple[str, int, int], ...]
    stage: str = ""
    made: Made | None = None
    stores: tuple[StoreFiles, ...] = ()

    def groups(self, most: int) -> list[list[str]]:
        """The paths of the files, told into groups of about so many bytes."""
        groups, sizes = list[list[str]](), 0
        for path, size, _ in self.files:
            if not groups or sizes + size > most:
                groups, sizes = [*groups, []], 0
            groups[-1].append(path)
            sizes += size
        return groups

    def pieces(self, engine: Engine, most: int) -> list[str]:
        """The table as several that have these columns too, each of files of about so many bytes: what a join spills is then that
        of a piece. One where it cannot be told into such."""
        whole, groups = sql.paths(path for path, _, _ in self.files), self.groups(most)
        if len(groups) < 2 or self.made is not None or self.stores or whole not in self.relation:
            return [self.relation]
        found = [self.relation.replace(whole, sql.paths(group)) for group in groups]
        try:
            alike = all(engine.types(one) == self.columns for one in found)
        except Error:  # of CSV, a piece that lacks a column
            alike = False
        return found if alike else [self.relation]

    def column(self, name: str, where: str) -> str:
        """The type of a column.

        Raises:
            InvalidError: naming those that there are.
        """
        if name not in self.columns:
            raise InvalidError(f"{where}: {self.title} has no column '{name}'; it has: {', '.join(self.columns)}")
        return self.columns[name]


class Sources:
    """Tables that were opened, each once.

    Args:
        stages: where stages lie: folder of the tables that are made.
    """

    def __init__(self, engine: Engine, stages: Path | None = None) -> None:
        self._engine, self._stages, self._found = engine, stages, dict[Any, Source]()

    def open(self, table: Table, where: str) -> Source:
        """Finds the files and their columns.

        Raises:
            NotFoundError: there is none; InvalidError, CorruptError: it is no table.
        """
        key = repr(table)
        if key not in self._found:
            self._found[key] = self._open(table, where, len(self._found))
        return self._found[key]

    def check_unchanged(self) -> None:
        """Raises ``InvalidError`` where a file is another than when it was opened; a store's are not asked again."""
        for source in self._found.values():
            if "://" in source.title:
                continue
            for path, size, changed in source.files:
                now = os.stat(path) if os.path.exists(path) else None
                if now is None or (now.st_size, now.st_mtime_ns) != (size, changed):
                    raise InvalidError(f"{path} has changed while it was imported; run the same again, which begins anew")

    def make(self, work: Work) -> None:
        """Adds the stages of the tables that are made."""
        for source in self._found.values():
            if source.made is not None:
                made = source.made
                work.stage(source.stage, f"{made.where}: reading {made.title}", lambda folder, made=made: _written(self._engine, made, folder))

    def _open_made(self, made: Made, files: Sequence[str], number: int) -> Source:
        assert self._stages is not None
        stage = f"table-{number}"
        return Source(made.title, sql.parquet(self._stages / stage / ROWS), dict(made.columns), _stats(files), stage, made)

    def _open(self, table: Table, where: str, number: int) -> Source:
        if table.made is not None:
            return self._open_made(table.made, table.paths, number)
        title = ", ".join(map(_shown, table.paths))
        if any("://" in path for path in table.paths):
            return self._open_remote(table, title, f"{where}: {title}", number)
        files, hive = _files(table, where)
        kind = table.format or _format(files, f"{where}: {title}")
        if kind == "parquet":
            options = f"union_by_name = true, hive_partitioning = {'true' if hive else 'false'}"
            relation = f"read_parquet({sql.paths(files)}, {options})"
        else:
            _check_whole(files, where)
            relation = self._csv(table, files, hive, f"{where}: {title}")
        columns = self._engine.types(relation, of=f"{where}: {title}")
        if table.once:
            return self._open_made(_parsed(where, title, relation, columns), files, number)
        return Source(title, relation, columns, _stats(files))

    def _open_remote(self, table: Table, title: str, where: str, number: int) -> Source:
        """An object store's, through a dataset of Arrow's."""
        import pyarrow.dataset as arrow_dataset
        import pyarrow.fs as arrow_fs

        with errors_as_lines(where):
            parts, files, stores = [], [], list[StoreFiles]()
            for path in table.paths:
                store, inner = arrow_fs.FileSystem.from_uri(path)
                try:
                    part = arrow_dataset.dataset(inner, filesystem=store, format=table.format or "parquet", partitioning="hive")
                except FileNotFoundError:
                    raise NotFoundError(f"{where}: there is no table {_shown(path)}; a table in a store is a file or a folder") from None
                parts.append(part)
                found = store.get_file_info(part.files)
                files += [(info.path, info.size or 0, info.mtime_ns or 0) for info in found]
                files_of = tuple((info.path, info.size or 0) for info in found)
                stores.append(StoreFiles(path, table.format or "parquet", files_of, part.schema, None, part.partitioning.schema))
            whole = parts[0] if len(parts) == 1 else arrow_dataset.dataset(parts)
            name = f"source_{number}"
            self._engine.register(name, whole)
        return Source(title, name, self._engine.types(name, of=where), tuple(sorted(files)), stores=tuple(replace(one, whole=whole.schema) for one in stores))

    def _csv(self, table: Table, files: list[str], hive: bool, where: str) -> str:
        delimiter = table.delimiter or ("\t" if all(".tsv" in path.lower() for path in files) else ",")
        quote = sql.text('"' if table.quoted else "")
        told = {"delim": sql.text(delimiter), "quote": quote, "escape": quote, "header": "false" if table.header is False else "true", "skip": "0", "comment": sql.text(table.comment), "strict_mode": "true"}
        options = ", ".join(f"{name} = {value}" for name, value in told.items()) + f", hive_partitioning = {'true' if hive else 'false'}"
        if table.null:
            options += f", nullstr = {sql.texts(('', *table.null))}"
        if table.columns:
            return self._edge_list(table, files, options, where)
        types = self._csv_types(table, files, options, where)
        whole = {column: kind for column, kind in types.items() if column in table.types and kind.upper() in _WHOLE}
        kinds = ", ".join(f"{sql.text(column)}: {sql.text('VARCHAR' if column in whole else kind)}" for column, kind in types.items())
        relation = f"read_csv({sql.paths(files)}, {options}, union_by_name = true, types = {{{kinds}}})"
        made = ", ".join(f"{sql.whole_number(sql.name(column), kind)} AS {sql.name(column)}" for column, kind in whole.items())
        return f"(SELECT * REPLACE ({made}) FROM {relation})" if whole else relation

    def _edge_list(self, table: Table, files: list[str], options: str, where: str) -> str:
        """Columns with names, of which ``src`` and ``dst`` are keys of the same nodes: whole numbers where all of them are such as int64
        holds and writes, else texts as they are, without spaces around."""
        self._check_comments(table, files, where)
        texts = ", ".join(f"{sql.text(column)}: 'VARCHAR'" for column in table.columns)
        whole = " AND ".join(f"CAST(TRY_CAST(trim({end}) AS BIGINT) AS VARCHAR) IS NOT DISTINCT FROM trim({end})" for end in ("src", "dst"))
        numbers = self._engine.one(f"SELECT bool_and({whole}) FROM read_csv({sql.paths(files)}, {options}, auto_detect = false, columns = {{{texts}}})", of=where)[0]
        types = self._named_types(table, files, options, where) | {"src": "VARCHAR", "dst": "VARCHAR"}
        kinds = ", ".join(f"{sql.text(column)}: {sql.text(kind)}" for column, kind in types.items())
        ends = ", ".join(f"CAST(trim({end}) AS {'VARCHAR' if numbers is False else 'BIGINT'}) AS {end}" for end in ("src", "dst"))
        return f"(SELECT * REPLACE ({ends}) FROM read_csv({sql.paths(files)}, {options}, auto_detect = false, columns = {{{kinds}}}))"

    def _check_comments(self, table: Table, files: list[str], where: str) -> None:
        """DuckDB ends a line at the sign of a comment, wherever it is."""
        if not table.comment:
            return
        lines = f"read_csv({sql.paths(files)}, delim = '\x1f', quote = '', escape = '', header = false, comment = '', auto_detect = false, columns = {{'line': 'VARCHAR'}})"
        sign = sql.text(table.comment)
        if found := self._engine.run(f"SELECT line FROM {lines} WHERE contains(line, {sign}) AND NOT starts_with(line, {sign}) LIMIT 1", of=where):
            raise InvalidError(f"{where}: the line {found[0][0][:60]!r} has '{table.comment}' inside, which begins comments; say --comment '' or another sign")

    def _csv_types(self, table: Table, files: list[str], options: str, where: str) -> dict[str, str]:
        """Of each column the type that all values of all files have; what the description says goes first."""
        types, absent = dict[str, str](), set[str]()
        for path in files:
            try:
                names = self._engine.types(f"read_csv({sql.paths([path])}, {options}, all_varchar = true)", of=where)
            except CorruptError:
                self._tell_line(path, options, table.delimiter, where)
                raise
            told = {name: kind for name, kind in table.types.items() if name in names}
            given = ", ".join(f"{sql.text(name)}: {sql.text(kind)}" for name, kind in told.items())
            found = self._engine.types(f"read_csv({sql.paths([path])}, {options}, sample_size = -1{f', types = {{{given}}}' if told else ''})", of=where)
            for name, kind in found.items():
                if kind == "VARCHAR" and name not in table.types and not self._has_values(path, name, options, where):
                    absent.add(name)  # which says nothing of its type
                    continue
                types[name] = table.types.get(name) or _wider(types.get(name, kind), kind)
        types |= {name: "VARCHAR" for name in absent if name not in types}
        if missing := [name for name in table.types if name not in types]:
            raise InvalidError(f"{where}: 'types' names a column '{missing[0]}' that is not there; there are: {', '.join(types)}")
        return types

    def _has_values(self, path: str, column: str, options: str, where: str) -> bool:
        query = f"SELECT 1 FROM read_csv({sql.paths([path])}, {options}, all_varchar = true) WHERE {sql.name(column)} IS NOT NULL LIMIT 1"
        return bool(self._engine.run(query, of=where))

    def _named_types(self, table: Table, files: list[str], options: str, where: str) -> dict[str, str]:
        """The same where columns have names; those without a type are read for it."""
        types = dict(table.columns)
        if all(types.values()):
            return types
        told = ", ".join(f"{sql.text(name)}: {sql.text(kind)}" for name, kind in types.items() if kind)
        for path in files:
            found = self._engine.types(f"read_csv({sql.paths([path])}, {options}, names = {sql.texts(types)}, types = {{{told}}}, sample_size = -1)", of=where)
            for name, kind in found.items():
                types[name] = table.columns[name] or _wider(types[name] or kind, kind)
        return types

    def _tell_line(self, path: str, options: str, delimiter: str | None, where: str) -> None:
        """Reads a file that cannot be parsed with as many columns as its first line has, which raises with the line that has not."""
        reader = gzip.open if path.endswith(".gz") else open
        with reader(path, "rt", encoding="utf-8", errors="replace", newline="") as lines:
            first = next(csv.reader(lines, delimiter=delimiter or ("\t" if ".tsv" in path else ",")), [])
        columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(first)))
        if columns:
            self._engine.run(f"SELECT count(COLUMNS(*)) FROM read_csv({sql.paths([path])}, {options}, auto_detect = false, columns = {{{columns}}})", of=where)


def _check_whole(files: Sequence[str], where: str) -> None:
    """Reads compressed files to their end, whose checksums DuckDB does not look at: of some that are cut off it takes what there is.

    Raises:
        CorruptError: naming one that is damaged.
    """

    def check(path: str) -> None:
        import pyarrow

        try:
            with pyarrow.CompressedInputStream(path, _CODECS[Path(path).suffix]) as stream:
                while stream.read(_PIECE):
                    pass
        except OSError as error:
            if error.errno is not None:  # of the disk
                raise
            raise CorruptError(f"{where}: {path} is no whole file ({error}); get it again") from None

    compressed = [path for path in files if Path(path).suffix in _CODECS]
    with errors_as_lines(where), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as threads:
        list(threads.map(check, compressed))


def _parsed(where: str, title: str, relation: str, columns: dict[str, str]) -> Made:
    """The same table, to be read many times."""

    def rows(engine: Engine) -> int:
        return int(engine.one(f"SELECT count(*) FROM {relation}", of=f"{where}: {title}")[0])

    def write(engine: Engine, folder: Path) -> None:
        engine.write(f"SELECT * FROM {relation}", folder / ROWS, ordered=False, of=f"{where}: {title}")

    return Made(where, title, columns, (relation,), rows, write)


def _written(engine: Engine, made: Made, folder: Path) -> dict[str, Any]:
    made.write(engine, folder)
    return {}


def _stats(files: Sequence[str]) -> tuple[tuple[str, int, int], ...]:
    stats = [(path, os.stat(path)) for path in sorted(set(files))]
    return tuple((path, stat.st_size, stat.st_mtime_ns) for path, stat in stats)


def _shown(path: str) -> str:
    """A path without what may be secret: a name and a password, options of a store."""
    return re.sub(r"://[^/@]*@", "://", path).partition("?")[0] if "://" in path else path


def _wider(one: str, other: str) -> str:
    """A type that holds the values of both."""
    if one == other:
        return one
    if one in _INTEGERS and other in _INTEGERS:
        return "HUGEINT" if "HUGEINT" in (one, other) else "BIGINT"
    if {one, other} <= {*_INTEGERS, "DOUBLE"}:
        return "DOUBLE"
    if {one, other} == {"DATE", "TIMESTAMP"}:
        return "TIMESTAMP"
    return "VARCHAR"


def _files(table: Table, where: str) -> tuple[list[str], bool]:
    """The files in order, and whether folders of theirs are columns (``day=2026-11-28``)."""
    files, hive = list[str](), False
    for path in table.paths:
        if os.path.isdir(path):
            inner = [str(one) for one in Path(path).rglob("*") if one.is_file() and not _hidden(one.relative_to(path))]
            hive = hive or any("=" in part for one in inner for part in Path(one).relative_to(path).parts[:-1])
        elif os.path.isfile(path):
            inner = [path]
        else:
            inner = [one for one in glob.glob(path, recursive=True) if os.path.isfile(one)]
        if not inner:
            raise NotFoundError(f"{where}: there is no table {path}; a table is a file, a glob or a folder")
        files += inner
    return sorted(set(files)), hive


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _format(files: list[str], where: str) -> str:
    kinds = {"parquet" if path.lower().endswith(_PARQUET) else "csv" if path.lower().endswith(_CSV) else "" for path in files}
    if len(kinds) > 1 or "" in kinds:
        raise InvalidError(f'{where}: whether these are Parquet or CSV their names do not tell; say "format": "parquet" or "csv"')
    return kinds.pop()
