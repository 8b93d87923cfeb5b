"""What an import asks of a cluster (:mod:`hopfeed.tables.cluster.engine`), by DataFrames of Spark 4.1 or newer.

Rows come from ``range(n)`` in n partitions, so that a task has one item and there is no shuffle in front of it; tasks get and give
Arrow batches (``mapInArrow``). Rows of a range or group come through one shuffle with a number of partitions that we name, which
adaptive execution leaves alone (it is ``REPARTITION_BY_NUM`` to it): a partition is a range or group, and its number is the task's.
Results are rows too, of which Spark takes those of one try of each task.

All of it is done in a session of our own beside the user's, whose configuration nobody else sees."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from hopfeed.errors import Error, InvalidError
from hopfeed.tables.cluster.errors import marked, unmarked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from hopfeed.tables.cluster.engine import Read, Take

Item, Result = TypeVar("Item"), TypeVar("Result")

_BATCH_ROWS, _BATCH_BYTES = 1 << 16, 16 << 20  # of a batch that a task gives to Spark
_MOST_PARTITIONS = 10_000  # of a shuffle: each task before it and each behind it know of each other
_SETTINGS = {
    "spark.sql.adaptive.enabled": "true",  # joins by a hot key are split
    "spark.sql.autoBroadcastJoinThreshold": "-1",  # Spark takes our rows for as many as our items, and would send all of them everywhere
    "spark.sql.adaptive.autoBroadcastJoinThreshold": str(10 << 20),  # of sizes that were measured
    "spark.sql.ansi.enabled": "true",  # a sum that int64 does not hold is an error
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),  # of a batch that a task gets
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}


@dataclass(frozen=True)
class Table:
    """A frame.

    Attributes:
        data: its rows.
        pieces: items that they came from: as many tasks are not too many for them.
    """

    data: DataFrame
    pieces: int


class SparkCluster:
    """A Spark session as a ``Cluster``: classic, or Spark Connect to a server of 4.3 or newer.

    Args:
        spark: the session. Its workers need hopfeed; its own configuration is not touched.

    Raises:
        InvalidError: there is no pyspark, or one that is too old.
    """

    name = "Spark"

    def __init__(self, spark: SparkSession) -> None:
        try:
            from pyspark.sql import DataFrame, SparkSession
        except ImportError:
            raise InvalidError("an import by Spark needs the package pyspark: pip install 'hopfeed[spark]'") from None
        if not hasattr(DataFrame, "repartitionById"):
            raise InvalidError("an import by Spark needs Spark 4.1 or newer: pip install 'hopfeed[spark]'")
        if not hasattr(spark, "newSession"):
            raise InvalidError(f"spark is a {type(spark).__name__}, expected a pyspark.sql.SparkSession")
        self._classic, self._slots = isinstance(spark, SparkSession), 0
        with _errors_as_lines():
            self._spark = _own_session(spark)

    def close(self) -> None:
        """Gives our session back, which a server of Spark Connect would hold for hours, and a client ask for when it ends."""
        if not self._classic and not self._spark.client.is_closed:
            with suppress(Exception):  # the server has gone
                self._spark.client.release_session()
            self._spark.client.close()

    @property
    def slots(self) -> int:
        """Tasks that run at a time; more, where machines have come since."""
        with _errors_as_lines():
            if self._classic:
                return max(self._spark.sparkContext.defaultParallelism, 1)
            if not self._slots:
                from pyspark.sql import functions

                self._slots = max(self._spark.range(1 << 20).select(functions.spark_partition_id()).distinct().count(), 1)
            return self._slots

    def tasks(self, items: Sequence[Item], task: Callable[[Item], Result]) -> list[Result]:
        """See ``Cluster.tasks``."""
        if not items:
            return []
        with _errors_as_lines():
            found = _results(self._numbered(items, lambda number, item: iter([_result(number, task(item))]), "number long, result binary"))
        return [found[number] for number in range(len(items))]

    def rows(self, items: Sequence[Any], read: Read, schema: pa.Schema) -> Table:
        """See ``Cluster.rows``."""

        def rows_of(number: int, item: Any) -> Iterator[pa.RecordBatch]:
            for batch in read(item):
                yield from _for_spark(batch, schema)

        with _errors_as_lines():
            given = _spark_schema(schema)
            data = self._numbered(items, rows_of, given) if items else self._spark.createDataFrame([], given)
        return Table(data, len(items))

    def union(self, frames: Sequence[Table]) -> Table:
        """See ``Cluster.union``."""
        whole = frames[0].data
        for frame in frames[1:]:
            whole = whole.unionByName(frame.data)
        return Table(whole, sum(frame.pieces for frame in frames))

    def select(self, frame: Table, columns: Sequence[str]) -> Table:
        """See ``Cluster.select``."""
        return Table(frame.data.select(*map(_column, columns)), frame.pieces)

    def join(self, left: Table, right: Table, on: str, how: str = "inner") -> Table:
        """See ``Cluster.join``. The columns of ``left``, in its order, then the others of ``right``."""
        if how not in ("inner", "left"):
            raise InvalidError(f"how is {how!r}; it may be: inner, left")
        names = [*left.data.columns, *(name for name in right.data.columns if name != on)]
        joined = left.data.join(right.data, on, how).select(*map(_column, names))
        return Table(joined, left.pieces + right.pieces)

    def sums(self, frame: Table, by: Sequence[str], columns: Sequence[str]) -> Table:
        """See ``Cluster.sums``. The columns ``by``, then ``columns``."""
        from pyspark.sql import functions

        sums = [functions.sum(_column(name)).alias(name) for name in columns]
        grouped = frame.data.groupBy(*map(_column, by))
        return Table(grouped.agg(*sums) if sums else frame.data.select(*map(_column, by)).distinct(), frame.pieces)

    def kept(self, frame: Table) -> Table:
        """See ``Cluster.kept``. Memory of the workers first, then their disks; what dies with a worker is made again."""
        from pyspark import StorageLevel

        self._prepare(frame.pieces)
        data = frame.data.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            with _errors_as_lines():
                data.count()  # now: two uses at the same time would make what is not there yet twice
        except BaseException:
            data.unpersist()
            raise
        return Table(data, frame.pieces)

    def let_go(self, frame: Table) -> None:
        """See ``Cluster.let_go``."""
        with _errors_as_lines():
            frame.data.unpersist()

    def ranges(self, frame: Table, by: Sequence[str], within: Sequence[str], take: Take) -> list[Any]:
        """See ``Cluster.ranges``. Spark samples ``by`` for the borders, so a frame that is not kept is made twice."""
        self._prepare(frame.pieces)
        count = min(max(2 * self.slots, frame.pieces), _MOST_PARTITIONS)
        with _errors_as_lines():
            apart = frame.data.repartitionByRange(count, *map(_column, by))
            found = _results(_taken(apart.sortWithinPartitions(*map(_column, [*by, *within])), take))
        return [found[number] for number in sorted(found)] or self._taken_of_nothing([0], take)

    def groups(self, frame: Table, by: str, count: int, within: Sequence[str], take: Take) -> list[Any]:
        """See ``Cluster.groups``."""
        if count < 1:
            return []
        self._prepare(frame.pieces)
        with _errors_as_lines():
            ours = frame.data.where(_column(by).between(0, count - 1))  # a number beyond would be counted round
            apart = ours.repartitionById(count, _column(by).cast("int"))
            found = _results(_taken(apart.sortWithinPartitions(*map(_column, within)) if within else apart, take))
        missing = [number for number in range(count) if number not in found]  # all, where Spark has seen that there are no rows
        found |= zip(missing, self._taken_of_nothing(missing, take))
        return [found[number] for number in range(count)]

    def _taken_of_nothing(self, numbers: Sequence[int], take: Take) -> list[Any]:
        return self.tasks(numbers, lambda number: take(number, iter(())))

    def _prepare(self, pieces: int) -> None:
        """Shuffles of the next plan have partitions enough; adaptive execution merges small ones."""
        count = min(max(4 * self.slots, 2 * pieces), _MOST_PARTITIONS)
        with _errors_as_lines():
            self._spark.conf.set("spark.sql.shuffle.partitions", str(count))

    def _numbered(self, items: Sequence[Any], rows_of: Callable[[int, Any], Iterator[pa.RecordBatch]], schema: StructType | str) -> DataFrame:
        """The rows that tasks give for items, each in a task of its own."""
        from pyspark import cloudpickle

        texts = [cloudpickle.dumps(item) for item in items]
        whole, ends = b"".join(texts), array("q", [0])  # one object: every task reads it, and takes its item out of it
        for text in texts:
            ends.append(ends[-1] + len(text))

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pickle

            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from rows_of(number, pickle.loads(whole[ends[number] : ends[number + 1]]))

        return self._spark.range(0, len(items), 1, len(items)).mapInArrow(marked(run), schema)


def _own_session(spark: SparkSession) -> SparkSession:
    """A session beside this one, which has what was set in it."""
    own = spark.newSession()
    for name, value in spark.conf.getAll.items():
        if own.conf.isModifiable(name):
            own.conf.set(name, value)
    for name, value in _SETTINGS.items():
        own.conf.set(name, value)
    return own


@contextmanager
def _errors_as_lines() -> Iterator[None]:
    """Spark's errors as hopfeed's."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        found = unmarked(error)
        raise found from (error if type(found) is Error else None)


def _column(name: str) -> Any:
    from pyspark.sql import functions

    return functions.col(f"`{name}`")


def _spark_schema(schema: pa.Schema) -> StructType:
    from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

    types = {"int64": LongType(), "string": StringType(), "binary": BinaryType()}
    return StructType([StructField(field.name, types[str(field.type)], True) for field in schema])


def _for_spark(batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """A batch's rows with these columns and types, in pieces that a worker has room for."""
    batch = batch.select(schema.names)
    rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES * batch.num_rows // max(batch.nbytes, 1)))
    for first in range(0, batch.num_rows, rows):
        yield batch.slice(first, rows).cast(schema)


def _taken(data: DataFrame, take: Take) -> DataFrame:
    """The results of ``take`` for each partition."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        number = TaskContext.get().partitionId()
        yield _result(number, take(number, batches))

    return data.mapInArrow(marked(run), "number long, result binary")


def _result(number: int, result: Any) -> pa.RecordBatch:
    """A task's result as a row."""
    import pyarrow
    from pyspark import cloudpickle

    return pyarrow.record_batch({"number": pyarrow.array([number], pyarrow.int64()), "result": pyarrow.array([cloudpickle.dumps(result)], pyarrow.binary())})


def _results(rows: DataFrame) -> dict[int, Any]:
    """Results by their numbers."""
    from pyspark import cloudpickle

    return {row["number"]: cloudpickle.loads(bytes(row["result"])) for row in rows.collect()}
