"""Analyses of a study of many models: several datasets, methods and seeds.

Those of Locatello et al., "Challenging Common Assumptions in the Unsupervised Learning
of Disentangled Representations" (2019), Sec. 5. All take a :class:`Grid` of values by
score, dataset, setting (method and hyperparameter value) and seed. Missing models are
NaN and are left out. Intervals resample seeds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from disentangle_jax import metrics

# Columns of a collected table that label models.
_LABELS = ("dataset", "method", "strength", "seed")
_NOT_SCORES = ("id", *_LABELS, "pack", "finite", "seconds")
# Size of the groups of models that UDR compares, as it takes all pairs of a group.
_UDR_GROUP = 10


class Grid(NamedTuple):
    """Scores of the models of a study.

    Attributes:
      names: names of the K scores.
      datasets: names of the D datasets.
      settings: H pairs of a method and the value of its hyperparameter.
      seeds: the S seeds.
      values: ``[K, D, H, S]`` float64, NaN where there is no model or no score.
    """

    names: tuple[str, ...]
    datasets: tuple[str, ...]
    settings: tuple[tuple[str, Any], ...]
    seeds: tuple[Any, ...]
    values: np.ndarray

    def score(self, name: str) -> np.ndarray:
        """Returns one score, ``[D, H, S]``."""
        return self.values[self.names.index(name)]

    def take(self, names: Iterable[str]) -> "Grid":
        """Returns the grid of those scores of `names` that it has."""
        kept = [name for name in names if name in self.names]
        places = [self.names.index(name) for name in kept]
        return self._replace(names=tuple(kept), values=self.values[places])

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in the order of the settings."""
        return tuple(dict.fromkeys(method for method, _ in self.settings))

    def of_method(self, method: str) -> np.ndarray:
        """Returns the positions of a method's settings."""
        return np.array([m == method for m, _ in self.settings]).nonzero()[0]

    def values_of(self, method: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Returns a method's hyperparameter values in increasing order.

        Also the positions of these settings, and the values as texts. Values that are
        no numbers keep their order and are numbered from 1.
        """
        places = self.of_method(method)
        values = [self.settings[place][1] for place in places]
        if not all(isinstance(value, int | float) for value in values):
            return np.arange(1, len(values) + 1), places, [str(v) for v in values]
        order = np.argsort(values, kind="stable")
        numbers = np.asarray(values, float)[order]
        return numbers, places[order], [f"{number:g}" for number in numbers]


def grid(rows: Sequence[Mapping[str, Any]]) -> Grid:
    """Returns collected rows as a grid.

    Adds ``elbo``, −(``bce`` + ``kl``), where both are known. Models whose loss became
    non-finite are left out.

    Args:
      rows: flat dicts with ``dataset``, ``method``, ``strength`` (the value of the
        method's hyperparameter), ``seed`` and scores.
    """
    rows = [dict(row) for row in rows if row.get("finite", True)]
    for label in _LABELS:
        if not rows or label not in rows[0]:
            raise ValueError(
                f"study: `rows` must be finite models with a {label!r}, got "
                f"{len(rows)} rows; label it where the sweep adds a model."
            )
    for row in rows:
        if row.get("bce") is not None and row.get("kl") is not None:
            row["elbo"] = -(row["bce"] + row["kl"])
    columns = dict.fromkeys(name for row in rows for name in row)
    names = tuple(
        name
        for name in columns
        if name not in _NOT_SCORES
        and any(isinstance(row.get(name), int | float) for row in rows)
    )
    datasets = tuple(dict.fromkeys(row["dataset"] for row in rows))
    settings = tuple(dict.fromkeys((row["method"], row["strength"]) for row in rows))
    seeds = tuple(sorted({row["seed"] for row in rows}))
    places = [
        {value: place for place, value in enumerate(values)}
        for values in (datasets, settings, seeds)
    ]
    values = np.full((len(names), len(datasets), len(settings), len(seeds)), np.nan)
    for row in rows:
        d = places[0][row["dataset"]]
        h = places[1][row["method"], row["strength"]]
        s = places[2][row["seed"]]
        for k, name in enumerate(names):
            if row.get(name) is not None:
                values[k, d, h, s] = row[name]
    return Grid(names, datasets, settings, seeds, values)


class Estimate(NamedTuple):
    """Values with bootstrap 95 % intervals, all of one shape.

    Attributes:
      value: computed from all models.
      low: 2.5 % quantile over resampled seeds, see :func:`bootstrap`.
      high: 97.5 % quantile.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def bootstrap(
    data: Grid,
    function: Callable[[Grid], np.ndarray],
    *,
    within: tuple[float, float] = (-np.inf, np.inf),
    resamples: int = 200,
    seed: int = 0,
) -> Estimate:
    """Returns a function of a grid, with its interval over resampled seeds.

    Each draw takes as many seeds as there are, with replacement, each with all of its
    models. The quantiles of the draws are shifted such that their median is the value:
    a seed that is drawn twice agrees with itself, so that shares of explained variance
    are too large in every draw. With few seeds (three have 10 different draws)
    intervals are rough.

    Args:
      data: the grid.
      function: maps a grid to an array of a fixed shape; NaN where it is undefined.
      within: smallest and largest possible value.
      resamples: number of draws.
      seed: seed of the draws.
    """
    value = np.asarray(function(data))
    rng = np.random.default_rng(seed)
    draws = []
    for _ in range(resamples):
        places = rng.integers(len(data.seeds), size=len(data.seeds))
        drawn = data._replace(
            seeds=tuple(data.seeds[place] for place in places),
            values=data.values[..., places],
        )
        draws.append(function(drawn))
    draws = np.array(draws)
    low, high = np.full((2, *value.shape), np.nan)
    defined = np.isfinite(draws).any(axis=0)
    if defined.any():
        known, found = draws[:, defined], value[defined]
        ends = np.nanquantile(known, (0.025, 0.5, 0.975), axis=0)
        moved = ends[[0, 2]] + (found - ends[1])
        low[defined], high[defined] = np.clip(moved, *within)
    return Estimate(value, low, high)


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Returns Spearman's rank correlation in [−1, 1], with mean ranks for ties.

    Pairs with a NaN are left out. NaN where fewer than two pairs are left or one side
    is constant.
    """
    x, y = np.ravel(x), np.ravel(y)
    both = np.isfinite(x) & np.isfinite(y)
    if both.sum() < 2:
        return np.nan
    a, b = stats.rankdata(x[both]), stats.rankdata(y[both])
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / scale) if scale > 0 else np.nan


def rank_correlations(
    data: Grid, rows: Sequence[str], columns: Sequence[str]
) -> np.ndarray:
    """Returns the rank correlation of scores over the models of each dataset.

    Figs. 2 and 5: ``[D, rows, columns]`` in [−1, 1].
    """
    left, right = data.take(rows).values, data.take(columns).values
    return np.array(
        [
            [[rank_correlation(a[d], b[d]) for b in right] for a in left]
            for d in range(len(data.datasets))
        ]
    )


def variance_explained(values: np.ndarray, groups: np.ndarray) -> float:
    r"""Returns the share of the variance that the means of groups explain.

    .. math:: 1 - \sum_i (y_i - \bar y_{g(i)})^2 / \sum_i (y_i - \bar y)^2

    the :math:`R^2` of a regression on group indicators, in [0, 1]; NaN where all
    values are equal.

    Args:
      values: ``[N]``; NaN are left out.
      groups: ``[N]`` integers.
    """
    values, groups = np.ravel(values), np.ravel(groups)
    there = np.isfinite(values)
    values, groups = values[there], groups[there]
    if not len(values):
        return np.nan
    total = np.sum((values - values.mean()) ** 2)
    _, places = np.unique(groups, return_inverse=True)
    means = np.bincount(places, values) / np.bincount(places)
    within = np.sum((values - means[places]) ** 2)
    # Equal values up to rounding have no variance to explain.
    if total <= 1e-24 * max(1.0, np.sum(values**2)):
        return np.nan
    return float(1.0 - within / total)


def variances_explained(data: Grid) -> np.ndarray:
    """Returns the variance explained by the method, and by the setting.

    Tables a and b: ``[2, D, K]`` in [0, 1]; the rest is due to the seed.
    """
    methods = np.array([data.methods.index(method) for method, _ in data.settings])
    shape = (len(data.settings), len(data.seeds))
    labels = [
        np.broadcast_to(groups[:, None], shape)
        for groups in (methods, np.arange(len(data.settings)))
    ]
    by_dataset = data.values.swapaxes(0, 1)
    return np.array(
        [
            [[variance_explained(v, group) for v in scores] for scores in by_dataset]
            for group in labels
        ]
    )


# Whether a chosen setting is evaluated on the dataset, and by the score, by which it
# was chosen (Sec. 5.4).
TRANSFERS = {
    "same dataset, same score": (True, True),
    "other dataset, same score": (False, True),
    "same dataset, other score": (True, False),
    "other dataset, other score": (False, False),
}


def transfer(data: Grid) -> np.ndarray:
    """Returns how often a chosen setting beats a random one (Sec. 5.4).

    A setting is chosen as the best by one score on one dataset with one seed. With
    another seed, it is then compared with a random setting, by the same or another
    score on the same or another dataset: how often is it at least as good? Computed
    exactly, as the mean over all scores, datasets, seeds and random settings (the paper
    draws 10,000 of them). Chance is one half, and a little more where there are ties,
    which count as won. Equally good settings are chosen equally often.

    Args:
      data: scores where higher is better.

    Returns:
      ``[4]`` shares in [0, 1], in the order of ``TRANSFERS``; NaN where there are too
      few seeds, datasets or scores.
    """
    values = data.values
    there = np.isfinite(values)
    # Probability that each setting is chosen, [K, D, S, H].
    best = np.max(np.where(there, values, -np.inf), axis=2, keepdims=True)
    chosen = (there & (values == best)).astype(float)
    chosen /= np.maximum(chosen.sum(axis=2, keepdims=True), 1.0)
    chosen = chosen.swapaxes(2, 3)
    # Share of the settings that each is at least as good as, [K, D, H, S].
    beaten = np.full(values.shape, np.nan)
    for s in range(values.shape[3]):
        v = values[..., s]
        with np.errstate(invalid="ignore"):
            wins = (v[:, :, :, None] >= v[:, :, None, :]).sum(axis=3)
        share = wins / np.maximum(there[..., s].sum(axis=2, keepdims=True), 1)
        beaten[..., s] = np.where(there[..., s], share, np.nan)
    won = np.einsum("kdsh,ethu->kdsetu", chosen, np.nan_to_num(beaten))
    tried = np.einsum("kdsh,ethu->kdsetu", chosen, there.astype(float))
    labels = np.array(data.seeds)
    other_seed = (labels[:, None] != labels[None, :])[None, None, :, None, None, :]
    k, d = len(data.names), len(data.datasets)
    same_score = np.eye(k, dtype=bool)[:, None, None, :, None, None]
    same_data = np.eye(d, dtype=bool)[None, :, None, None, :, None]
    found = []
    for dataset, score in TRANSFERS.values():
        counted = other_seed & (same_data == dataset) & (same_score == score)
        trials = np.sum(tried * counted)
        found.append(np.sum(won * counted) / trials if trials > 0 else np.nan)
    return np.array(found)


def setting_correlations(data: Grid, name: str) -> np.ndarray:
    """Returns the rank correlation between datasets of the settings' mean scores.

    ``[D, D]`` in [−1, 1]: are settings that are good on one dataset good on another?
    """
    means = _mean(data.score(name), axis=2)
    return np.array([[rank_correlation(a, b) for b in means] for a in means])


def probability_better(a: np.ndarray, b: np.ndarray) -> float:
    """Returns the probability that a draw of `a` exceeds one of `b`; ties count half.

    NaN values are left out. NaN where one side is empty.
    """
    a, b = np.ravel(a), np.ravel(b)
    a, b = a[np.isfinite(a)], b[np.isfinite(b)]
    if not len(a) or not len(b):
        return np.nan
    ranks = stats.rankdata(np.concatenate([a, b]))[: len(a)]
    return float((ranks.sum() - len(a) * (len(a) + 1) / 2) / (len(a) * len(b)))


def methods_better(data: Grid, name: str) -> np.ndarray:
    """Returns the probability that a model of one method beats one of another.

    Over all hyperparameter values and seeds: ``[D, methods, methods]``, row beats
    column.
    """
    places = [data.of_method(method) for method in data.methods]
    return np.array(
        [
            [[probability_better(scores[a], scores[b]) for b in places] for a in places]
            for scores in data.score(name)
        ]
    )


def means_by_setting(data: Grid, names: Sequence[str]) -> np.ndarray:
    """Returns means over seeds, ``[names, D, H]`` (Fig. 1)."""
    return _mean(data.take(names).values, axis=3)


def selected_percentile(data: Grid, by: str, names: Sequence[str]) -> np.ndarray:
    """Returns how good the model is that a criterion without labels selects.

    Of each dataset, the model with the largest `by` is selected. Its percentile by each
    score is the share of the dataset's models that it beats, ties counted half: 0.5 on
    average for a random choice.

    Returns:
      ``[D, names]`` in [0, 1].
    """
    result = np.full((len(data.datasets), len(names)), np.nan)
    for d, criterion in enumerate(data.score(by)):
        if not np.isfinite(criterion).any():
            continue
        best = np.nanargmax(criterion)
        for n, name in enumerate(names):
            scores = data.score(name)[d].ravel()
            result[d, n] = probability_better(scores[best], scores)
    return result


def _mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Returns means of finite values; NaN where there are none."""
    there = np.isfinite(values)
    count = there.sum(axis=axis)
    total = np.where(there, values, 0.0).sum(axis=axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def udr_scores(
    rows: Sequence[Mapping[str, Any]], codes: Mapping[str, Mapping[str, np.ndarray]]
) -> dict[str, float]:
    """Returns the UDR of each model among those that differ in the seed only.

    Unsupervised disentanglement ranking (Duan et al. 2020, Eq. 4) needs no factors:
    models that agree with each other are disentangled. Models of a setting are compared
    in groups of about ten.

    Args:
      rows: collected rows.
      codes: by id, ``codes [n, D]`` of the same images for all models of a dataset,
        and ``kl [D]`` where the encoder is stochastic.

    Returns:
      UDR by id, for models in groups of at least two.
    """
    cells: dict[tuple, list[str]] = {}
    for row in rows:
        if row["id"] in codes:
            cell = (row["dataset"], row["method"], row["strength"])
            cells.setdefault(cell, []).append(row["id"])
    found = {}
    for ids in cells.values():
        parts = max(1, round(len(ids) / _UDR_GROUP))
        for part in np.array_split(np.array(ids), parts):
            if len(part) < 2:
                continue
            kept = [codes[name] for name in part]
            kl = [k["kl"] for k in kept] if all("kl" in k for k in kept) else None
            arrays = [k["codes"].astype(np.float32) for k in kept]
            result = metrics.udr(arrays, kl)
            found |= {name: result[f"model_{m}"] for m, name in enumerate(part)}
    return found
