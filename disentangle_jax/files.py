"""Files that are never there in part: a reader sees the old file or the new one."""

import contextlib
import json
import os
import pathlib
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


@contextlib.contextmanager
def new_file(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Yields a path beside `path` that takes its place when the block ends.

    If the block raises, the partial file is removed and `path` stays as it was.
    """
    path = pathlib.Path(path)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        yield partial
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


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Writes `value` as an indented JSON file at once."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_arrays(
    path: str | os.PathLike, arrays: Mapping[str, np.ndarray], *, compress: bool = True
) -> None:
    """Writes named arrays as an ``.npz`` file at once."""
    save = np.savez_compressed if compress else np.savez
    with new_file(path) as partial, partial.open("wb") as file:
        save(file, **arrays)


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
