"""Your own images in one file, or in a folder of arrays."""

import contextlib
import pathlib
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from disentangle_jax.data.catalogue import define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.own_arrays import from_arrays
from disentangle_jax.data.publisher_files import (
    Folder,
    data_folder,
    open_npz,
    read_npy,
    read_npy_header,
    regular,
)

_FIELDS = ("images", "factors", "factor_names", "factor_sizes")
_LAYOUT = (
    "`images` [N, H, W, C] uint8 or float in [0, 1]; optional `factors` [N, K], "
    "`factor_names` [K] and `factor_sizes` [K]"
)


def _described(files: str) -> Any:
    return define(
        note="those of the file, if it has any",
        size="any",
        licence="yours",
        fetch="your own images",
        files=files,
    )


def _path(name: str, data_dir: Folder, file: str) -> pathlib.Path:
    path = pathlib.Path(file).expanduser()
    if data_dir is not None:
        path = data_folder(data_dir) / path
    if not path.exists():
        raise FileNotFoundError(
            f"data.load: {name} found no {path}. Name your file with "
            f"--config.data.options.file=PATH; it must hold {_LAYOUT}."
        )
    return regular(path)


@contextlib.contextmanager
def _reading(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        line = str(error).partition("\n")[0]
        raise ValueError(
            f"data.load: {path} cannot be read ({type(error).__name__}: {line})."
        ) from error


def _dataset(name: str, path: pathlib.Path, arrays: dict[str, Any]) -> Dataset:
    if "images" not in arrays:
        raise ValueError(
            f"data.load: {path} must hold {_LAYOUT}; it holds "
            f"{', '.join(sorted(arrays)) or 'nothing'}."
        )
    known = {field: arrays[field] for field in _FIELDS if field in arrays}
    return from_arrays(name, source=f"data.load: {path}", **known)


def _stored_member(path: pathlib.Path, member: str) -> np.ndarray | None:
    """Returns a member of an npz file memory-mapped; None where it is compressed."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"{member}.npy")
    if info.compress_type != zipfile.ZIP_STORED:
        return None
    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(30)  # Ends with the lengths of the name and of the extras.
        lengths = [int.from_bytes(header[at : at + 2], "little") for at in (26, 28)]
        file.seek(sum(lengths), 1)
        shape, by_columns, dtype = read_npy_header(file)
        if dtype.hasobject:
            raise ValueError(f"{member} holds Python objects, not numbers")
        order: Literal["F", "C"] = "F" if by_columns else "C"
        return np.memmap(path, dtype, "r", file.tell(), shape, order)


@_described("one .npz file, of `numpy.savez`")
def npz(
    *, data_dir: Folder = None, split: str = "train", file: str = "images.npz"
) -> Dataset:
    """Your own images in an npz file: ``images``, and ``factors`` where there are any.

    Arrays written by ``numpy.savez`` are memory-mapped; those of
    ``numpy.savez_compressed`` are read into memory as a whole.

    Args:
      data_dir: folder of the file; None where `file` is a path of its own.
      split: as in ``data.load``.
      file: the file, with ``images [N, H, W, C]`` (uint8, or float in [0, 1]), and
        optionally ``factors [N, K]``, ``factor_names [K]`` and ``factor_sizes [K]``
        (see ``data.from_arrays``).
    """
    path = _path("npz", data_dir, file)
    with _reading(path), open_npz(path) as archive:
        arrays = {name: archive[name] for name in archive.files if name != "images"}
        if "images" in archive.files:
            mapped = _stored_member(path, "images")
            arrays["images"] = archive["images"] if mapped is None else mapped
    return _dataset("npz", path, arrays).split(split)


@_described("a folder of .npy files: images.npy, factors.npy, …")
def npy(*, data_dir: Folder = None, split: str = "train", file: str = ".") -> Dataset:
    """Your own images as a folder of ``.npy`` files, which are memory-mapped.

    Args:
      data_dir: folder that `file` is relative to.
      split: as in ``data.load``.
      file: the folder, with ``images.npy`` and optionally ``factors.npy``,
        ``factor_names.npy`` and ``factor_sizes.npy``, arrays as in ``npz``.
    """
    folder = _path("npy", data_dir, file)
    path = _path("npy", folder, "images.npy")
    with _reading(path):
        arrays = {"images": read_npy(path, mmap_mode="r")}
    for name in _FIELDS[1:]:
        path = folder / f"{name}.npy"
        if path.exists():
            with _reading(path):
                arrays[name] = read_npy(path)
    return _dataset("npy", folder, arrays).split(split)


class _Hdf5Rows:
    """An array of an HDF5 file, read by rows in any order."""

    def __init__(self, array: Any):
        self._array = array
        self.shape, self.ndim = array.shape, array.ndim

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        distinct, place = np.unique(rows, return_inverse=True)  # HDF5 needs an order.
        return self._array[distinct][place]


@_described("one HDF5 file")
def hdf5(
    *, data_dir: Folder = None, split: str = "train", file: str = "images.h5"
) -> Dataset:
    """Your own images in an HDF5 file, of which only the rows of a batch are read.

    Args:
      data_dir: folder of the file; None where `file` is a path of its own.
      split: as in ``data.load``.
      file: the file, with the arrays of ``npz``.
    """
    import h5py

    path = _path("hdf5", data_dir, file)
    with _reading(path):
        opened = h5py.File(path, "r")
        arrays = {name: opened[name] for name in opened if name in _FIELDS}
        for name in set(arrays) - {"images"}:
            array = arrays[name]
            text = h5py.check_string_dtype(array.dtype) is not None
            arrays[name] = array.asstr()[:] if text else array[:]
    if "images" in arrays:
        arrays["images"] = _Hdf5Rows(arrays["images"])
    return _dataset("hdf5", path, arrays).split(split)
