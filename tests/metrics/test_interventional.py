"""Scores that draw their own batches: encoders, traps, orientation of dSprites."""

import numpy as np
import pytest

from disentangle_jax import metrics
from disentangle_jax.types import Posterior

FAST = {"num_train": 400, "num_eval": 400}


class Grid:
    """A dataset over a full grid whose images are the factor values."""

    def __init__(self, sizes):
        self.factor_sizes = sizes
        self.factor_names = [f"f{k}" for k in range(len(sizes))]
        axes = np.meshgrid(*[np.arange(s) for s in sizes], indexing="ij")
        self.values = np.stack(axes, axis=-1).reshape(-1, len(sizes))

    def __len__(self):
        return len(self.values)

    def index_of(self, factors):
        return np.ravel_multi_index(tuple(np.asarray(factors).T), self.factor_sizes)

    def images(self, indices):
        return self.values[indices].astype(np.float32)


def test_beta_vae_score_cannot_see_a_missing_factor():
    """K − 1 of K factors disentangled scores 100 %: the last follows by elimination."""
    grid = Grid((4, 4, 4))

    def two_of_three(x):
        return x[:, :2]

    score = metrics.beta_vae_score(two_of_three, grid, **FAST)
    assert float(score) == 1.0
    # The FactorVAE score does see it.
    assert float(metrics.factor_vae_score(two_of_three, grid, **FAST)) < 0.75
    # And with two of three factors missing, so does BetaVAE.
    assert float(metrics.beta_vae_score(lambda x: x[:, :1], grid, **FAST)) < 0.75


def test_orientation_of_dsprites():
    """Orientations 0 and 39 are one angle: a perfect code of the image cannot be a
    perfect code of the label."""
    grid = Grid((3, 40, 4))

    def by_label(x):
        return x

    def by_image(x):
        x = x.copy()
        x[:, 1] = x[:, 1] % 39  # the renderer turns by 2π · i/39
        return x

    codes = grid.values.astype(np.float64)
    label = metrics.mig(codes, grid.values)
    image = metrics.mig(by_image(codes), grid.values)
    # Two of 40 values share a code: (2/40) ln 2 nats of ln 40 are lost with one bin for
    # each value, and the score with it.
    fine_label = metrics.mig(codes, grid.values, bins=40)
    fine_image = metrics.mig(by_image(codes), grid.values, bins=39)
    lost = 0.05 * np.log(2) / np.log(40) / 3
    np.testing.assert_allclose(float(fine_label), 1.0, atol=1e-12)
    np.testing.assert_allclose(float(fine_label) - float(fine_image), lost, atol=1e-12)
    assert float(label) < float(fine_label)  # 20 bins merge 40 values
    assert abs(float(label) - float(image)) < 0.02
    # The FactorVAE score holds one value at a time and does not notice.
    assert float(metrics.factor_vae_score(by_label, grid, **FAST)) == 1.0
    assert float(metrics.factor_vae_score(by_image, grid, **FAST)) == 1.0


def test_encodes_in_large_batches_and_each_image_once():
    grid = Grid((5, 6, 7))
    seen = []

    def encode(x):
        seen.append(len(x))
        return Posterior(mean=x * 2.0)

    score = metrics.factor_vae_score(encode, grid, encode_batch=64, seed=3)
    assert set(seen) == {64}  # one compiled shape
    assert sum(seen) == 256 and score.settings["encodes"] == 210
    assert float(score) == 1.0
    draws = 64 * 15_000 + 10_000
    assert sum(seen) < draws / 1000


def test_arrays_of_a_full_grid_are_the_same_as_a_dataset():
    grid = Grid((3, 4, 5))
    mix = np.array([[1.0, 0.4, 0.0], [0.0, 1.0, 0.3], [0.2, 0.0, 1.0]], np.float32)
    order = np.random.default_rng(0).permutation(len(grid))
    codes, factors = (grid.values.astype(np.float32) @ mix)[order], grid.values[order]
    for score in (
        metrics.beta_vae_score, metrics.factor_vae_score, metrics.z_max_var,
        metrics.flatness, metrics.fairness,
    ):  # fmt: skip
        more = FAST if "vae" in score.__name__ else {}
        from_arrays = score(codes, factors, **more)
        from_encoder = score(lambda x: x @ mix, grid, **more)
        assert dict(from_arrays) == pytest.approx(dict(from_encoder)), score.__name__


def test_factor_vae_threshold_and_dead_latents():
    grid = Grid((4, 4))
    with_dead = np.concatenate(
        [grid.values, np.zeros((16, 1)), np.full((16, 1), 0.7)], axis=1
    )
    score = metrics.factor_vae_score(with_dead, grid.values, threshold=0.0, **FAST)
    assert float(score) == 1.0 and score["active_latents"] == 2
    tiny = grid.values * np.array([1.0, 0.01])
    pruned = metrics.factor_vae_score(tiny, grid.values, **FAST)
    assert pruned["active_latents"] == 1 and float(pruned) < 0.7
    kept = metrics.factor_vae_score(tiny, grid.values, threshold=0.0, **FAST)
    assert float(kept) == 1.0
    none = metrics.factor_vae_score(0 * tiny, grid.values, **FAST)
    assert 0.4 < float(none) < 0.6 and none["active_latents"] == 0


def test_scores_repeat_by_seed():
    grid = Grid((3, 4))
    codes = grid.values @ np.array([[1.0, 0.5], [-0.5, 1.0]])
    for score in (
        metrics.beta_vae_score, metrics.factor_vae_score, metrics.z_max_var,
    ):  # fmt: skip
        small = {"num_train": 60, "num_eval": 60, "batch_size": 4}
        first = score(codes, grid.values, seed=1, **small)
        assert dict(first) == dict(score(codes, grid.values, seed=1, **small))
    assert first.settings["seed"] == 1


def test_flatness_by_hand():
    grid = Grid((5, 4))
    straight = metrics.flatness(grid.values.astype(float), grid.values)
    for key in ("flatness", "linearity", "axis", "alignment", "same_order"):
        assert straight[key] == pytest.approx(1.0), key
    turn = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    turned = metrics.flatness(grid.values @ turn, grid.values)
    assert turned["flatness"] == pytest.approx(1.0)
    assert turned["axis"] == pytest.approx(0.0, abs=1e-12)
    # A factor of 5 values folded at its middle: width 2 over a path of 4.
    folded = grid.values.astype(float)
    folded[:, 0] = np.abs(folded[:, 0] - 2)
    assert metrics.flatness(folded, grid.values)["flatness"] == pytest.approx(0.75)
    with pytest.raises(ValueError, match="every combination"):
        metrics.flatness(folded[:-1], grid.values[:-1])


class Pixels(Grid):
    """Factor 0 lights 8 pixels, factor 1 two."""

    def images(self, indices):
        out = np.zeros((len(indices), 4, 4, 1), np.uint8)
        values = self.values[indices]
        out[:, :2] = (255 * (values[:, 0] % 2))[:, None, None, None]
        out[:, 2, :2] = (255 * (values[:, 1] % 2))[:, None, None]
        return out


def test_factor_importance_by_hand():
    score = metrics.factor_importance(Pixels((2, 2)), pairs=400)
    assert list(score) == ["f0", "f1", "random"]
    assert score["f0"] == pytest.approx(8 / 16)
    assert score["f1"] == pytest.approx(2 / 16)
    # Three ways to differ: 10, 01, 11.
    assert score["random"] == pytest.approx((8 + 2 + 10) / 16 / 3, abs=0.03)
    assert score.matrices["std"][0] == pytest.approx(0.0, abs=1e-6)


def test_bad_sources():
    grid = Grid((3, 3))
    with pytest.raises(TypeError, match="factor_vae_score: `dataset` must have images"):
        metrics.factor_vae_score(lambda x: x, grid.values)
    with pytest.raises(TypeError, match="factor_importance: `dataset`"):
        metrics.factor_importance(object())
    with pytest.raises(ValueError, match="beta_vae_score: `batch_size` must be at"):
        metrics.beta_vae_score(grid.values, grid.values, batch_size=1)
    with pytest.raises(ValueError, match="z_max_var: `bins` must be coarse enough"):
        rows = np.random.default_rng(0).random((20, 3))
        metrics.z_max_var(rows, rows, bins=20)


class XYSquares:
    """Three 8 × 8 squares on an 8 × 8 grid, one in each colour channel."""

    factor_sizes = (8,) * 6
    factor_names = ("x_R", "y_R", "x_G", "y_G", "x_B", "y_B")

    def index_of(self, factors):
        return np.ravel_multi_index(tuple(np.asarray(factors).T), self.factor_sizes)

    def images(self, indices):
        places = np.stack(np.unravel_index(indices, self.factor_sizes), axis=1)
        cell = np.arange(64) // 8
        channels = [
            (cell[None, :, None] == places[:, 2 * c + 1, None, None])
            & (cell[None, None, :] == places[:, 2 * c, None, None])
            for c in range(3)
        ]
        return np.stack(channels, axis=-1).astype(np.uint8) * 255


def test_factor_importance_of_xysquares_is_the_paper_table():
    """Michlo et al., supplement, Table 1: 0.0104 along a factor, 0.0308 at random."""
    score = metrics.factor_importance(XYSquares(), pairs=600)
    for name in XYSquares.factor_names:
        np.testing.assert_allclose(score[name], 128 / 12288, rtol=1e-5)
    np.testing.assert_allclose(score["random"], 0.0308, atol=3e-4)
    assert score.matrices["std"][:6].max() < 1e-6
