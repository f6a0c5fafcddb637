"""TensorFlow Datasets builders for the datasets for which it has none.

Importing this module registers them, so that ``tfds.load("cars3d")`` works in any code
once ``python -m disentangle_jax.data.prepare cars3d --tfds --data_dir=…`` has run.
Examples have the order of our indices: example ``i`` is ``dataset.images([i])``.
"""

import os
from collections.abc import Iterator

import tensorflow_datasets as tfds

from disentangle_jax.data.catalogue import DatasetDescription, describe, names
from disentangle_jax.data.loading import load

_CHUNK = 256


# TFDS has no types, so that mypy does not know the keyword of its base class.
class _Builder(  # type: ignore[call-arg]
    tfds.core.GeneratorBasedBuilder, skip_registration=True
):
    """Writes one of our datasets; the publisher's files are its manual directory."""

    VERSION = tfds.core.Version("1.0.0")
    description: DatasetDescription

    def _info(self) -> tfds.core.DatasetInfo:
        factors = {
            f"label_{name}": tfds.features.ClassLabel(num_classes=size)
            for name, size in self.description.factors.items()
        }
        shape = self.description.image_shape
        image = tfds.features.Image(shape=shape, encoding_format="png")
        return self.dataset_info_from_configs(
            description=f"{self.name}, in the order of disentangle_jax's indices.",
            features=tfds.features.FeaturesDict({"image": image, **factors}),
            disable_shuffling=True,
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator]:
        folder = dl_manager.manual_dir if self.description.fetch else None
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


def _builder(description: DatasetDescription) -> type[_Builder]:
    """Returns (and registers) the builder of a dataset."""
    fields = {
        "__module__": __name__,
        "__doc__": f"Writes {description.name}.",
        "name": description.name,
        "description": description,
    }
    if description.fetch:
        fields["MANUAL_DOWNLOAD_INSTRUCTIONS"] = description.advice()
    return type(description.name, (_Builder,), fields)


BUILDERS = {
    name: _builder(describe(name))
    for name in names()
    if (layout := describe(name).tfds) is not None and not layout.builder
}
