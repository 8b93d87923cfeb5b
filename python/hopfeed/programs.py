"""Where the package's programs are: hopfeed-worker, hopfeed-partition, hopfeed-sample, hopfeed-server, hopfeed-top."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from hopfeed.errors import NotFoundError


def program(name: str) -> str:
    """The path of a program: in the folder ``HOPFEED_BIN``, else in the package, else on ``PATH``.

    Raises:
        NotFoundError: it is in none of them.
    """
    folders = [os.environ.get("HOPFEED_BIN"), str(Path(__file__).parent / "bin")]
    for folder in folders:
        if folder and os.access(path := os.path.join(folder, name), os.X_OK):
            return path
    found = shutil.which(name)
    if found is None or Path(found).resolve() == Path(sys.argv[0]).resolve():  # the command that calls this
        raise NotFoundError(f"{name} is neither in {folders[1]} nor on PATH; install hopfeed again, or set HOPFEED_BIN")
    return found


def _run(name: str) -> None:
    os.execv(program(name), [name, *sys.argv[1:]])


def partition_main() -> None:
    """The command ``hopfeed-partition`` of an installed package; tables are imported in this process."""
    from hopfeed.tables.__main__ import IMPORTS, main

    if sys.argv[1:2] == ["import"] and sys.argv[2:3] and sys.argv[2] in IMPORTS:
        sys.exit(main(sys.argv[2:]))
    _run("hopfeed-partition")


def sample_main() -> None:
    """The command ``hopfeed-sample`` of an installed package."""
    _run("hopfeed-sample")


def server_main() -> None:
    """The command ``hopfeed-server`` of an installed package."""
    _run("hopfeed-server")


def top_main() -> None:
    """The command ``hopfeed-top`` of an installed package."""
    _run("hopfeed-top")
