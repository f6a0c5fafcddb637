"""Weights & Biases beside TensorBoard, and the progress of training."""

import io
import sys
import types

import numpy as np
import pytest

from disentangle_jax import training
from disentangle_jax.training import writers
from disentangle_jax.training.logging import Progress
from tests.training import tiny


class StandIn(types.ModuleType):
    """A module ``wandb`` that records the calls of ``wandb.init`` and of its runs."""

    def __init__(self):
        super().__init__("wandb")
        self.runs = []
        self.Image = lambda array: ("image", array.shape)

    def init(self, **settings):
        logged, ended = [], []
        run = types.SimpleNamespace(
            settings=settings, logged=logged, ended=ended,
            log=lambda values, step: logged.append((step, values)),
            finish=lambda: ended.append(True),
        )  # fmt: skip
        self.runs.append(run)
        return run


@pytest.fixture
def wandb(monkeypatch):
    module = StandIn()
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def config(**train):
    made = tiny.config(num_steps=4, writers=("tensorboard", "wandb"), **train)
    made.lanes.seeds = 2
    return made


def test_each_lane_is_a_run_that_is_continued(wandb, tmp_path):
    folder = tmp_path / "mine"
    training.train(training.prepare(config(), folder))
    longer = config()
    longer.train.num_steps = 6
    training.train(training.prepare(longer, folder))
    assert len(wandb.runs) == 4
    assert [run.settings["name"] for run in wandb.runs] == ["seed=0", "seed=1"] * 2
    assert {run.settings["group"] for run in wandb.runs} == {"mine"}
    ids = [run.settings["id"] for run in wandb.runs]
    assert ids[:2] == ids[2:] and ids[0] != ids[1]
    assert wandb.runs[1].settings["config"]["train"]["seed"] == 1
    assert all(run.ended == [True] for run in wandb.runs)
    rows = training.read_metrics(folder / "lanes" / "seed=1")
    logged = [*wandb.runs[1].logged, *wandb.runs[3].logged]
    assert [{"step": step, **values} for step, values in logged] == rows
    assert list((folder / "lanes" / "seed=1" / "tensorboard").iterdir())


def test_images_are_sent(wandb, tmp_path):
    made = config()
    writer = writers.WeightsAndBiases(tmp_path, made, start_step=0)
    image = np.zeros((4, 6, 1), np.uint8)
    writer.write(3, {"loss": 1.0}, {"traversals": image})
    step, values = wandb.runs[0].logged[0]
    assert (step, values) == (3, {"loss": 1.0, "traversals": ("image", (4, 6, 1))})
    assert wandb.runs[0].settings["group"] is None


def test_wandb_itself_writes_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="needs pip install disentangle_jax[wandb]")
    monkeypatch.setenv("WANDB_MODE", "offline")
    training.train(training.prepare(config(), tmp_path))
    for lane in ("seed=0", "seed=1"):
        written = list((tmp_path / "lanes" / lane).glob("wandb/offline-run-*/*.wandb"))
        assert len(written) == 1 and written[0].stat().st_size > 0


def test_a_missing_or_unknown_writer_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ValueError, match=r"pip install 'disentangle_jax\[wandb\]'"):
        training.prepare(config(), tmp_path)
    # The folder that W&B makes is a package without anything in it.
    monkeypatch.setitem(sys.modules, "wandb", types.ModuleType("wandb"))
    with pytest.raises(ValueError, match="'wandb', which is not installed"):
        training.prepare(config(), tmp_path)
    with pytest.raises(ValueError, match="`train.writers` must be one of tensorboard"):
        training.prepare(tiny.config(writers=("tensorbord",)), tmp_path)


def test_progress_is_shown_from_the_first_step_on(tmp_path, capsys):
    made = tiny.config(num_steps=6, log_every=6)
    training.train(training.prepare(made, tmp_path))
    lines = [x for x in capsys.readouterr().out.splitlines() if "steps" in x]
    assert lines[0] == "training 0/6 steps  compiling …  ETA ?"
    assert lines[1] == "training 1/6 steps  ETA ?"
    assert lines[-1].startswith("training 6/6 steps  loss")


def test_the_estimate_leaves_out_compilation(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = io.StringIO()
    progress = Progress("training", 101, stream=stream)
    progress.update(0, "compiling …")
    now[0] += 60.0
    progress.measure_from(1)
    progress.update(1)
    now[0] += 10.0
    progress.update(11)
    assert stream.getvalue().splitlines() == [
        "training 0/101 steps  compiling …  ETA ?",
        "training 1/101 steps  ETA ?",
        "training 11/101 steps  ETA 1 min 30 s",
    ]
