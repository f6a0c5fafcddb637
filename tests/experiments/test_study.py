"""Analyses of a study against values worked by hand and loops written out."""

import itertools

import numpy as np
import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import training
from disentangle_jax.experiments import study
from disentangle_jax.training import program
from tests.training import tiny


def made(values, *, seeds=None, methods=None, datasets=None):
    """Returns a grid of ``[K, D, H, S]`` values; each setting a method of its own."""
    values = np.asarray(values, float)
    k, d, h, s = values.shape
    return study.Grid(
        tuple(f"score{i}" for i in range(k)),
        tuple(datasets or (f"data{i}" for i in range(d))),
        tuple(methods or ((f"method{i}", 1.0) for i in range(h))),
        tuple(seeds or range(s)),
        values,
    )


def test_grid_places_rows_and_leaves_out_what_is_not_there():
    rows = [
        {"dataset": "a", "method": "m", "strength": 1.0, "seed": 3, "mig": 0.5},
        {"dataset": "a", "method": "m", "strength": 2.0, "seed": 1, "mig": 0.25},
        {"dataset": "b", "method": "n", "strength": 1.0, "seed": 1, "mig": None},
        {"dataset": "b", "method": "n", "strength": 1.0, "seed": 3, "mig": 0.75,
         "finite": False},
        {"dataset": "b", "method": "m", "strength": 1.0, "seed": 1, "bce": 10.0,
         "kl": 2.0},
    ]  # fmt: skip
    grid = study.grid(rows)
    assert grid.datasets == ("a", "b") and grid.seeds == (1, 3)
    assert grid.settings == (("m", 1.0), ("m", 2.0), ("n", 1.0))
    nan = np.nan
    np.testing.assert_array_equal(
        grid.score("mig"), [[[nan, 0.5], [0.25, nan], [nan, nan]], [[nan, nan]] * 3]
    )
    assert grid.score("elbo")[1, 0, 0] == -12.0
    assert grid.methods == ("m", "n") and list(grid.of_method("m")) == [0, 1]
    with pytest.raises(ValueError, match="`rows` must be finite models with a 'seed'"):
        study.grid([{"dataset": "a", "method": "m", "strength": 1.0}])


def test_rank_correlation_by_hand():
    # Ranks differ by 0, 1, 1, 0: 1 - 6 * 2 / (4 * 15).
    assert study.rank_correlation([1, 2, 3, 4], [10, 30, 20, 40]) == pytest.approx(0.8)
    # A tie has rank 1.5 twice: 1.5 / sqrt(1.5 * 2).
    tied = study.rank_correlation([5, 5, 7], [1, 2, 3])
    assert tied == pytest.approx(np.sqrt(3) / 2)
    assert study.rank_correlation([1, 2, np.nan, 3], [3, 2, 9, 1]) == pytest.approx(-1)
    assert np.isnan(study.rank_correlation([1, 1], [1, 2]))
    assert np.isnan(study.rank_correlation([1, np.nan], [1, 2]))


def test_rank_correlations_are_of_each_dataset_alone():
    first = [[[1, 2], [3, 4]], [[1, 2], [3, 4]]]
    second = [[[1, 3], [2, 4]], [[4, 3], [2, 1]]]
    grid = made([first, second])
    found = study.rank_correlations(grid, ["score0"], ["score0", "score1"])
    np.testing.assert_allclose(found, [[[1, 0.8]], [[1, -1]]])


def test_variance_explained_by_hand():
    # Means 1 and 5 of all 3; total 9 + 1 + 1 + 9, within 1 + 1 + 1 + 1.
    share = study.variance_explained(np.array([0, 2, 4, 6.0]), np.array([0, 0, 1, 1]))
    assert share == pytest.approx(0.8)
    same = study.variance_explained(np.array([0, 2, 0, 2.0]), np.array([0, 0, 1, 1]))
    assert same == pytest.approx(0.0)
    assert np.isnan(study.variance_explained(np.full(3, 0.1), np.arange(3)))
    left_out = study.variance_explained(
        np.array([0, 2, 4, 6, np.nan]), np.array([0, 0, 1, 1, 1])
    )
    assert left_out == pytest.approx(0.8)


def test_variances_explained_by_method_and_by_setting():
    methods = [("a", 1.0), ("a", 2.0), ("b", 1.0), ("b", 2.0)]
    # Seeds differ by 2 about 1, 3, 5, 7; the methods' means are 2 and 6 about 4.
    values = [[0, 2], [2, 4], [4, 6], [6, 8]]
    found = study.variances_explained(made([[values]], methods=methods))
    total = 16 + 4 + 4 + 0 + 0 + 4 + 4 + 16
    np.testing.assert_allclose(found[:, 0, 0], [8 * 4 / total, 1 - 8 / total])


def test_transfer_by_hand():
    # One setting is better with every seed: it is chosen, and never beaten.
    better = made([[[[2, 2], [1, 1]]]])
    np.testing.assert_array_equal(study.transfer(better), [1, np.nan, np.nan, np.nan])
    # What is best with one seed is worst with the other: it beats itself alone.
    fickle = made([[[[2, 1], [1, 2]]]])
    assert study.transfer(fickle)[0] == 0.5
    # The best of one dataset is the worst of the other, by either score.
    opposed = [[[2, 2], [1, 1]], [[1, 1], [2, 2]]]
    np.testing.assert_array_equal(
        study.transfer(made([opposed, opposed])), [1, 0.5, 1, 0.5]
    )
    # One seed leaves no other to judge with.
    assert np.isnan(study.transfer(made([[[[2], [1]]]]))).all()


def test_transfer_equals_loops(rng):
    values = rng.integers(0, 4, size=(2, 3, 4, 3)).astype(float)  # Ties too.
    values[0, 1, 2, 0] = np.nan
    grid = made(values)
    won = {name: [] for name in study.TRANSFERS}
    weights = {name: [] for name in study.TRANSFERS}
    k, d, h, s = values.shape
    for k1, d1, s1 in itertools.product(range(k), range(d), range(s)):
        known = [i for i in range(h) if np.isfinite(values[k1, d1, i, s1])]
        top = max(values[k1, d1, i, s1] for i in known)
        best = [i for i in known if values[k1, d1, i, s1] == top]
        for k2, d2, s2 in itertools.product(range(k), range(d), range(s)):
            if s1 == s2:
                continue
            name = next(
                name
                for name, same in study.TRANSFERS.items()
                if (d1 == d2, k1 == k2) == same
            )
            there = [i for i in range(h) if np.isfinite(values[k2, d2, i, s2])]
            for choice in best:
                if choice not in there:
                    continue
                mine = values[k2, d2, choice, s2]
                wins = [mine >= values[k2, d2, other, s2] for other in there]
                won[name].append(np.mean(wins))
                weights[name].append(1 / len(best))
    expected = [np.average(won[name], weights=weights[name]) for name in won]
    np.testing.assert_allclose(study.transfer(grid), expected)


def test_probability_better_by_hand():
    # 1 loses twice, 3 wins once and draws once.
    assert study.probability_better([1, 3], [2, 3]) == pytest.approx(1.5 / 4)
    assert np.isnan(study.probability_better([np.nan], [1]))
    grid = made([[[[1, 3], [2, 3]]]])
    better = study.methods_better(grid, "score0")[0]
    np.testing.assert_allclose(better, [[0.5, 0.375], [0.625, 0.5]])


def test_selected_model_by_hand():
    criterion = [[[0.1, 0.9], [0.2, np.nan]]]
    score = [[[5.0, 7.0], [9.0, 1.0]]]
    grid = made([criterion, score])
    # The second of the first setting: above 1 and 5, equal to itself, below 9.
    found = study.selected_percentile(grid, "score0", ["score1"])
    np.testing.assert_allclose(found, [[2.5 / 4]])


def test_bootstrap_draws_seeds_with_all_their_models():
    values = np.zeros((1, 2, 3, 4))
    values += np.arange(4.0)  # Models of a seed are alike.
    grid = made(values)

    def spread_and_mean(drawn):
        assert drawn.values.shape == values.shape
        per_seed = drawn.values.reshape(-1, 4)
        np.testing.assert_array_equal(per_seed, np.broadcast_to(drawn.seeds, (6, 4)))
        return np.array([np.ptp(per_seed, axis=0).max(), drawn.values.mean()])

    found = study.bootstrap(grid, spread_and_mean, resamples=400)
    np.testing.assert_allclose(found.value, [0, 1.5])
    assert found.low[0] == found.high[0] == 0
    # The mean of four draws of 0 … 3 has standard deviation sqrt(1.25) / 2.
    assert found.low[1] == pytest.approx(1.5 - 1.96 * 0.559, abs=0.2)
    assert found.high[1] == pytest.approx(1.5 + 1.96 * 0.559, abs=0.2)


def test_bootstrap_moves_what_repeated_seeds_bias(rng):
    methods = [(f"m{i}", 1.0) for i in range(4)]
    grid = made(rng.normal(size=(1, 1, 4, 5)), methods=methods)  # Nothing is planted.
    found = study.bootstrap(grid, study.variances_explained, within=(0, 1))
    value, low, high = (float(part[0, 0, 0]) for part in found)
    assert 0 <= low < value < high <= 1


def test_bootstrap_interval_of_the_undefined_is_undefined():
    grid = made([[[[1.0, 1.0]]]])
    found = study.bootstrap(grid, lambda g: np.array([np.nan]), resamples=3)
    assert np.isnan([found.value[0], found.low[0], found.high[0]]).all()


def test_udr_compares_models_of_one_setting(rng):
    factors = rng.normal(size=(200, 3)).astype(np.float32)
    mixed = [factors @ np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2)]
    rows, codes = [], {}
    for strength, kept in ((1.0, [factors, -factors]), (2.0, mixed), (3.0, [factors])):
        for seed, array in enumerate(kept):
            name = f"{strength}-{seed}"
            rows.append(
                {"id": name, "dataset": "d", "method": "m", "strength": strength}
            )
            codes[name] = {"codes": array.astype(np.float16), "kl": np.ones(3)}
    codes.pop("2.0-1")  # Lost: its partner has none then.
    found = study.udr_scores(rows, codes)
    assert set(found) == {"1.0-0", "1.0-1"}
    # Signs do not matter, and a lasso shrinks by its penalty of 0.1.
    assert found["1.0-0"] == pytest.approx(0.9, abs=0.02)
    codes["2.0-1"] = {"codes": mixed[1].astype(np.float16), "kl": np.ones(3)}
    assert study.udr_scores(rows, codes)["2.0-0"] < 0.8


def test_models_of_the_study_see_everything_in_an_order_of_their_own(tmp_path):
    config = config_lib.load(
        f"{tiny.ROOT}/configs/studies/unsupervised.py:mini",
        ["--config.method.name=vae", "--config.lanes.seeds=2"],
    )
    run = training.prepare(config, tmp_path)
    assert len(run.train_set.indices) == len(run.test_set.indices) == 737_280
    assert program.batch_seeds(run) == [1, 2]
    assert config.train.input == "device"
