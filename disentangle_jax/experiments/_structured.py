"""What HFVAE's analyses find ("Structured Disentangled Representations", Sec. 5).

HFVAE and baselines on the same networks, without its discrete variable; then, as lanes
of further runs, each term of the objective removed in turn (Fig. 2), strengths beta =
gamma (Fig. 6, left) and beta at the config's gamma (Fig. 6, right). Every model is
asked what its variables know of the images, I(x; z_d) with pruning (Fig. 4), and of a
label, I(y; z_d) with the gap between discrete and continuous variables (Fig. 5), how
well its classes name the labels, whether moving one feature keeps the class (Fig. 5,
left), and, where asked for, the scores of Table 3.
"""

import functools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import ml_collections
import numpy as np

from disentangle_jax import data, metrics, reports, training
from disentangle_jax.experiments._protocol import (
    Protocol,
    Result,
    Stage,
    spread,
    without_experiment,
)
from disentangle_jax.experiments._zero_shot import choose_feature
from disentangle_jax.methods import as_unit_interval
from disentangle_jax.types import unknown_name

_BASELINES = ("vae", "beta_vae", "beta_tc_vae")
_SWEEPS = ("terms", "equal", "between")
_MOVED = tuple(range(-3, 4))  # Values that a moved latent takes, as in Fig. 5.
_MOVED_IMAGES = 100
_JUDGE_IMAGES = 5000
_LAST_ROWS = 5  # Of metrics.jsonl, whose mean is the end of training.


# --- stages ---------------------------------------------------------------------------


def _stages(config: ml_collections.ConfigDict, workdir: pathlib.Path) -> list[Stage]:
    del workdir
    _check(config)
    options, method = config.experiment, config.method
    stages = [Stage("hfvae", without_experiment(config))]
    for name in options.baselines:
        baseline = without_experiment(config, model__discrete=())
        baseline.method = {"name": name}
        if name != "vae":
            baseline.method.beta = options.baseline_beta
        baseline.train.schedules = {}
        stages.append(Stage(name, baseline))
    weights = {name: method[name] for name in ("alpha", "beta", "gamma")}
    rows = {
        "terms": [
            weights | {name: 0.0} for name in weights if options.terms and weights[name]
        ],
        "equal": [weights | {"beta": v, "gamma": v} for v in options.equal],
        "between": [weights | {"beta": v} for v in options.between],
    }
    for name in _SWEEPS:
        if not rows[name]:
            continue
        swept = without_experiment(config)
        seeds = range(config.train.seed, config.train.seed + config.lanes.seeds)
        swept.lanes.seeds = 1
        swept.lanes.rows = tuple(
            {"train.seed": seed}
            | {f"method.{field}": float(value) for field, value in row.items()}
            for row in rows[name]
            for seed in seeds
        )
        stages.append(Stage(name, swept))
    return stages


def _check(config: ml_collections.ConfigDict) -> None:
    options = config.experiment
    if config.method.name != "hfvae":
        raise unknown_name("structured", "method.name", config.method.name, ("hfvae",))
    if config.lanes.sweep or config.lanes.rows:
        raise ValueError(
            "structured: `lanes.sweep` and `lanes.rows` must be empty; set "
            "`lanes.seeds`, `experiment.equal` and `experiment.between`."
        )
    for name in options.baselines:
        if name not in _BASELINES:
            raise unknown_name("structured", "experiment.baselines", name, _BASELINES)
    names = training.load_split(config, "test").factor_names
    if options.label not in names:
        raise unknown_name("structured", "experiment.label", options.label, names)
    if options.images < 2:
        raise ValueError(
            f"structured: `experiment.images` must be at least 2, got {options.images}."
        )


# --- what is found of one model -------------------------------------------------------


class _Subject:
    """Test images that all models are asked about, and who judges moved ones."""

    def __init__(self, config: ml_collections.ConfigDict, run: training.Run):
        options = config.experiment
        rng = np.random.default_rng(config.eval.seed)
        self.dataset: data.Dataset = run.test_set
        self.indices = rng.permutation(run.test_set.indices)[: options.images]
        self.images = run.test_set.images(self.indices)
        self.factors = run.test_set.factors(self.indices)
        column = run.test_set.factor_names.index(options.label)
        self.labels = self.factors[:, column]
        self.ink = self.images.mean(axis=(1, 2, 3))
        seen = rng.permutation(run.train_set.indices)[:_JUDGE_IMAGES]
        self._known = run.train_set.images(seen), run.train_set.factors(seen)[:, column]
        self.forest = bool(options.forest_scores)
        self.seed = int(config.eval.seed)

    @functools.cached_property
    def judge(self):
        """Nearest neighbours among labelled training images, by their pixels."""
        from sklearn.neighbors import KNeighborsClassifier

        images, labels = self._known
        judge = KNeighborsClassifier(3)
        return judge.fit(images.reshape(len(images), -1).astype(np.float32), labels)

    def judged(self, images: np.ndarray) -> np.ndarray:
        return self.judge.predict(images.reshape(len(images), -1).astype(np.float32))


def _posteriors(model: training.Trained, images: np.ndarray) -> list[np.ndarray]:
    """Returns codes, log-variances and logits (or None) of images."""
    method, size = model.run.method, model.run.config.eval.batch_size
    encode = jax.jit(lambda state, x: method.encode(state, as_unit_interval(x)))
    parts = []
    for start in range(0, len(images), size):
        chunk = images[start : start + size]
        padded = np.resize(chunk, (size, *chunk.shape[1:]))
        parts.append(jax.device_get(encode(model.state, padded)))
    return list(jax.tree.map(lambda *a: np.concatenate(a)[: len(images)], *parts))


def _analyse(model: training.Trained, subject: _Subject) -> dict[str, Any]:
    """Returns what one model's variables hold."""
    method = model.run.method
    codes, log_var, logits = _posteriors(model, subject.images)
    dims = log_var.shape[1]
    known = metrics.class_information(codes, subject.labels, discrete=method.discrete)
    held = metrics.latent_information(codes[:, :dims], log_var, seed=subject.seed)
    found = {
        "gap": known["gap"],
        "label_in_discrete": known["discrete"],
        "label_in_continuous": known["continuous"],
        "label_information": known.matrices["mi"].tolist(),
        "latent_information": held.tolist(),
        "pruned": metrics.pruned_latents(held),
    }
    if method.discrete:
        held = metrics.category_information(logits, discrete=method.discrete)
        found["category_information"] = held.tolist()
        found["discrete_information"] = float(held.max())
        classes = codes[:, dims : dims + method.discrete[0]].argmax(axis=1)
        matched = metrics.matching_accuracy(classes, subject.labels)
        found |= {"accuracy": matched["accuracy"], "purity": matched["purity"]}
    if subject.forest:
        found |= _table_3(codes, subject, method.latent_groups)
    scores = json.loads((model.run.workdir / "scores.json").read_text())
    found["reconstruction"] = scores["reconstruction"]
    rows = training.read_metrics(model.run.workdir)[-_LAST_ROWS:]
    if "group_tc" in rows[-1]:
        mean = {
            name: float(np.mean([row[name] for row in rows]))
            for name in ("mutual_information", "group_tc", "within_group_tc")
        }
        found["mutual_information"] = mean["mutual_information"]
        found["total_correlation"] = mean["group_tc"] + mean["within_group_tc"]
    return found


def _table_3(
    codes: np.ndarray, subject: _Subject, groups: tuple[int, ...]
) -> dict[str, float]:
    """Returns Kim's score, and Eastwood's by a random forest, on two thirds."""
    kim = metrics.factor_vae_score(codes, subject.factors, seed=subject.seed)
    cut = 2 * len(codes) // 3
    eastwood = metrics.dci(
        codes[:cut],
        subject.factors[:cut],
        codes_test=codes[cut:],
        factors_test=subject.factors[cut:],
        estimator="forest_regression",
        groups=groups,
        seed=subject.seed,
    )
    return {"kim": float(kim), **{f"eastwood_{k}": v for k, v in eastwood.items()}}


def _moved(
    model: training.Trained, subject: _Subject
) -> tuple[dict[str, Any], np.ndarray]:
    """Moves the latent that follows the amount of ink, the others staying.

    Returns:
      How often the class stays that of the image as the model sees it, by the judge
      and, where the model has classes, by its own encoder, over all values and at the
      two ends; and images ``[labels, values, H, W, C]``, one row per label.
    """
    method = model.run.method
    dims = sum(method.latent_groups) - sum(method.discrete)
    codes = _posteriors(model, subject.images)[0]
    feature = choose_feature(codes[:, :dims], subject.ink, subject.labels, 0.3)
    shown = [
        int(np.flatnonzero(subject.labels == v)[0]) for v in np.unique(subject.labels)
    ]
    rows = np.concatenate([shown, np.arange(_MOVED_IMAGES)])[:, None]
    walks = np.repeat(codes[rows], len(_MOVED), axis=1)
    walks[:, :, feature.latent] = feature.sign * np.array(_MOVED, np.float32)
    images = model.decode_all(walks)
    pictures, images = images[: len(shown)], images[len(shown) :]
    still = model.decode_all(codes[:_MOVED_IMAGES])

    def kept(classify) -> dict[str, float]:
        before = classify(still)
        after = classify(images.reshape(-1, *images.shape[2:]))
        same = after.reshape(len(images), -1) == before[:, None]
        return {"all": float(same.mean()), "ends": float(same[:, [0, -1]].mean())}

    found = {"latent": feature.latent, "kept_by_judge": kept(subject.judged)}
    if method.discrete:
        size = method.discrete[0]

        def own(images: np.ndarray) -> np.ndarray:
            return _posteriors(model, images)[0][:, dims : dims + size].argmax(axis=1)

        found["kept_by_own_classes"] = kept(own)
    return found, pictures


# --- the page -------------------------------------------------------------------------


def _result(
    config: ml_collections.ConfigDict,
    workdir: pathlib.Path,
    runs: Mapping[str, training.Run],
) -> Result:
    del workdir
    subject = _Subject(config, runs["hfvae"])
    values: dict[str, list[dict[str, Any]]] = {}
    pictures = {}
    for name, run in runs.items():
        values[name] = []
        for number, (lane, model) in enumerate(
            zip(run.lanes, training.load_trained(run), strict=True)
        ):
            found = {"lane": lane.name, "hyper": lane.hyper, "seed": lane.seed}
            found |= _analyse(model, subject)
            if name not in _SWEEPS:
                found["moved"], rows = _moved(model, subject)
                if number == 0:
                    pictures[name] = rows
            values[name].append(found)
    parts = [
        _models_table(values, config),
        *_sweep_tables(values),
        _held_figure(values),
        _label_figure(values),
        _moved_figure(pictures),
    ]
    if subject.forest:
        parts.insert(1, _table_3_table(values))
    points: dict[str, list[tuple[float, float]]] = {}
    for name in ("hfvae", "equal", "between"):
        for one in values.get(name, ()):
            label = f"beta {one['hyper']['beta']:g}, gamma {one['hyper']['gamma']:g}"
            point = one["mutual_information"], one["total_correlation"]
            points.setdefault(label, []).append(point)
    parts.append(
        reports.Figure(
            "tc_mi",
            "Total correlation against mutual information",
            "Of all variables together, as the objective estimates them from its "
            "batches at the end of training; a cross for each seed (Fig. 6, left). "
            "Lower right is best.",
            reports.plots.scatter(points, "I(x; z, c) in nats", "TC(z, c) in nats"),
        )
    )
    title = f"HFVAE on {config.data.name}: what its variables hold"
    return Result(title, values, parts)


_COLUMNS = {
    "accuracy": "accuracy",
    "discrete_information": "I(x; c)",
    "label_in_discrete": "I(y; c)",
    "label_in_continuous": "max I(y; z_d)",
    "gap": "gap",
    "pruned": "pruned",
}


def _cells(found: list[dict[str, Any]]) -> list[str]:
    """Returns mean ± standard deviation of each column over models."""
    return [
        spread([one[name] for one in found]) if name in found[0] else "–"
        for name in _COLUMNS
    ]


def _model_cells(found: list[dict[str, Any]]) -> list[str]:
    """Returns :func:`_cells`, how often moved images kept their class, the error."""
    kept = []
    for judge in ("kept_by_judge", "kept_by_own_classes"):
        shares = [one["moved"][judge]["all"] for one in found if judge in one["moved"]]
        kept.append(spread(shares) if shares else "–")
    mse = spread([100 * one["reconstruction"]["mse"] for one in found])
    return [*_cells(found), *kept, mse]


def _models_table(
    values: Mapping[str, list], config: ml_collections.ConfigDict
) -> reports.Table:
    rows = []
    for name, found in values.items():
        if name in _SWEEPS:
            continue
        rows.append([name, *_model_cells(found)])
        if len(found) > 1 and "accuracy" in found[0]:
            best = max(found, key=lambda one: one["accuracy"])
            rows.append([f"{name}, best (seed {best['seed']})", *_model_cells([best])])
    return reports.Table(
        "models",
        "Classes, information on the label, pruned dimensions",
        "Accuracy: of the classes of the discrete variable, matched to the labels of "
        f"`{config.experiment.label}` best. Informations in nats on test images. "
        "I(x; c): of the probabilities of the classes; near 0 the variable has "
        "collapsed, and its classes are the largest of almost equal ones. I(y; ·): "
        "plug-in; gap: discrete minus best continuous. Pruned: continuous "
        "dimensions with I(x; z_d) below 0.05 nats. Kept: how often the class stays "
        "when the latent that follows the amount of ink moves over -3 … 3, by nearest "
        "neighbours in pixels and by the model's own classes. Mean ± standard "
        "deviation over seeds; seeds train as lanes of one program.",
        ("model", *_COLUMNS.values(), "kept", "kept, own", "100 MSE"),
        rows,
    )


def _sweep_tables(values: Mapping[str, list]) -> list[reports.Table]:
    titles = {
        "terms": (
            "Each term removed in turn",
            "A weight of 0 removes a term: alpha that on I(x; z) (Fig. 2 C), beta and "
            "gamma those parts of the last one, between and within groups (Fig. 2 E). "
            "The likelihood's two terms cannot be had apart.",
        ),
        "equal": (
            "beta = gamma",
            "As other objectives have it: one strength for both levels (Fig. 6, left).",
        ),
        "between": (
            "beta at one gamma",
            "The gap between the discrete and the best continuous variable "
            "(Fig. 6, right).",
        ),
    }
    tables = []
    for name, (title, caption) in titles.items():
        by_weights: dict[str, list] = {}
        for one in values.get(name, ()):
            weights = "  ".join(
                f"{w} {one['hyper'][w]:g}" for w in ("alpha", "beta", "gamma")
            )
            by_weights.setdefault(weights, []).append(one)
        rows = [
            [
                weights,
                *_cells(found),
                spread([one["mutual_information"] for one in found]),
                spread([one["total_correlation"] for one in found]),
                spread([100 * one["reconstruction"]["mse"] for one in found]),
            ]
            for weights, found in by_weights.items()
        ]
        head = ("weights", *_COLUMNS.values(), "I(x; z, c)", "TC(z, c)", "100 MSE")
        if rows:
            tables.append(reports.Table(name, title, caption, head, rows))
    return tables


def _table_3_table(values: Mapping[str, list]) -> reports.Table:
    columns = {
        "kim": "Kim",
        "eastwood_disentanglement": "Eastwood: disentanglement",
        "eastwood_completeness": "completeness",
        "eastwood_informativeness": "informativeness",
    }
    return reports.Table(
        "table_3",
        "Scores of Table 3",
        "Kim: the score of FactorVAE's paper. Eastwood: by random forests that regress "
        "from codes to factors. Mean ± standard deviation over seeds.",
        ("model", *columns.values()),
        [
            [name, *(spread([one[column] for one in found]) for column in columns)]
            for name, found in values.items()
            if name not in _SWEEPS
        ],
    )


def _held_figure(values: Mapping[str, list]) -> reports.Figure:
    bars = {}
    for name, found in values.items():
        if name in _SWEEPS:
            continue
        sorted_each = np.array([sorted(one["latent_information"]) for one in found])
        row = list(sorted_each.mean(axis=0))
        names = [str(place) for place in range(1, len(row) + 1)]
        if "category_information" in found[0]:
            row += list(np.mean([one["category_information"] for one in found], axis=0))
            names += ["c"] * len(found[0]["category_information"])
        bars[name] = (names, row)
    return reports.Figure(
        "latent_information",
        "What each variable holds of the images",
        "I(x; z_d) in nats, continuous dimensions from the least to the most, the "
        "discrete variable last (Fig. 4, right); mean over seeds. Dimensions at zero "
        "are pruned.",
        reports.plots.bar_rows(bars, "nats"),
    )


def _label_figure(values: Mapping[str, list]) -> reports.Figure:
    bars = {}
    for name, found in values.items():
        if name in _SWEEPS:
            continue
        dims = len(found[0]["latent_information"])
        rows = np.array([one["label_information"] for one in found])
        row = np.concatenate([np.sort(rows[:, :dims], axis=1), rows[:, dims:]], axis=1)
        names = [str(place) for place in range(1, dims + 1)]
        bars[name] = (names + ["c"] * (rows.shape[1] - dims), list(row.mean(axis=0)))
    return reports.Figure(
        "label_information",
        "What each variable knows of the label",
        "I(y; z_d) in nats, continuous dimensions from the least to the most, the "
        "discrete variable last (Fig. 5, right); mean over seeds.",
        reports.plots.bar_rows(bars, "nats"),
    )


def _moved_figure(pictures: Mapping[str, np.ndarray]) -> reports.Figure:
    sheets = [(name, reports.grids.sheet(rows)) for name, rows in pictures.items()]
    return reports.Figure(
        "moved",
        "One feature moved, the class kept?",
        "One test image of each label a row; the latent that follows the amount of "
        "ink takes values from -3 to 3, more ink to the right (Fig. 5, left; first "
        "seed).",
        reports.grids.png(reports.grids.panels(sheets, 2)),
    )


PROTOCOL = Protocol(
    options={
        "label": "label",
        "baselines": ("vae", "beta_vae"),
        "baseline_beta": 4.0,
        "terms": False,
        "equal": (),
        "between": (),
        "forest_scores": False,
        "images": 5000,
    },
    stages=_stages,
    result=_result,
)
