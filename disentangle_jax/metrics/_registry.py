"""What is known of each score: range, direction, needs, determinism, cost."""

import dataclasses
import math
from collections.abc import Callable, Iterable

from disentangle_jax.metrics import (
    _dci,
    _explicitness,
    _interventional,
    _irs,
    _mig,
    _sap,
    _unsupervised,
)
from disentangle_jax.types import unknown_name


@dataclasses.dataclass(frozen=True)
class Entry:
    """A score of the registry.

    Attributes:
      function: the score.
      keys: what it returns; the first is the headline.
      range: smallest and largest possible headline.
      higher_is_better: direction; None for quantities without one.
      needs: "factors" (codes and factors), "codes" (codes alone), or what else.
      deterministic: the same for every seed.
      cost: "fast" (below about a second at 10,000 rows and 10 latents on two cores),
        "medium" (seconds) or "slow" (longer).
      groups: takes ``groups=``.
      invariant_to: maps of single latents that leave it unchanged, up to rounding:
        "permutation", "shift", "scale" (per latent), "global_scale", "sign".
    """

    function: Callable
    keys: tuple[str, ...]
    range: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool | None = True
    needs: str = "factors"
    deterministic: bool = True
    cost: str = "fast"
    groups: bool = False
    invariant_to: tuple[str, ...] = ("permutation", "shift", "scale")


REGISTRY: dict[str, Entry] = {
    "mig": Entry(_mig.mig, ("mig",), groups=True),
    "mig_sup": Entry(_mig.mig_sup, ("mig_sup",), groups=True),
    "jemmig": Entry(_mig.jemmig, ("jemmig",), groups=True),
    "dcimig": Entry(_mig.dcimig, ("dcimig",), groups=True),
    "modularity": Entry(_mig.modularity, ("modularity",), groups=True),
    "dci": Entry(
        _dci.dci,
        ("disentanglement", "completeness", "informativeness"),
        cost="medium",
        groups=True,
    ),
    "sap": Entry(_sap.sap, ("sap",), groups=True, invariant_to=("permutation",)),
    "explicitness": Entry(
        _explicitness.explicitness, ("explicitness",), cost="medium"
    ),
    "irs": Entry(
        _irs.irs, ("irs",), groups=True,
        invariant_to=("permutation", "shift", "global_scale"),
    ),
    "beta_vae_score": Entry(
        _interventional.beta_vae_score, ("beta_vae_score",), deterministic=False,
        cost="medium", invariant_to=("shift",),
    ),
    "factor_vae_score": Entry(
        _interventional.factor_vae_score, ("factor_vae_score",), deterministic=False,
        invariant_to=("permutation", "shift"),
    ),
    "z_max_var": Entry(
        _interventional.z_max_var, ("z_max_var",), deterministic=False,
        invariant_to=("permutation", "shift"),
    ),
    "unsupervised": Entry(
        _unsupervised.unsupervised,
        (
            "gaussian_total_correlation",
            "gaussian_wasserstein_correlation",
            "gaussian_wasserstein_correlation_norm",
            "mutual_information",
        ),
        range=(0.0, math.inf),
        higher_is_better=False,
        needs="codes",
    ),
}  # fmt: skip


def names(*, needs: Iterable[str] | None = None) -> tuple[str, ...]:
    """The names of the registered scores, all or those with one of these needs."""
    if needs is None:
        return tuple(REGISTRY)
    needs = set(needs)
    return tuple(name for name, entry in REGISTRY.items() if entry.needs in needs)


def info(name: str) -> Entry:
    """What is known of a score."""
    if name not in REGISTRY:
        raise unknown_name("info", "name", name, REGISTRY)
    return REGISTRY[name]
