"""How large a model must be to read the factors from a code: DCI-ES."""

import numpy as np

from disentangle_jax.metrics.descriptions import define
from disentangle_jax.metrics.inputs import (
    ArrayLike,
    Arrays,
    Rows,
    Score,
    check_arrays,
    standardised,
)

_RIDGE = 1e-6  # Penalty of a weight, relative to the mean square of its feature.


def _features(
    arrays: Arrays, rows: Rows, count: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns features ``[N, 1 + D + count]`` of the training and of other rows.

    A one, the standardised codes of the latents that vary, and `count` random Fourier
    features :math:`\\sqrt 2 \\cos(w^T z + b)` of a Gaussian kernel whose width is
    :math:`\\sqrt D`, the typical length of a standardised code.
    """
    train = standardised(arrays.codes)
    test = standardised(rows.codes, arrays.codes)
    alive = train.any(axis=0)
    width = max(int(alive.sum()), 1)
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(count, width)).T[: alive.sum()] / np.sqrt(width)
    b = rng.uniform(0.0, 2.0 * np.pi, count)

    def mapped(codes: np.ndarray) -> np.ndarray:
        codes = codes[:, alive]
        waves = np.sqrt(2.0) * np.cos(codes @ w + b)
        return np.concatenate([np.ones((len(codes), 1)), codes, waves], axis=1)

    return mapped(train), mapped(test)


def _losses(
    arrays: Arrays, test: Rows, sizes: tuple[int, ...], seed: int
) -> np.ndarray:
    """Returns test losses ``[probes, K]``; 1 is the loss of the mean of the factor."""
    y = arrays.factors.astype(np.float64)
    mean, std = y.mean(axis=0), y.std(axis=0)
    std = np.where(std > 0, std, 1.0)
    y, y_test = (y - mean) / std, (test.factors - mean) / std
    x, x_test = _features(arrays, test, sizes[-1], seed)
    gram, target = x.T @ x / len(x), x.T @ y / len(x)
    losses = []
    for size in sizes:
        used = x.shape[1] - sizes[-1] + size
        penalty = _RIDGE * np.diag(gram)[:used].clip(1e-12)
        w = np.linalg.solve(gram[:used, :used] + np.diag(penalty), target[:used])
        losses.append(np.mean((x_test[:, :used] @ w - y_test) ** 2, axis=0))
    return np.stack(losses)


def explicitness_of(losses: np.ndarray) -> np.ndarray:
    """Returns 1 − twice the area of each column above its smallest loss.

    Args:
      losses: ``[probes, ...]`` of growing capacity, relative to the baseline's loss;
        the capacities divide [0, 1] into equal steps.
    """
    best = np.minimum.accumulate(losses, axis=0)
    above = best - best[-1]
    return 1.0 - np.mean(above[1:] + above[:-1], axis=0)


@define(
    keys={
        "explicitness": "small models predict the factors as well as large ones (1 is "
        "best)",
        "size": "number of factors per dimension of the code (1: none is redundant)",
        "informativeness": "share of the factors' variance that the best model "
        "predicts (1 is best)",
    },
    range=(-1.0, 1.0),
    deterministic=False,
    invariant_to=("shift", "scale"),
    reference="Eastwood et al. 2023, DCI-ES: An Extended Disentanglement Framework "
    "with Connections to Identifiability",
)
def dci_es(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    probes: int = 10,
    seed: int = 0,
) -> Score:
    r"""Explicitness and size of a code (Eastwood et al. 2023), which extend `dci`.

    Probes of growing capacity :math:`\kappa_0 < \dots < \kappa_J` predict each factor
    from the code. With :math:`\ell_j` the smallest test loss (mean squared error,
    relative to that of the factor's mean) of the probes up to j,

    .. math:: E = 1 - \frac{\sum_j (\kappa_{j+1} - \kappa_j)
       (\ell_j + \ell_{j+1} - 2 \ell_J)/2}{\frac12 (\kappa_J - \kappa_0)}

    averaged over factors: 1 minus the area under the loss-capacity curve, divided by
    that of a loss that falls from 1 to 0 evenly. In [−1, 1], higher is better: 1 if the
    smallest probe is as good as the largest, 0 for the even fall, −1 if only the
    largest probe predicts anything. A code without information has a flat curve, so
    that E is 1: read E together with ``informativeness``, the mean of
    :math:`1 - \ell_J`. ``size`` is K / D.

    The probes are ridge regressions, solved exactly: the first is linear in the
    standardised code, and probe j ≥ 1 has :math:`2^j` random Fourier features besides.
    The capacity is j, the logarithm of the number of features. The paper trains
    networks and forests, and Fourier features, by gradient descent, so that its values
    differ. Disentanglement and completeness are those of `dci`.

    Args:
      codes, factors, codes_test, factors_test, seed: as in every score. Factor values
        are numbers: their order and distances matter. The code is used as a whole, so
        there are no groups. Without test rows a random fifth of the rows is held out.
        The seed is that of the random features.
      probes: number of probes, the linear one included.

    Returns:
      ``explicitness``, ``size``, ``informativeness``; the losses ``[probes, K]`` are in
      ``matrices["loss_capacity"]``.
    """
    arrays = check_arrays("dci_es", codes, factors, codes_test, factors_test)
    if probes < 2:
        raise ValueError(f"dci_es: `probes` must be at least 2, got {probes}.")
    settings = arrays.settings(probes=probes, seed=seed, continuous_as="values")
    test = arrays.test
    if test is None:
        arrays, test = arrays.held_out(seed)
        settings |= {"scored_on": "a held-out fifth of the rows"}
    sizes = (0, *(2**j for j in range(1, probes)))
    losses = _losses(arrays, test, sizes, seed)
    best = losses.min(axis=0)
    return Score(
        {
            "explicitness": np.mean(explicitness_of(losses)),
            "size": len(arrays.sizes) / arrays.codes.shape[1],
            "informativeness": np.mean(np.clip(1.0 - best, 0.0, 1.0)),
        },
        settings,
        matrices={"loss_capacity": losses},
    )
