"""Where the package's programs are: hopfeed-worker, hopfeed-partition, hopfeed-server."""

from __future__ import annotations

import os
import shutil
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
    if found is None:
        raise NotFoundError(f"{name} is neither in {folders[1]} nor on PATH; install hopfeed again, or set HOPFEED_BIN")
    return found
