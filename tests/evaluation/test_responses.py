"""Latent responses of linear autoencoders, worked out by hand."""

import types

import numpy as np
import pytest

from disentangle_jax import evaluation
from disentangle_jax.evaluation import responses
from tests.evaluation import made


def test_a_linear_autoencoder_by_hand(rng):
    # Decoder x = W z and encoder s = V x, so s = A z with A = V W. A change d of z_g
    # moves s_h by A[h, g] d: R[g, h] = |A[h, g]| sd_g / sd_h, up to the sample.
    w = np.array([[1.0, 0.0], [1.0, 2.0], [0.0, 1.0]])
    v = np.array([[0.5, 0.0, 0.0], [0.0, 0.25, 0.5]])
    a = v @ w  # [[0.5, 0], [0.25, 1]]
    codes = rng.normal(size=(200_000, 2)) * [1.0, 2.0]
    found = responses.latent_responses(
        lambda z: (v @ (w @ z.T)).T, codes, (1, 1), np.random.default_rng(0)
    )
    np.testing.assert_allclose(a, [[0.5, 0.0], [0.25, 1.0]])
    np.testing.assert_allclose(found, [[0.5, 0.25 / 2.0], [0.0, 1.0]], atol=0.01)


def test_against_a_loop_with_variables_and_an_inactive_latent(rng):
    a = rng.normal(size=(4, 4))
    codes = rng.normal(size=(30, 4))
    codes[:, 3] = 0.5 + 1e-5 * codes[:, 3]  # A latent that does not vary.
    groups = (2, 1, 1)
    found = responses.latent_responses(
        lambda z: z @ a.T, codes, groups, np.random.default_rng(3)
    )
    order, parts = np.random.default_rng(3), ([0, 1], [2], [3])
    for g in range(2):
        other = order.permutation(30)
        for h in range(2):
            moved, variance = 0.0, 0.0
            for n in range(30):
                changed = codes[n].copy()
                changed[parts[g]] = codes[other[n]][parts[g]]
                step = a @ changed - a @ codes[n]
                moved += sum(step[d] ** 2 for d in parts[h]) / 30
            for d in parts[h]:
                variance += codes[:, d].var()
            want = np.sqrt(moved / (2 * variance))
            assert found[g, h] == pytest.approx(want, rel=1e-9)
    assert np.isnan(found[2]).all() and np.isnan(found[:, 2]).all()


def test_the_evaluator_reports_means_and_a_heat_map(rng):
    run = made.run((1, 1, 1))
    run.config.method = types.SimpleNamespace(name="ae")
    codes = rng.normal(size=(40, 3))
    # Images of the first row hold the code; its third latent is ignored.
    model = types.SimpleNamespace(
        shows_images=True,
        decode_all=lambda z: z * [1.0, 1.0, 0.0],
        posterior=lambda images: types.SimpleNamespace(mean=images),
    )
    seen = types.SimpleNamespace(codes=codes)
    result = evaluation.get("responses")(run).evaluate(model, seen)
    score = result.scores["responses"]
    matrix = score.matrices["responses"]
    assert matrix[2, 2] == 0.0 and score["others"] == 0.0
    assert score["own"] == pytest.approx(np.diag(matrix).mean())
    assert score["own"] == pytest.approx(2 / 3, abs=0.15)
    entry = {"settings": score.settings, "matrices": score.matrices}
    (section,) = responses.Responses.sections({"metrics": {"responses": entry}}, {})
    assert list(section.rows) == ["z1", "z2", "z3"]


def test_models_of_words_are_refused_before_training():
    run = made.run((1, 1), evaluators=("codes",))
    run.config.eval.evaluators = ("responses",)
    run.config.method = types.SimpleNamespace(name="prodlda")
    evaluation.check(run)
    run.method.inputs.observation = "words"
    with pytest.raises(ValueError, match="prodlda does not model images"):
        evaluation.check(run)
