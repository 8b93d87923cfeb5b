"""The dataset that a run is on, as its folder on this machine says."""

from __future__ import annotations

import errno
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from hopfeed.launch.errors import LaunchError

MAX_MANIFEST_BYTES = 64 << 20
PARTITION = re.compile(r"part-([0-9]{4,})(?:/|$)")  # begins the path of a file of a partition


@dataclass(frozen=True)
class Cut:
    """A dataset in partitions.

    Attributes:
        folder: its folder here, absolute.
        sha256: of its manifest: another folder with the same one has the same dataset, cut in the same way.
        bytes_of: each partition, and behind them what every host needs.
    """

    folder: str
    partitions: int
    sha256: str
    bytes_of: tuple[int, ...] = ()


def manifest_of(folder: Path) -> bytes:
    """The bytes of a folder's manifest.

    Raises:
        OSError: it has none that can be read, or one of more than ``MAX_MANIFEST_BYTES``.
    """
    path = folder / "meta.json"
    with path.open("rb") as file:
        text = file.read(MAX_MANIFEST_BYTES + 1)
    if len(text) > MAX_MANIFEST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MAX_MANIFEST_BYTES} bytes", str(path))
    return text


def read_cut(folder: str) -> Cut:
    """What a dataset's folder holds.

    Raises:
        LaunchError: it is no dataset.
    """
    try:
        text = manifest_of(Path(folder))
    except OSError as error:
        raise LaunchError(f"--data: {folder} has no meta.json that can be read ({error.strerror}), so it is no hopfeed dataset") from error
    try:
        meta = json.loads(text)
        partitions = meta["partitions"]
        if not isinstance(partitions, int) or partitions < 1:
            raise ValueError
        bytes_of = [0] * (partitions + 1)
        for path, file in meta["files"].items():
            if path.startswith("keys/"):  # which push leaves out
                continue
            found = PARTITION.match(path)
            bytes_of[int(found[1]) if found else partitions] += file["bytes"]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise LaunchError(f"--data: {folder}/meta.json is damaged; hopfeed-partition verify {folder} says more") from error
    return Cut(str(Path(folder).absolute()), partitions, hashlib.sha256(text).hexdigest(), tuple(bytes_of))
