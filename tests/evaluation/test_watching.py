"""Scores while a run trains: logged, drawn, and without a trace in the model."""

import jax
import numpy as np
import pytest

from disentangle_jax import evaluation, losses, metrics, reports, training
from disentangle_jax.reports import curves
from tests.training import tiny


def config(**fields):
    """Returns two lanes of a VAE that are watched every fourth step."""
    made = tiny.config(log_every=3, num_steps=6)
    made.data.options.size = 16
    made.method.name = "beta_vae"
    made.lanes.sweep["method.beta"] = (1.0, 8.0)
    made.eval.scores = ("mig", "dci")
    made.eval.every = 4
    for name, value in fields.items():
        section, field = name.split("__")
        made[section][field] = value
    return made


def trained(made, folder):
    run = training.prepare(made, folder)
    return run, training.train(run, watch=evaluation.watch(run))


def assert_same(left, right):
    jax.tree.map(np.testing.assert_array_equal, left, right)


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    return trained(config(), tmp_path_factory.mktemp("watched"))


def test_the_model_is_that_of_an_unwatched_run(watched, tmp_path):
    assert_same(trained(config(eval__every=0), tmp_path)[1], watched[1])


def test_a_resumed_run_equals_an_uninterrupted_one(watched, tmp_path):
    trained(config(train__num_steps=4), tmp_path)
    run, carry = trained(config(), tmp_path)
    assert_same(carry, watched[1])
    for one, other in zip(run.models(), watched[0].models()):
        rows = [training.read_metrics(own.workdir) for own in (one, other)]
        for row in (*rows[0], *rows[1]):
            row.pop("images_per_second")
        # The mean of the loss begins anew with the resumed part.
        assert rows[0][:2] == rows[1][:2]
        assert _watched(rows[0][-1]) == _watched(rows[1][-1])


def _watched(row):
    return {name: value for name, value in row.items() if name.startswith("eval/")}


def test_rows_hold_the_fast_scores_of_each_lane(watched):
    run, _ = watched
    for own, model in zip(run.models(), evaluation.load_models(run)):
        rows = training.read_metrics(own.workdir)
        assert [(row["step"], "eval/mig" in row) for row in rows] == [
            (3, False), (4, True), (6, True),
        ]  # fmt: skip
        last = _watched(rows[-1])
        assert not [name for name in last if "dci" in name]  # which is slow
        assert "eval/mse_of_mean_image" not in last  # which never changes
        # The same numbers by hand, from the last checkpoint.
        rng = np.random.default_rng(0)
        indices = rng.permutation(run.validation_set.indices)[:60]
        assert not set(indices) & {*run.train_set.indices, *run.test_set.indices}
        posterior = model.posterior(run.validation_set.images(indices))
        mean, log_var = posterior.mean, posterior.log_var
        kl = 0.5 * (mean**2 + np.exp(log_var) - log_var - 1).mean(axis=0)
        got = [last[f"eval/kl/z{number}"] for number in (1, 2, 3)]
        np.testing.assert_allclose(got, kl, rtol=1e-3, atol=1e-6)
        assert last["eval/kl"] == pytest.approx(kl.sum(), rel=1e-3)
        factors = run.validation_set.factors(indices[:40])
        want = metrics.mig(model.codes(run.validation_set, indices[:40]), factors)
        assert last["eval/mig"] == pytest.approx(float(want), abs=1e-6)


def test_the_validation_loss_is_the_objective(watched):
    run, carry = watched
    batch = next(
        run.method.inputs.stream(
            run.validation_set, run.config.data, batch_size=8, seed=0, start_step=0,
            num_steps=1, prefetch=1, process_index=0, process_count=1,
        )
    )  # fmt: skip
    x = batch["image"].astype(np.float32) / 255.0
    for lane, own in enumerate(run.models()):
        row = training.read_metrics(own.workdir)[-1]
        state = training.take(carry.state, lane)
        _, terms = run.method.step(
            jax.random.key(0), state, {"image": x}, own.lanes[0].hyper
        )
        assert row["eval/loss"] == pytest.approx(float(terms["loss"]), rel=1e-5)
        beta = own.lanes[0].hyper["beta"]
        want = terms["reconstruction"] + beta * terms["kl"]
        assert row["eval/loss"] == pytest.approx(float(want), rel=1e-5)
        kl = losses.gaussian_kl(*run.method.encode(state, x)[:2]).mean()
        assert float(terms["kl"]) == pytest.approx(float(kl), rel=1e-5)


def test_tensorboard_shows_scores_and_traversals(watched):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = watched[0].models()[1].workdir
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    rows = [row for row in training.read_metrics(folder) if "eval/mig" in row]
    logged = [(event.step, event.value) for event in events.Scalars("eval/mig")]
    assert logged == [(r["step"], pytest.approx(r["eval/mig"])) for r in rows]
    # Two sheets of three latents and nine steps.
    for event in events.Images("traversals"):
        assert (event.height, event.width) == (2 * 3 * 16, 9 * 16)
        assert event.encoded_image_string.startswith(b"\x89PNG")
    assert [event.step for event in events.Images("reconstructions")] == [4, 6]


def test_curves_of_a_run_and_bands_over_seeds(watched, tmp_path):
    sections = {
        section.name: section
        for section in curves.run_curves(watched[0].models()[0].workdir)
    }
    assert list(sections) == ["loss", "kl_curves", "score_curves"]
    assert list(sections["loss"].curves) == ["training", "validation"]
    assert list(sections["kl_curves"].curves) == ["z1", "z2", "z3"]
    steps, values = sections["score_curves"].curves["mig"]
    assert steps == [4, 6] and len(values) == 2
    folders = [own.workdir for own in watched[0].models()]
    found = {s.name: s for s in curves.compared_curves({"both": folders})}
    steps, values = found["eval_mig_curves"].curves["both"]
    assert list(steps) == [4, 6] and values.shape == (2, 2)
    assert {"loss_curves", "eval_loss_curves"} <= found.keys()
    assert reports.draw(found["loss_curves"]).content.startswith(b"\x89PNG")


def test_training_asks_for_what_it_cannot_import(tmp_path):
    run = training.prepare(config(), tmp_path)
    with pytest.raises(ValueError, match=r"`watch` must be evaluation.watch\(run\)"):
        training.train(run)
    unwatched = training.prepare(config(eval__every=0), tmp_path)
    assert evaluation.watch(unwatched) is None


def test_runs_that_train_on_validation_images_watch_test_images(tmp_path):
    run = training.prepare(config(data__train_split="train+validation"), tmp_path)
    assert run.validation_set is run.test_set
