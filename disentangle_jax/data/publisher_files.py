"""Finds, checks and reads publishers' files; every error says what to do."""

import contextlib
import hashlib
import os
import pathlib
import tempfile
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Literal

import numpy as np

from disentangle_jax import files
from disentangle_jax.data.catalogue import DatasetDescription

Folder = str | os.PathLike | None


class UnreadableImage(ValueError):
    """An image file that is no image, or damaged; the message names it."""


def data_folder(data_dir: Folder) -> pathlib.Path:
    """Returns ``data_dir``, else ``DISENTANGLE_DATA_DIR``, else a home folder."""
    if data_dir is None:
        data_dir = os.environ.get("DISENTANGLE_DATA_DIR", "~/disentangle_data")
    return pathlib.Path(data_dir).expanduser()


def find(
    description: DatasetDescription,
    data_dir: Folder,
    patterns: Sequence[str] | None = None,
) -> pathlib.Path:
    """Returns the first file of a dataset that exists.

    Args:
      description: the dataset; its files may lie in a sub-folder of its name.
      data_dir: folder to look in, or the file itself.
      patterns: file or folder names relative to it, preferred ones first; ``*`` matches
        as in a shell. None for those of the description.
    """
    folder = data_folder(data_dir)
    if folder.is_file():
        return folder
    patterns = description.patterns if patterns is None else patterns
    for pattern in patterns:
        for place in (folder, folder / description.name):
            found = sorted(place.glob(pattern))
            if found:
                return regular(found[0])
    raise FileNotFoundError(
        f"data.load: {description.name} needs {' or '.join(patterns)} in {folder}, "
        f"where there is no such file. {description.advice()}"
    )


def regular(path: pathlib.Path) -> pathlib.Path:
    """Returns a path, or raises where reading it would wait for another process."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(
            f"data.load: {path} must be a file, got a pipe, socket or device. Delete "
            "it and fetch the file."
        )
    return path


def md5_sum(path: pathlib.Path) -> str:
    """Returns the MD5 sum of a file."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def check_md5(path: pathlib.Path, expected: str) -> None:
    """Raises ValueError unless a file has the published MD5 sum."""
    found = md5_sum(path)
    if found != expected:
        raise ValueError(
            f"data.prepare: {path} must have the MD5 sum {expected}, got {found}. The "
            "download is incomplete or another version: delete the file and fetch it "
            "again."
        )


def warn_of_replaced(
    description: DatasetDescription, path: pathlib.Path, *, md5: str = ""
) -> None:
    """Warns where a file has the name, or the MD5 sum, of one that was replaced."""
    if path.name in description.replaced or md5 in description.replaced.values():
        warnings.warn(
            f"data.load: {path} is an old file of {description.name}, which its "
            f"publisher replaced because it is corrupt. {description.advice()}",
            stacklevel=2,
        )


@contextlib.contextmanager
def reading(path: pathlib.Path) -> Iterator[None]:
    """Turns the exceptions of a damaged file into an error that names the file."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # The readers of file formats raise many kinds.
        line = str(error).partition("\n")[0]
        raise ValueError(
            f"data.load: {path} must be a complete file in its publisher's layout, got "
            f"{type(error).__name__}: {line}. Delete it and fetch it again."
        ) from error


def check_shape(
    path: pathlib.Path, what: str, shape: tuple[int, ...], expected: tuple
) -> None:
    """Checks a shape; None in ``expected`` allows any length of that axis."""
    fits = len(shape) == len(expected) and all(
        want in (None, got) for got, want in zip(shape, expected)
    )
    if not fits:
        wanted = ", ".join("N" if size is None else str(size) for size in expected)
        raise ValueError(
            f"data.load: {what} of {path} must have shape [{wanted}], got {shape}. "
            "It is another version of the file: fetch the publisher's."
        )


def check_writable(folder: pathlib.Path) -> None:
    """Creates ``folder`` if necessary and raises unless files can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ValueError(
            f"data.prepare: `data_dir` must be a folder that can be written, got "
            f"{folder} ({error.strerror}). Choose another with --data_dir."
        ) from error


@contextlib.contextmanager
def open_npz(path: pathlib.Path) -> Iterator[np.lib.npyio.NpzFile]:
    """Opens an npz file without pickles, and closes it even if it is damaged."""
    if not zipfile.is_zipfile(regular(path)):
        raise ValueError("it is not a whole .npz file")
    with path.open("rb") as file, np.load(file) as archive:
        yield archive


def read_npz_member(
    path: pathlib.Path, member: str, *, chunk: int = 4096
) -> tuple[tuple[int, ...], np.dtype, Iterator[np.ndarray]]:
    """Reads an array of an npz file piece by piece, so that it may exceed the memory.

    Returns:
      ``(shape, dtype, pieces)``, the pieces along the first axis.
    """
    with zipfile.ZipFile(path) as archive, archive.open(f"{member}.npy") as file:
        shape, fortran, dtype = read_npy_header(file)
    if fortran:
        raise ValueError(f"{member} is stored column by column")

    def pieces() -> Iterator[np.ndarray]:
        row = int(np.prod(shape[1:])) * dtype.itemsize
        with zipfile.ZipFile(path) as archive, archive.open(f"{member}.npy") as file:
            read_npy_header(file)
            for start in range(0, shape[0], chunk):
                count = min(chunk, shape[0] - start)
                block = file.read(count * row)
                yield np.frombuffer(block, dtype).reshape(count, *shape[1:])

    return shape, dtype, pieces()


def read_npy(path: pathlib.Path, mmap_mode: Literal["r"] | None = None) -> np.ndarray:
    """Returns the array of an npy file, without pickles."""
    with regular(path).open("rb") as file:
        if file.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
            raise ValueError("it is not a .npy file, as numpy.save writes them")
    return np.load(path, mmap_mode=mmap_mode)


def read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Returns ``(shape, by columns, dtype)`` and leaves the file at the data."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def read_hdf5(path: pathlib.Path, name: str) -> Iterator[np.ndarray]:
    """Yields an array of an HDF5 file in pieces along the first axis."""
    import h5py

    with h5py.File(path, "r") as file:
        for start in range(0, len(file[name]), 4096):
            yield file[name][start : start + 4096]


def unpacked_path(path: pathlib.Path) -> pathlib.Path:
    """Returns where the unpacked images of a publisher's file belong."""
    return path.with_name(f"{path.stem}.images.npy")


def open_unpacked(path: pathlib.Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """Returns the unpacked images of ``path``, memory-mapped, or None."""
    unpacked = unpacked_path(path)
    if not unpacked.exists():
        return None
    with reading(unpacked):
        images = np.load(unpacked, mmap_mode="r")
    check_shape(unpacked, "the array", images.shape, shape)
    return images


def write_unpacked(
    path: pathlib.Path, shape: tuple[int, ...], pieces: Iterable[np.ndarray]
) -> None:
    """Writes uint8 ``pieces`` as one array of ``shape``; complete or not at all."""
    with files.new_file(path) as partial:
        images = np.lib.format.open_memmap(partial, "w+", np.uint8, shape)
        start = 0
        for piece in pieces:
            images[start : start + len(piece)] = piece
            start += len(piece)
        images.flush()
