"""How errors of tasks find back to the driver, without an engine: texts as engines make them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hopfeed.errors import CorruptError, Error, InputOutputError, InvalidError, NoSpaceError, StateLost, VersionError
from hopfeed.tables.cluster.errors import marked, unmarked


def text_of(error: Error) -> str:
    def fail() -> None:
        raise error

    with pytest.raises(RuntimeError) as told:
        marked(fail)()
    return str(told.value)


@pytest.mark.parametrize("kind", [InvalidError, CorruptError, InputOutputError, NoSpaceError, StateLost, Error])
def test_class_and_line_come_back_out_of_a_long_text(kind: type[Error]) -> None:
    line = "table 'ü\U0001f600': {\"a\": [1]} \\ row 7\tis twice"
    text = f"An exception was thrown:\nTraceback (most recent call last):\n  at hopfeed-error: x\nRuntimeError: {text_of(kind(line))}\n SQLSTATE: 38000\n\tat java"
    found = unmarked(ValueError(text))
    assert type(found) is kind and str(found) == line


def test_errors_while_a_result_is_iterated_over_are_marked() -> None:
    def read(count: int) -> Iterator[int]:
        yield from range(count)
        raise InvalidError("after them")

    results = marked(read)(2)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(RuntimeError) as told:
        next(results)
    assert str(unmarked(told.value)) == "after them"


def test_results_and_errors_of_others_pass() -> None:
    assert marked(lambda a, b: [a, b])(1, 2) == [1, 2]
    with pytest.raises(KeyError):
        marked(lambda: {}["absent"])()


def test_a_text_that_was_cut_off_is_an_error_of_one_line() -> None:
    found = unmarked(RuntimeError(text_of(InvalidError("a long line"))[:40]))
    assert type(found) is Error and "\n" not in str(found)


@pytest.mark.parametrize(
    "text,kind,line",
    [
        ("An error occurred while calling o7.collect.\n: org.apache.spark.SparkException: Job aborted: executor 1 is lost\nDriver stacktrace:\n\tat a.b(c.scala:1)", Error, "the cluster could not do it: Job aborted: executor 1 is lost"),
        ("Traceback (most recent call last):\n  File \"a.py\", line 1, in b\n    c()\nKeyError: 'd'\n\n\tat org.apache", Error, "the cluster could not do it: KeyError: 'd'"),
        ("", Error, "the cluster could not do it: ValueError"),
        ("Job aborted: java.io.IOException: No space left on device", NoSpaceError, "a disk of the cluster is full (Job aborted: java.io.IOException: No space left on device); make room there and run the same again"),
        ("ModuleNotFoundError: No module named 'hopfeed'", InvalidError, "a worker process has no hopfeed; install the driver's version on all machines: pip install 'hopfeed[tables]'"),
        ("ModuleNotFoundError: No module named 'hopfeed.spark'", VersionError, "a worker process has another version of hopfeed than the driver; install the same version on all machines"),
        ("AttributeError: Can't get attribute '_result' on <module 'hopfeed.spark.engine' from", VersionError, "a worker process has another version of hopfeed than the driver; install the same version on all machines"),
    ],
)
def test_what_others_raised_is_one_line(text: str, kind: type[Error], line: str) -> None:
    found = unmarked(ValueError(text))
    assert type(found) is kind and str(found) == line
