"""What an import asks of a cluster. :mod:`hopfeed.spark` and :mod:`hopfeed.ray` are two that have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

Item = TypeVar("Item")
Result = TypeVar("Result")
Frame = Any  # a table of the cluster's own: rows in no order
Read = Callable[[Any], "Iterator[pa.RecordBatch]"]  # an item -> its rows
Take = Callable[[int, "Iterator[pa.RecordBatch]"], Any]  # the number of a range or group, and its rows in order -> what is told of them


class Cluster(Protocol):
    """An engine with workers. Whatever it is given runs on them, and may run twice: a task is tried again where a worker died, and a
    first try may still go on meanwhile.

    Columns are int64, string or binary. Names of columns are letters, digits and ``_``. Strings are in the order of their
    UTF-8 bytes, numbers by value; no column that is sorted or joined by has nulls.

    What a task raises of hopfeed's errors is raised here, with its line; whatever else goes wrong is an
    :class:`~hopfeed.errors.Error` of one line too.

    Attributes:
        name: for people: ``Spark``.
        slots: tasks that run at a time, about.
    """

    name: str
    slots: int

    def tasks(self, items: Sequence[Item], task: Callable[[Item], Result]) -> list[Result]:
        """One task for each item; what they give is small and comes back in the order of the items."""

    def rows(self, items: Sequence[Any], read: Read, schema: pa.Schema) -> Frame:
        """A table of the rows that ``read`` gives for each item; one task an item, whenever the rows are needed."""

    def union(self, frames: Sequence[Frame]) -> Frame:
        """The rows of all; they have the same columns."""

    def select(self, frame: Frame, columns: Sequence[str]) -> Frame:
        """The same rows with these columns alone: what is moved between machines is what is used."""

    def join(self, left: Frame, right: Frame, on: str, how: str = "inner") -> Frame:
        """``inner`` or ``left``; ``on`` is a column of both, which comes once, and other columns have different names. In
        ``right`` each value of ``on`` is there once. Of a row without a partner (``left``), the columns of ``right`` are null."""

    def sums(self, frame: Frame, by: Sequence[str], columns: Sequence[str]) -> Frame:
        """A row for each set of values of ``by``, with the sums of these int64 columns."""

    def kept(self, frame: Frame) -> Frame:
        """The same table, whose rows are made once though it is used several times."""

    def let_go(self, frame: Frame) -> None:
        """Ends what :meth:`kept` began."""

    def ranges(self, frame: Frame, by: Sequence[str], within: Sequence[str], take: Take) -> list[Any]:
        """Sorts all rows by ``by`` (int64 or string columns, rising) and tells them into ranges, for each of which a task
        calls ``take`` with the range's number and its rows, in the order of ``by`` and, where that is equal, of ``within``.
        Rows whose ``by`` is equal are in one range. What ``take`` gives comes back in the order of ranges; there may be ranges
        without rows."""

    def groups(self, frame: Frame, by: str, count: int, within: Sequence[str], take: Take) -> list[Any]:
        """For each number from 0 to ``count - 1`` a task calls ``take`` with it and the rows whose int64 column ``by`` is that
        number, in the order of ``within``; also where there are no rows. They need not fit into memory."""
