"""Properties that every registered score has, or says that it has not."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import metrics

ARRAY_SCORES = metrics.names(needs=("factors", "codes"))
# Small draws, so that a property costs a second and not ten.
SMALL = {
    "beta_vae_score": {"num_train": 300, "num_eval": 300},
    "factor_vae_score": {"num_train": 300, "num_eval": 300},
    "downstream": {"train_sizes": (300,)},
    "info_mec": {"information_estimator": "histogram"},
}
SIZES = (3, 4)


def compute(name, codes, factors, test=None, **more):
    codes_test, factors_test = (codes, factors) if test is None else test
    return metrics.info(name).function(
        codes,
        factors,
        codes_test=codes_test,
        factors_test=factors_test,
        **SMALL.get(name, {}),
        **more,
    )


@pytest.fixture(scope="module")
def mixed():
    """A code between perfect and useless, with few equal gains to choose from."""
    rng = np.random.default_rng(3)
    factors = np.stack([rng.integers(s, size=300) for s in SIZES], axis=1)
    codes = factors @ np.array([[1.0, 0.3, 0.0], [0.2, 1.0, 0.4]])
    return codes + 0.2 * rng.normal(size=(300, 3)), factors


@pytest.fixture(scope="module")
def values(mixed):
    return {name: float(compute(name, *mixed)) for name in ARRAY_SCORES}


def test_every_score_is_registered():
    """Every public function that returns a `Score` is in the registry."""
    scores = {
        name for name in metrics.__all__
        if callable(getattr(metrics, name))
        and getattr(metrics, name).__annotations__.get("return") is metrics.Score
    }  # fmt: skip
    hooks = {"cluster_accuracy", "outlier_rejection", "relation_accuracy"}
    hooks |= {"matching_accuracy", "class_information", "ordering"}
    assert scores - hooks == set(metrics.names())
    for name in metrics.names():
        assert metrics.info(name).function is getattr(metrics, name)
        assert metrics.info(name).cost in ("fast", "medium", "slow")
    fixed = (
        "mig mig_sup rmig jemmig dcimig dci sap modularity explicitness irs "
        "beta_vae_score factor_vae_score z_max_var unsupervised info_mec mcc med udr "
        "downstream fairness factor_importance flatness reconstruction fid "
        "kid precision_recall"
    )
    assert set(fixed.split()) == set(metrics.names())
    with pytest.raises(ValueError, match="Did you mean 'mig'"):
        metrics.info("migg")


@pytest.mark.parametrize("name", ARRAY_SCORES)
def test_shape_of_the_answer(name, mixed):
    score = compute(name, *mixed)
    entry = metrics.info(name)
    assert next(iter(score)) == entry.keys[0] and set(entry.keys) <= set(score)
    assert all(type(value) is float for value in score.values())
    assert float(score) == score[entry.keys[0]]
    low, high = entry.range
    assert low - 1e-9 <= float(score) <= high + 1e-9
    assert score.settings["samples"] == 300


@pytest.mark.parametrize("name", ARRAY_SCORES)
def test_same_value_again_and_for_every_kind_of_array(name, mixed, values):
    codes, factors = mixed
    assert float(compute(name, codes, factors)) == values[name]
    # float64 codes through lists; factors as floats.
    listed = compute(name, codes.tolist(), factors.astype(np.float64))
    assert float(listed) == pytest.approx(values[name], abs=1e-12)
    rounded = codes.astype(np.float32)
    as_jax = compute(name, jnp.asarray(rounded), jnp.asarray(factors))
    assert float(as_jax) == float(compute(name, rounded, factors))


def test_torch_and_small_integer_arrays(mixed):
    torch = pytest.importorskip("torch")
    codes, factors = mixed
    tensor = torch.tensor(codes, requires_grad=True)
    want = float(metrics.mig(codes, factors))
    assert float(metrics.mig(tensor, torch.tensor(factors))) == want
    assert float(metrics.mig(codes, factors.astype(np.uint8))) == want


@pytest.mark.parametrize("name", ARRAY_SCORES)
def test_seed_matters_only_where_stated(name, mixed, values):
    other = float(compute(name, *mixed, seed=7))
    if metrics.info(name).deterministic:
        assert other == values[name]
    else:
        assert other == pytest.approx(values[name], abs=0.15)


@pytest.mark.parametrize("name", ARRAY_SCORES)
def test_row_order_does_not_matter(name, mixed, values):
    codes, factors = mixed
    order = np.random.default_rng(0).permutation(len(codes))
    got = float(compute(name, codes[order], factors[order]))
    atol = 1e-6
    if not metrics.info(name).deterministic or name == "downstream":
        atol = 0.1  # scores that draw rows draw others
    if name == "dci":
        atol = 0.02  # on 300 rows trees choose between nearly equal splits by rounding
    assert got == pytest.approx(values[name], abs=atol)


MAPS = {
    "permutation": lambda z: z[:, [2, 0, 1]],
    "shift": lambda z: z + np.array([1.0, -2.0, 0.5]),
    "scale": lambda z: z * np.array([2.0, 0.5, 4.0]),
    "global_scale": lambda z: z * 4.0,
}


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        (name, claim)
        for name in ARRAY_SCORES
        for claim in metrics.info(name).invariant_to
    ],
)
def test_invariance(name, claim, mixed, values):
    codes, factors = mixed
    got = float(compute(name, MAPS[claim](codes), factors))
    # Bin edges and nearly equal splits may round to the other side.
    exact = metrics.info(name).deterministic and claim != "shift" and name != "dci"
    assert got == pytest.approx(values[name], abs=1e-6 if exact else 0.02)


PERFECT = {  # the headline of a code that is the factors themselves
    "mig": 1.0, "mig_sup": 1.0, "dcimig": 1.0, "modularity": 1.0, "dci": 1.0,
    "explicitness": 1.0, "irs": 1.0, "mcc": 1.0, "beta_vae_score": 1.0,
    "factor_vae_score": 1.0, "z_max_var": 1.0, "med": 1.0, "rmig": 1.0,
    "downstream": 1.0, "info_mec": 1.0, "unsupervised": 0.0, "jemmig": 1.0,
}  # fmt: skip


def full_grid():
    """All 12 combinations, 25 times each: independent factors, exactly."""
    grid = np.stack(np.meshgrid(*map(np.arange, SIZES), indexing="ij"), axis=-1)
    return np.tile(grid.reshape(-1, 2), (25, 1))


@pytest.mark.parametrize("name", sorted(PERFECT))
def test_perfect_code(name):
    factors = full_grid()
    got = float(compute(name, factors.astype(float), factors))
    # JEMMIG divides by ln 20 + H: the best code uses as few bins as values.
    want = PERFECT[name]
    if name == "jemmig":
        joint = np.log(SIZES)
        want = np.mean(1 - (joint - joint) / (joint + np.log(20)))
    assert got == pytest.approx(want, abs=1e-3 if name == "explicitness" else 1e-6)


NOISE = {  # largest headline of pure noise at 2,000 rows
    "mig": 0.02, "mig_sup": 0.02, "dcimig": 0.02, "rmig": 0.05, "dci": 0.1,
    "sap": 0.05, "explicitness": 0.58, "mcc": 0.1, "beta_vae_score": 0.65,
    "factor_vae_score": 0.65, "downstream": 0.35, "med": 0.2,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(NOISE))
def test_pure_noise(name):
    rng = np.random.default_rng(5)
    factors = np.tile(full_grid(), (14, 1))[:4000]
    codes = rng.normal(size=(4000, 3))
    train, test = slice(0, 2000), slice(2000, 4000)
    got = compute(name, codes[train], factors[train], (codes[test], factors[test]))
    assert float(got) < NOISE[name]


@pytest.mark.parametrize("name", ARRAY_SCORES)
def test_dead_latents(name, mixed, values):
    """Constant latents have a finite, documented answer."""
    codes, factors = mixed
    dead = np.concatenate(
        [codes, np.zeros((300, 1)), np.full((300, 1), 0.7)], axis=1
    ).astype(np.float32)
    got = float(compute(name, dead, factors))
    alive = float(compute(name, codes.astype(np.float32), factors))
    if name in ("mig_sup", "modularity"):  # a mean over latents: dead ones count 0
        assert got == pytest.approx(alive * 3 / 5, abs=1e-6)
    elif name == "dci":  # trees never split on them
        assert got == pytest.approx(alive, abs=1e-6)
    elif name in ("beta_vae_score", "info_mec", "downstream", "fairness"):
        assert got == pytest.approx(alive, abs=0.05)
    else:
        assert got == pytest.approx(alive, abs=1e-5)
    all_dead = float(compute(name, np.zeros((300, 2)), factors))
    assert math.isfinite(all_dead)


@pytest.mark.parametrize("name", ARRAY_SCORES)
def test_constant_factor_is_left_out(name, mixed, values):
    codes, factors = mixed
    with_constant = np.concatenate([np.full((300, 1), 2), factors], axis=1)
    score = compute(name, codes, with_constant)
    assert float(score) == values[name]
    if name != "unsupervised":
        assert score.settings["constant_factors_left_out"] == (0,)
        with pytest.raises(ValueError, match="at least two values"):
            compute(name, codes, with_constant[:, :1])


@pytest.mark.parametrize("name", ARRAY_SCORES)
def test_one_factor_and_one_latent(name, mixed):
    codes, factors = mixed
    if name == "fairness":
        with pytest.raises(ValueError, match="at least two factors"):
            compute(name, codes, factors[:, :1])
    else:
        assert math.isfinite(float(compute(name, codes, factors[:, :1])))
    assert math.isfinite(float(compute(name, codes[:, :1], factors)))


@pytest.mark.parametrize("name", ("mig", "dci", "sap", "irs", "modularity"))
def test_more_latents_than_bins_or_rows(name, rng):
    factors = rng.integers(3, size=(40, 2))
    codes = rng.normal(size=(40, 60))
    assert math.isfinite(float(compute(name, codes, factors)))


@pytest.mark.parametrize("name", ARRAY_SCORES)
def test_bad_arrays_are_refused(name, mixed):
    codes, factors = mixed
    broken = codes.copy()
    broken[3, 1] = np.nan
    with pytest.raises(ValueError, match=f"{name}: `codes` must be finite, got 1 NaN"):
        compute(name, broken, factors, (codes, factors))
    with pytest.raises(ValueError, match=r"`codes` must have shape \[N, D\]"):
        compute(name, codes[:, 0], factors, (codes, factors))
    with pytest.raises(TypeError, match="`codes` must hold numbers"):
        compute(name, codes.astype(str), factors, (codes, factors))
    if name == "unsupervised":
        return
    with pytest.raises(ValueError, match="as many rows as its codes, got 299 and 300"):
        compute(name, codes, factors[1:], (codes, factors))
    with pytest.raises(ValueError, match="`factors` must be finite"):
        compute(name, codes, np.where(factors == 0, np.inf, factors))
