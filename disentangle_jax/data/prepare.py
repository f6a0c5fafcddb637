"""Checks and prepares the files of a dataset, or explains where to get them.

    python -m disentangle_jax.data.prepare NAME --data_dir=DIR

Checks the publisher's files (their MD5 sums where known, and their layout), unpacks
those that are too slow to read by index, and prints a line about the dataset. With
--tfds it also writes the dataset in the format of TensorFlow Datasets. If the files are
missing, it downloads the dataset through TensorFlow Datasets if that has a builder for
it, else it explains what to fetch.
"""

import argparse
import pathlib
import sys

from disentangle_jax.data import publisher_files
from disentangle_jax.data.catalogue import (
    DatasetDescription,
    TfdsLayout,
    describe,
    names,
)
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.loading import load
from disentangle_jax.data.streaming import import_tensorflow


def table() -> str:
    """Returns the table of all datasets in Markdown."""
    lines = [
        "| dataset | factors | images | licence | fetch | put into `data_dir` |",
        "|---|---|---|---|---|---|",
    ]
    for name in names():
        entry = describe(name)
        fetch = entry.fetch or "nothing: it is generated"
        cells = [f"`{name}`", entry.factor_text, entry.size_text, entry.licence, fetch]
        cells.append(entry.files or "–")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _unpack(description: DatasetDescription, folder: pathlib.Path) -> None:
    """Unpacks images that cannot be read by index, unless that has been done."""
    if description.compressed_images is None:
        return
    path = publisher_files.find(description, folder)
    unpacked = publisher_files.unpacked_path(path)
    if unpacked.exists():
        return
    compressed = description.compressed_images(path)
    if compressed is None:
        return
    print(f"unpacking {path.name} to {unpacked.name}", flush=True)
    publisher_files.check_writable(unpacked.parent)
    with publisher_files.reading(path):
        publisher_files.write_unpacked(unpacked, *compressed)


def _write_tfds(
    description: DatasetDescription, layout: TfdsLayout, folder: pathlib.Path
) -> None:
    """Writes a dataset with our builder or TFDS's own, which may download files."""
    import_tensorflow()
    import tensorflow_datasets as tfds

    from disentangle_jax.data import tfds_builders

    name = description.name
    settings = tfds.download.DownloadConfig(
        manual_dir=folder, try_download_gcs=False, verify_ssl=True
    )
    place = {"data_dir": folder, "file_format": "array_record"}
    if name in tfds_builders.BUILDERS:
        builder = tfds_builders.BUILDERS[name](**place)
    else:
        builder = tfds.builder(layout.builder, **place)
    try:
        builder.download_and_prepare(download_config=settings)
    except Exception as error:  # A failed download raises one of many types.
        raise ValueError(
            f"data.prepare: TensorFlow Datasets could not write {name} "
            f"({type(error).__name__}: {error}). {description.advice()}"
        ) from error


def prepare(
    name: str, *, data_dir: str | pathlib.Path | None = None, tfds: bool = False
) -> Dataset:
    """Prepares a dataset and returns it.

    Args:
      name: name of the dataset.
      data_dir: folder of its files.
      tfds: also write it as TensorFlow Datasets.
    """
    folder = publisher_files.data_folder(data_dir)
    description = describe(name)
    replaceable = description.patterns if description.replaced else ()
    for file in dict.fromkeys((*description.md5, *replaceable)):
        for path in (folder / file, folder / name / file):
            if not path.exists():
                continue
            print(f"checking the MD5 sum of {path.name}", flush=True)
            if file in description.md5:
                publisher_files.check_md5(path, description.md5[file])
            else:
                md5 = publisher_files.md5_sum(path)
                publisher_files.warn_of_replaced(description, path, md5=md5)
    try:
        _unpack(description, folder)
        dataset = load(name, data_dir=folder, split="all")
    except FileNotFoundError:
        if description.tfds is None or not description.tfds.builder:
            raise
        print(f"no files in {folder}; asking TensorFlow Datasets", flush=True)
        tfds = True
    if tfds:
        if description.tfds is None:
            raise ValueError(
                f"data.prepare: TensorFlow Datasets has no builder for {name}; leave "
                "out --tfds."
            )
        publisher_files.check_writable(folder)
        _write_tfds(description, description.tfds, folder)
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
    parser.add_argument(
        "--tfds",
        action="store_true",
        help="also write TFDS files",
    )
    parser.add_argument("--table", action="store_true", help="print all datasets")
    chosen = parser.parse_args(arguments)
    if chosen.table or chosen.name is None:
        print(table())
        return 0
    try:
        dataset = prepare(chosen.name, data_dir=chosen.data_dir, tfds=chosen.tfds)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"ready: {dataset}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
