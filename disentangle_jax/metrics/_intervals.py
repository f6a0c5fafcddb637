"""Bootstrap intervals of scores, by `vmap` over resamples of the rows."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.metrics import _mig
from disentangle_jax.metrics._dci import disentanglement_completeness
from disentangle_jax.metrics._information import (
    Information,
    contingency,
    quantise,
    top_two,
)
from disentangle_jax.metrics._inputs import Arrays, Score, as_key

# Resamples that are alive at once; more would only use more memory.
_AT_ONCE = 8


@functools.partial(jax.jit, static_argnames=("resamples", "rows"))
def bootstrap_weights(key: jax.Array, *, resamples: int, rows: int) -> jax.Array:
    """How often each row occurs in each resample, ``[R, N]`` float32."""

    def one(key: jax.Array) -> jax.Array:
        return jnp.bincount(jax.random.randint(key, (rows,), 0, rows), length=rows)

    keys = jax.random.split(key, resamples)
    return jax.lax.map(one, keys, batch_size=_AT_ONCE).astype(jnp.float32)


def _med_value(info: Information) -> np.ndarray:
    total = info.mi.sum(axis=-2, keepdims=True)
    importance = info.mi / np.where(total > 0, total, np.inf)
    return np.array([disentanglement_completeness(r)[0] for r in importance])


def _resampled_information(
    arrays: Arrays, weights: jax.Array, bins: int, seed: int
) -> tuple[Information, int]:
    """The `Information` of each resample; the bins are those of all rows."""
    labels, cells = quantise(arrays.codes, arrays.groups, bins, seed)
    sizes = arrays.sizes
    labels, factors = jnp.asarray(labels), jnp.asarray(arrays.labels)
    tables = jax.lax.map(
        lambda w: contingency(labels, factors, w, cells=cells, sizes=sizes),
        weights,
        batch_size=_AT_ONCE,
    )
    return Information(np.asarray(tables), sizes), cells


def _resampled_dependence(codes: np.ndarray, weights: jax.Array) -> dict:
    """Gaussian total and Wasserstein correlation of each resample."""
    codes = codes.astype(np.float64)
    live = codes[:, np.ptp(codes, axis=0) > 0]
    if live.shape[1] < 2:
        return {}
    w = np.asarray(weights, np.float64) / len(codes)
    mean = w @ live
    second = np.stack([(live * row[:, None]).T @ live for row in w])
    cov = second - mean[:, :, None] * mean[:, None, :]
    variance = np.einsum("rii->ri", cov)
    scale = np.sqrt(variance)
    roots = np.linalg.eigvalsh(scale[:, :, None] * cov * scale[:, None, :])
    root = np.sqrt(np.maximum(roots, 0.0)).sum(axis=1)
    w2 = 2.0 * variance.sum(axis=1) - 2.0 * root
    logdet = np.linalg.slogdet(cov)[1]
    return {
        "gaussian_total_correlation": 0.5 * (np.log(variance).sum(axis=1) - logdet),
        "gaussian_wasserstein_correlation": w2,
        "gaussian_wasserstein_correlation_norm": w2 / variance.sum(axis=1),
    }


OF_INFORMATION: dict[str, Callable[[Information, int], np.ndarray]] = {
    "mig": lambda info, cells: _mig.mig_value(info),
    "mig_sup": lambda info, cells: _mig.mig_sup_value(info),
    "jemmig": _mig.jemmig_value,
    "dcimig": lambda info, cells: _mig.dcimig_value(info),
    "modularity": lambda info, cells: _mig.modularity_value(info),
    "med": lambda info, cells: _med_value(info),
}


def _sap_values(share: np.ndarray, factors: int) -> dict[str, np.ndarray]:
    first, second = top_two(share, 1)
    return {"sap": np.mean(first - second, axis=-1)}


_OF_ACCURACY: dict[str, Callable[[np.ndarray, int], dict[str, np.ndarray]]] = {
    "sap": _sap_values,
    "dci": lambda share, k: {"informativeness": share.mean(axis=-1)},
    "beta_vae_score": lambda share, k: {"beta_vae_score": share},
    "factor_vae_score": lambda share, k: {"factor_vae_score": share},
    "z_max_var": lambda share, k: {
        "z_max_var": (share - 1 / k) / (1 - 1 / k) if k > 1 else share,
        "accuracy": share,
    },
}


def add_intervals(
    scores: dict[str, Score],
    arrays: Arrays,
    *,
    resamples: int,
    seed: int,
    level: float = 0.95,
) -> None:
    """Sets ``score.intervals`` of every score that has a bootstrap.

    Rows are drawn with replacement and the score is computed again: the training rows
    for the scores of tables and covariances, the scored rows for accuracies (the fitted
    classifier stays). An interval holds the central ``level`` of the resampled values,
    shifted so that their mean is the score itself, which takes out the bias that
    resampling adds to plug-in informations.
    """
    key = as_key("evaluate", seed)
    single = dataclasses.replace(arrays, groups=(1,) * arrays.codes.shape[1])

    @functools.cache
    def weights(rows: int) -> jax.Array:
        return bootstrap_weights(key, resamples=resamples, rows=rows)

    @functools.cache
    def tables(bins: int, grouped: bool) -> tuple[Information, int]:
        rows = arrays if grouped else single
        return _resampled_information(rows, weights(len(rows.codes)), bins, seed)

    for name, score in scores.items():
        if np.isnan(float(score)):
            continue
        values = {}
        if name in OF_INFORMATION:
            info, cells = tables(score.settings["bins"], "groups" in score.settings)
            values[name] = OF_INFORMATION[name](info, cells)
        elif name == "unsupervised":
            values = _resampled_dependence(arrays.codes, weights(len(arrays.codes)))
        elif "correct" in score.matrices:
            correct = score.matrices["correct"]
            flat = jnp.asarray(correct.reshape(len(correct), -1), jnp.float32)
            share = weights(len(correct)) @ flat / len(correct)
            share = np.asarray(share, np.float64).reshape(-1, *correct.shape[1:])
            values = _OF_ACCURACY[name](share, len(arrays.sizes))
        for headline, drawn in values.items():
            tail = 100.0 * (1.0 - level) / 2.0
            low, high = np.percentile(drawn - drawn.mean(), [tail, 100.0 - tail])
            point = score[headline]
            score.intervals[headline] = (float(point + low), float(point + high))
