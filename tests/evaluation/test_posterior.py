"""Scores of the posterior, against their formulas."""

import types

import ml_collections
import numpy as np
import pytest

from disentangle_jax import evaluation, metrics
from disentangle_jax.types import Posterior


@pytest.mark.parametrize("stochastic", [True, False])
def test_numbers_and_kept_arrays(rng, stochastic):
    mean = rng.normal(size=(60, 3)).astype(np.float32)
    mean[:, 2] = 0.0
    log_var = rng.normal(-1.0, 0.1, size=(60, 3)).astype(np.float32)
    log_var[:, 2] = 0.0  # The posterior of an unused latent is the prior.
    factors = (mean[:, :2] > 0).astype(np.int32)
    config = ml_collections.ConfigDict(
        {"eval": {"seed": 3}, "study": {"logistic_labels": (20,)}}
    )
    run = types.SimpleNamespace(
        config=config, test_set=types.SimpleNamespace(factor_sizes=(2, 2))
    )
    seen = types.SimpleNamespace(
        posterior=Posterior(mean, log_var if stochastic else None),
        factors=factors,
        split=lambda rows: (rows[:40], rows[40:]),
    )
    found = evaluation.get("posterior")(run).evaluate(None, seen)
    values = {name: dict(score) for name, score in found.scores.items()}
    want = metrics.unsupervised(
        mean[:40], log_var=log_var[:40] if stochastic else None, seed=3
    )
    assert values["tc_mean"]["tc_mean"] == want["gaussian_total_correlation"]
    logistic = metrics.downstream(
        mean[:40], factors[:40], codes_test=mean[40:], factors_test=factors[40:],
        model="logistic", train_sizes=(20,), seed=3,
    )  # fmt: skip
    assert values["downstream_logistic"] == dict(logistic)
    assert found.arrays["codes"].dtype == np.float16
    np.testing.assert_array_equal(found.arrays["codes"], mean[:40].astype(np.float16))
    if not stochastic:
        assert set(values) == {"tc_mean", "downstream_logistic"}
        assert set(found.arrays) == {"codes"}
        return
    assert (
        values["tc_sampled"]["tc_sampled"]
        == (want["sampled_gaussian_total_correlation"])
    )
