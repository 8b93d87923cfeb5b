"""The version of the package, and what it says where a package that it can work with is not installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from hopfeed import _core

try:
    __version__ = version("hopfeed")
except PackageNotFoundError:  # used in place, from a build folder
    __version__ = _core.version


def explain_missing(error: ModuleNotFoundError, what: str, packages: str) -> ModuleNotFoundError:
    """What is raised in place of ``error`` where it is one of these packages that is missing."""
    if (error.name or "").split(".")[0].replace("_", "-") not in packages.split():
        return error
    return ModuleNotFoundError(
        f"{what} needs {packages.replace(' ', ' and ')}, and {error.name.split('.')[0]} is not installed; pip install {packages} "
        "(in hopfeed's checkout: pip install '.[pyg]')",
        name=error.name,
    )
