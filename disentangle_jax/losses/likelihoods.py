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
    """

    name: str
    loss: Callable[[jax.Array, jax.Array], jax.Array]
    mean: Callable[[jax.Array], jax.Array]
    reduction: str = "sum"
    standardizable: bool = True
    error: str | None = None

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
        ),
        Likelihood("gaussian", reconstructions.gaussian_reconstruction, _identity),
        Likelihood("mse", reconstructions.mse, _identity, reduction="mean"),
        Likelihood("l1", reconstructions.l1_reconstruction, _identity),
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
