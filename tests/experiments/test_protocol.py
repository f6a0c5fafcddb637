"""Protocols: rows in packs, wrong configs, definitions from outside the package."""

import json
import sys
import textwrap

import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import experiments, main, training
from tests.experiments import made

MODULE = """
from disentangle_jax import experiments, reports


@experiments.define(question="?", reference="nobody", options={"widths": (4,)})
class Rows(experiments.Protocol):
    def stages(self, config, workdir):
        rows = [
            {"model.width": width, "method.beta": beta}
            for beta in (1.0, 4.0)
            for width in config.experiment.widths
        ]
        fields = {"method": {"name": "beta_vae"}}
        again = {**fields, "train.num_steps": 4}
        return [
            experiments.Stage("first", fields, rows, before=self.before),
            experiments.Stage("second", again, rows, after="first"),
        ]

    def before(self, models):
        assert not models

    def result(self, config, workdir, models):
        found = {
            stage: [(m.hyper["beta"], m.run.lanes[0].seed, m.load().state.step.item())
                    for m in group]
            for stage, group in models.items()
        }
        scores = [m.scores["metrics"]["mig"]["values"]["mig"] for m in models["first"]]
        rows = [[f"{score:.3f}"] for score in scores]
        table = reports.Table("mig", "MIG", "Of each model.", ("mig",), rows)
        return experiments.Result("Rows", found, [table])
"""


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """Writes a protocol into a module outside the package; returns its name."""
    (tmp_path / "my_rows.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.syspath_prepend(tmp_path)
    yield "my_rows:Rows"
    sys.modules.pop("my_rows", None)


def of_rows(outside, **options):
    """Returns a config of the protocol `Rows`, whose stages set the width."""
    tested = made.config(outside, **options)
    del tested.model["width"]
    return tested


def packed(tested, workdir):
    return experiments.prepare(tested, workdir).packs


def test_rows_that_share_a_program_are_one_pack(outside, tmp_path):
    tested = of_rows(outside, widths=(4, 8))
    tested.lanes.seeds = 3
    packs = packed(tested, tmp_path / "run")
    assert [(p.name, p.after, p.models) for p in packs] == [
        ("first/0", "", 6),
        ("first/1", "", 6),
        ("second/0", "first/0", 6),
        ("second/1", "first/1", 6),
    ]
    assert [p.config.model.width for p in packs] == [4, 8, 4, 8]
    assert packs[0].config.lanes.rows == tuple(
        {"method.beta": beta, "train.seed": seed}
        for beta in (1.0, 4.0)
        for seed in (0, 1, 2)
    )
    # The estimate of the remaining time counts examples of all rows.
    assert [p.work for p in packs] == [2 * 8 * 6] * 2 + [4 * 8 * 6] * 2


def test_rows_are_trained_with_each_lane_of_the_config(outside, tmp_path):
    tested = of_rows(outside)
    tested.lanes.rows = ({"train.seed": 3}, {"train.seed": 7})
    first, second = packed(tested, tmp_path / "run")
    assert first.models == second.models == 4
    rows = first.config.lanes.rows
    found = [(row["method.beta"], row["train.seed"]) for row in rows]
    assert found == [(1.0, 3), (1.0, 7), (4.0, 3), (4.0, 7)]


def test_a_stage_starts_from_one_with_as_many_programs(outside, tmp_path, monkeypatch):
    module = pytest.importorskip("my_rows")
    plain = module.Rows.stages

    def wrong(self, config, workdir):
        first, second = plain(self, config, workdir)
        return [first._replace(rows=()), second]

    monkeypatch.setattr(module.Rows, "stages", wrong)
    with pytest.raises(ValueError, match="stage second: `after` must name an earlier"):
        packed(of_rows(outside, widths=(4, 8)), tmp_path / "run")


def test_a_protocol_from_outside_runs(outside, tmp_path, capsys):
    tested = of_rows(outside)
    values = made.values(tested, tmp_path / "run")
    assert values == {
        "first": [[1.0, 0, 2], [4.0, 0, 2]],
        "second": [[1.0, 0, 4], [4.0, 0, 4]],
    }
    said = capsys.readouterr().out
    assert "stage 1 of 2: first, 2 of 4 models\n" in said
    assert "stage 2 of 2: second, 2 of 4 models, about" in said
    second = training.read_config(tmp_path / "run" / "second")
    assert second.train.start_from == "{workdir}/../first"
    assert (tmp_path / "run" / "second/lanes/beta=4,seed=0/report.html").exists()
    assert len((tmp_path / "run" / "mig.csv").read_text().splitlines()) == 3


def test_names_and_descriptions():
    assert set(experiments.names()) == {
        *("capacity", "extrapolation", "factor_importance", "model_table", "overlap"),
        *("relations", "structured", "zero_shot"),
    }
    for name in experiments.names():
        described = experiments.describe(name)
        assert described.question.endswith("?") and described.reference
        json.dumps(dict(described.options))


def test_options_change_single_stages(outside, tmp_path):
    tested = of_rows(outside)
    tested.experiment.options = {
        "second": {"method": {"kl": "sae_code"}, "optimizer": {"learning_rate": 1e-3}}
    }
    first, second = packed(tested, tmp_path / "run")
    assert "kl" not in first.config.method
    assert (second.config.method.name, second.config.method.kl) == (
        *("beta_vae", "sae_code"),
    )
    rates = [pack.config.optimizer.learning_rate for pack in (first, second)]
    assert rates == [5e-4, 1e-3]


def test_options_of_a_folder_hold_for_the_stages_below_it(tmp_path, monkeypatch):
    made.use_small_systems(monkeypatch)
    tested = made.config("extrapolation", models=("ae", "beta_vae"))
    overrides = [
        "--config.experiment.options.beta_vae.method.kl=sae_code",
        "--config.experiment.options.ae.train.num_steps=4",
        "--config.experiment.options.ae.data.split_recipe=sae_code",
    ]
    packs = packed(config_lib.override(tested, overrides), tmp_path / "run")
    found = {
        pack.name: (pack.config.method.get("kl"), pack.config.data.split_recipe)
        for pack in packs
    }
    stages = ("first", "encoder", "decoder", "both")
    assert found == {f"ae/{stage}": (None, "sae_code") for stage in stages} | {
        f"beta_vae/{stage}": ("sae_code", "paper") for stage in stages
    }
    assert packs[0].config.train.num_steps == 4


@pytest.mark.parametrize(
    "options, message",
    [
        ({"secnd": {"method": {"kl": "sampled"}}}, "did you mean 'second'"),
        ({"second": {"metod": {"kl": "sampled"}}}, "did you mean 'method"),
        ({"second": {"method": {"lk": 1}}}, "stage second: method 'beta_vae'"),
        ({"second": {"method": {"beta": 2.0}}}, "must not set 'method.beta', which"),
    ],
)
def test_options_that_no_stage_takes_are_refused(outside, tmp_path, options, message):
    tested = of_rows(outside, options=options)
    with pytest.raises(ValueError) as error:
        packed(tested, tmp_path / "run")
    assert message.lower() in str(error.value).lower()


@pytest.mark.parametrize(
    "field, value",
    [
        ("method.name", "vae"),
        ("method.kl", "sae_code"),
        ("method.mmd_compat", "sae_code"),
        ("model.width", 16),
    ],
)
def test_fields_that_every_stage_replaces_are_refused(outside, tmp_path, field, value):
    tested = of_rows(outside)
    section, name = field.split(".")
    tested[section][name] = value
    with pytest.raises(ValueError, match=f"`{field}` must not be given: the protocol"):
        packed(tested, tmp_path / "run")


def test_a_given_field_is_refused_even_at_its_default(outside, tmp_path):
    tested = of_rows(outside)
    with pytest.raises(ValueError, match="`method.name` must not be given"):
        experiments.prepare(tested, tmp_path / "run", ["method.name"])
    argv = ["--config.method.name=ae", f"--workdir={tmp_path / 'run'}"]
    argv.append("--config=configs/experiments/model_table.py:quick")
    assert main.main(argv) == 2


def test_lanes_and_rows_that_vary_one_field_are_refused(outside, tmp_path):
    tested = of_rows(outside)
    tested.lanes.sweep = {"method.beta": (1.0, 2.0)}
    with pytest.raises(ValueError, match="`lanes` must not vary 'method.beta'"):
        packed(tested, tmp_path / "run")


def test_a_protocol_that_trains_nothing_refuses_fields_of_training(tmp_path):
    tested = config_lib.load("configs/experiments/factor_importance.py:quick")
    tested.train.num_steps = 7
    with pytest.raises(ValueError, match="`train.num_steps` .* trains nothing"):
        experiments.prepare(tested, tmp_path / "run")


@pytest.mark.parametrize(
    "name, options, fields, message",
    [
        ("extrapolation", {"models": ("sae-22",)}, {}, "did you mean 'sae-2'"),
        (
            "extrapolation",
            {"novel_values": (0, 1, 2, 3)},
            {},
            "some, but not all, of 0 … 3",
        ),
        ("extrapolation", {"factor": "shap"}, {}, "did you mean 'shape'"),
        ("extrapolation", {}, {"optimizer.frozen": ("encoder",)}, "must be empty"),
        ("extrapolation", {}, {"data.drop": {"shape": (1,)}}, "`data.drop` must be"),
        ("overlap", {"frameworks": ("vae",)}, {}, "did you mean 'beta_vae'"),
        ("overlap", {"betas": ()}, {}, "`experiment.betas` must not be empty"),
        (
            "overlap",
            {"spacings": (9,), "latents": (3,)},
            {"data.standardize": True},
            "in [1, 8]",
        ),
        ("capacity", {"capacities": (5.0, 2.0)}, {}, "must be increasing"),
        ("capacity", {}, {}, "must be 'annealed_vae'"),
        ("model_table", {"models": ()}, {}, "must not be empty"),
        ("model_table", {}, {"lanes.sweep": {"method.beta": (1.0,)}}, "sweep `lanes"),
        ("factor_importance", {"distances": ("msee",)}, {}, "did you mean 'mse'"),
    ],
)
def test_contradictions_are_reported(tmp_path, name, options, fields, message):
    tested = made.config(name, **options)
    for field, value in fields.items():
        section, field = field.split(".")
        tested[section][field] = value
    with pytest.raises(ValueError) as error:
        experiments.prepare(tested, tmp_path / "run")
    assert message.lower() in str(error.value).lower()
    assert not (tmp_path / "run").exists()
