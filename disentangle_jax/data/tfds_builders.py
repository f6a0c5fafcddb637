"""TensorFlow Datasets builders for the sets it has none for.

Importing this module registers them, so that ``tfds.load("cars3d")`` works in anyone's
code once ``python -m disentangle_jax.data.prepare cars3d --tfds --data_dir=…`` has run.
Examples keep the order of our indices: example ``i`` is ``dataset.images([i])``.
"""

import os
from collections.abc import Iterator

import tensorflow_datasets as tfds

from disentangle_jax.data import _files, _folders, _mpi3d, _rfd, _xysquares
from disentangle_jax.data._registry import load

_CHUNK = 256


class _Builder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Writes one of our sets; the publisher's files are its manual directory."""

    VERSION = tfds.core.Version("1.0.0")
    SHAPE: tuple[int, int, int]
    FACTORS: dict[str, int]

    @property
    def MANUAL_DOWNLOAD_INSTRUCTIONS(self) -> str:
        return _files.advice(self.name)

    def _info(self) -> tfds.core.DatasetInfo:
        factors = {
            f"label_{name}": tfds.features.ClassLabel(num_classes=size)
            for name, size in self.FACTORS.items()
        }
        image = tfds.features.Image(shape=self.SHAPE, encoding_format="png")
        return self.dataset_info_from_configs(
            description=f"{self.name}, in the order of disentangle_jax's indices.",
            features=tfds.features.FeaturesDict({"image": image, **factors}),
            disable_shuffling=True,
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator]:
        generated = self.MANUAL_DOWNLOAD_INSTRUCTIONS is None
        folder = None if generated else dl_manager.manual_dir
        return {"train": self._generate_examples(folder)}

    def _generate_examples(
        self, folder: os.PathLike | None
    ) -> Iterator[tuple[int, dict]]:
        dataset = load(self.name, data_dir=folder, split="all")
        for start in range(0, len(dataset), _CHUNK):
            indices = dataset.indices[start : start + _CHUNK]
            rows = zip(indices, dataset.images(indices), dataset.factors(indices))
            for index, image, factors in rows:
                labels = {
                    f"label_{name}": int(value)
                    for name, value in zip(dataset.factor_names, factors)
                }
                yield int(index), {"image": image, **labels}


class Cars3d(_Builder):
    """Cars3D."""

    SHAPE = (64, 64, 3)
    FACTORS = {"elevation": 4, "azimuth": 24, "object": 183}


class Mpi3dToy(_Builder):
    """MPI3D toy."""

    name = "mpi3d_toy"
    SHAPE = (64, 64, 3)
    FACTORS = dict(zip(_mpi3d.FACTOR_NAMES, _mpi3d.FACTOR_SIZES))


class Mpi3dRealistic(_Builder):
    """MPI3D realistic."""

    name = "mpi3d_realistic"
    SHAPE = (64, 64, 3)
    FACTORS = dict(zip(_mpi3d.FACTOR_NAMES, _mpi3d.FACTOR_SIZES))


class Mpi3dReal(_Builder):
    """MPI3D real."""

    name = "mpi3d_real"
    SHAPE = (64, 64, 3)
    FACTORS = dict(zip(_mpi3d.FACTOR_NAMES, _mpi3d.FACTOR_SIZES))


class Rfd(_Builder):
    """Robot Finger Dataset, the simulated part."""

    SHAPE = (128, 128, 3)
    FACTORS = dict(zip(_rfd.FACTOR_NAMES, (1, 8, 1, 30, 30, 30, 30, 30, 10)))


class Hwf(_Builder):
    """Handwritten symbols of HWF."""

    SHAPE = (_folders.SYMBOL_SIZE, _folders.SYMBOL_SIZE, 1)
    FACTORS = {"symbol": len(_folders.SYMBOLS)}


class Xysquares(_Builder):
    """XYSquares at spacing 8."""

    MANUAL_DOWNLOAD_INSTRUCTIONS = None
    SHAPE = (64, 64, 3)
    FACTORS = dict.fromkeys(_xysquares.FACTOR_NAMES, _xysquares.PLACES)


BUILDERS = {
    builder.name: builder
    for builder in (
        Cars3d,
        Mpi3dToy,
        Mpi3dRealistic,
        Mpi3dReal,
        Rfd,
        Hwf,
        Xysquares,
    )
}
