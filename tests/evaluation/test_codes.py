"""Scores of single dimensions and of whole latent variables."""

import types

import numpy as np
import pytest

from disentangle_jax import evaluation, metrics
from disentangle_jax.evaluation import codes
from disentangle_jax.types import Posterior
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
    model = types.SimpleNamespace(shows_images=False, run=run)
    return codes.Codes(run).evaluate(model, seen), found, factors


def test_variables_of_several_dimensions_have_both_kinds_of_scores(rng):
    wanted = ("mig", "dci(estimator=logistic)", "rmig", "irs")
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
    assert "rmig_grouped" not in result.scores
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


def test_inactive_latents_are_named(rng):
    mean = rng.normal(size=(60, 3)).astype(np.float32)
    log_var = rng.normal(-1.0, 0.1, size=(60, 3)).astype(np.float32)
    mean[:, 1] = log_var[:, 1] = 0.0  # The posterior of an unused latent is the prior.
    run = made.run((1, 1, 1))
    seen = types.SimpleNamespace(codes=mean, posterior=Posterior(mean, log_var))
    found = codes.Codes(run).evaluate(made.model(run), seen)
    kl = 0.5 * (mean**2 + np.exp(log_var) - log_var - 1).mean(axis=0)
    np.testing.assert_allclose(found.arrays["kl"], kl, rtol=1e-4, atol=1e-6)
    assert found.scores["kl"]["kl"] == pytest.approx(kl.sum(), rel=1e-5)
    assert found.scores["kl_active"]["kl_active"] == 2
    assert found.details == {"inactive_latents": [1]}
    matrix = {"settings": {}, "matrices": {"mi": np.ones((3, 1))}}
    scores = {
        "settings": {"latent_groups": [1, 1, 1], "factors": ["a"]},
        "config": {},
        "metrics": {"mig": matrix},
        **found.details,
    }
    shown = {s.name: s for s in codes.Codes.sections(scores, found.arrays)}
    marked = ["z1", "z2 (inactive)", "z3"]
    assert list(shown["mi"].rows) == marked
    assert list(shown["kl_per_latent"].names) == marked
    assert "0.01 nats): z2." in shown["kl_per_latent"].caption
    assert list(shown["traversals_1"].labels) == marked


def test_deterministic_codes_that_do_not_vary_are_inactive(rng):
    codes_ = rng.normal(size=(50, 3)) * [1.0, 0.005, 0.5]
    assert codes.inactive_latents(Posterior(codes_)) == [1]


def test_a_variable_is_inactive_with_all_its_latents():
    labels = codes._variable_labels((2, 1, 2), (1, 2, 3, 4))
    assert labels == ["z1", "z2 (inactive)", "z3 (inactive)"]
