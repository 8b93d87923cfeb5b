"""hopfeed-partition's commands as functions: arguments are the program's options, results are its JSON reports."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Union

from hopfeed.errors import Error, InvalidError
from hopfeed.folders import TemporaryFolder
from hopfeed.programs import program
from hopfeed.switches import refuse_switches

PathLike = Union[str, "os.PathLike[str]"]

_REFUSED = 2  # exit code: input that cannot be served
_PERCENT = re.compile(rb"^(.*?) *\[[# ]*\] *(\d+)%")


def run(command: Sequence[object], *, progress: bool | None = None, **options: Any) -> dict[str, Any]:
    """Runs ``hopfeed-partition COMMAND --json FILE`` and gives the report.

    Args:
        command: the words of the command: ``["import", "numpy", folder]``.
        progress: show the program's progress bars; by default where stderr is a terminal or a notebook.
        options: ``edge_index=path`` is ``--edge-index path``; True is a flag; a list gives the option several times;
            False and None leave it out.

    Raises:
        InvalidError: what was given cannot be served; Error: anything else. The message is the program's own line.
    """
    refuse_switches(options)
    with TemporaryFolder() as scratch:
        report = scratch / "report.json"
        words = [program("hopfeed-partition"), *map(str, command), *_options(options), "--json", str(report)]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            last = _follow(process.stderr, _shows_progress() if progress is None else progress)
        code = process.returncode
        told: dict[str, Any] = json.loads(report.read_text()) if report.exists() else {}
    if code != 0:
        kind = InvalidError if code == _REFUSED else Error
        raise kind(last or f"hopfeed-partition ended with {code}")
    return told


def generate(
    folder: PathLike, *, nodes: int, edges: int, features: int = 16, classes: int = 8, seed: int = 0, **options: Any
) -> dict[str, Any]:
    """Makes up a graph: power-law degrees, planted classes, features with some signal."""
    return run(["generate", folder], nodes=nodes, edges=edges, features=features, classes=classes, seed=seed, **options)


def import_numpy(folder: PathLike, **options: Any) -> dict[str, Any]:
    """Makes a dataset from ``.npy`` files: ``edge_index=``, ``features=``, ``labels=``, ``train=`` ..., or ``hetero=``
    (a JSON file that docs/importing.md explains)."""
    return run(["import", "numpy", folder], **options)


def partition(source: PathLike, folder: PathLike, *, parts: int, **options: Any) -> dict[str, Any]:
    """Cuts a dataset into partitions; batches stay the same whatever the cut."""
    return run(["partition", source, folder], parts=parts, **options)


def tune(dataset: PathLike, **options: Any) -> dict[str, Any]:
    """Says what holding the hottest rows of features where batches are used would bring, and how many to hold."""
    return run(["tune", dataset], **options)


def inspect(dataset: PathLike, **options: Any) -> dict[str, Any]:
    """What a dataset holds."""
    return run(["inspect", dataset], **options)


def _options(options: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                words += [flag, str(one)]
    return words


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules


def _shows_progress() -> bool:
    return _in_notebook() or sys.stderr.isatty()


@contextmanager
def shown_progress(progress: bool | None) -> Iterator[Callable[[str, int], None] | None]:
    """What shows a step and its per cent as a bar on stderr, or None: by default where that is a terminal or a notebook."""
    if not (_shows_progress() if progress is None else progress):
        yield None
        return

    def show(step: str, percent: int) -> None:
        print(f"\r{step:<32} [{'#' * (percent // 5):<20}] {percent:3}%", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        print(file=sys.stderr)


def _follow(stream: Any, show: bool) -> str:
    """Reads to the end; shows the bars as they move. The last line that is no bar is the error, if there is one."""
    last, rest = "", b""
    while chunk := os.read(stream.fileno(), 1 << 16):
        *lines, rest = re.split(rb"[\r\n]", rest + chunk)
        for line in lines:
            text = line.decode(errors="replace").strip()
            if _PERCENT.match(line):
                if show:
                    print("\r" + text, end="", file=sys.stderr, flush=True)
            elif text:
                last = text
    if rest.strip():
        last = rest.decode(errors="replace").strip()
    if show:
        print(file=sys.stderr)
    return last.removeprefix("hopfeed-partition: ")
