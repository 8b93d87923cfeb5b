"""Where in a file of ``torch.save`` its tensor lies: a .pt is a ZIP archive whose ``data.pkl`` describes the tensor and whose
``data/0`` are its elements, as they are. Only the description is read here, by names of a short list, so that no file can run
anything and Torch need not be there."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopfeed.errors import CorruptError, InvalidError, NotFoundError, UnsupportedError

_STORAGES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Byte": "uint8", "Char": "int8",
    "Short": "int16", "Int": "int32", "Long": "int64", "Bool": "bool",
}  # fmt: skip
_NEWER = ("uint16", "uint32", "uint64")  # which have no storage of their own name


@dataclass(frozen=True)
class Storage:
    """The elements behind a tensor: name of their type, and of their file in the archive."""

    element: str
    key: str


@dataclass(frozen=True)
class Tensor:
    """What data.pkl says of a tensor; ``first`` and ``strides`` count elements."""

    storage: Storage
    element: str
    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """Where a tensor's elements lie in a file.

    Attributes:
        begin: byte of its first element.
        bytes: from there to the end of its storage.
    """

    tensor: Tensor
    begin: int
    bytes: int
    big_endian: bool


def place(path: Path) -> Place:
    """Where the one tensor of a file lies.

    Raises:
        InvalidError, CorruptError, NotFoundError: it holds none, or is no whole file of ``torch.save``.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            described = next((name for name in names if name.endswith("data.pkl")), "")
            if not described:
                raise InvalidError(f"{path} holds no tensor: it is a ZIP archive without a data.pkl")
            tensor = _tensor(archive.read(described), path)
            folder = described[: -len("data.pkl")]
            order = archive.read(f"{folder}byteorder").strip() if f"{folder}byteorder" in names else b"little"
            stored = archive.getinfo(f"{folder}data/{tensor.storage.key}")
            return Place(tensor, _begin(path, stored), stored.file_size, order == b"big")
    except FileNotFoundError:
        raise NotFoundError(f"{path} is not there") from None
    except (zipfile.BadZipFile, KeyError, EOFError):
        raise CorruptError(f"{path} is no whole file of torch.save (of Torch 1.6 or later); load it and save it again with torch.save(tensor, path)") from None


def _begin(path: Path, stored: zipfile.ZipInfo) -> int:
    """The byte that a file of the archive begins at, which its own header in the archive tells."""
    if stored.compress_type != zipfile.ZIP_STORED:
        raise UnsupportedError(f"{path} is a compressed archive; save it again with torch.save(tensor, path)")
    with open(path, "rb") as file:
        file.seek(stored.header_offset)
        header = file.read(30)
    if len(header) < 30:
        raise CorruptError(f"{path} is truncated; write it again")
    return stored.header_offset + 30 + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")


def _tensor(text: bytes, path: Path) -> Tensor:
    import io

    try:
        found = _Reader(io.BytesIO(text), path).load()
    except InvalidError:
        raise
    except Exception:  # what a pickle may raise is anything
        raise CorruptError(f"{path}: its data.pkl cannot be read; write it again with torch.save(tensor, path)") from None
    if not isinstance(found, Tensor):
        raise InvalidError(f"{path} holds a {type(found).__name__}, no tensor; save each tensor in a file of its own")
    return found


class _Reader(pickle.Unpickler):
    """Knows the names that a pickled tensor is made of, and no others."""

    def __init__(self, file: Any, path: Path) -> None:
        super().__init__(file, encoding="utf-8")
        self._path = path

    def persistent_load(self, pid: Any) -> Storage:
        _, kind, key, _, _ = pid
        return Storage(str(kind), str(key))

    def find_class(self, module: str, name: str) -> Any:
        known: dict[tuple[str, str], Callable[..., Any] | str] = {
            ("torch._utils", "_rebuild_tensor_v2"): self._rebuilt,
            ("torch._utils", "_rebuild_tensor_v3"): self._rebuilt_of_type,
            ("torch._utils", "_rebuild_parameter"): lambda data, *_: data,
            ("collections", "OrderedDict"): dict,
            ("torch.storage", "UntypedStorage"): "",
        }
        known |= {("torch", f"{storage}Storage"): element for storage, element in _STORAGES.items()}
        known |= {("torch", element): element for element in (*_STORAGES.values(), *_NEWER)}
        if (module, name) not in known:
            raise InvalidError(f"{self._path} holds '{module}.{name}', no plain tensor; save x.detach().cpu().contiguous()")
        return known[module, name]

    def _rebuilt(
        self, storage: Storage, first: int, shape: tuple[int, ...], strides: tuple[int, ...], grad: bool, hooks: Any, metadata: Any = None
    ) -> Tensor:
        return self._plain(Tensor(storage, storage.element, first, tuple(shape), tuple(strides)), metadata)

    def _rebuilt_of_type(
        self, storage: Storage, first: int, shape: tuple[int, ...], strides: tuple[int, ...], grad: bool, hooks: Any, element: str, metadata: Any = None
    ) -> Tensor:
        return self._plain(Tensor(storage, element, first, tuple(shape), tuple(strides)), metadata)

    def _plain(self, found: Tensor, metadata: Any) -> Tensor:
        """Refuses what says that the numbers are not as they lie."""
        if metadata:
            raise InvalidError(f"{self._path} holds a view that is negated or conjugated; save x.resolve_neg().contiguous()")
        return found
