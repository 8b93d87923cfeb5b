"""What becomes of an attribute: the columns that it is of, the type that it is stored in, and what its rows may not be.

Rows that cannot be stored are found by conditions in SQL before anything is made; the values themselves are converted
by :mod:`hopfeed.tables.convert` alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hopfeed.errors import InvalidError
from hopfeed.tables.description import Attribute

INTEGERS = {
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "UTINYINT": "uint8",
    "USMALLINT": "int32",
    "UINTEGER": "uint32",
    "UBIGINT": "int64",
}
_NUMBERS = {**INTEGERS, "FLOAT": "float32", "DOUBLE": "float64", "BOOLEAN": "bool"}
_LIST = re.compile(r"(.*)\[(\d*)\]")
_RANGES = {f"{sign}int{bits}": ((0, (1 << bits) - 1) if sign else (-(1 << bits - 1), (1 << bits - 1) - 1)) for bits in (8, 16, 32, 64) for sign in ("", "u")}
_EXACT = {"float32": 24, "float64": 53}  # bits of whole numbers that it holds
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
MAX_LABEL = 1_000_000_000  # a larger number is no class but damage
_DAY = 86_400


@dataclass(frozen=True)
class Check:
    """Rows that are told.

    Attributes:
        kind: of dirt, as the report counts it.
        condition: in SQL, of such a row.
        what: such rows ... (``have no value in 'age'``).
        remedy: what to do; empty: it is a warning.
    """

    kind: str
    condition: str
    what: str
    remedy: str = ""


@dataclass(frozen=True)
class Stored:
    """An attribute of a dataset.

    Attributes:
        inputs: names that its columns have in our queries.
        types: DuckDB's, of these.
        element: the type of the dataset's elements.
        width: elements of a row; 0: one number, no list.
    """

    attr: Attribute
    inputs: tuple[str, ...]
    types: tuple[str, ...]
    element: str
    width: int

    @property
    def name(self) -> str:
        return self.attr.name

    @property
    def is_list(self) -> bool:
        return "[" in self.types[0]

    @property
    def is_text(self) -> bool:
        return self.types[0] == "VARCHAR"

    def meta(self) -> dict[str, object]:
        """As of meta.json."""
        return {"name": self.name, "element_type": self.element, "shape": [self.width] if self.width else []}

    def checks(self, keeps_nulls: bool) -> list[Check]:
        """What may be wrong in its rows; ``keeps_nulls``: no value is one that can be stored."""
        found = []
        for column, kind, name in zip(self.inputs, self.types, self.attr.columns):
            if not keeps_nulls and self.attr.role != "label":
                found.append(Check("nulls", f"{column} IS NULL", f"have no value in '{name}'", "give them one, or --nulls 0"))
            if self.is_list:
                found += self._list_checks(column, name, keeps_nulls)
            elif self.attr.role == "time":
                found += self._time_checks(column, kind, name)
            elif self.attr.role == "label":
                found += self._label_checks(column, kind, name)
            else:
                found += self._number_checks(column, kind, name)
        return found

    def _list_checks(self, column: str, name: str, keeps_nulls: bool) -> list[Check]:
        remedy = "make them of one length, or leave them out"
        found = [Check("length", f"len({column}) <> {self.width}", f"have a list in '{name}' that is not of {self.width} numbers, as others are", remedy)]
        if not keeps_nulls:
            found.append(Check("nulls", f"len({column}) <> list_count({column})", f"have a list in '{name}' with a number missing", "give it one, or --nulls 0"))
        inner = _element_of(self.types[0])
        if inner in INTEGERS:
            least, most = f"list_min({column})", f"list_max({column})"
            found += self._range_checks(least, most, inner, name)
        return found

    def _number_checks(self, column: str, kind: str, name: str) -> list[Check]:
        found = self._range_checks(column, column, kind, name) if kind in INTEGERS else []
        if self.attr.role == "weight":
            bad = f"{column} < 0" + (f" OR NOT isfinite({column})" if kind in ("FLOAT", "DOUBLE") else "")
            found.append(Check("weights", bad, f"have a weight '{name}' that is negative or no number", "correct them, or leave the edges out"))
        return found

    def _range_checks(self, least: str, most: str, kind: str, name: str) -> list[Check]:
        if self.element in _EXACT:
            bound = 1 << _EXACT[self.element]
            if _RANGES.get(_NUMBERS[kind], (0, 0))[1] <= bound and kind != "UBIGINT":
                return []
            beyond = f"{most} > {bound} OR {least} < -{bound}" if not kind.startswith("U") else f"{most} > {bound}"
            return [Check("rounded", beyond, f"have a whole number in '{name}' beyond 2^{_EXACT[self.element]}, which {self.element} rounds")]
        low, high = _RANGES[self.element]
        own_low, own_high = (0, (1 << 64) - 1) if kind == "UBIGINT" else _RANGES[INTEGERS[kind]]
        if own_low >= low and own_high <= high:
            return []
        conditions = [f"{most} > {high}"] if own_high > high else []
        conditions += [f"{least} < {low}"] if own_low < low else []
        return [Check("range", " OR ".join(conditions), f"have a number in '{name}' that {self.element} does not hold", 'say another "type", or correct them')]

    def _time_checks(self, column: str, kind: str, name: str) -> list[Check]:
        if kind in INTEGERS:
            return self._range_checks(column, column, kind, name)
        most = ((1 << 63) - 1) // _PER_SECOND[self.attr.unit]
        seconds = f"epoch({column})"
        beyond = f"NOT isfinite({column}) OR {seconds} >= {most} OR {seconds} <= -{most}"
        return [Check("times", beyond, f"have a time in '{name}' that int64 does not hold in {self.attr.unit}", "correct them, or say another \"unit\"")]

    def _label_checks(self, column: str, kind: str, name: str) -> list[Check]:
        if kind == "VARCHAR":
            if not self.attr.classes:
                return []
            from hopfeed.tables import sql

            known = ", ".join(sql.text(one) for one in self.attr.classes)
            return [Check("classes", f"{column} NOT IN ({known})", f"have a class in '{name}' that is none of those given", "add it to 'classes', or correct them")]
        if kind == "BOOLEAN":
            return []
        bad = f"{column} > {MAX_LABEL}"
        if kind in ("FLOAT", "DOUBLE"):
            bad = f"NOT isnan({column}) AND ({bad} OR {column} <> trunc({column}))"
        return [Check("labels", bad, f"have a label in '{name}' that is no class number", f"labels are whole numbers up to {MAX_LABEL}, or texts")]


def _element_of(kind: str) -> str:
    found = _LIST.fullmatch(kind)
    return found[1] if found else kind


def resolve(attr: Attribute, inputs: Sequence[str], types: Sequence[str], where: str, width: int) -> Stored:
    """What is stored of an attribute whose columns have these types; ``width``: of a list whose type does not tell.

    Raises:
        InvalidError: a type that cannot be stored, with what to do.
    """
    elements = [_element(attr, kind, name, where) for kind, name in zip(types, attr.columns)]
    is_list = [kind.endswith("]") for kind in types]
    if any(is_list) and len(types) > 1:
        raise InvalidError(f"{where}: '{attr.columns[is_list.index(True)]}' is a list; an attribute is of one list column, or of columns of one number each")
    if len(set(elements)) > 1:
        raise InvalidError(f"{where}: the columns of '{attr.name}' are of different types ({', '.join(dict.fromkeys(types))}); say \"type\"")
    found = _LIST.fullmatch(types[0])
    wide = len(types) if len(types) > 1 or (attr.role == "features" and not found) else 0
    if found:
        wide = int(found[2]) if found[2] else attr.width or width
        if attr.width and wide != attr.width:
            raise InvalidError(f"{where}: '{attr.columns[0]}' has lists of {wide} numbers, and 'width' is {attr.width}")
        if wide == 0:
            raise InvalidError(f"{where}: '{attr.columns[0]}' has no list with a number in it")
    return Stored(attr, tuple(inputs), tuple(types), elements[0], wide)


def _element(attr: Attribute, kind: str, column: str, where: str) -> str:
    """The element type that a column is stored in."""
    inner, place = _element_of(kind), f"{where}: '{column}' is {kind}"
    if attr.role == "time":
        if inner != kind or not (kind in INTEGERS or kind.startswith("TIMESTAMP") or kind == "DATE"):
            raise InvalidError(f"{place}, which is no time; times are timestamps, dates or whole numbers")
        return "int64"
    if attr.role == "label":
        if kind != "VARCHAR" and kind not in _NUMBERS:
            raise InvalidError(f"{place}, which is no label; labels are whole numbers or texts")
        return "int64"
    if inner.startswith("DECIMAL"):
        if attr.element == "float64":
            return "float64"
        remedy = "say \"type\": \"float64\" to have them rounded" if attr.role != "features" else "name it as one of 'attrs' with \"type\": \"float64\""
        raise InvalidError(f"{place}, which no binary number holds; {remedy}")
    if inner not in _NUMBERS or _LIST.fullmatch(inner):
        told = "name it in 'times'" if inner.startswith(("TIMESTAMP", "DATE")) else "only numbers, and lists of them, can be stored"
        raise InvalidError(f"{place}; {told}")
    return _converted(attr, _NUMBERS[inner], place)


def _converted(attr: Attribute, own: str, place: str) -> str:
    wanted = attr.element or own
    if wanted != own and (own.startswith("float") and not wanted.startswith("float") or own == "bool" and attr.role != "features" or wanted == "bool"):
        raise InvalidError(f"{place}, which does not become {wanted}")
    if attr.role == "weight" and wanted not in ("float32", "float64", "int32", "int64"):
        return "int64" if wanted == "uint32" and not attr.element else "int32" if wanted in ("int8", "int16", "uint8") and not attr.element else _no_weight(wanted, place)
    return wanted


def _no_weight(element: str, place: str) -> str:
    raise InvalidError(f"{place}, and {element} can be no weight; say \"type\": float32, float64, int32 or int64")
