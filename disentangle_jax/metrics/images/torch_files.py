"""Reads the tensors of PyTorch's files without PyTorch.

Three layouts are supported: the zip that ``torch.save`` writes, the stream of pickles
that it wrote before version 1.6, and the zip of ``torch.jit.save``. All keep their
tensors as raw bytes beside a pickle of their positions.

A pickle may call any function that it names. This reader allows only the functions that
build tensors and containers; it refuses all others and runs no code of the file.
"""

import collections
import dataclasses
import math
import os
import pickle
import zipfile
from collections.abc import Callable, Iterable
from typing import IO, Any

import numpy as np

_MAGIC = 0x1950A86A20F9469CFC6C  # first pickle of the older layout
_DTYPES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}


@dataclasses.dataclass
class _Storage:
    """Raw values, which are read after the pickle that refers to them."""

    key: str
    dtype: np.dtype
    numel: int
    values: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0))

    @property
    def nbytes(self) -> int:
        return self.numel * self.dtype.itemsize


@dataclasses.dataclass
class _Tensor:
    """A strided view into a storage."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def array(self) -> np.ndarray:
        numbers = (self.offset, *self.size, *self.stride)
        if len(self.size) != len(self.stride) or min(numbers) < 0:
            raise ValueError("a tensor's shape is damaged.")
        count = math.prod(self.size)
        last = self.offset + sum(
            (n - 1) * step for n, step in zip(self.size, self.stride)
        )
        if count and last >= self.storage.numel:
            raise ValueError("a tensor reaches beyond its storage.")
        if not count:
            return np.empty(self.size, self.storage.dtype)
        strides = [step * self.storage.dtype.itemsize for step in self.stride]
        return np.lib.stride_tricks.as_strided(
            self.storage.values[self.offset :], self.size, strides
        ).copy()


class _Module:
    """An object of a scripted module with the pickled attributes."""


def _rebuild_tensor(
    storage: _Storage,
    offset: int,
    size: Iterable[int],
    stride: Iterable[int],
    *rest: object,
) -> _Tensor:
    del rest  # requires_grad, hooks, metadata
    return _Tensor(storage, offset, tuple(size), tuple(stride))


_BUILDERS: dict[tuple[str, str], Callable] = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): lambda tensor, *rest: tensor,
    ("torch.jit._pickle", "restore_type_tag"): lambda value, name: value,
    ("torch.jit._pickle", "build_intlist"): list,
    ("torch.jit._pickle", "build_doublelist"): list,
    ("torch.jit._pickle", "build_boollist"): list,
    ("torch.jit._pickle", "build_tensorlist"): list,
}


class _Unpickler(pickle.Unpickler):
    """Builds tensors and containers, and nothing else."""

    def __init__(self, file: IO[bytes]):
        super().__init__(file, encoding="utf-8")
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _BUILDERS:
            return _BUILDERS[module, name]
        if module == "torch" and name in _DTYPES:
            return np.dtype(_DTYPES[name])
        if module.split(".")[0] == "__torch__":  # class of a scripted module
            return _Module
        raise ValueError(f"it asks for {module}.{name}, which holds no weights.")

    def persistent_load(self, pid: Any) -> _Storage:
        if len(pid) < 5 or pid[0] != "storage" or not isinstance(pid[1], np.dtype):
            raise ValueError("a reference to a storage is damaged.")
        key = str(pid[2])
        if key not in self.storages:
            self.storages[key] = _Storage(key, pid[1], int(pid[4]))
        return self.storages[key]


def read_tensors(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Returns the tensors of a ``.pth`` or ``.pt`` file by their dotted names.

    Args:
      path: file of ``torch.save`` (a state dict, or a dict of dicts) or of
        ``torch.jit.save``.

    Raises:
      ValueError: the file has another layout, is damaged, or calls other functions.
    """
    try:
        read = _read_zip if zipfile.is_zipfile(path) else _read_stream
        tree = read(path)
        names: dict[str, np.ndarray] = {}
        _flatten(tree, "", names)
    except (
        ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError,
        OverflowError, pickle.UnpicklingError, zipfile.BadZipFile,
    ) as error:  # fmt: skip
        # Other errors are those of the pickle module, about its own bytes.
        reason = str(error) if type(error) is ValueError else "it is something else."
        raise ValueError(
            f"read_tensors: `path` must be a file of torch.save or torch.jit.save, "
            f"got {path}: {reason}"
        ) from error
    return names


def _read_zip(path: str | os.PathLike) -> Any:
    with zipfile.ZipFile(path) as archive:
        pickles = [n for n in archive.namelist() if n.split("/")[1:] == ["data.pkl"]]
        if len(pickles) != 1:
            raise ValueError("the zip holds no data.pkl.")
        folder = pickles[0].removesuffix("data.pkl")
        with archive.open(pickles[0]) as file:
            unpickler = _Unpickler(file)
            tree = unpickler.load()
        for storage in unpickler.storages.values():
            with archive.open(f"{folder}data/{storage.key}") as file:
                _fill(storage, file)
    return tree


def _read_stream(path: str | os.PathLike) -> Any:
    with open(path, "rb") as file:
        if _Unpickler(file).load() != _MAGIC:
            raise ValueError("it does not begin like such a file.")
        for _ in range(2):  # version of the layout, and properties of the machine
            _Unpickler(file).load()
        unpickler = _Unpickler(file)
        tree = unpickler.load()
        for key in _Unpickler(file).load():
            storage = unpickler.storages[str(key)]
            if int.from_bytes(file.read(8), "little") != storage.numel:
                raise ValueError("the length of a storage differs from its header.")
            _fill(storage, file)
    return tree


def _fill(storage: _Storage, file: IO[bytes]) -> None:
    data = file.read(storage.nbytes)
    if len(data) != storage.nbytes:
        raise ValueError("it is cut short.")
    storage.values = np.frombuffer(data, storage.dtype)


def _flatten(tree: Any, prefix: str, names: dict[str, np.ndarray]) -> None:
    if isinstance(tree, _Tensor):
        names[prefix.removesuffix(".")] = tree.array()
        return
    if isinstance(tree, _Module):
        tree = vars(tree)
    if isinstance(tree, dict):
        for name, value in tree.items():
            _flatten(value, f"{prefix}{name}.", names)
