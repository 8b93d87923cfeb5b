"""What an installed package has beside the loaders: its version, its programs, what it says where torch is missing."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import hopfeed
from hopfeed.programs import program


def test_the_package_tells_its_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", hopfeed.__version__)
    from hopfeed import _core

    assert _core.version == hopfeed.__version__


@pytest.mark.parametrize("name", ["hopfeed-partition", "hopfeed-sample", "hopfeed-server", "hopfeed-top"])
def test_the_package_has_the_programs_that_its_documents_name(name: str) -> None:
    done = subprocess.run([program(name), "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and name in done.stdout


LAZY = ["distributed", "pyg", "ray", "spark", "torch"]


def lines_of(text: str, environment: dict[str, str]) -> list[str]:
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", LAZY)
def test_the_package_has_its_modules_without_another_import(environment: dict[str, str], name: str) -> None:
    for package in {"distributed": ["torch"], "pyg": ["torch", "torch_geometric"], "torch": ["torch"]}.get(name, []):
        pytest.importorskip(package, reason=f"{package} is not installed")
    text = f"""
import sys, hopfeed
assert {name!r} in dir(hopfeed) and "hopfeed.{name}" not in sys.modules
print(hopfeed.{name}.__name__, hopfeed.{name} is sys.modules["hopfeed.{name}"])
"""
    assert lines_of(text, environment) == [f"hopfeed.{name} True"]


def test_the_package_alone_loads_none_of_what_its_modules_need(environment: dict[str, str]) -> None:
    text = "import sys, hopfeed; print(sorted({name.split('.')[0] for name in sys.modules} & {'torch', 'torch_geometric', 'pyspark', 'ray', 'duckdb'}))"
    assert lines_of(text, environment) == ["[]"]
    assert lines_of(f"import hopfeed; dir(hopfeed); import sys; print([name for name in {LAZY} if 'hopfeed.' + name in sys.modules])", environment) == ["[]"]


def test_a_name_that_the_package_has_not_is_an_error_of_attributes(environment: dict[str, str]) -> None:
    with pytest.raises(AttributeError, match="module 'hopfeed' has no attribute 'torhc'"):
        hopfeed.torhc  # noqa: B018
    assert set(hopfeed.__all__) <= set(dir(hopfeed)) and not hasattr(hopfeed, "Neighbour")
    # Who looks at every member, as help() does, is told of no package that is missing.
    text = """
import inspect, sys
sys.modules["torch"] = sys.modules["torch_geometric"] = None
import hopfeed
print(sorted({"distributed", "pyg", "ray", "spark", "torch"} & {name for name, _ in inspect.getmembers(hopfeed)}))
"""
    assert lines_of(text, environment) == ["['ray', 'spark']"]


@pytest.mark.parametrize(
    ("missing", "statement", "packages"),
    [
        ("torch", "import hopfeed.pyg", "torch torch-geometric"),
        ("torch_geometric", "import hopfeed.pyg", "torch torch-geometric"),
        ("torch", "import hopfeed.torch", "torch"),
        ("torch", "import hopfeed; hopfeed.torch.Loader('data')", "torch"),
        ("torch", "import hopfeed; hopfeed.distributed.initialize()", "torch"),
        ("torch_geometric", "import hopfeed; hopfeed.pyg", "torch torch-geometric"),
        ("torch", "import hopfeed; hopfeed.to_pyg('data')", "torch torch-geometric"),
        ("torch_geometric", "import hopfeed; hopfeed.from_pyg(None, 'data')", "torch torch-geometric"),
    ],
)
def test_what_is_not_installed_is_named_with_the_command_that_installs_it(
    environment: dict[str, str], missing: str, statement: str, packages: str
) -> None:
    if missing != "torch":
        pytest.importorskip("torch", reason="torch is not installed")
    text = f"""
import sys
sys.modules[{missing!r}] = None
try:
    {statement}
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True)
    (line,) = done.stdout.splitlines()
    assert f"{missing} is not installed; pip install {packages} (" in line and "pip install '.[pyg]'" in line and done.stderr == ""
