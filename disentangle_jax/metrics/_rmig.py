"""RMIG: the information gap of stochastic codes."""

import numpy as np
from scipy.special import ndtr

from disentangle_jax.metrics._information import Information, top_two
from disentangle_jax.metrics._inputs import ArrayLike, Score, check_arrays, check_codes


def rmig(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    log_var: ArrayLike | None = None,
    bins: int = 200,
    limits: tuple[float, float] = (-4.0, 4.0),
    seed: int = 0,
) -> Score:
    r"""Robust mutual information gap (Do & Tran 2020, Sec. 4.2).

    As `mig`, but over the stochastic code: a row is spread over the bins of latent i
    with the probabilities :math:`q(\hat z_i \mid x_n)` of its posterior, not put
    into one bin. ``bins`` bins of equal width lie between fixed ``limits`` (codes of a
    variational autoencoder live near the unit Gaussian); what lies outside belongs to
    the outermost bins.

    .. math:: \frac1K \sum_k \frac{I(\hat z_{(1)}; f_k) - I(\hat z_{(2)}; f_k)}{H(f_k)}

    In [0, 1], higher is better. The paper's own number is the gap in nats, without the
    division.

    Args:
      codes: ``[N, D]`` posterior means.
      factors: ``[N, K]``, taken as labels.
      codes_test: accepted as in every score; RMIG has no test part.
      factors_test: as ``codes_test``.
      log_var: ``[N, D]`` posterior log-variances; None for deterministic codes.
      bins: number of bins.
      limits: where the bins begin and end.
      seed: accepted as in every score; RMIG has no randomness.

    Returns:
      ``rmig`` and ``rmig_nats``; the informations are in ``matrices["mi"]``.
    """
    arrays = check_arrays(
        "rmig", codes, factors, codes_test=codes_test, factors_test=factors_test
    )
    low, high = limits
    if not low < high:
        raise ValueError(f"rmig: `limits` must be (low, high), got {limits}.")
    edges = np.linspace(low, high, bins + 1)[1:-1]
    mean = arrays.codes.astype(np.float64)
    if log_var is not None:
        log_var = check_codes("rmig", "log_var", log_var)
        if log_var.shape != mean.shape:
            raise ValueError(
                f"rmig: `log_var` must have the shape {mean.shape} of `codes`, "
                f"got {log_var.shape}."
            )
    hot = np.concatenate(
        [np.eye(s)[f] for f, s in zip(arrays.labels.T, arrays.sizes)], axis=1
    )
    tables = np.zeros((mean.shape[1], bins, hot.shape[1]))
    for d in range(mean.shape[1]):
        if log_var is None:
            place = np.searchsorted(edges, mean[:, d], side="right")
            np.add.at(tables[d], place, hot)
            continue
        scale = np.exp(0.5 * log_var[:, d].astype(np.float64))
        below = ndtr((edges[None, :] - mean[:, d, None]) / scale[:, None])
        spread = np.diff(below, axis=1, prepend=0.0, append=1.0)
        tables[d] = spread.T @ hot
    info = Information(tables, arrays.sizes)
    first, second = top_two(info.mi, 0)
    gap = first - second
    return Score(
        {"rmig": np.mean(gap / info.factor_entropy), "rmig_nats": np.mean(gap)},
        arrays.settings(bins=bins, limits=limits, stochastic=log_var is not None),
        matrices={"mi": info.mi},
    )
