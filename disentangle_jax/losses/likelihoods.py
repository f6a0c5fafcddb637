"""Likelihoods by name: a reconstruction loss and the observation it predicts."""

import dataclasses
from collections.abc import Callable

import jax

from disentangle_jax import registry
from disentangle_jax.losses import reconstructions
from disentangle_jax.types import unknown_name


@dataclasses.dataclass(frozen=True)
class Likelihood:
    """A reconstruction loss, and how decoder outputs become observations.

    Attributes:
      name: the name under which configs and :func:`likelihood` know it.
      loss: function of ``(x, logits)`` that returns ``[B]``.
      mean: function of ``logits`` that returns the mean observation, of the same
        shape: an image in [0, 1], or probabilities of words.
      reduction: ``"sum"`` or ``"mean"``, how ``loss`` reduces over pixels.
      standardizable: whether observations may be standardised. False where they must
        lie in [0, 1] or are counts.
      error: name under which evaluation reports ``loss``; None for no such report.
      pixelwise: whether ``loss`` sums or averages over pixels a function of each, so
        that their order does not matter.
    """

    name: str
    loss: Callable[[jax.Array, jax.Array], jax.Array]
    mean: Callable[[jax.Array], jax.Array]
    reduction: str = "sum"
    standardizable: bool = True
    error: str | None = None
    pixelwise: bool = False

    def __post_init__(self) -> None:
        if self.reduction not in ("sum", "mean"):
            raise unknown_name(
                "Likelihood", "reduction", self.reduction, ["sum", "mean"]
            )

    def mean_over_pixels(self, x: jax.Array, logits: jax.Array) -> jax.Array:
        """Returns the loss ``[B]`` averaged over pixels and channels."""
        if self.reduction == "mean":
            return self.loss(x, logits)
        return reconstructions.per_pixel(self.loss)(x, logits)

    def on_blocks(self, side: int) -> "Likelihood":
        """Returns this likelihood with a loss for logits that were made in blocks.

        A decoder that computes blocks of pixels (``models.Network.pixel_blocks``)
        rearranges them to images on TPUs, which is expensive. A pixelwise loss undoes
        this, on TPUs only, and the compiler then removes both.

        Args:
          side: side of the blocks; 0 for pixels in their usual order.
        """
        if not (side and self.pixelwise):
            return self

        def on_blocks(x: jax.Array, logits: jax.Array) -> jax.Array:
            return self.loss(_as_blocks(x, side), _as_blocks(logits, side))

        def loss(x: jax.Array, logits: jax.Array) -> jax.Array:
            if x.ndim != 4 or x.shape[1] % side or x.shape[2] % side:
                return self.loss(x, logits)
            return jax.lax.platform_dependent(
                x, logits, tpu=on_blocks, default=self.loss
            )

        return dataclasses.replace(self, loss=loss)


def _as_blocks(x: jax.Array, side: int) -> jax.Array:
    """Takes the pixels of each block as channels, ``[B, H/side, W/side, …]``."""
    b, h, w, c = x.shape
    x = x.reshape(b, h // side, side, w // side, side, c).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(b, h // side, w // side, side * side * c)


def _identity(logits: jax.Array) -> jax.Array:
    return logits


_LIKELIHOODS = {
    one.name: one
    for one in (
        Likelihood(
            "bernoulli",
            reconstructions.bernoulli_reconstruction,
            jax.nn.sigmoid,
            standardizable=False,
            error="bce",
            pixelwise=True,
        ),
        Likelihood(
            "gaussian",
            reconstructions.gaussian_reconstruction,
            _identity,
            pixelwise=True,
        ),
        Likelihood(
            "mse", reconstructions.mse, _identity, reduction="mean", pixelwise=True
        ),
        Likelihood("l1", reconstructions.l1_reconstruction, _identity, pixelwise=True),
        Likelihood(
            "box_blur_mse", reconstructions.box_blur_mse, _identity, reduction="mean"
        ),
        Likelihood(
            "multinomial",
            reconstructions.multinomial_reconstruction,
            jax.nn.softmax,
            standardizable=False,
            error="nll",
        ),
    )
}


def likelihoods() -> tuple[str, ...]:
    """Returns the names of the library's likelihoods."""
    return tuple(_LIKELIHOODS)


def likelihood(
    name: str, *, function: str = "likelihood", argument: str = "name"
) -> Likelihood:
    """Returns the likelihood called `name`.

    Args:
      name: one of :func:`likelihoods`, or ``package.module:name`` of a
        :class:`Likelihood` in another package.
      function: the public function that the user called, for the error message.
      argument: its argument that holds the name.

    Raises:
      ValueError: there is no such likelihood.
    """
    if isinstance(name, str) and ":" in name:
        found = registry.imported(name, function, argument)
        if not isinstance(found, Likelihood):
            raise ValueError(
                f"{function}: `{argument}` must name a Likelihood, and {name!r} is a "
                f"{type(found).__name__}. Define it as losses.Likelihood(...)."
            )
        return found
    if name not in _LIKELIHOODS:
        raise unknown_name(function, argument, name, _LIKELIHOODS)
    return _LIKELIHOODS[name]
