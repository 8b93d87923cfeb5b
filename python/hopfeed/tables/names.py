"""Names that types, attributes and splits of a dataset may have."""

from __future__ import annotations

import re

from hopfeed.conversion import TAKEN
from hopfeed.errors import InvalidError

_NAME = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9_.\-]{0,30}")


def checked(name: object, where: str, what: str) -> str:
    """The name, which files are called by.

    Raises:
        InvalidError: what may not be one.
    """
    if not isinstance(name, str):
        raise InvalidError(f"{where}: the {what} is {name!r}, which is no text")
    if not _NAME.fullmatch(name) or "__" in name:
        raise InvalidError(f"{where}: '{name}' cannot be the name of a {what}; take 1 to 31 letters, digits, '_', '.' or '-', without '__'")
    return name


def checked_attribute(name: object, where: str) -> str:
    """The same of an attribute, which is called as no field that batches have of their own."""
    if (known := checked(name, where, "attribute")) in TAKEN:
        raise InvalidError(f"{where}: batches have a field '{known}' of their own; call the attribute otherwise: {{\"name\": ..., \"column\": ...}}")
    return known
