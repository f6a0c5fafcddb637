"""Protocols of the papers: several runs, then the table or figure that compares them.

Synopsis::

    experiment = experiments.prepare(config, workdir)  # every check, nothing trained
    page = experiments.run(experiment)                 # continues where it stopped

The configs are in ``configs/experiments/``. A protocol of yours is a class::

    @experiments.define(question="…", reference="…", options={"betas": (1.0, 4.0)})
    class Betas(experiments.Protocol):
        def stages(self, config, workdir):
            rows = [{"method.beta": beta} for beta in config.experiment.betas]
            return [experiments.Stage("betas", {}, rows)]

        def result(self, config, workdir, models):
            found = {m.hyper["beta"]: m.scores for m in models["betas"]}
            ...
            return experiments.Result("Scores by beta", values, parts)

and ``config.experiment.name = "my_package.betas:Betas"`` runs it.
"""

from disentangle_jax.experiments.protocol import Experiment as Experiment
from disentangle_jax.experiments.protocol import Model as Model
from disentangle_jax.experiments.protocol import Pack as Pack
from disentangle_jax.experiments.protocol import Protocol as Protocol
from disentangle_jax.experiments.protocol import Result as Result
from disentangle_jax.experiments.protocol import Stage as Stage
from disentangle_jax.experiments.protocol import define as define
from disentangle_jax.experiments.protocol import describe as describe
from disentangle_jax.experiments.protocol import names as names
from disentangle_jax.experiments.protocol import prepare as prepare
from disentangle_jax.experiments.protocol import run as run
from disentangle_jax.experiments.study_page import write_study as write_study
