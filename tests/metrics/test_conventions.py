"""`evaluate` with the conventions of other libraries."""

import numpy as np
import pytest
from sklearn import feature_selection, linear_model, preprocessing

from disentangle_jax import metrics
from disentangle_jax.metrics import score as command
from disentangle_jax.metrics.inputs import (
    equal_width_labels,
    unit_interval,
    unit_interval_labels,
)
from disentangle_jax.metrics.sources import Conditional
from tests.metrics.test_golden import GRID_CASES, data, expected

# Convention, score and key, and the record of the golden values and its tolerance.
GOLDEN = [
    ("dlib", "mig", "mig", "dlib", "mig", 1e-5),
    ("disent", "mig", "mig", "disent", "mig", 1e-5),
    ("ubisoft", "mig", "mig", "ubi", "mig", 1e-5),
    ("ubisoft", "mig_sup", "mig_sup", "ubi", "mig_sup", 1e-5),
    ("ubisoft", "jemmig", "jemmig", "ubi", "jemmig", 1e-5),
    ("ubisoft", "dcimig", "dcimig", "ubi", "dcimig", 1e-5),
    ("dlib", "modularity", "modularity", "dlib", "modularity", 1e-5),
    ("ubisoft", "modularity", "modularity", "ubi", "modularity", 1e-5),
    ("dlib", "sap", "sap", "dlib", "sap_discrete", 1e-3),
    ("ubisoft", "sap", "sap", "ubi", "sap_continuous", 1e-5),
    ("dlib", "irs", "irs", "dlib", "irs", 2e-5),
    ("ubisoft", "irs", "irs", "ubi", "irs", 2e-5),
    ("dlib", "explicitness", "explicitness", "dlib", "explicitness_score_test", 1e-4),
    ("ubisoft", "explicitness", "explicitness", "ubi", "explicitness", 5e-4),
    ("ubisoft", "dci", "disentanglement", "ubi", "dci_lasso_D", 5e-4),
    ("ubisoft", "dci", "completeness", "ubi", "dci_lasso_C", 5e-4),
    ("ubisoft", "dci", "informativeness", "ubi", "dci_lasso_I", 5e-4),
    ("dlib", "unsupervised", "mutual_information", "dlib", "mutual_info_score", 1e-5),
]


@pytest.mark.parametrize("case", ("b_rotation", "c_split", "i_corr"))
def test_golden_values(golden, case):
    args, test = data(golden, case, test=True)
    for convention in ("dlib", "disent", "ubisoft"):
        own = [row for row in GOLDEN if row[0] == convention]
        names = list(dict.fromkeys(row[1] for row in own))
        found = metrics.evaluate(*args, scores=names, convention=convention, **test)
        assert not found.errors
        for _, name, key, peer, metric, atol in own:
            value, _ = expected(golden, case, metric, peer)
            got = found[name][key]
            assert got == pytest.approx(value, abs=atol), (convention, name, key)
            assert found[name].settings["convention"] == convention


@pytest.mark.parametrize("case", ("b_rotation",))
def test_votes_of_ubisoft(golden, case):
    args, _ = data(golden, case)
    names = {"beta_vae_score": "z_diff", "factor_vae_score": "z_min_var",
             "z_max_var": "z_max_var"}  # fmt: skip
    runs = [
        metrics.evaluate(*args, scores=list(names), convention="ubisoft", seed=seed)
        for seed in range(3)
    ]
    for name, metric in names.items():
        value, std = expected(golden, case, metric, "ubi")
        votes = runs[0][name].settings["num_eval"]
        got = np.mean([float(run[name]) for run in runs])
        # Three standard errors of the difference of two means over three seeds.
        error = np.sqrt(2 * (std**2 + max(value * (1 - value), 0) * 1.6 / votes) / 3)
        assert abs(got - value) <= 3 * error, (name, got, value)
        assert float(runs[0][name]) <= runs[0][name].get("chance_corrected", 1.0)


@pytest.mark.parametrize("convention", ("dlib", "disent"))
def test_factor_vae_score_replays_the_votes(golden, convention):
    for case in GRID_CASES:
        args, _ = data(golden, case)
        value, _ = expected(golden, case, "factor_vae_eval_accuracy", convention)
        runs = [
            metrics.evaluate(
                *args, scores="factor_vae_score", convention=convention, seed=seed
            )
            for seed in range(3)
        ]
        got = np.mean([float(run["factor_vae_score"]) for run in runs])
        assert got == pytest.approx(value, abs=1e-12)


def test_a_constant_latent_wins_every_vote_in_disent(golden):
    (codes, factors), _ = data(golden, "grid_aligned")
    dead = np.concatenate([codes, np.zeros((len(codes), 1))], axis=1)
    found = {
        convention: float(
            metrics.evaluate(
                dead, factors, scores="factor_vae_score", convention=convention
            )["factor_vae_score"]
        )
        for convention in ("disent", "dlib")
    }
    assert found["dlib"] == 1.0 and found["disent"] == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("size", (3, 16, 31, 36, 71))
@pytest.mark.parametrize("dtype", (np.int64, np.float32, np.float64))
def test_bins_of_ubisoft(size, dtype, rng):
    """Integers on the edges of bins: the library's order of operations decides."""
    values = rng.integers(size, size=(500, 3)).astype(dtype) * dtype(2)
    scaled = preprocessing.minmax_scale(values)
    want = np.digitize(scaled, np.linspace(0, 1, 11)[:-1]) - 1
    np.testing.assert_array_equal(unit_interval_labels(values, 10), want)
    np.testing.assert_array_equal(unit_interval(values, values), scaled)
    constant = np.full((5, 1), 0.7, np.float32)
    assert (unit_interval_labels(constant, 10) == 0).all()


@pytest.mark.parametrize("dtype", (np.int64, np.float16, np.float32, np.float64))
def test_bins_of_numpy(dtype, rng):
    values = (rng.normal(size=(500, 3)) * 50).astype(dtype)
    values[:, 0] = 3
    labels = equal_width_labels(values, 20)
    for column, found in zip(values.T, labels.T, strict=True):
        edges = np.histogram(column, 20)[1][:-1]
        np.testing.assert_array_equal(found, np.digitize(column, edges) - 1)


def test_latents_that_only_rounding_changes_are_binned(rng):
    """NumPy has no edges of 20 bins between so few numbers."""
    codes = rng.normal(size=(500, 4)).astype(np.float32)
    codes[:, 0] = 1.5 + rng.integers(3, size=500) * np.finfo(np.float32).eps
    with pytest.raises(ValueError, match="Too many bins"):
        np.histogram(codes[:, 0], 20)
    labels = equal_width_labels(codes[:, :1], 20)[:, 0]
    assert labels.min() >= 0 and labels.max() < 20 and len(np.unique(labels)) <= 3
    assert (np.diff(labels[np.argsort(codes[:, 0])]) >= 0).all()
    codes[:, 1:] = codes[:, :1]  # A model whose posterior is the prior.
    assert float(metrics.mig(codes, rng.integers(4, size=(500, 2)))) == 0


def test_rows_are_dealt_before_they_are_dealt_again():
    labels = np.array([0, 1, 0, 0, 2, 1, 0, 0])
    sampler = Conditional(labels)
    assert sampler.distinct == 3 and list(sampler.shared) == [0, 1]
    rs = np.random.RandomState(0)
    drawn = sampler.rows(rs, np.array([0, 1, 0]), 5)
    assert (labels[drawn] == [[0], [1], [0]]).all()
    assert set(drawn[0]) == set(drawn[2]) == {0, 2, 3, 6, 7}
    assert np.bincount(drawn[1])[[1, 5]].min() >= 2
    pairs = sampler.rows(rs, np.zeros(300, np.int64), 2, unit=2)
    assert (pairs[:, 0] != pairs[:, 1]).all() and len(np.unique(pairs)) == 5


def test_infomec(rng):
    """The definition of the authors' code, written out with scikit-learn."""
    factors = np.stack([rng.integers(s, size=600) for s in (3, 4)], axis=1)
    factors[:300, 0] = 0  # unbalanced, which the regression weighs
    codes = factors @ np.array([[1.0, 0.3, 0.001], [0.2, 1.0, 0.0]])
    codes = codes + 0.2 * rng.normal(size=(600, 3)) * [1, 1, 0.005]
    nmi, explained = np.empty((2, 3)), []
    x = preprocessing.StandardScaler().fit_transform(codes)
    for k, f in enumerate(factors.T):
        share = np.bincount(f) / len(f)
        for i in range(3):
            nmi[k, i] = feature_selection.mutual_info_classif(
                x[:, [i]], f, discrete_features=False, n_neighbors=10, random_state=0
            )[0] / -np.sum(share * np.log(share))
        losses = []
        for features in (x, np.zeros_like(x)):
            model = linear_model.LogisticRegression(
                C=np.inf, class_weight="balanced", max_iter=100
            )
            p = model.fit(features, f).predict_proba(features)
            losses.append(-np.mean(np.log(p[np.arange(len(f)), f])))
        explained.append(1 - losses[0] / losses[1])
    active = nmi[:, np.ptp(codes, axis=0) > np.ptp(codes, axis=0).max() / 20]
    assert active.shape == (2, 2)
    want = {
        "modularity": (np.mean(active.max(0) / active.sum(0)) - 1 / 2) / (1 / 2),
        "explicitness": np.mean(explained),
        "compactness": (np.mean(active.max(1) / active.sum(1)) - 1 / 2) / (1 / 2),
        "active_latents": 2,
    }
    found = metrics.evaluate(codes, factors, convention="infomec")
    assert list(found) == ["info_mec"]
    assert dict(found["info_mec"]) == pytest.approx(want, abs=1e-6)


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(11)
    factors = np.stack([rng.integers(s, size=300) for s in (3, 12)], axis=1)
    return factors + 0.3 * rng.normal(size=(300, 2)), factors


def test_requests(arrays, tmp_path, capsys):
    with pytest.raises(ValueError, match="`convention` .* Did you mean 'dlib'"):
        metrics.evaluate(*arrays, convention="dlb")
    found = metrics.evaluate(*arrays, scores="mig,mcc", convention="dlib")
    assert dict(found["mig"]) == dict(metrics.mig(*arrays))
    assert np.isnan(float(found["mcc"]))
    assert "mcc: skipped, since the convention dlib" in found.errors["mcc"]
    changed = metrics.evaluate(
        *arrays,
        scores="mig, dci(estimator=logistic)",
        convention="ubisoft",
        options={"mig": {"bins": 12}},
    )
    assert changed["mig"].settings["convention"] == "ubisoft except bins"
    assert dict(changed["mig"]) == dict(
        metrics.mig(*arrays, bins=12, bin_factors=True, normaliser="code")
    )
    logistic = changed["dci(estimator=logistic)"].settings
    assert logistic["estimator"] == "logistic"
    assert logistic["convention"] == "ubisoft except estimator"
    path = tmp_path / "codes.npz"
    np.savez(path, codes=arrays[0], factors=arrays[1])
    assert command.main([str(path), "--scores=mig,sap", "--convention=ubisoft"]) == 0
    assert capsys.readouterr().out.count("convention=ubisoft") == 2
    assert command.main([str(path), "--convention=ubisft"]) == 2


def test_every_convention_names_arguments_of_its_score():
    assert set(metrics.conventions()) == {"disent", "dlib", "infomec", "ubisoft"}
    for name in metrics.names():
        function = getattr(metrics, name)
        for options in metrics.describe(name).conventions.values():
            assert set(options) <= set(function.__kwdefaults__), name


def test_every_score_of_a_convention_is_computed(arrays):
    for convention in ("disent", "ubisoft"):
        small = {
            name: {"num_train": 50, "num_eval": 50}
            for name in ("factor_vae_score", "beta_vae_score", "z_max_var")
            if convention in metrics.describe(name).conventions
        }
        found = metrics.evaluate(*arrays, convention=convention, options=small,
                                 intervals=True, resamples=10)  # fmt: skip
        assert not found.errors
        named = [n for n in metrics.names() if convention in
                 metrics.describe(n).conventions]  # fmt: skip
        assert list(found) == named
