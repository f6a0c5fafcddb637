"""Files that are never there in part: a reader sees the old file or the new one.

JSON files carry a hash of their content, so that a changed one is not taken for what
was written.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import uuid
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


class Damaged(ValueError):
    """A file is not what was written."""


@contextlib.contextmanager
def new_file(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Yields a path beside `path` that takes its place when the block ends.

    If the block raises, the partial file is removed and `path` stays as it was.
    """
    path = pathlib.Path(path)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())  # Its content, before its name.
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    """Writes a whole file at once."""
    with new_file(path) as partial:
        partial.write_bytes(content)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a whole text file at once, as UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: str | os.PathLike, value: Mapping[str, Any]) -> None:
    """Writes `value` and its hash, under ``"sha256"``, as a JSON file at once."""
    write_bytes(path, json_bytes(value))


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """Returns what :func:`write_json` writes."""
    hashed = {**value, "sha256": content_hash(value)}
    return (json.dumps(hashed, indent=2) + "\n").encode()


def read_json(path: str | os.PathLike) -> dict[str, Any]:
    """Returns what :func:`write_json` wrote.

    Raises:
      Damaged: the file is cut, changed, or was not written by it.
    """
    try:
        value = json.loads(pathlib.Path(path).read_bytes())
        whole = value.pop("sha256") == content_hash(value)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise Damaged(
            f"{path}: is damaged, was changed, or is of an older version; bring back a "
            "copy, or move it away and run the command again."
        )
    return value


def read_json_or_move(path: pathlib.Path) -> dict[str, Any] | None:
    """Returns what :func:`write_json` wrote; moves a damaged file aside and warns."""
    try:
        return read_json(path)
    except FileNotFoundError:
        return None
    except Damaged:
        aside = move_aside(path)
        warnings.warn(f"{path} is damaged; moved to {aside.name}", stacklevel=2)
        return None


def content_hash(value: Mapping[str, Any]) -> str:
    """Returns a hash of JSON values, which reading them again does not change."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def move_aside(path: pathlib.Path) -> pathlib.Path:
    """Renames a damaged file, or folder, to ``NAME.damaged``; deletes nothing."""
    aside, number = path.with_name(f"{path.name}.damaged"), 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{number}")
    path.rename(aside)
    return aside


def write_arrays(
    path: str | os.PathLike, arrays: Mapping[str, np.ndarray], *, compress: bool = True
) -> None:
    """Writes named arrays as an ``.npz`` file at once."""
    save = np.savez_compressed if compress else np.savez
    named: dict[str, Any] = dict(arrays)
    with new_file(path) as partial, partial.open("wb") as file:
        save(file, **named)


def read_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Returns what :func:`write_arrays` wrote, whose checksums are those of ZIP files.

    Raises:
      Damaged: the file is cut, changed, or holds no arrays.
    """
    try:
        if not zipfile.is_zipfile(path):
            open(path, "rb").close()  # Raises where there is none.
            raise ValueError("it is not a whole .npz file, as numpy.savez writes them")
        with open(path, "rb") as file, np.load(file) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except FileNotFoundError:
        raise
    except Exception as error:  # zipfile, zlib and numpy raise many kinds.
        raise Damaged(
            f"{path}: is damaged ({error}); bring back a copy, or write it again."
        ) from None


def write_once(path: pathlib.Path, content: bytes) -> bool:
    """Writes a file unless it exists; returns whether this call wrote it.

    The content goes to a temporary name and is then linked to `path`, which fails if
    `path` exists: of several writers, on several machines too, one succeeds.
    """
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)
    except FileExistsError:
        return False
    finally:
        partial.unlink(missing_ok=True)
    return True
