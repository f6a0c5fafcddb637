"""Golden values of the field's own metric code (see ../shared/golden/README.md)."""

import functools
import json

import numpy as np
import pytest

from disentangle_jax import metrics

ARRAY_CASES = ("a_perfect", "b_rotation", "c_split", "d_merged", "g_dsprites", "i_corr")
GRID_CASES = ("grid_aligned", "grid_rotation", "grid_mixed")


@functools.cache
def records(folder):
    with open(folder / "metrics.json") as file:
        return json.load(file)


@functools.cache
def arrays(folder, case):
    with np.load(folder / f"{case}.npz") as file:
        return {key: file[key] for key in file.files}


def expected(folder, case, metric, peer):
    """The value of one record and its standard deviation over seeds."""
    found = [
        r for r in records(folder)
        if (r["case"], r["metric"], r["peer"]) == (case, metric, peer)
    ]  # fmt: skip
    if not found:
        pytest.skip(f"no golden value of {metric} for {case}")
    return found[0]["value"], found[0]["std"] or 0.0


def data(folder, case, test=False):
    a = arrays(folder, case)
    if not test:
        return (a["codes"], a["factors"]), {}
    more = {"codes_test": a["codes_test"], "factors_test": a["factors_test"]}
    return (a["codes"], a["factors"]), more


UBI = {"bins": 10, "bin_factors": True}
MI_SCORES = [
    # score, settings, golden metric, peer
    (metrics.mig, {}, "mig", "dlib"),
    (metrics.mig, {}, "mig", "disent"),
    (metrics.mig, {**UBI, "normaliser": "code"}, "mig", "ubi"),
    (metrics.mig, {"normaliser": "code"}, "mig_disc20", "ubi"),
    (metrics.mig_sup, UBI, "mig_sup", "ubi"),
    (metrics.mig_sup, {}, "mig_sup_disc20", "ubi"),
    (metrics.jemmig, UBI, "jemmig", "ubi"),
    (metrics.jemmig, {}, "jemmig_disc20", "ubi"),
    (metrics.dcimig, UBI, "dcimig", "ubi"),
    (metrics.dcimig, {}, "dcimig_disc20", "ubi"),
    (metrics.modularity, {}, "modularity", "dlib"),
    (metrics.modularity, {}, "modularity_score", "dlib"),
    (metrics.modularity, UBI, "modularity", "ubi"),
    (metrics.modularity, {}, "modularity_disc20", "ubi"),
    (metrics.sap, {"estimator": "r2"}, "sap_continuous", "dlib"),
    (metrics.sap, {"estimator": "r2"}, "sap_continuous", "ubi"),
]


@pytest.mark.parametrize("case", ARRAY_CASES)
@pytest.mark.parametrize(
    ("score", "settings", "metric", "peer"),
    MI_SCORES,
    ids=[f"{m}-{p}" for _, _, m, p in MI_SCORES],
)
def test_information_scores(golden, case, score, settings, metric, peer):
    value, _ = expected(golden, case, metric, peer)
    args, _ = data(golden, case)
    np.testing.assert_allclose(float(score(*args, **settings)), value, atol=1e-5)


@pytest.mark.parametrize("case", ARRAY_CASES)
@pytest.mark.parametrize(
    ("settings", "metric", "peer"),
    [
        ({}, "irs", "dlib"),
        ({"quantile": 1.0}, "irs_q1", "dlib"),
        ({"quantile": 1.0, "factor_bins": 10}, "irs", "ubi"),
        ({"factor_bins": 10}, "irs_q.99", "ubi"),
        ({"quantile": 1.0, "factor_bins": None}, "irs_disc20", "ubi"),
    ],
)
def test_irs(golden, case, settings, metric, peer):
    value, _ = expected(golden, case, metric, peer)
    args, _ = data(golden, case)
    np.testing.assert_allclose(float(metrics.irs(*args, **settings)), value, atol=2e-5)


@pytest.mark.parametrize("case", ARRAY_CASES)
def test_unsupervised(golden, case):
    args, _ = data(golden, case)
    scores = metrics.unsupervised(*args)
    for key in scores:
        name = "mutual_info_score" if key == "mutual_information" else key
        value, _ = expected(golden, case, name, "dlib")
        np.testing.assert_allclose(scores[key], value, rtol=1e-5)


@pytest.mark.parametrize("case", ARRAY_CASES)
def test_sap_svm(golden, case):
    value, _ = expected(golden, case, "sap_discrete", "dlib")
    args, test = data(golden, case, test=True)
    np.testing.assert_allclose(float(metrics.sap(*args, **test)), value, atol=1e-3)


@pytest.mark.parametrize("case", ARRAY_CASES)
def test_explicitness(golden, case):
    args, test = data(golden, case, test=True)
    scores = metrics.explicitness(*args, **test)
    value, _ = expected(golden, case, "explicitness_score_test", "dlib")
    np.testing.assert_allclose(scores["explicitness"], value, atol=1e-4)
    value, _ = expected(golden, case, "explicitness_score_train", "dlib")
    np.testing.assert_allclose(scores["explicitness_train"], value, atol=1e-4)


@pytest.mark.parametrize("case", ARRAY_CASES)
def test_dci_lasso(golden, case):
    args, _ = data(golden, case)
    scores = metrics.dci(*args, estimator="lasso")
    keys = ("disentanglement", "completeness", "informativeness_train")
    for key, letter in zip(keys, "DCI"):
        value, _ = expected(golden, case, f"dci_lasso_{letter}", "ubi")
        # The peer's coordinate descent stops at tol 1e-4, ours at the optimum.
        np.testing.assert_allclose(scores[key], value, atol=5e-4)


def check_dci(folder, case, estimator, rows, rows_test, suffix, atol):
    a = arrays(folder, case)
    scores = metrics.dci(
        a["codes"][:rows],
        a["factors"][:rows],
        codes_test=a["codes_test"][:rows_test],
        factors_test=a["factors_test"][:rows_test],
        estimator=estimator,
    )
    for key, name in (
        ("disentanglement", "dci_D"),
        ("completeness", "dci_C"),
        ("informativeness", "dci_I_test"),
    ):
        value, std = expected(folder, case, name + suffix, "dlib")
        np.testing.assert_allclose(scores[key], value, atol=max(atol, 3 * std))


@pytest.mark.parametrize("case", ("a_perfect", "c_split", "d_merged"))
def test_dci_exact_small(golden, case):
    check_dci(golden, case, "gbt_exact", 2000, 1000, "_n2000", 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("case", ARRAY_CASES)
def test_dci_exact(golden, case):
    check_dci(golden, case, "gbt_exact", 10_000, 5_000, "", 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("case", ARRAY_CASES)
def test_dci_fast(golden, case):
    check_dci(golden, case, "gbt", 10_000, 5_000, "", 0.02)


# a_perfect and c_split have few values: exact, as test_estimators shows.
@pytest.mark.parametrize("case", ("b_rotation", "d_merged", "i_corr"))
def test_dci_fast_small(golden, case):
    check_dci(golden, case, "gbt", 2000, 1000, "_n2000", 0.02)


@pytest.mark.parametrize("case", GRID_CASES)
@pytest.mark.parametrize(
    ("score", "settings", "metric", "atol"),
    [
        (metrics.mig, {}, "fullgrid_mig", 1e-5),
        (metrics.modularity, {}, "fullgrid_modularity", 1e-5),
        (metrics.sap, {"estimator": "r2"}, "fullgrid_sap_continuous", 1e-5),
        (metrics.irs, {}, "fullgrid_irs", 2e-5),
    ],
    ids=["mig", "modularity", "sap", "irs"],
)
def test_full_grid(golden, case, score, settings, metric, atol):
    value, _ = expected(golden, case, metric, "dlib")
    args, _ = data(golden, case)
    np.testing.assert_allclose(float(score(*args, **settings)), value, atol=atol)


class TableDataset:
    """A dataset whose images are the rows of a table over the full grid."""

    def __init__(self, sizes, table):
        self.factor_sizes = tuple(int(s) for s in sizes)
        self.table = table
        self.encoded = 0

    def index_of(self, factors):
        return np.ravel_multi_index(tuple(np.asarray(factors).T), self.factor_sizes)

    def images(self, indices):
        self.encoded += len(indices)
        return self.table[indices]


@pytest.mark.parametrize("case", GRID_CASES)
def test_factor_vae_score_replays_the_votes(golden, case):
    (codes, factors), _ = data(golden, case)
    scores = [metrics.factor_vae_score(codes, factors, seed=s) for s in range(3)]
    for key, metric in (
        ("factor_vae_score", "factor_vae_eval_accuracy"),
        ("train_accuracy", "factor_vae_train_accuracy"),
        ("active_latents", "factor_vae_num_active_dims"),
    ):
        value, _ = expected(golden, case, metric, "dlib")
        np.testing.assert_allclose(np.mean([s[key] for s in scores]), value, atol=1e-12)
    # The same through an encoder and a dataset, with few encodes.
    dataset = TableDataset(arrays(golden, case)["factor_sizes"], codes)
    again = metrics.factor_vae_score(lambda x: x, dataset, seed=0, encode_batch=4096)
    assert dict(again) == dict(scores[0])
    assert again.settings["encodes"] <= 9216
    assert dataset.encoded < 9216 + 4096


@pytest.mark.parametrize("case", GRID_CASES)
def test_beta_vae_score(golden, case):
    args, _ = data(golden, case)
    value, std = expected(golden, case, "beta_vae_eval_accuracy", "dlib")
    # Same draws; the logistic regression is solved to its optimum, which moves at most
    # a few of 5,000 points.
    assert abs(float(metrics.beta_vae_score(*args)) - value) <= max(3 * std, 1e-3)


@pytest.mark.parametrize("case", ARRAY_CASES)
def test_conditional_sampling(golden, case):
    args, _ = data(golden, case)
    settings = {"batch_size": 200, "num_train": 800, "num_eval": 800}
    scores = [metrics.factor_vae_score(*args, seed=s, **settings) for s in range(3)]
    value, std = expected(golden, case, "z_min_var", "ubi")
    got = np.mean([s["chance_corrected"] for s in scores])
    # Three standard errors of a mean over three seeds of 800 votes, on both sides.
    noise = 3 * np.sqrt(2 * (std**2 + 0.25 * 16 / 9 / 800) / 3)
    assert abs(got - value) < (noise if value < 1 else 1e-12)
    value, std = expected(golden, case, "z_max_var", "ubi")
    got = np.mean([float(metrics.z_max_var(*args, seed=s)) for s in range(3)])
    error = np.sqrt(std**2 + value * (1 - value) * 16 / 9 / 800)
    assert abs(got - value) <= max(3 * np.sqrt(2 / 3) * error, 5e-3)
