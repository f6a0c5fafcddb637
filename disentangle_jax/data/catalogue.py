"""The description of every dataset, and how a dataset is found by name.

A dataset is a function that returns a :class:`Dataset` and carries its description.
Those of the library are modules of ``disentangle_jax.data.sets``; yours is found by
``package.module:function``::

    @data.define(factors={"colour": 4, "size": 8}, image_shape=(64, 64, 3), size="32")
    def blocks(*, data_dir=None, split="train"):
        images = np.load(...)
        return blocks.description.dataset(lambda i: images[i]).split(split)

    data.load("my_package.blocks:blocks")
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

import numpy as np

from disentangle_jax.data.dataset import Dataset
from disentangle_jax.registry import Registry

_Options = ParamSpec("_Options")
_Dataset = TypeVar("_Dataset", bound=Dataset, covariant=True)
_DATASETS = Registry("dataset", "disentangle_jax.data.sets")


def _as_stored(image: np.ndarray) -> np.ndarray:
    return image


@dataclasses.dataclass(frozen=True)
class TfdsLayout:
    """How TensorFlow Datasets (TFDS) stores a dataset.

    Attributes:
      builder: name of TFDS's own builder; empty where ``data.tfds_builders`` makes one
        from the description.
      keys: features that hold the factors; None for ``label_FACTOR`` of each.
      attributes: name of a feature whose members are the factors, in alphabetical
        order; replaces `keys`.
      parts: TFDS's splits.
      fit: maps a stored image to an image of the dataset.
      assemble: maps all images and factor values to the dataset, where the splits of
        TFDS are merged and rearranged; None where every example is one image.
    """

    builder: str = ""
    keys: tuple[str, ...] | None = None
    attributes: str = ""
    parts: tuple[str, ...] = ("train",)
    fit: Callable[[np.ndarray], np.ndarray] = _as_stored
    assemble: Callable[[np.ndarray, np.ndarray], Dataset] | None = None

    @property
    def fits(self) -> bool:
        """Whether images differ from the stored ones."""
        return self.fit is not _as_stored


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetDescription:
    """Everything that is known about a dataset.

    Attributes:
      name: name of the dataset, that of its function.
      factors: number of values of each factor, in the order of the columns of
        ``Dataset.factors``; empty where there are none or the files decide.
      note: what `factors` does not say, in words.
      image_shape: ``(H, W, C)``; None for documents and where options decide.
      size: number of images or documents, in words.
      licence: licence or terms of use.
      fetch: address of the publisher's files; empty where nothing is downloaded.
      files: what belongs in ``data_dir``, in words.
      patterns: names of the files to look for in ``data_dir``, preferred ones first.
      md5: published MD5 sum of each file.
      replaced: name and MD5 sum of files that their publisher replaced by others.
      moments: published mean and standard deviation of each channel, of images in
        [0, 1] (see ``data.channel_moments``); None where none are published.
      documents: whether it holds documents (word counts) instead of images.
      tfds: how TensorFlow Datasets stores it; None where it does not.
      compressed_images: returns the shape and the pieces of the images in a file that
        is too slow to read by index, and None where the file is not compressed.
    """

    name: str
    factors: Mapping[str, int] = dataclasses.field(default_factory=dict)
    note: str = ""
    image_shape: tuple[int, ...] | None = None
    size: str = ""
    licence: str = "not stated"
    fetch: str = ""
    files: str = ""
    patterns: tuple[str, ...] = ()
    md5: Mapping[str, str] = dataclasses.field(default_factory=dict)
    replaced: Mapping[str, str] = dataclasses.field(default_factory=dict)
    moments: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    documents: bool = False
    tfds: TfdsLayout | None = None
    compressed_images: (
        Callable[[pathlib.Path], tuple[tuple, Iterator[np.ndarray]] | None] | None
    ) = None

    @property
    def fixed_shape(self) -> tuple[int, ...]:
        """``(H, W, C)`` of a dataset whose images have one shape.

        Raises:
          ValueError: the options or the files decide about the shape.
        """
        if self.image_shape is None:
            raise ValueError(f"{self.name}: its images have no shape of their own.")
        return self.image_shape

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Names of the factors."""
        return tuple(self.factors)

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """Number of values of each factor."""
        return tuple(self.factors.values())

    @property
    def factor_text(self) -> str:
        """The factors with their numbers of values, and the note, in words."""
        listed = ", ".join(
            f"{name.replace('_', ' ')} {size}" for name, size in self.factors.items()
        )
        if not self.note:
            return listed or "none"
        return f"{listed} ({self.note})" if listed else self.note

    @property
    def size_text(self) -> str:
        """The number of images and their shape, in words."""
        if self.image_shape is None:
            return self.size
        return f"{self.size} × {'×'.join(map(str, self.image_shape))}"

    def text(self) -> str:
        """Returns everything that a user needs to know, one fact per line."""
        facts = {
            "factors": self.factor_text,
            "size": self.size_text,
            "licence": self.licence,
            "fetch": self.fetch or "nothing: it is generated",
            "files": self.files,
            "MD5": ", ".join(f"{file} {md5}" for file, md5 in self.md5.items()),
        }
        return "\n".join(f"{name:<9}{fact}" for name, fact in facts.items() if fact)

    def advice(self) -> str:
        """Returns where the files come from and where they belong."""
        return f"Fetch {self.fetch} and put {self.files} into that folder."

    def dataset(
        self, images: Callable[[np.ndarray], np.ndarray], **fields: Any
    ) -> Dataset:
        """Returns the dataset with the name, image shape and factors described here.

        Args:
          images: function from valid ``[n]`` indices to images.
          **fields: further arguments of :class:`Dataset`, or other values of those.
        """
        described = {
            "image_shape": self.image_shape,
            "factor_names": self.factor_names,
            "factor_sizes": self.factor_sizes,
        }
        return Dataset(self.name, images=images, **{**described, **fields})


class DatasetFunction(Protocol, Generic[_Options, _Dataset]):
    """A function that returns a dataset, with its description."""

    __name__: str
    description: DatasetDescription

    def __call__(
        self, *args: _Options.args, **options: _Options.kwargs
    ) -> _Dataset: ...


class DatasetDecorator(Protocol):
    """Gives a dataset function its description, and keeps its signature."""

    def __call__(
        self, function: Callable[_Options, _Dataset], /
    ) -> DatasetFunction[_Options, _Dataset]: ...


def define(**fields: Any) -> DatasetDecorator:
    """Returns a decorator that gives a dataset function its description.

    The function takes ``data_dir=None``, ``split="train"`` and its options by keyword.

    Args:
      **fields: those of :class:`DatasetDescription`, except ``name``.
    """

    def decorate(
        function: Callable[_Options, _Dataset],
    ) -> DatasetFunction[_Options, _Dataset]:
        description = DatasetDescription(name=function.__name__, **fields)
        return _DATASETS.add(function, description)

    return decorate


def names() -> tuple[str, ...]:
    """Returns the names of the library's datasets, in alphabetical order."""
    return tuple(sorted(_DATASETS))


def describe(name: str) -> DatasetDescription:
    """Returns the description of a dataset.

    Args:
      name: one of :func:`names`, or ``package.module:function`` of yours.
    """
    return find(name, "data.describe").description


def find(name: str, function: str) -> DatasetFunction[..., Dataset]:
    """Returns the dataset function of that name, which has a description.

    Args:
      name: one of :func:`names`, or ``package.module:function``.
      function: the public function that was called, for the error.
    """
    return _DATASETS.get(name, function)
