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


@pytest.mark.parametrize(
    ("missing", "statement", "packages"),
    [
        ("torch", "import hopfeed.pyg", "torch torch-geometric"),
        ("torch_geometric", "import hopfeed.pyg", "torch torch-geometric"),
        ("torch", "import hopfeed.torch", "torch"),
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
