"""Pictures of discrete variables: what is decoded, what the page and explorer show."""

import types

import jax.numpy as jnp
import numpy as np

from disentangle_jax import reports
from disentangle_jax.reports._explorer import Subject
from disentangle_jax.training.variables import variable_pictures
from disentangle_jax.types import Posterior
from tests.reports import made


def stand_in(discrete):
    """A model whose image is its code, and whose second latent alone holds anything."""

    def encode(state, x):
        level = x.reshape(len(x), -1).mean(axis=1)
        mean = jnp.stack([0 * level, 9 * level], axis=1)
        log_var = jnp.stack([0 * level, 0 * level - 6.0], axis=1)
        classes = jnp.zeros((len(x), sum(discrete)))
        return Posterior(jnp.concatenate([mean, classes], axis=1), log_var, classes)

    settings = types.SimpleNamespace(seed=0, batch_size=8)
    run = types.SimpleNamespace(
        method=types.SimpleNamespace(discrete=discrete, encode=encode),
        config=types.SimpleNamespace(eval=settings),
        test_set=types.SimpleNamespace(
            indices=np.arange(40),
            images=lambda i: np.full(
                (len(i), 2, 2, 1), i[:, None, None, None], "uint8"
            ),
        ),
    )
    return types.SimpleNamespace(run=run, state=None, decode_all=lambda z: z)


def test_a_row_per_class_and_latents_by_information():
    codes = np.random.default_rng(0).normal(size=(12, 7)).astype(np.float32)
    codes[:, 2:] = [1, 0, 0, 0, 1]
    shown = variable_pictures(stand_in((3, 2)), codes)
    assert shown["classes"].shape == (5, 10, 7)
    for row in range(5):
        np.testing.assert_array_equal(shown["classes"][row, :, :2], codes[:10, :2])
        want = codes[0, 2:].copy()
        part = slice(0, 3) if row < 3 else slice(3, 5)
        want[part] = np.eye(part.stop - part.start)[row - part.start]
        np.testing.assert_array_equal(
            shown["classes"][row, :, 2:], np.tile(want, (10, 1))
        )
    # The latent that holds something comes first; the pruned one has no information.
    np.testing.assert_array_equal(shown["manipulated"], [1, 0])
    first, second = shown["manipulated_information"]
    assert first > 1 and abs(second) < 1e-5
    moved = shown["manipulations"]
    np.testing.assert_allclose(moved[0, :, 1], np.linspace(-3, 3, 9), atol=1e-6)
    np.testing.assert_array_equal(moved[0, :, 0], np.full(9, codes[0, 0]))
    np.testing.assert_array_equal(moved[:, :, 2:], np.tile(codes[0, 2:], (2, 9, 1)))
    assert variable_pictures(stand_in(()), codes[:, :2]) == {}


def test_page_shows_them(tmp_path):
    folder = made.run(tmp_path / "run", groups=(1, 1, 3))
    with np.load(folder / "pictures.npz") as stored:
        pictures = dict(stored)
    images = pictures["hybrids"]
    pictures["classes"] = images[:9].reshape(3, 3, *images.shape[1:])
    pictures["manipulations"] = images[:8].reshape(2, 4, *images.shape[1:])
    pictures["manipulated"] = np.array([1, 0])
    pictures["manipulated_information"] = np.array([2.5, 0.0])
    np.savez_compressed(folder / "pictures.npz", **pictures)
    page = reports.write(folder).read_text()
    for title in ("Each class of the discrete variable", "by what they hold"):
        assert title in page
    assert (folder / "classes.png").exists() and (folder / "manipulations.png").exists()
    other = reports.write(made.run(tmp_path / "other")).read_text()
    assert "Each class of the discrete variable" not in other


def test_explorer_is_told_of_classes():
    stored = np.zeros((4, 5), np.float32)
    images = np.zeros((2, 2, 2, 1), np.uint8)
    subject = Subject("m", None, None, (1, 1, 3), images, lambda: stored, 1)
    assert subject.discrete == 1
    assert Subject("m", None, None, (1,), images, lambda: stored).discrete == 0
