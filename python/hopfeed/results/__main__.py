"""``python -m hopfeed.results``: results as Parquet. The C++ programs start it too, for ``--format parquet``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hopfeed.errors import Error, exit_code
from hopfeed.results.folder import Files
from hopfeed.results.parquet import is_possible, to_parquet

PROGRAM = "hopfeed.results"
_FAILED = 1  # exit code


def main(words: Sequence[str] | None = None) -> int:
    """Runs a command; gives its exit code."""
    given = _parser().parse_args(sys.argv[1:] if words is None else list(words))
    if not is_possible():
        print(f"{PROGRAM}: Parquet is written by the package pyarrow, and {sys.executable} has none: pip install 'hopfeed[tables]', or write npy", file=sys.stderr)
        return _FAILED
    try:
        if given.command == "to-parquet":
            _to_parquet(Path(given.folder), given.lines, given.json)
    except Error as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return exit_code(error)
    except OSError as error:
        print(f"{PROGRAM}: {error.filename or ''}: {error.strerror}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {PROGRAM}", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="whether Parquet can be written: exit code 0, or one line and 1")
    convert = commands.add_parser("to-parquet", help="rewrite a folder of results from npy as Parquet, shard by shard; goes on where it was killed")
    convert.add_argument("folder", metavar="DIR", help="of results, with its manifest.json")
    convert.add_argument("--json", metavar="FILE", help="write a report as JSON to this file")
    convert.add_argument("--lines", action="store_true", help="tell the rows that are done, and all, in a line for each shard: for programs")
    return parser


def _to_parquet(folder: Path, lines: bool, report: str | None) -> None:
    begin = time.monotonic()
    with _shown(lines) as advance:
        told = to_parquet(folder, advance)
    seconds = time.monotonic() - begin
    if told["rewritten"]:
        print(f"{folder}: {told['rows']:,} rows in {told['files']:,} Parquet files, {told['bytes'] / 1e6:,.1f} MB ({seconds:.1f} s)")
    else:
        print(f"{folder} is Parquet already")
    if report:
        Files(sync=False).json(Path(report), {**told, "seconds": seconds})


@contextmanager
def _shown(lines: bool) -> Iterator[Callable[[int, int], object]]:
    """A bar on a terminal, where the package tqdm is there."""
    if lines:
        yield lambda done, total: print(done, total, flush=True)
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda done, total: None
        return
    with tqdm(unit=" rows", unit_scale=True, desc="to-parquet", disable=None) as bar:

        def advance(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield advance


if __name__ == "__main__":
    sys.exit(main())
