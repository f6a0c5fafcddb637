"""Factors with continuous values: each score by the form that its definition allows."""

import numpy as np
import pytest

from disentangle_jax import metrics

ROWS = 1000
# Options that keep the scores fast; none changes the treatment of factors.
FAST = {
    "beta_vae_score": {"num_train": 500, "num_eval": 200, "batch_size": 32},
    "factor_vae_score": {"num_train": 500, "num_eval": 200, "batch_size": 32},
    "downstream": {"train_sizes": (100, 1000)},
    "fairness": {"num_train": 500, "points_per_class": 20},
}
# Headlines that must be high for the factors themselves, and lower for the others.
# MED is low: with 500 rows, chance alone gives every latent some information.
ALIGNED = {
    "beta_vae_score": 0.99, "dci": 0.95, "dcimig": 0.85, "explicitness": 0.9,
    "factor_vae_score": 0.99, "info_mec": 0.9, "irs": 0.85, "jemmig": 0.85,
    "mcc": 0.999, "med": 0.3, "mig": 0.85, "mig_sup": 0.85, "modularity": 0.95,
    "sap": 0.95,
}  # fmt: skip


def codes_of(kind, factors, rng):
    if kind == "perfect":
        return factors
    if kind == "rotated":
        return factors @ (np.eye(3) - 2 / 3)  # a reflection that mixes all factors
    return rng.uniform(size=factors.shape)


@pytest.fixture(scope="module")
def table():
    """All scores of perfect, rotated and independent codes of continuous factors."""
    rng = np.random.default_rng(0)
    factors = rng.uniform(size=(ROWS, 3))
    half = ROWS // 2
    found = {}
    for kind in ("perfect", "rotated", "independent"):
        codes = codes_of(kind, factors, rng)
        found[kind] = metrics.evaluate(
            codes[:half], factors[:half], scores=(*ALIGNED, "z_max_var", "rmig"),
            codes_test=codes[half:], factors_test=factors[half:],
            options={k: v for k, v in FAST.items() if k in ALIGNED},
        )  # fmt: skip
    return found


def test_perfect_codes_score_high_and_independent_codes_low(table):
    assert not table["perfect"].errors
    for name, least in ALIGNED.items():
        perfect, rotated, independent = (
            float(table[kind][name]) for kind in ("perfect", "rotated", "independent")
        )
        assert perfect > least, name
        assert independent < perfect, name
        if name not in ("beta_vae_score", "explicitness"):  # blind to a rotation
            assert rotated < perfect - 0.05, name


def test_modularity_of_independent_codes_is_that_of_noise():
    """InfoM is a share, so tiny information that falls on one factor gives 1."""
    rng = np.random.default_rng(0)
    codes, factors = rng.uniform(size=(2, ROWS, 3))
    score = metrics.info_mec(codes, factors)
    nmi = score.matrices["nmi"]
    assert nmi.max() < 0.02 and score["explicitness"] < 0.02
    shares = []
    for row in nmi:
        share = max(row) / sum(row)
        shares.append((share - 1 / 3) / (1 - 1 / 3))
    assert score["modularity"] == pytest.approx(np.mean(shares), abs=1e-12)
    assert score["modularity"] > 0.5
    plain = metrics.info_mec(codes, factors, information_estimator="histogram")
    assert plain["modularity"] < 0.1


def test_codes_without_information_are_fair():
    """Predictions of perfect and of independent codes depend on no other factor."""
    rng = np.random.default_rng(0)
    factors = rng.integers(3, size=(900, 2))
    mixed = factors.sum(axis=1, keepdims=True) * np.ones(2)
    found = {
        name: metrics.fairness(codes, factors, points_per_class=100)["unfairness"]
        for name, codes in (
            ("perfect", factors.astype(float)),
            ("mixed", mixed),
            ("independent", rng.uniform(size=(900, 2))),
        )
    }
    assert max(found["perfect"], found["independent"]) < 0.07
    assert found["mixed"] > 0.2


def test_settings_say_how_continuous_factors_were_treated(table):
    treated = {n: s.settings["continuous_as"] for n, s in table["perfect"].items()}
    assert treated["dci"] == "values (forest_regression)"
    assert treated["sap"] == "values (R²)"
    assert treated["mcc"] == "values"
    assert treated["z_max_var"] == "3 bins"
    own = ("dci", "sap", "mcc", "z_max_var")
    others = {v for n, v in treated.items() if n not in own}
    assert others == {"20 bins"}
    assert table["perfect"]["mig"].settings["continuous_factors"] == (0, 1, 2)


@pytest.mark.slow
def test_all_scores(capsys):
    """Prints the table of all scores, the slow ones included."""
    rng = np.random.default_rng(0)
    factors = rng.uniform(size=(10_000, 3))
    columns = {}
    for kind in ("perfect", "rotated", "independent"):
        codes = codes_of(kind, factors, rng)
        columns[kind] = metrics.evaluate(
            codes[:5000], factors[:5000], codes_test=codes[5000:],
            factors_test=factors[5000:], scores=metrics.names(needs=("factors",)),
            options={"downstream": {"train_sizes": (1000,)}},
        )  # fmt: skip
    with capsys.disabled():
        for name in columns["perfect"]:
            row = [f"{float(columns[kind][name]):.3f}" for kind in columns]
            method = columns["perfect"][name].settings["continuous_as"]
            print(f"| {name} | {' | '.join(row)} | {method} |")
    assert not columns["perfect"].errors


def test_bins_are_an_option():
    factors = np.random.default_rng(0).uniform(size=(2000, 2))
    scores = metrics.evaluate(
        factors, factors, scores="mig,mig_sup", options={"mig": {"bins": 40}}
    )
    assert scores["mig"].settings["bins"] == 40
    assert scores["mig"].settings["continuous_as"] == "40 bins"
    assert scores["mig_sup"].settings["bins"] == 20
    alone = metrics.mig(factors, factors, bins=40)
    assert float(scores["mig"]) == float(alone)


def test_intervals_use_the_bins_of_the_score():
    factors = np.random.default_rng(0).uniform(size=(500, 2))
    scores = metrics.evaluate(
        factors, factors, scores="mig,sap", options={"mig": {"bins": 6}},
        intervals=True, resamples=20,
    )  # fmt: skip
    low, high = scores["mig"].intervals["mig"]
    assert low <= scores["mig"]["mig"] <= high and high - low < 0.1
    assert not scores["sap"].intervals  # R² has no bootstrap of scored rows


def test_continuous_factors_are_binned_as_by_hand():
    """MIG of continuous factors is MIG of their equal-width bins as labels."""
    rng = np.random.default_rng(3)
    factors = rng.normal(size=(600, 2))
    codes = factors + 0.3 * rng.normal(size=(600, 2))
    width = np.ptp(factors, axis=0) / 20
    bins = np.minimum((factors - factors.min(axis=0)) // width, 19).astype(int)
    for score in (metrics.mig, metrics.modularity, metrics.explicitness):
        assert float(score(codes, factors)) == pytest.approx(
            float(score(codes, bins)), abs=1e-12
        )
    assert float(metrics.irs(codes, factors)) == pytest.approx(
        float(metrics.irs(codes, bins)), abs=1e-12
    )


def test_sap_of_mixed_factors_takes_each_in_its_own_form():
    rng = np.random.default_rng(1)
    factors = np.stack([rng.integers(3, size=400), rng.uniform(size=400)], axis=1)
    codes = factors + 0.1 * rng.normal(size=(400, 2))
    matrix = metrics.sap(codes, factors).matrices["predictability"]
    svm = metrics.sap(codes, factors[:, :1]).matrices["predictability"]
    correlation = np.corrcoef(codes.T, factors.T)[:2, 3] ** 2
    np.testing.assert_allclose(matrix[:, 0], svm[:, 0])
    np.testing.assert_allclose(matrix[:, 1], correlation, rtol=1e-6)


def test_dci_of_mixed_factors():
    rng = np.random.default_rng(1)
    factors = np.stack([rng.integers(3, size=300), rng.uniform(size=300)], axis=1)
    codes = factors + 0.001 * rng.normal(size=(300, 2))
    mixed = metrics.dci(codes, factors, estimator="forest")
    one = metrics.dci(codes, factors[:, 1:], estimator="forest_regression")
    np.testing.assert_allclose(
        mixed.matrices["importance"][:, 1], one.matrices["importance"][:, 0]
    )
    assert mixed["informativeness"] > 0.9 and mixed["disentanglement"] > 0.7


@pytest.mark.parametrize(
    "column, continuous",
    [
        (np.random.default_rng(0).uniform(size=200), True),
        (np.arange(1000), True),  # whole numbers that do not recur
        (np.arange(1000) % 200, False),
        (np.linspace(0, 1, 40)[np.arange(1000) % 40], False),
        (np.linspace(0, 1, 200)[np.arange(10_000) % 200], True),
        (np.arange(15) + 0.5, False),  # too few values to be sure
    ],
)
def test_which_factors_are_continuous(column, continuous):
    codes = np.random.default_rng(0).normal(size=(len(column), 2))
    settings = metrics.mig(codes, column).settings
    assert ("continuous_factors" in settings) == continuous


def test_constant_factors_do_not_shift_the_columns():
    rng = np.random.default_rng(0)
    factors = np.stack([np.zeros(100), rng.uniform(size=100)], axis=1)
    settings = metrics.mig(rng.normal(size=(100, 2)), factors).settings
    assert settings["continuous_factors"] == (1,)
    assert settings["constant_factors_left_out"] == (0,)


def test_unknown_options_are_refused():
    codes = np.random.default_rng(0).normal(size=(50, 2))
    factors = np.arange(50) % 3
    with pytest.raises(ValueError, match=r"`options\['mig'\]` must be one of .*bins"):
        metrics.evaluate(codes, factors, scores="mig", options={"mig": {"bin": 3}})
    with pytest.raises(ValueError, match="`options` must be one of mig, got 'dci'"):
        metrics.evaluate(codes, factors, scores="mig", options={"dci": {}})


def test_informativeness_is_never_a_training_accuracy():
    """Trees fit noise perfectly; held-out rows show that nothing was learnt."""
    rng = np.random.default_rng(0)
    codes, factors = rng.normal(size=(300, 3)), rng.integers(4, size=(300, 2))
    score = metrics.dci(codes, factors, estimator="forest")
    assert score["informativeness_train"] > 0.9
    assert score["informativeness"] < 0.45
    assert score.settings["scored_on"] == "a held-out fifth of the rows"
    halves = metrics.dci(
        codes[:150], factors[:150], codes_test=codes[150:], factors_test=factors[150:],
        estimator="forest",
    )  # fmt: skip
    assert "scored_on" not in halves.settings
    assert metrics.explicitness(codes, factors).settings["scored_on"] == "training rows"


def test_codes_without_factors():
    codes = np.random.default_rng(0).normal(size=(200, 3))
    scores = metrics.evaluate(codes, scores="unsupervised,mig", intervals=True)
    alone = metrics.unsupervised(codes)
    assert dict(scores["unsupervised"]) == dict(alone)
    assert np.isnan(float(scores["mig"]))
    assert scores.errors == {"mig": "mig: needs factors, and there are none."}
    assert "not computed: mig: needs factors" in str(scores)
