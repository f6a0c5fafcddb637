"""Checks and prepares the files of a set, or explains where to get them.

    python -m disentangle_jax.data.prepare NAME --data_dir=DIR

Checks the publisher's files (their MD5 sums where known, and their layout), unpacks
those that are too slow to read by index, and says in a line what was found. With
--tfds it also writes the set in the format of TensorFlow Datasets. Without the files it
fetches the set through TensorFlow Datasets if that has a builder, else says what to
fetch.
"""

import argparse
import pathlib
import sys
import zipfile

from disentangle_jax.data import _files, _from_tfds, _mpi3d, _shapes3d, _unpacked
from disentangle_jax.data._catalogue import CATALOGUE
from disentangle_jax.data._dataset import Dataset
from disentangle_jax.data._pipeline import import_tensorflow
from disentangle_jax.data._registry import load, names


def table() -> str:
    """Returns the table of all sets in Markdown."""
    lines = [
        "| set | factors | images | licence | fetch | put into `data_dir` |",
        "|---|---|---|---|---|---|",
    ]
    for name, entry in CATALOGUE.items():
        fetch = entry.fetch or "nothing: it is generated"
        cells = (f"`{name}`", entry.factors, entry.size, entry.licence, fetch)
        files = entry.files.rstrip(",") or "–"
        lines.append(f"| {' | '.join((*cells, files))} |")
    return "\n".join(lines)


def _unpack(name: str, folder: pathlib.Path) -> None:
    """Unpacks what cannot be read by index, unless that has been done."""
    if name == "shapes3d":
        path = _files.find(name, folder, _shapes3d.FILES)
        unpack = _shapes3d.unpack
    elif name.startswith("mpi3d"):
        path = _files.find(name, folder, _mpi3d.files(name))
        with _files.reading(path), zipfile.ZipFile(path) as archive:
            member = archive.getinfo("images.npy")
        if member.compress_type == zipfile.ZIP_STORED:
            return
        unpack = _mpi3d.unpack
    else:
        return
    unpacked = _unpacked.path_beside(path)
    if not unpacked.exists():
        print(f"unpacking {path.name} to {unpacked.name}", flush=True)
        unpack(path, unpacked)


def _write_tfds(name: str, folder: pathlib.Path) -> None:
    """Writes a set as TFDS, by our builder or by its own (which may download)."""
    import_tensorflow()
    import tensorflow_datasets as tfds

    from disentangle_jax.data import tfds_builders

    settings = tfds.download.DownloadConfig(
        manual_dir=folder, try_download_gcs=False, verify_ssl=True
    )
    place = {"data_dir": folder, "file_format": "array_record"}
    if name in tfds_builders.BUILDERS:
        builder = tfds_builders.BUILDERS[name](**place)
    else:
        builder = tfds.builder(CATALOGUE[name].tfds, **place)
    try:
        builder.download_and_prepare(download_config=settings)
    except Exception as error:  # of many kinds, when something cannot be downloaded
        raise ValueError(
            f"data.prepare: TensorFlow Datasets could not write {name} "
            f"({type(error).__name__}: {error}). {_files.advice(name)}"
        ) from error


def prepare(
    name: str, *, data_dir: str | pathlib.Path | None = None, tfds: bool = False
) -> Dataset:
    """Prepares a set and returns it.

    Args:
      name: name of the set.
      data_dir: folder that holds, or shall hold, its files.
      tfds: also write it as TensorFlow Datasets.
    """
    folder = _files.data_folder(data_dir)
    entry = CATALOGUE[name]
    for file in entry.md5:
        for path in (folder / file, folder / name / file):
            if path.exists():
                print(f"checking the MD5 sum of {path.name}", flush=True)
                _files.check_md5(path)
    try:
        _unpack(name, folder)
        dataset = load(name, data_dir=folder, split="all")
    except FileNotFoundError:
        if not entry.tfds:
            raise
        print(f"no files in {folder}; asking TensorFlow Datasets", flush=True)
        tfds = True
    if tfds:
        if not (entry.tfds or name in _from_tfds.LAYOUTS or name == "xysquares"):
            raise ValueError(
                f"data.prepare: TensorFlow Datasets has no builder for {name}; leave "
                "out --tfds."
            )
        _files.check_writable(folder)
        _write_tfds(name, folder)
        dataset = load(name, data_dir=folder, split="all")
    return dataset


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m disentangle_jax.data.prepare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help=", ".join(names()))
    parser.add_argument("--data_dir", help="folder of the publisher's files")
    parser.add_argument("--tfds", action="store_true", help="also write TFDS files")
    parser.add_argument("--table", action="store_true", help="print a table of sets")
    chosen = parser.parse_args(arguments)
    if chosen.table or chosen.name is None:
        print(table())
        return 0
    try:
        if chosen.name not in CATALOGUE:
            load(chosen.name)  # raises the error that names the nearest
        dataset = prepare(chosen.name, data_dir=chosen.data_dir, tfds=chosen.tfds)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"ready: {dataset}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
