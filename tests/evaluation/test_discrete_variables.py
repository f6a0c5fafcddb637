"""Discrete variables: what is decoded, and what page and explorer show."""

import types

import numpy as np

from disentangle_jax import evaluation, reports
from disentangle_jax.reports.explorer import Subject
from disentangle_jax.types import Posterior
from tests.evaluation import made as made_models
from tests.reports import made


def test_a_row_per_class_and_latents_by_information():
    codes = np.random.default_rng(0).normal(size=(40, 7)).astype(np.float32)
    codes[:, 2:] = [1, 0, 0, 0, 1]
    # The second latent alone holds anything: its posteriors differ.
    mean, log_var = np.zeros((40, 7), np.float32), np.zeros((40, 2), np.float32)
    mean[:, 1], log_var[:, 1] = 9 * np.arange(40) / 255, -6.0
    run = made_models.run((1, 1, 3, 2), discrete=(3, 2))
    seen = types.SimpleNamespace(codes=codes, posterior=Posterior(mean, log_var))
    model = made_models.model(run, lambda z: z)
    found = evaluation.get("discrete_variables")(run).evaluate(model, seen)
    shown = found.arrays
    assert shown["classes"].shape == (5, 10, 7)
    for row in range(5):
        np.testing.assert_array_equal(shown["classes"][row, :, :2], codes[:10, :2])
        want = codes[0, 2:].copy()
        part = slice(0, 3) if row < 3 else slice(3, 5)
        want[part] = np.eye(part.stop - part.start)[row - part.start]
        np.testing.assert_array_equal(
            shown["classes"][row, :, 2:], np.tile(want, (10, 1))
        )
    # The latent that holds something comes first; the unused one has no information.
    np.testing.assert_array_equal(shown["manipulated"], [1, 0])
    first, second = shown["manipulated_information"]
    assert first > 1 and abs(second) < 1e-5
    moved = shown["manipulations"]
    np.testing.assert_allclose(moved[0, :, 1], np.linspace(-3, 3, 9), atol=1e-6)
    np.testing.assert_array_equal(moved[0, :, 0], np.full(9, codes[0, 0]))
    np.testing.assert_array_equal(moved[:, :, 2:], np.tile(codes[0, 2:], (2, 9, 1)))


def test_page_shows_them(tmp_path):
    evaluators = ("codes", "discrete_variables")
    folder = made.run(tmp_path / "run", groups=(1, 1, 3), evaluators=evaluators)
    pictures = evaluation.read_arrays(folder)
    images = pictures["hybrids"]
    pictures["classes"] = images[:9].reshape(3, 3, *images.shape[1:])
    pictures["manipulations"] = images[:8].reshape(2, 4, *images.shape[1:])
    pictures["manipulated"] = np.array([1, 0])
    pictures["manipulated_information"] = np.array([2.5, 0.0])
    np.savez_compressed(folder / "pictures.npz", **pictures)
    page = reports.write(folder).read_text()
    for title in ("Classes of the discrete variables", "by mutual information"):
        assert title in page
    assert (folder / "classes.png").exists() and (folder / "manipulations.png").exists()
    other = reports.write(made.run(tmp_path / "other")).read_text()
    assert "Classes of the discrete variables" not in other


def test_explorer_knows_the_number_of_classes():
    stored = np.zeros((4, 5), np.float32)
    images = np.zeros((2, 2, 2, 1), np.uint8)
    subject = Subject("m", None, None, (1, 1, 3), images, lambda: stored, 1)
    assert subject.discrete == 1
    assert Subject("m", None, None, (1,), images, lambda: stored).discrete == 0
