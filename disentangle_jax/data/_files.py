"""Finding and checking publishers' files; every failure says what to do."""

import contextlib
import hashlib
import os
import pathlib
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np

from disentangle_jax.data._catalogue import CATALOGUE


def data_folder(data_dir: str | os.PathLike | None) -> pathlib.Path:
    """Returns ``data_dir``, else ``DISENTANGLE_DATA_DIR``, else the home folder's."""
    if data_dir is None:
        data_dir = os.environ.get("DISENTANGLE_DATA_DIR", "~/disentangle_data")
    return pathlib.Path(data_dir).expanduser()


def advice(name: str) -> str:
    """Returns where the files of a set come from and where they belong."""
    entry = CATALOGUE[name]
    return f"Fetch {entry.fetch} and put {entry.files} into that folder."


def find(
    name: str, data_dir: str | os.PathLike | None, candidates: Sequence[str]
) -> pathlib.Path:
    """Returns the first of ``candidates`` in the data folder or its ``name`` folder.

    Args:
      name: name of the set, which may also be that of a sub-folder.
      data_dir: folder to look in (or the file itself).
      candidates: file or folder names relative to it, most wanted first; ``*``
        matches as in a shell.
    """
    folder = data_folder(data_dir)
    if folder.is_file():
        return folder
    for candidate in candidates:
        for place in (folder, folder / name):
            found = sorted(place.glob(candidate))
            if found:
                return found[0]
    raise FileNotFoundError(
        f"data.load: {name} needs {' or '.join(candidates)} in {folder}, which holds "
        f"no such thing. {advice(name)}"
    )


def check_md5(path: pathlib.Path) -> None:
    """Checks a file against the published MD5 sum of that name, if there is one."""
    known = {
        file: md5 for entry in CATALOGUE.values() for file, md5 in entry.md5.items()
    }
    expected = known.get(path.name)
    if expected is None:
        return
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    if digest.hexdigest() != expected:
        raise ValueError(
            f"data.prepare: {path} must have the MD5 sum {expected}, got "
            f"{digest.hexdigest()}. The download is incomplete or another version: "
            "delete the file and fetch it again."
        )


@contextlib.contextmanager
def reading(path: pathlib.Path) -> Iterator[None]:
    """Turns what damaged files raise into an error that names the file."""
    try:
        yield
    except (OSError, EOFError, KeyError, zipfile.BadZipFile, ValueError) as error:
        raise ValueError(
            f"data.load: {path} must be a complete file in its publisher's layout, got "
            f"{type(error).__name__}: {error}. Delete it and fetch it again."
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
    """Checks that files can be made in ``folder``, which is created if need be."""
    with contextlib.suppress(FileExistsError), new_file(folder / ".probe"):
        raise FileExistsError


@contextlib.contextmanager
def new_file(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Gives a temporary path beside ``path`` that becomes it only when complete."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=path.suffix)
    except OSError as error:
        raise ValueError(
            f"data.prepare: `data_dir` must be a folder that can be written, got "
            f"{path.parent} ({error.strerror}). Choose another with --data_dir."
        ) from error
    os.close(handle)
    temporary = pathlib.Path(temporary)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def open_npz(path: pathlib.Path) -> Iterator[np.lib.npyio.NpzFile]:
    """Opens an npz file without pickles, and closes it also when it is damaged."""
    with path.open("rb") as file, np.load(file) as archive:
        yield archive


def read_npz_member(
    path: pathlib.Path, member: str, *, chunk: int = 4096
) -> tuple[tuple[int, ...], np.dtype, Iterator[np.ndarray]]:
    """Reads an array of an npz file piece by piece, however large it is.

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


def read_npy_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Reads ``(shape, by columns, dtype)`` and leaves the file at the data."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)
