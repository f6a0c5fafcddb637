"""The class of all datasets: images and factors by index."""

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, Protocol, Self

import jax
import numpy as np
import numpy.typing as npt
from jax.typing import ArrayLike

from disentangle_jax.data.noise import Noise, add_noise
from disentangle_jax.data.pairing import Combinations, Pairs, pair_factors
from disentangle_jax.data.resizing import Pixels, area_average
from disentangle_jax.data.splits import split_indices
from disentangle_jax.types import unknown_name


def generator(words: Sequence[int]) -> np.random.Generator:
    """Returns a random generator that is a function of ``words`` alone."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(words)))


_draw_partners = jax.jit(pair_factors, static_argnums=2, static_argnames=("k",))


class Shrink(Protocol):
    """Returns images, ``[n, H, W, C]`` NumPy or JAX, at the size of a dataset."""

    def __call__(self, images: Pixels, /) -> Pixels: ...


class Sample(NamedTuple):
    """A random batch: ``images [n, H, W, C]``, ``factors [n, K]``, ``indices [n]``."""

    images: np.ndarray
    factors: np.ndarray
    indices: np.ndarray


class Dataset:
    """Images addressed by index, with their generative factors.

    Indices always address the whole dataset: for a grid of factors, index ``i`` is the
    position of the combination in row-major order, whatever the split. A split or a
    restriction does not renumber the images; it narrows ``indices``, from which
    :meth:`sample` and ``data.pipeline`` draw. So ``len(dataset)`` is the number of
    images that can be addressed, and ``len(dataset.indices)`` the number in this split.

    Your own dataset is one more instance::

        Dataset("mine", image_shape=(64, 64, 3), images=lambda i: array[i],
                factor_names=("colour", "size"), factor_sizes=(4, 8))

    Args:
      name: name of the dataset, for messages.
      image_shape: ``(H, W, C)`` (``(V,)`` for a bag of words).
      images: function from valid ``[n]`` int64 indices to ``[n, *image_shape]``.
      factor_names: one name per factor; empty where there are no factors.
      factor_sizes: number of values of each factor.
      factor_table: ``[N, K]`` values of each image; None for a complete grid in
        row-major order (last factor fastest). Floating if a factor is continuous.
      length: number of images; needed where there is neither grid nor table.
      render: pure-JAX function from factors ``[n, K]`` to uint8 images, usable inside
        ``jit``; None for datasets read from files. :meth:`resized` does not change
        it: apply ``shrink`` to what it returns.
      copies: images per combination of a grid, which differ in something that is not a
        factor (an instance, a hidden orientation): image ``i`` shows combination
        ``i // copies``.
      noise: pure-JAX function from ``(key, image [H, W, C])`` to an image, for datasets
        that add new noise at every draw. The key is a function of the index in
        ``images``, of the key in ``sample``, and of seed, step and row in
        ``data.pipeline``.
      in_memory: uint8 ``[N, H, W, C]`` array of all images (without noise), if there is
        one; ``data.device_sampler`` moves it to the accelerator.
      packed: the same as bits, for black-and-white images: ``[N, H·W·C / 8]``, or
        ``[N, H·W / 8]`` where all channels are equal.
      reader: function from the module ``tensorflow`` to a function from an int64 tensor
        of indices ``[b]`` to the tensor of their images, for files that TensorFlow can
        read and decode; ``data.pipeline`` then reads without Python. It must give the
        images of `images`; where it raises, ``data.pipeline`` calls `images`.
    """

    def __init__(
        self,
        name: str,
        *,
        image_shape: tuple[int, ...],
        images: Callable[[np.ndarray], np.ndarray],
        factor_names: Sequence[str] = (),
        factor_sizes: Sequence[int] = (),
        factor_table: np.ndarray | None = None,
        length: int | None = None,
        render: Callable[[ArrayLike], jax.Array] | None = None,
        copies: int = 1,
        noise: Noise | None = None,
        in_memory: np.ndarray | None = None,
        packed: np.ndarray | None = None,
        reader: Callable[[ModuleType], Callable[[Any], Any]] | None = None,
    ):
        self.name = name
        self.image_shape = tuple(image_shape)
        self.stored_shape = self.image_shape
        self.factor_names = tuple(factor_names)
        self.factor_sizes = tuple(int(size) for size in factor_sizes)
        self.render = render
        self.copies = copies
        self.in_memory = in_memory
        self.packed = packed
        self.reader = reader
        self.noise = noise
        self._images = images
        self._table = None if factor_table is None else np.asarray(factor_table)
        if self._table is not None and not self.continuous:
            self._table = self._table.astype(np.int64)
        if len(self.factor_names) != len(self.factor_sizes):
            raise ValueError(
                "Dataset: `factor_names` must name each of `factor_sizes`, got "
                f"{self.factor_names} and {self.factor_sizes}."
            )
        if self._table is not None:
            self._check_table(self._table)
            self._length = len(self._table)
        elif self.factor_sizes:
            self._length = int(np.prod(self.factor_sizes)) * copies
        elif length is not None:
            self._length = int(length)
        else:
            raise ValueError(
                "Dataset: `length` must be given where there are no factors."
            )
        self.indices = np.arange(self._length)
        self._member: np.ndarray | None = None
        self._found: Combinations | None = None
        self.shrink: Shrink = lambda images: images

    def _check_table(self, table: np.ndarray) -> None:
        """Raises where factor values lie outside their sizes: arrays are indexed."""
        if self.continuous or not table.size:
            return
        lowest, highest = table.min(0), table.max(0)
        for name, size, low, high in zip(
            self.factor_names, self.factor_sizes, lowest, highest
        ):
            if low < 0 or high >= size:
                raise ValueError(
                    f"data.load: the values of {name} in {self.name} must lie in "
                    f"[0, {size}), got {low} to {high}. Replace the file of its labels."
                )

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        factors = ", ".join(
            f"{name} {size}" for name, size in zip(self.factor_names, self.factor_sizes)
        )
        return (
            f"Dataset({self.name!r}, {len(self.indices)} of {len(self)} images "
            f"{self.image_shape}, factors: {factors or 'none'})"
        )

    @property
    def is_grid(self) -> bool:
        """Whether every combination of factors has one image (or ``copies``)."""
        return bool(self.factor_sizes) and self._table is None

    @property
    def continuous(self) -> bool:
        """Whether a factor has continuous values instead of labels."""
        return self._table is not None and np.issubdtype(self._table.dtype, np.floating)

    def _checked(self, function: str, indices: ArrayLike) -> np.ndarray:
        indices = np.asarray(indices)
        if not indices.size:
            return indices.astype(np.int64)
        if not np.issubdtype(indices.dtype, np.integer):
            raise ValueError(
                f"{function}: `indices` must be integers, got {indices.dtype}."
            )
        if indices.min() < 0 or indices.max() >= len(self):
            raise ValueError(
                f"{function}: `indices` must lie in [0, {len(self)}), got "
                f"{indices.min()} to {indices.max()}."
            )
        return indices.astype(np.int64)

    def images(self, indices: ArrayLike) -> np.ndarray:
        """Returns images, uint8 ``[n, H, W, C]`` in [0, 255], of ``indices [n]``.

        Indices of any shape give images of that leading shape.
        """
        indices = self._checked("Dataset.images", indices)
        flat = indices.ravel()
        images = self.noisy_images(flat, flat[:, None])
        return images.reshape(*indices.shape, *self.image_shape)

    def noisy_images(self, indices: np.ndarray, seeds: npt.ArrayLike) -> np.ndarray:
        """Returns images of valid ``indices [n]``, noise by ``seeds [n, words]``."""
        images = self._images(indices)
        if self.noise is not None and len(indices):
            images = add_noise(self.noise, images, seeds)
        return self.shrink(images)

    def resized(self, size: int) -> Self:
        """Returns the dataset with images of ``size``×``size`` pixels, area averages.

        Noise is drawn before the images are resized.

        Args:
          size: at most the height of the images, which must be square.
        """
        height, width, channels = (*self.image_shape, 0, 0)[:3]
        whole = isinstance(size, int) and not isinstance(size, bool)
        if not (whole and height == width and 1 <= size <= height):
            raise ValueError(
                f"data.load: `size` must be an integer from 1 to the side of square "
                f"images, and those of {self.name} are {self.image_shape}, got "
                f"{size!r}."
            )
        if size == height:
            return self
        other = self.narrow(self.indices)
        other.image_shape = (size, size, channels)

        def shrink(images: Pixels) -> Pixels:
            return area_average(images, size)

        other.shrink = shrink
        return other

    def factors(self, indices: ArrayLike) -> np.ndarray:
        """Returns factor values ``[n, K]`` of ``indices [n]`` (any shape).

        They are int64, or floating if one of the factors is continuous.
        """
        indices = self._checked("Dataset.factors", indices)
        if self._table is not None:
            return self._table[indices]
        if not self.factor_sizes:
            return np.zeros((*indices.shape, 0), np.int64)
        combination = np.unravel_index(indices // self.copies, self.factor_sizes)
        return np.stack(combination, axis=-1)

    def index_of(self, factors: ArrayLike) -> np.ndarray:
        """Returns the indices ``[n]`` of the images with ``factors [n, K]``.

        If several images share the values (class labels, copies), returns the first.
        Values that no image has are an error.
        """
        factors = np.asarray(factors)
        expected = len(self.factor_sizes)
        if not factors.ndim or factors.shape[-1] != expected or not expected:
            raise ValueError(
                f"Dataset.index_of: `factors` must have shape [n, {expected}] (and the "
                f"dataset must have factors), got {factors.shape}."
            )
        if factors.size and not np.issubdtype(factors.dtype, np.integer):
            raise ValueError(
                f"Dataset.index_of: `factors` must be integers, got {factors.dtype}."
            )
        shape = factors.shape[:-1]
        factors = factors.reshape(-1, expected).astype(np.int64)
        sizes = np.asarray(self.factor_sizes)
        if factors.size and (factors.min() < 0 or (factors >= sizes).any()):
            raise ValueError(
                "Dataset.index_of: `factors` must lie below the sizes "
                f"{self.factor_sizes} of {', '.join(self.factor_names)}, got "
                f"{factors.min(0).tolist()} to {factors.max(0).tolist()}."
            )
        places = np.ravel_multi_index(tuple(factors.T), self.factor_sizes)
        if self._table is None:
            return (places * self.copies).reshape(shape)
        combinations = self._combinations(self._table)
        rows, known = combinations.rows(places)
        if not known.all():
            raise ValueError(
                f"Dataset.index_of: `factors` must be combinations that {self.name} "
                f"holds ({len(combinations)} of {int(np.prod(sizes))}), got "
                f"{factors[~known][0].tolist()}, which it does not."
            )
        return rows.reshape(shape)

    def _combinations(self, table: np.ndarray) -> Combinations:
        if self.continuous:
            raise ValueError(
                f"Dataset: images of {self.name} cannot be found by their factors, "
                "which are continuous; pairs and interventions need labels."
            )
        if self._found is None:
            self._found = Combinations(table, self.factor_sizes)
        return self._found

    def split(self, split: str, *, recipe: str = "paper") -> Self:
        """Returns the dataset narrowed to a part of ``data.split_indices``.

        Args:
          split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
          recipe: as in ``data.split_indices``.
        """
        if split == "all":
            return self
        parts = split_indices(len(self), recipe=recipe)
        if split not in parts:
            raise unknown_name("data.load", "split", split, [*parts, "all"])
        return self.narrow(parts[split])

    def split_train(self, split: str) -> Self:
        """Narrows a dataset whose publisher ships a separate test part.

        Args:
          split: ``"train"`` and ``"validation"`` share the images 90/10 by fixed seed;
            ``"test"`` and ``"all"`` change nothing, as they are other files.
        """
        if split in ("test", "all"):
            return self
        if split not in ("train", "validation"):
            known = ("train", "validation", "test", "all")
            raise unknown_name("data.load", "split", split, known)
        order = np.random.RandomState(0).permutation(len(self))
        train, validation = np.split(order, [len(order) - len(order) // 10])
        return self.narrow(np.sort(train if split == "train" else validation))

    def narrow(self, indices: ArrayLike) -> Self:
        """Returns the dataset that draws only from ``indices [m]`` (not renumbered)."""
        indices = self._checked("Dataset.narrow", indices).ravel()
        if not len(indices):
            raise ValueError(
                f"Dataset.narrow: `indices` must not be empty; no image of {self.name} "
                "would be left."
            )
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, indices=indices, _member=None)
        return other

    def keep(self, **values: Iterable[int]) -> Self:
        """Returns the dataset narrowed to images whose factors have the given values.

        ``dataset.keep(shape=[0, 1], scale=range(3))``.
        """
        chosen = self._matches("Dataset.keep", values).all(0)
        return self.narrow(self.indices[chosen])

    def drop(self, **values: Iterable[int]) -> Self:
        """Returns the dataset without the images that have any of the given values.

        ``shapes.drop(shape=[2])`` has no spheres; ``shapes.drop(orientation=[0, 1, 13,
        14])`` is the angle extrapolation of Structural Autoencoders, Sec. 4.2.
        """
        chosen = self._matches("Dataset.drop", values).any(0)
        return self.narrow(self.indices[~chosen])

    def drop_combination(self, **values: Iterable[int]) -> Self:
        """Returns the dataset without the images that have *all* the given values.

        ``digits.drop_combination(label=[7], thickness=[3])`` has thick digits and
        sevens but no thick sevens, as the unseen combinations of HFVAE, Sec. 5.5.
        """
        chosen = self._matches("Dataset.drop_combination", values).all(0)
        return self.narrow(self.indices[~chosen])

    def _matches(self, function: str, values: dict[str, Iterable[int]]) -> np.ndarray:
        """Returns which of ``indices`` have the values of each name, ``[names, M]``."""
        factors = self.factors(self.indices)
        matches = np.zeros((len(values), len(self.indices)), bool)
        for row, (name, allowed) in enumerate(values.items()):
            if name not in self.factor_names:
                raise unknown_name(function, "values", name, self.factor_names)
            column = self.factor_names.index(name)
            size = self.factor_sizes[column]
            if isinstance(allowed, str) or not isinstance(allowed, Iterable):
                raise ValueError(
                    f"{function}: `{name}` must be a list of values, got {allowed!r}."
                )
            allowed = list(allowed)
            for value in allowed:
                if value not in range(size):
                    raise ValueError(
                        f"{function}: `{name}` has no value {value!r}; its values are "
                        f"0 … {size - 1}."
                    )
            if not allowed:
                raise ValueError(f"{function}: `{name}` must not be empty.")
            matches[row] = np.isin(factors[:, column], allowed)
        return matches

    def add_factor(self, name: str, values: ArrayLike) -> Self:
        """Returns the dataset with one more factor, measured on its images.

        For example, the stroke width of digits, so that its combinations with the
        label can be held out.

        Args:
          name: name of the factor.
          values: ``[N]`` integers from 0, one for every image of the whole dataset.
        """
        values = np.asarray(values)
        fits = values.shape == (len(self),) and np.issubdtype(values.dtype, np.integer)
        if not fits or values.min() < 0:
            raise ValueError(
                f"Dataset.add_factor: `values` must be {len(self)} integers from 0, "
                f"got shape {values.shape} of {values.dtype}."
            )
        other = self.narrow(self.indices)
        other.factor_names = (*self.factor_names, name)
        other.factor_sizes = (*self.factor_sizes, int(values.max()) + 1)
        known = self.factors(np.arange(len(self)))
        other._table = np.concatenate([known, values[:, None]], axis=1)
        other.render = None
        other._found = None
        return other

    def sample(self, key: jax.Array, n: int) -> Sample:
        """Returns ``n`` images drawn uniformly with replacement from ``indices``."""
        rows = jax.random.randint(key, (n,), 0, len(self.indices))
        indices = self.indices[np.asarray(rows)]
        words = tuple(np.asarray(jax.random.key_data(key)).tolist())
        images = self.noisy_images(indices, [(*words, place) for place in range(n)])
        return Sample(images, self.factors(indices), indices)

    def sample_pairs(self, key: jax.Array, n: int, k: int | str = "uniform") -> Pairs:
        """Returns ``n`` pairs of images that differ in ``k`` factors.

        The first image is uniform over ``indices``; :meth:`partners` draws the second.

        Args:
          key: typed PRNG key.
          n: number of pairs.
          k: as in ``data.pair_factors``.
        """
        first_key, partner_key = jax.random.split(key)
        rows = jax.random.randint(first_key, (n,), 0, len(self.indices))
        first = self.indices[np.asarray(rows)]
        second, changed = self.partners(partner_key, first, k)
        words = tuple(np.asarray(jax.random.key_data(key)).tolist())
        image, partner = (
            self.noisy_images(row, [(*words, half, place) for place in range(n)])
            for half, row in enumerate((first, second))
        )
        factors = self.factors(first), self.factors(second)
        return Pairs(image, partner, *factors, changed)

    def partners(
        self, key: jax.Array, indices: np.ndarray, k: int | str = "uniform"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws for each image another one that differs in ``k`` factors.

        Partners outside ``self.indices`` are drawn again, so both lie in the split.

        Args:
          key: typed PRNG key.
          indices: ``[n]`` indices of the first images.
          k: as in ``data.pair_factors``.

        Returns:
          ``(partners [n], changed [n, K] bool)``.
        """
        if not self.factor_sizes:
            raise ValueError(
                f"Dataset.partners: needs factors, and {self.name} has none. Use for "
                "example rendered_shapes3d or dsprites."
            )
        table = None if self._table is None else self._combinations(self._table)
        factors = self.factors(indices)
        second = np.zeros_like(indices)
        changed = np.zeros(factors.shape, bool)
        inside = self.inside()
        todo = np.arange(len(indices))
        for attempt in range(1000):
            pair_key, copy_key = jax.random.split(jax.random.fold_in(key, attempt))
            # All are drawn again, so that one shape is compiled, not one per remainder.
            partner, moved = _draw_partners(pair_key, factors, self.factor_sizes, k=k)
            if table is None:
                copy = jax.random.randint(copy_key, (len(indices),), 0, self.copies)
                drawn = self.index_of(np.asarray(partner)) + np.asarray(copy)
                known = np.ones(len(drawn), bool)
            else:
                places = np.ravel_multi_index(np.asarray(partner).T, self.factor_sizes)
                share = jax.random.uniform(copy_key, (len(indices),))
                drawn, known = table.rows(places, np.asarray(share))
            second[todo], changed[todo] = drawn[todo], np.asarray(moved)[todo]
            todo = todo[~(known & inside[drawn])[todo]]
            if not len(todo):
                return second, changed
        raise ValueError(
            "Dataset.partners: `k` must allow pairs inside the restriction, got "
            f"{k!r}, with which some images of {self.name} have no partner: it lacks "
            "combinations of factors."
        )

    def inside(self) -> np.ndarray:
        """Returns whether each image of the dataset is in ``indices``, bool ``[N]``."""
        if self._member is None:
            member = np.zeros(len(self), bool)
            member[self.indices] = True
            self._member = member
        return self._member
