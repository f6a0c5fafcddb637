"""Pictures of codes, reconstructions and samples hold what their names say."""

import types

import numpy as np

from disentangle_jax import evaluation
from disentangle_jax.evaluation.generation import chunk_labels
from disentangle_jax.evaluation.sections import in_rows, latent_labels
from disentangle_jax.types import Posterior
from tests.evaluation import made
from tests.evaluation.made import decode


def arrays(run, model, seen):
    found = {}
    for name in ("codes", "reconstruction", "generation"):
        found |= evaluation.get(name)(run).evaluate(model, seen).arrays
    return found


def test_pictures_hold_what_their_names_say():
    rng = np.random.default_rng(1)
    codes, bank = rng.normal(size=(2, 7, 3)).astype(np.float32)
    run = made.run((1, 2))
    seen = types.SimpleNamespace(
        codes=codes,
        posterior=Posterior(codes),
        bank=bank,
        errors={"mse": np.ones(7)},
        images=lambda n: np.zeros((min(n, 5), *made.SHAPE), np.uint8),
        examples=evaluation.Examples(run),
    )
    drawn = arrays(run, made.model(run), seen)
    np.testing.assert_array_equal(drawn["reconstructions"], decode(codes[:5]))
    # A latent goes from its minimum to its maximum.
    low, high = codes.min(axis=0), codes.max(axis=0)
    for d in range(3):
        for step, bound in ((0, low), (-1, high)):
            code = np.where(np.arange(3) == d, bound, codes[1])
            np.testing.assert_array_equal(
                drawn["traversals"][1, d, step], decode(code[None])[0]
            )
    # Each chunk starts with the unchanged image and goes on with stored values.
    assert drawn["chunks"].tolist() == [1, 1]
    assert (drawn["chunk_hybrids"][:, 0] == drawn["reconstructions"][0]).all()
    mixed = np.where(np.arange(3) == 0, bank, codes[0])
    possible = decode(mixed)
    for image in drawn["chunk_hybrids"][0, 1:]:
        assert (image == possible).all(axis=(1, 2, 3)).any()
    assert drawn["hybrids"].shape == drawn["priors"].shape == (40, *made.SHAPE)
    assert not (drawn["hybrids"] == drawn["priors"]).all()


def test_latent_labels_number_variables_and_their_parts():
    assert latent_labels((1, 2, 1)) == ["z1", "z2.1", "z2.2", "z3"]


def test_chunk_labels_name_first_and_last_variable():
    assert chunk_labels(np.array([3, 1, 2])) == ["z1-z3", "z4", "z5-z6"]


def test_rows_are_filled_with_white():
    rows = in_rows(np.zeros((25, 4, 5, 3), np.uint8), 10)
    assert rows.shape == (3, 10, 4, 5, 3)
    assert (rows[2, :5] == 0).all() and (rows[2, 5:] == 255).all()
