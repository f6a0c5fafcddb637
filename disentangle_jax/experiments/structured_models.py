"""Analyses of one model of :mod:`disentangle_jax.experiments.structured`."""

import functools
from collections.abc import Callable
from typing import Any

import ml_collections
import numpy as np

from disentangle_jax import evaluation, metrics, training
from disentangle_jax.experiments import protocol
from disentangle_jax.experiments.features import choose_feature

_VALUES = tuple(range(-3, 4))  # Values of a varied latent, as in Fig. 5.
_VARIED_IMAGES = 100
_LABELLED_IMAGES = 5000
_LAST_ROWS = 5  # Number of final rows of metrics.jsonl to average.


class Subject:
    """Test images on which all models are analysed, and a classifier of images."""

    def __init__(self, config: ml_collections.ConfigDict, run: training.Run):
        options = config.experiment
        rng = np.random.default_rng(config.eval.seed)
        indices = rng.permutation(run.test_set.indices)[: options.images]
        self.images = run.test_set.images(indices)
        self.factors = run.test_set.factors(indices)
        column = run.test_set.factor_names.index(options.label)
        self.labels = self.factors[:, column]
        self.ink = self.images.mean(axis=(1, 2, 3))
        known = rng.permutation(run.train_set.indices)[:_LABELLED_IMAGES]
        self._known = (
            run.train_set.images(known),
            run.train_set.factors(known)[:, column],
        )
        self.forest_scores = bool(options.forest_scores)
        self.seed = int(config.eval.seed)

    @functools.cached_property
    def _classifier(self):
        from sklearn.neighbors import KNeighborsClassifier

        images, labels = self._known
        return KNeighborsClassifier(3).fit(_pixels(images), labels)

    def classify(self, images: np.ndarray) -> np.ndarray:
        """Returns the labels of the nearest training images, by their pixels."""
        return self._classifier.predict(_pixels(images))


def _pixels(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1).astype(np.float32)


def analyse(model: protocol.Model, subject: Subject) -> dict[str, Any]:
    """Returns what the variables of one model encode."""
    method = model.run.method
    codes, log_var, logits = model.load().posterior(subject.images)
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
    if subject.forest_scores:
        found |= _scores_of_table_3(codes, subject, method.latent_groups)
    found["reconstruction"] = model.scores["reconstruction"]
    rows = training.read_metrics(model.run.workdir)[-_LAST_ROWS:]
    if "group_tc" in rows[-1]:
        mean = {
            name: float(np.mean([row[name] for row in rows]))
            for name in ("mutual_information", "group_tc", "within_group_tc")
        }
        found["mutual_information"] = mean["mutual_information"]
        found["total_correlation"] = mean["group_tc"] + mean["within_group_tc"]
    return found


def _scores_of_table_3(
    codes: np.ndarray, subject: Subject, groups: tuple[int, ...]
) -> dict[str, float]:
    """Returns Kim's score, and Eastwood's by a random forest fitted on two thirds."""
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


def vary(
    model: evaluation.Trained, subject: Subject
) -> tuple[dict[str, Any], np.ndarray]:
    """Varies the latent that follows the amount of ink and keeps the others.

    Returns:
      How often the varied image has the class of the model's reconstruction, over all
      values and at the two ends: as classified by `subject` and, where the model has
      classes, by its own encoder. And images ``[labels, values, H, W, C]``, one row
      per label.
    """
    method = model.run.method
    dims = sum(method.latent_groups) - sum(method.discrete)
    codes = model.posterior(subject.images).mean
    feature = choose_feature(codes[:, :dims], subject.ink, subject.labels, 0.3)
    shown = [
        int(np.flatnonzero(subject.labels == v)[0]) for v in np.unique(subject.labels)
    ]
    varied = np.arange(min(_VARIED_IMAGES, len(codes)))
    rows = np.concatenate([shown, varied])[:, None]
    walks = np.repeat(codes[rows], len(_VALUES), axis=1)
    walks[:, :, feature.latent] = feature.sign * np.array(_VALUES, np.float32)
    images = model.decode_all(walks)
    pictures, images = images[: len(shown)], images[len(shown) :]
    still = model.decode_all(codes[:_VARIED_IMAGES])

    def kept(classify: Callable[[np.ndarray], np.ndarray]) -> dict[str, float]:
        before = classify(still)
        after = classify(images.reshape(-1, *images.shape[2:]))
        same = after.reshape(len(images), -1) == before[:, None]
        return {"all": float(same.mean()), "ends": float(same[:, [0, -1]].mean())}

    def own_classes(images: np.ndarray) -> np.ndarray:
        codes = model.posterior(images).mean
        return codes[:, dims : dims + method.discrete[0]].argmax(axis=1)

    found = {"latent": feature.latent, "kept_by_judge": kept(subject.classify)}
    if method.discrete:
        found["kept_by_own_classes"] = kept(own_classes)
    return found, pictures
