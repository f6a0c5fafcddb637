"""Users add definitions in files of their own: nothing of the package is edited."""

import json
import subprocess
import sys
import textwrap

import pytest

from disentangle_jax import main

FILES = {
    "my_dataset": '''
        """Squares of three sizes in two colours."""
        import numpy as np
        from disentangle_jax import data

        @data.define(factors={"size": 3, "colour": 2}, licence="mine")
        def squares(*, data_dir=None, split="train", copies=40):
            def images(indices):
                factors = np.stack(np.unravel_index(indices // copies, (3, 2)), -1)
                rng = np.random.default_rng(0)
                noise = rng.integers(0, 30, (6 * copies, 8, 8, 3))[indices]
                drawn = np.zeros((len(indices), 8, 8, 3), np.uint8)
                for image, (size, colour) in zip(drawn, factors):
                    image[: 2 * size + 3, : 2 * size + 3, colour] = 200
                return drawn + noise.astype(np.uint8)

            return data.Dataset(
                "squares", image_shape=(8, 8, 3), images=images, copies=copies,
                factor_names=("size", "colour"), factor_sizes=(3, 2),
            ).split(split)
        ''',
    "my_network": '''
        """One linear layer each way."""
        import math
        import flax.linen as nn
        from disentangle_jax import models
        from disentangle_jax.types import Posterior

        class Linear(nn.Module):
            image_shape: tuple
            latent_dim: int

            @property
            def latent_groups(self):
                return (1,) * self.latent_dim

            def setup(self):
                self.encoder = nn.Dense(2 * self.latent_dim)
                self.decoder = nn.Dense(math.prod(self.image_shape))

            def encode(self, x, *, train=False):
                both = self.encoder(x.reshape(len(x), -1))
                return Posterior(both[:, : self.latent_dim], both[:, self.latent_dim :])

            def decode(self, z, *, train=False):
                return self.decoder(z).reshape(len(z), *self.image_shape)

            def __call__(self, x):
                return self.decode(self.encode(x).mean)

        @models.define(reference="mine")
        def linear(image_shape, *, latent_dim=3):
            return Linear(image_shape, latent_dim)
        ''',
    "my_method": '''
        """A VAE that pulls its means towards zero."""
        from disentangle_jax import losses, methods

        @methods.define(
            hyperparameters={"pull": methods.Hyperparameter(0.5, doc="weight")},
            reference="mine",
        )
        def pulled_vae(model, optimizer, *, likelihood, axis_name, power=2):
            def objective(x, logits, z, mean, log_var, *, pull, **more):
                value, terms = losses.vae(x, logits, z, mean, log_var, **more)
                pulled = (abs(mean) ** power).mean()
                return value + pull * pulled, {**terms, "pulled": pulled}

            return methods.one_objective(
                model, objective, optimizer, likelihood=likelihood
            )
        ''',
    "my_score": '''
        """How much the codes of a factor's values differ."""
        import numpy as np
        from disentangle_jax import metrics

        @metrics.define(keys={"contrast": "spread of the class means"})
        def contrast(codes, factors, *, codes_test=None, factors_test=None, seed=0):
            codes, labels = np.asarray(codes), np.asarray(factors)[:, 0]
            means = np.stack([codes[labels == v].mean(0) for v in np.unique(labels)])
            return metrics.Score({"contrast": means.std()}, {"samples": len(codes)})
        ''',
    "my_evaluator": '''
        """The range of each latent, with a section of the report."""
        import numpy as np
        from disentangle_jax import evaluation, metrics

        @evaluation.define(scores={"latent_range": "largest minus smallest code"})
        class Ranges:
            def __init__(self, run):
                self.latents = sum(run.method.latent_groups)

            def evaluate(self, model, seen):
                ranges = np.ptp(seen.codes, axis=0)
                assert ranges.shape == (self.latents,)
                score = metrics.Score({"latent_range": ranges.max()}, {})
                return evaluation.Evaluated(
                    {"latent_range": score}, arrays={"ranges": ranges}
                )

            @staticmethod
            def sections(scores, arrays):
                rows = [[f"z{d}", f"{v:.2f}"] for d, v in enumerate(arrays["ranges"])]
                yield evaluation.Table(
                    "ranges", "Range of each latent", "Over test images.",
                    ("latent", "range"), rows,
                )
        ''',
    "my_protocol": '''
        """Does the pull change the scores?"""
        from disentangle_jax import reports
        from disentangle_jax.experiments import Protocol, Result, Stage, define

        @define(question="Does it?", reference="mine", options={"pulls": (0.0, 2.0)})
        class Pulls(Protocol):
            def stages(self, config, workdir):
                rows = [
                    {"method.pull": pull, "train.seed": 0}
                    for pull in config.experiment.pulls
                ]
                return [Stage("pulls", {}, rows)]

            def result(self, config, workdir, models):
                rows = [
                    [f"{m.hyper['pull']:g}",
                     f"{m.scores['metrics']['contrast']['values']['contrast']:.3f}"]
                    for m in models["pulls"]
                ]
                table = reports.Table("pulls", "Pulls", "-", ("pull", "contrast"), rows)
                return Result("Pulls", {"rows": rows}, [table])
        ''',
    "my_config": '''
        from ml_collections import ConfigDict
        from disentangle_jax import config as config_lib

        def get_config(preset=""):
            config = config_lib.default()
            config.data.name = "my_dataset:squares"
            config.data.options.copies = 60
            config.model.name = "my_network:linear"
            config.model.latent_dim = 4
            config.method.name = "my_method:pulled_vae"
            config.method.pull = 0.25
            config.method.power = 4
            config.train.batch_size = 8
            config.train.num_steps = 20
            config.train.log_every = config.train.checkpoint_every = 10
            config.eval.num_train, config.eval.num_test = 40, 20
            config.eval.hybrid_bank = 8
            config.eval.scores = ("mig", "my_score:contrast")
            config.eval.evaluators = ("my_evaluator:Ranges",)
            if preset == "protocol":
                config.experiment = ConfigDict({"name": "my_protocol:Pulls"})
            return config
        ''',
}  # fmt: skip


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """A folder outside the project with a file for each definition."""
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text).lstrip())
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in FILES:
        sys.modules.pop(name, None)


def test_a_run_uses_them_all_by_module_and_name(outside, capsys):
    assert main.main(["--config=my_config.py", "--workdir=run"]) == 0, (
        capsys.readouterr().err
    )
    out = capsys.readouterr().out
    scores = json.loads((outside / "run" / "scores.json").read_text())
    assert scores["metrics"]["contrast"]["values"]["contrast"] > 0
    assert scores["metrics"]["latent_range"]["values"]["latent_range"] > 0
    assert "spread of the class means" in out and "largest minus smallest" in out
    page = (outside / "run" / "report.html").read_text()
    assert "Range of each latent" in page and "Latent traversals" in page
    rows = (outside / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(rows[-1])["pulled"] >= 0
    # The hyperparameter is a lane like any other.
    argv = ["--config=my_config.py", "--workdir=lanes"]
    sweep = "--config.lanes.sweep.method.pull=0.1,2"
    assert main.main([*argv, "--config.train.num_steps=10", sweep]) == 0
    assert (outside / "lanes" / "lanes" / "pull=2,seed=0" / "report.html").exists()


def test_a_protocol_trains_its_rows_in_one_program(outside, capsys):
    argv = ["--config=my_config.py:protocol", "--workdir=protocol"]
    assert main.main(argv) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert "stage 1 of 1: pulls, 2 of 2 models" in out
    result = json.loads((outside / "protocol" / "result.json").read_text())
    assert [row[0] for row in result["values"]["rows"]] == ["0", "2"]
    assert "Pulls" in (outside / "protocol" / "report.html").read_text()


@pytest.mark.parametrize(
    "change, fix",
    [
        ("--config.data.name=my_datset:squares", "cannot be imported"),
        ("--config.data.name=my_dataset:square", "Did you mean 'squares'?"),
        ("--config.method.name=my_method:losses", "decorate it"),
        ("--config.method.pull=-1", "`method.pull` must be non-negative"),
        ("--config.eval.scores=my_score:np", "decorate it"),
        ("--config.eval.evaluators=my_evaluator:Rangs", "Did you mean 'Ranges'?"),
    ],
)
def test_wrong_names_are_reported_before_training(outside, capsys, change, fix):
    assert main.main(["--config=my_config.py", "--workdir=run", change]) == 2
    error = capsys.readouterr().err
    assert fix in error and error.count("\n") == 1
    assert not (outside / "run").exists()


def test_an_outside_score_from_the_shell(outside):
    code = (
        "import numpy as np; rng = np.random.default_rng(0);"
        "np.savez('codes.npz', codes=rng.normal(size=(50, 3)),"
        " factors=rng.integers(0, 3, (50, 2)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    from disentangle_jax.metrics import score

    assert score.main(["codes.npz", "--scores=mig,my_score:contrast"]) == 0
