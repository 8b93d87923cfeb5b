"""The keyword arguments of the loaders come from the library's table of options."""

import inspect
import pathlib
import re

import hopfeed
import pytest
from hopfeed import _core, keywords, switches


def test_every_keyword_stands_in_signature_and_help():
    parameters = inspect.signature(hopfeed.Loader.__init__).parameters
    assert set(parameters) >= {keyword.name for keyword in keywords.KEYWORDS}
    assert not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    assert repr(parameters["batch_size"].default) == "1024"
    assert repr(parameters["fanouts"].default) == "(15, 10, 5)"
    assert repr(parameters["temporal_strategy"].default) == '"uniform"'
    for keyword in keywords.KEYWORDS:
        assert f"{keyword.name} (" in hopfeed.Loader.__doc__


def test_numbers_are_those_of_the_table():
    assert {"batch_size", "walk_p", "cores", "peer_deadline", "time_start"} <= switches.NUMBERS
    with pytest.raises(hopfeed.InvalidError, match="time_start is True"):
        hopfeed.Loader("nowhere", time="t", time_start=True)


def test_the_stub_types_every_keyword():
    stub = pathlib.Path(keywords.__file__).parent / "keywords.pyi"
    text = (pathlib.Path(_core.__file__).parent / "keywords.pyi").read_text() if not stub.exists() else stub.read_text()
    assert text == keywords.stub()
    compile(text, "keywords.pyi", "exec")
    for keyword in keywords.KEYWORDS:
        assert f"    {keyword.name}: {keyword.type} | None" in text


def test_what_is_no_keyword_is_named():
    with pytest.raises(hopfeed.InvalidError, match="there is no option 'fan_outs'"):
        hopfeed.Loader("nowhere", fan_outs=[1])


def test_what_is_of_servers_says_so_where_there_are_none(small):
    given = {
        "token_file": "t", "tls": True, "tls_ca": "c", "connect_all": True, "batches_ahead": 3, "connect_timeout": 1.0,
        "reconnect_deadline": 1.0, "cache": "0.2",
    }  # fmt: skip
    for name, value in given.items():
        with pytest.raises(hopfeed.InvalidError, match=f"^{name} is of servers, and none are given; give servers=, or leave it out$"):
            hopfeed.Loader("nowhere", **{name: value})
    with hopfeed.Loader(small, fanouts=[1], num_workers=0, **dict.fromkeys(given)) as loader:
        assert next(iter(loader)) is not None


def test_help_names_keywords_alone():
    names = {keyword.name for keyword in keywords.KEYWORDS} | {"dataset", "src__name__dst"}
    for keyword in keywords.KEYWORDS:
        assert set(re.findall("`([^`]+)`", keyword.help)) <= names, keyword.name
    assert next(keyword.type for keyword in keywords.KEYWORDS if keyword.name == "edge_type") == "EdgeTypeName"


def test_token_files_are_paths(tmp_path):
    with pytest.raises(hopfeed.Error, match="token"):
        hopfeed.Loader("small", servers=["unix:/nowhere"], token_file=tmp_path / "lost")
    with pytest.raises(hopfeed.InvalidError, match="token_file is 3"):
        hopfeed.Loader("small", servers=["unix:/nowhere"], token_file=3)
