"""Properties that every registered score has, or says that it has not."""

import functools
import inspect
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
    return getattr(metrics, name)(
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
def scores(mixed):
    """The score of each name, computed once for all tests."""
    return functools.cache(lambda name: compute(name, *mixed))


@pytest.fixture(scope="module")
def in_float32(mixed):
    """The score of each name for float32 codes, computed once for all tests."""
    codes = mixed[0].astype(np.float32)
    return functools.cache(lambda name: float(compute(name, codes, mixed[1])))


def public_scores():
    """The public functions that return a `Score`, by name."""
    return {
        name: value
        for name, value in vars(metrics).items()
        if inspect.isfunction(value)
        and value.__annotations__.get("return") is metrics.Score
    }


def test_every_score_describes_itself():
    """A score of codes and factors, or of a dataset, is described where it is defined.

    Functions of other inputs (log-densities, an importance matrix, class labels) need
    no description: `evaluate` cannot call them.
    """
    for name, function in public_scores().items():
        takes = set(inspect.signature(function).parameters)
        if {"factors", "dataset"} & takes:
            assert name in metrics.names(), name
    for name in metrics.names():
        function, description = getattr(metrics, name), metrics.describe(name)
        assert public_scores()[name] is function and function.__name__ == name
        assert function.description is description and function.__doc__
        assert list(description.keys)[0] and all(description.keys.values())
        low, high = description.range
        assert low < high
    assert metrics.names() == tuple(sorted(metrics.names()))
    with pytest.raises(ValueError, match="Did you mean 'mig'"):
        metrics.describe("migg")


def test_names_by_needs_and_cost():
    images = metrics.names(needs=("images",))
    assert {"fid", "kid", "precision_recall"} == set(images)
    assert set(metrics.names(needs=("images",), cost=("slow",))) == set(images)
    every = [metrics.names(cost=(cost,)) for cost in ("fast", "medium", "slow")]
    assert sorted(sum(every, ())) == list(metrics.names())


def test_wrong_descriptions():
    with pytest.raises(ValueError, match="define: `cost` must be one of fast"):
        metrics.define(keys={"a": "b"}, cost="cheap")
    with pytest.raises(ValueError, match="define: `keys` must map each key"):
        metrics.define(keys=("a",))
    with pytest.raises(TypeError, match="unexpected keyword argument 'key'"):
        metrics.define(key={"a": "b"})


@pytest.mark.parametrize("name", ARRAY_SCORES)
def test_shape_of_the_answer(name, scores):
    score, description = scores(name), metrics.describe(name)
    keys = list(description.keys)
    assert list(score)[: len(keys)] == keys
    # Other keys are the headline under other settings.
    assert all(key.startswith(f"{keys[0]}_") for key in list(score)[len(keys) :])
    assert all(type(value) is float for value in score.values())
    assert float(score) == score[keys[0]]
    low, high = description.range
    assert low - 1e-9 <= float(score) <= high + 1e-9
    assert score.settings["samples"] == 300
    for matrix, (title, caption) in description.matrices.items():
        assert score.matrices[matrix].shape == (3, 2) and title and caption


@pytest.mark.parametrize("name", ARRAY_SCORES)
def test_same_value_again_and_for_every_kind_of_array(name, mixed, scores, in_float32):
    codes, factors = mixed
    # float64 codes through lists; factors as floats: the same numbers again.
    listed = compute(name, codes.tolist(), factors.astype(np.float64))
    assert float(listed) == float(scores(name))
    rounded = jnp.asarray(codes.astype(np.float32))
    as_jax = compute(name, rounded, jnp.asarray(factors))
    assert float(as_jax) == in_float32(name)


def test_torch_and_small_integer_arrays(mixed):
    torch = pytest.importorskip("torch")
    codes, factors = mixed
    tensor = torch.tensor(codes, requires_grad=True)
    want = float(metrics.mig(codes, factors))
    assert float(metrics.mig(tensor, torch.tensor(factors))) == want
    assert float(metrics.mig(codes, factors.astype(np.uint8))) == want


@pytest.mark.parametrize("name", ARRAY_SCORES)
def test_seed_matters_only_where_stated(name, mixed, scores):
    other = float(compute(name, *mixed, seed=7))
    if metrics.describe(name).deterministic:
        assert other == float(scores(name))
    else:
        assert other == pytest.approx(float(scores(name)), abs=0.15)


@pytest.mark.parametrize("name", ARRAY_SCORES)
def test_row_order_does_not_matter(name, mixed, scores):
    codes, factors = mixed
    order = np.random.default_rng(0).permutation(len(codes))
    got = float(compute(name, codes[order], factors[order]))
    atol = 1e-6
    if not metrics.describe(name).deterministic or name == "downstream":
        atol = 0.1  # scores that draw rows draw others
    if name == "dci":
        atol = 0.02  # on 300 rows trees choose between nearly equal splits by rounding
    assert got == pytest.approx(float(scores(name)), abs=atol)


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
        for claim in metrics.describe(name).invariant_to
    ],
)
def test_invariance(name, claim, mixed, scores):
    codes, factors = mixed
    got = float(compute(name, MAPS[claim](codes), factors))
    # Bin edges and nearly equal splits may round to the other side.
    exact = metrics.describe(name).deterministic and claim != "shift" and name != "dci"
    assert got == pytest.approx(float(scores(name)), abs=1e-6 if exact else 0.02)


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
def test_dead_latents(name, mixed, in_float32):
    """Constant latents have a finite, documented answer."""
    codes, factors = mixed
    dead = np.concatenate(
        [codes, np.zeros((300, 1)), np.full((300, 1), 0.7)], axis=1
    ).astype(np.float32)
    got = float(compute(name, dead, factors))
    alive = in_float32(name)
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
def test_constant_factor_is_left_out(name, mixed, scores):
    codes, factors = mixed
    with_constant = np.concatenate([np.full((300, 1), 2), factors], axis=1)
    score = compute(name, codes, with_constant)
    assert float(score) == float(scores(name))
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
