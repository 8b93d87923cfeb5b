"""What numbers of 32 bits hold of a partition: asked at the cut."""

from __future__ import annotations

from collections.abc import Sequence

from hopfeed.errors import UnsupportedError

MOST_ROWS = (1 << 32) - 1  # of a node type in a partition: machines ask each other for rows by 4 bytes


def require_enough_parts(where: str, count: int, parts: int) -> None:
    """Raises ``UnsupportedError`` where so many partitions of ``count`` nodes must have too many rows, naming how many it takes."""
    needed = -(-count // MOST_ROWS)
    if parts < needed:
        raise UnsupportedError(f"{where}: --parts is {parts}, and {count:,} nodes take {needed} at least: a partition numbers its rows by 4 bytes, so it has fewer than 2^32")


def require_rows_fit(where: str, offsets: Sequence[int]) -> None:
    """Raises ``UnsupportedError`` where a partition of a cut has too many rows. ``offsets``: where partitions begin, and the last ends."""
    for part, (begin, end) in enumerate(zip(offsets, offsets[1:])):
        if end - begin > MOST_ROWS:
            raise UnsupportedError(
                f"{where}: partition {part} would have {end - begin:,} nodes: its rows are numbered by 4 bytes, so it has fewer than 2^32;"
                f" give more --parts than {len(offsets) - 1}, or another --assign"
            )
