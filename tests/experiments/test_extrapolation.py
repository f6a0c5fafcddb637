"""Extrapolation: what is frozen, and the error on novel images."""

import jax
import numpy as np
import pytest

from disentangle_jax import evaluation, training
from tests.experiments import made


def test_extrapolation_freezes_what_it_says_and_scores_novel_images(
    tmp_path, monkeypatch
):
    made.use_small_systems(monkeypatch)
    tested = made.config("extrapolation", models=("ae",), second_steps=2, num_novel=20)
    values = made.values(tested, tmp_path)
    assert set(values["mse_x1000"]["ae"]) == {"neither", "encoder", "decoder", "both"}
    assert values["novel_images"] == 20
    assert values["untrained"] == ["ae"]  # After two steps.
    models = [
        evaluation.load(tmp_path / "ae" / name)
        for name in ("first", "encoder", "decoder", "both")
    ]
    first, *others = [model.state for model in models]
    for state, moved in zip(others, ({"encoder"}, {"decoder"}, {"encoder", "decoder"})):
        for part in ("encoder", "decoder"):
            same = jax.tree.map(
                lambda a, b: bool((a == b).all()),
                first.params[part],
                state.params[part],
            )
            assert jax.tree.all(same) == (part not in moved)
    # By hand, for the first seed: the error of the stage-one model on spheres.
    model = models[0]
    spheres = training.load_split(tested, "test").keep(shape=[2])
    chosen = np.random.default_rng(0).permutation(spheres.indices)[:20]
    assert set(spheres.factors(chosen)[:, spheres.factor_names.index("shape")]) == {2}
    images = spheres.images(chosen)
    code = model.run.method.encode(model.state, images / np.float32(255)).mean
    drawn = model.run.method.output(model.run.method.decode(model.state, code))
    error = np.square(np.clip(drawn, 0, 1) - images / 255).mean() * 1000
    assert values["mse_x1000"]["ae"]["neither"][0] == pytest.approx(error, rel=1e-4)
    # The images of the authors' notebook: those that the first stage dropped.
    dropped = training.load_split(tested, "train").keep(shape=[2])
    chosen = np.random.default_rng(0).permutation(dropped.indices)[:20]
    error = evaluation.encode_images(model, dropped, chosen)[1]["mse"].mean() * 1000
    found = values["mse_x1000_of_training_images"]["ae"]["neither"][0]
    assert found == pytest.approx(float(error), rel=1e-4)
    # Differences from the paper stand on the page.
    page = (tmp_path / "report.html").read_text()
    for text in ("2 and 2 steps", "the paper has 3D Shapes", "batch 8", "ELU"):
        assert text in page
