"""What is known of each score: range, direction, needs, determinism, cost."""

import dataclasses
import math
from collections.abc import Callable, Iterable

from disentangle_jax.metrics import (
    _dci,
    _downstream,
    _explicitness,
    _factor_importance,
    _fairness,
    _fid,
    _flatness,
    _info_mec,
    _interventional,
    _irs,
    _mcc,
    _med,
    _mig,
    _reconstruction,
    _rmig,
    _sap,
    _udr,
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
      needs: "factors" (codes and factors; the interventional ones also take an encoder
        and a data set), "full grid" (as "factors", every combination once), "codes"
        (codes alone), or what else.
      deterministic: the same for every seed.
      cost: "fast" (below about a second at 10,000 rows and 10 latents on two cores),
        "medium" (seconds) or "slow" (longer).
      groups: takes ``groups=``.
      invariant_to: maps of single latents that leave it unchanged, up to rounding:
        "permutation", "shift", "scale" (per latent), "global_scale".
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
    "rmig": Entry(_rmig.rmig, ("rmig", "rmig_nats"), invariant_to=("permutation",)),
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
    "info_mec": Entry(
        _info_mec.info_mec, ("modularity", "explicitness", "compactness"),
        deterministic=False, cost="medium",
        invariant_to=("permutation", "shift", "global_scale"),
    ),
    "mcc": Entry(_mcc.mcc, ("mcc",)),
    "med": Entry(_med.med, ("med", "completeness")),
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
    "flatness": Entry(
        _flatness.flatness, ("flatness", "linearity", "axis", "alignment"),
        needs="full grid",
        deterministic=False, invariant_to=("permutation", "shift", "global_scale"),
    ),
    "downstream": Entry(
        _downstream.downstream, ("accuracy",), cost="slow",
    ),
    "fairness": Entry(
        _fairness.fairness, ("unfairness", "worst"), higher_is_better=False,
        deterministic=False, cost="slow",
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
        invariant_to=("permutation", "shift"),
    ),
    "udr": Entry(_udr.udr, ("udr", "mean"), needs="several models"),
    "factor_importance": Entry(
        _factor_importance.factor_importance, ("random",), range=(0.0, math.inf),
        higher_is_better=None, needs="dataset", deterministic=False, cost="medium",
    ),
    "reconstruction": Entry(
        _reconstruction.reconstruction, ("mse", "l1", "psnr", "nll"),
        range=(0.0, math.inf), higher_is_better=False, needs="images and logits",
    ),
    "fid": Entry(
        _fid.fid, ("fid",), range=(0.0, math.inf), higher_is_better=False,
        needs="images", cost="slow",
    ),
    "kid": Entry(
        _fid.kid, ("kid", "standard_deviation"), range=(-math.inf, math.inf),
        higher_is_better=False, needs="images", deterministic=False, cost="slow",
    ),
    "precision_recall": Entry(
        _fid.precision_recall, ("precision", "recall"), needs="images", cost="slow",
    ),
}  # fmt: skip


def names(
    *, needs: Iterable[str] | None = None, cost: Iterable[str] | None = None
) -> tuple[str, ...]:
    """The names of the registered scores, all or those with such needs and cost."""
    needs = None if needs is None else set(needs)
    cost = None if cost is None else set(cost)
    return tuple(
        name
        for name, entry in REGISTRY.items()
        if (needs is None or entry.needs in needs)
        and (cost is None or entry.cost in cost)
    )


def info(name: str) -> Entry:
    """What is known of a score."""
    if name not in REGISTRY:
        raise unknown_name("info", "name", name, REGISTRY)
    return REGISTRY[name]
