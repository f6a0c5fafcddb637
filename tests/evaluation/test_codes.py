"""Scores of single dimensions and of whole latent variables."""

import types

import numpy as np
import pytest

from disentangle_jax import evaluation, metrics
from disentangle_jax.evaluation import codes
from tests.evaluation import made


def evaluated(groups, scores, rng, discrete=()):
    """Returns what the evaluator finds about codes of two factors, and the arrays."""
    factors = np.stack([np.arange(300) % 4, np.arange(300) // 4 % 3], axis=1)
    noise = rng.normal(size=(300, sum(groups)))
    found = factors[:, np.arange(sum(groups)) % 2] + 0.3 * noise
    run = made.run(groups, discrete=discrete)
    run.config.eval.scores = scores
    run.test_set.factor_sizes = (4, 3)
    seen = types.SimpleNamespace(
        codes=found, factors=factors, split=lambda rows: (rows[:200], rows[200:])
    )
    model = types.SimpleNamespace(shows_images=False)
    return codes.Codes(run).evaluate(model, seen), found, factors


def test_variables_of_several_dimensions_have_both_kinds_of_scores(rng):
    wanted = ("mig", "dci(estimator=logistic)", "mcc", "irs")
    result, found, factors = evaluated((2, 1, 3), wanted, rng)
    parts = {"codes_test": found[200:], "factors_test": factors[200:]}
    train = found[:200], factors[:200]
    for name, options in {"mig": {}, "dci": {"estimator": "logistic"}}.items():
        listed = name + "(estimator=logistic)" * bool(options)
        score = getattr(metrics, name)
        alone = score(*train, **parts, **options)
        whole = score(*train, **parts, groups=(2, 1, 3), **options)
        assert dict(result.scores[listed]) == pytest.approx(dict(alone))
        assert dict(result.scores[f"{listed}_grouped"]) == pytest.approx(dict(whole))
        assert alone != whole
    # A score without a definition for variables is reported once.
    assert "mcc_grouped" not in result.scores
    assert set(result.scores) == {*wanted, "mig_grouped", "irs_grouped"} | {
        "dci(estimator=logistic)_grouped"
    }
    number = evaluation.describe_number("mig_grouped")
    assert number.meaning.endswith(", of whole latent variables")
    assert number.better == "higher"


def test_single_dimensions_have_one_kind_of_scores(rng):
    result, *_ = evaluated((1, 1, 1), ("mig",), rng)
    assert set(result.scores) == {"mig"}


def test_a_discrete_variable_is_never_taken_apart(rng):
    result, found, factors = evaluated((1, 1, 3), ("mig",), rng, discrete=(3,))
    assert set(result.scores) == {"mig"}
    whole = metrics.mig(found[:200], factors[:200], groups=(1, 1, 3))
    assert result.scores["mig"]["mig"] == pytest.approx(whole["mig"])


def test_heat_maps_of_dimensions_and_of_variables(rng):
    result, *_ = evaluated((2, 1), ("mig",), rng)
    scores = {
        "settings": {"latent_groups": [2, 1], "factors": ["a", "b"]},
        "config": {"eval": {"scores": ["mig"]}},
        "metrics": {
            name: {"settings": score.settings, "matrices": score.matrices}
            for name, score in result.scores.items()
        },
    }
    maps = {section.name: section for section in codes.Codes.sections(scores, {})}
    assert list(maps["mi"].rows) == ["z1.1", "z1.2", "z2"]
    assert list(maps["mi_grouped"].rows) == ["z1", "z2"]
