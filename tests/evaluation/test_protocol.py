"""Evaluators of other packages: found by name, stored, shown, and refused early."""

import sys

import numpy as np
import pytest
from PIL import Image

from disentangle_jax import evaluation, main, reports, training

MODULE = '''
import numpy as np
from disentangle_jax import evaluation, metrics

@evaluation.define(
    scores={"spread": evaluation.Number("mean deviation of codes", "higher")},
)
class Spread:
    """How far the codes of test images lie apart."""

    made = 0

    def __init__(self, run):
        Spread.made += 1
        self._threshold = run.config.eval.num_train

    def evaluate(self, model, seen):
        deviations = seen.codes.std(axis=0)
        score = metrics.Score(
            {"spread": deviations.mean()}, {"threshold": self._threshold}
        )
        return evaluation.Evaluated(
            {"spread": score},
            details={"largest": float(deviations.max())},
            arrays={"deviations": deviations, "brightest": seen.images(6)},
        )

    @staticmethod
    def sections(scores, arrays):
        yield evaluation.Table(
            "spreads", "Deviation of each latent", f"At most {scores['largest']:.3f}.",
            ("latent", "deviation"),
            [(f"z{d}", f"{v:.4f}") for d, v in enumerate(arrays["deviations"], 1)],
            printed=2,
        )
        yield evaluation.Sheet(
            "brightest", "Some images", "", arrays["brightest"][None]
        )
        yield evaluation.Lines("line", "A line", "", {"a": ([0, 1], [1, 2])}, "x", "y")

@evaluation.define()
class Same:
    """Reports a name that stands in the results already."""

    def __init__(self, run):
        pass

    def evaluate(self, model, seen):
        return evaluation.Evaluated(details={"settings": 1})
'''


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """A module outside of the library, on the path."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "outside_evaluators.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    yield "outside_evaluators"
    sys.path.remove(str(folder))


def with_evaluators(run, *names):
    config = run.config.copy_and_resolve_references()
    config.eval.evaluators = names
    return training.prepare(config, run.workdir)


def test_an_outside_evaluator_is_used_stored_and_shown(tiny_lanes, module, capsys):
    name = f"{module}:Spread"
    run = with_evaluators(tiny_lanes, name)
    evaluation.check(run)
    scores = evaluation.evaluate(run)
    assert sys.modules[module].Spread.made == 1  # Once for both lanes.
    folder, other = evaluation.folders(run)
    stored = evaluation.read_scores(folder)
    assert stored["evaluators"] == ["codes", "reconstruction", "generation", name]
    model = next(evaluation.load_models(run))
    indices = evaluation.Examples(run).indices
    codes, _ = evaluation.encode_images(model, run.test_set, indices)
    entry = stored["metrics"]["spread"]
    assert entry["values"]["spread"] == pytest.approx(codes.std(axis=0).mean())
    assert entry["settings"] == {"threshold": 40}
    assert stored["largest"] == pytest.approx(codes.std(axis=0).max())
    assert scores["beta=1,seed=0"] == stored
    arrays = evaluation.read_arrays(folder)
    np.testing.assert_allclose(arrays["deviations"], codes.std(axis=0), rtol=1e-5)

    page = reports.write(folder).read_text()
    for text in ("Deviation of each latent", "Some images", "mean deviation of codes"):
        assert text in page
    with Image.open(folder / "brightest.png") as sheet:
        assert sheet.size == (6 * 130, 130)  # 64 px are doubled.
    assert (folder / "spreads.csv").read_text().startswith("latent,deviation")
    table = reports.score_table(folder)
    assert "mean deviation of codes" in table
    assert "z2  " in table and "z3  " not in table
    compared = reports.write_comparison([folder, other], folder / "out").read_text()
    assert "spread ↑" in compared and "Some images" in compared


def test_two_evaluators_may_not_report_the_same_name(tiny_lanes, module):
    run = with_evaluators(tiny_lanes, f"{module}:Same")
    with pytest.raises(ValueError, match="reports 'settings', which stands"):
        evaluation.evaluate(run)


@pytest.mark.parametrize(
    "name, message",
    [
        ("reconstructions", "Did you mean 'reconstruction'"),
        ("nowhere.at_all:Spread", "cannot be imported"),
        ("disentangle_jax.evaluation:Trained", "must name a evaluator"),
    ],
)
def test_unknown_evaluators_are_refused_early(tiny_lanes, name, message):
    with pytest.raises(ValueError, match=f"`eval.evaluators`.*{message}"):
        evaluation.check(with_evaluators(tiny_lanes, name))


def test_the_library_has_these():
    assert set(evaluation.names()) == {
        "responses",
        "codes", "reconstruction", "generation", "discrete_variables", "regions",
        "topics", "posterior", "validation",
    }  # fmt: skip


def test_commands_need_a_run_and_its_checkpoint(tmp_path, capsys):
    assert main.main(["explore", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err
