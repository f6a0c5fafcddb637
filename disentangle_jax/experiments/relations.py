"""Regions and relations (AbsAE, "Leveraging Relational Information …", Sec. 4).

AbsAE as the paper has it, and our variant with labelled images in every step, are
trained with several numbers of labelled images per combination, as lanes of one run:
accuracy of their regions (Table 4, Fig. 2) and of their relations (Table 5, Fig. 3).
Where the dataset has several factors, a beta-VAE, a FactorVAE and a beta-VAE with as
many labels are trained with the same networks, learning rate and number of steps, over
several values of a hyperparameter, and so are both forms of AbsAE: DCI, MIG and SAP
(Table 1) and their trade-off with the reconstruction error (Fig. 5). The value of the
hyperparameter is chosen on validation images.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import ml_collections
import numpy as np

from disentangle_jax import methods, training
from disentangle_jax.experiments import protocol, relations_page

_SCORES = ("dci", "mig", "sap")


@protocol.define(
    question="Do the regions and relations of AbsAE hold, and does it disentangle?",
    reference="Leveraging Relational Information for Learning Weakly Disentangled "
    "Representations, Tables 1, 4 and 5, Figs. 2-12",
    options={
        "taus": (10.0, 20.0, 30.0),
        "betas": (0.2,),
        "labelled_batch": 32,
        "label_weight": 1.0,
        "baselines": True,
        "vae_betas": (1.0, 4.0, 16.0),
        "gammas": (1.0, 10.0, 40.0),
        "supervised_weights": (10.0,),
    },
    reads=("method.tau", "eval.evaluators"),
)
class Relations(protocol.Protocol):
    """Two forms of AbsAE by tau and by beta, and three other methods."""

    def stages(self, config, workdir):
        options = config.experiment
        if config.method.name != "absae":
            raise ValueError(
                f"relations: `method.name` must be 'absae', got {config.method.name!r}."
            )
        protocol.check_empty(config, "lanes.sweep")
        protocol.check_given(config, "taus")
        sizes = training.load_split(config, "test").factor_sizes
        compared = options.baselines and len(sizes) > 1
        if not compared:
            return list(_forms(config, {}))
        protocol.check_given(config, "vae_betas", "gammas", "supervised_weights")
        missing = sorted({*_SCORES} - {*config.eval.scores})
        if missing:
            raise ValueError(
                f"relations: `eval.scores` must include {', '.join(missing)} to "
                "compare with other methods; or set `experiment.baselines` to False."
            )
        tau = _settings(config)["tau"]
        if tau not in options.taus:
            raise ValueError(
                f"relations: `experiment.taus` must include `method.tau`, {tau:g}, "
                f"with which AbsAE is compared with the others, got {options.taus}."
            )
        forms = _forms(config, _scored(config), options.betas)
        return [*forms, *_baselines(config, sizes)]

    def result(self, config, workdir, models):
        page = relations_page.result(config, _settings(config), models)
        numbers = {
            protocol.folder(model, workdir): relations_page.numbers(model)
            for group in models.values()
            for model in group
        }
        return page._replace(models=numbers)


def _settings(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """Returns the section ``method`` of a config, with the method's defaults."""
    name = config.method.name
    return methods.options(name) | methods.hyperparameters(name) | dict(config.method)


def _rows(name: str, values: Sequence[float]) -> list[dict[str, float]]:
    return [{f"method.{name}": float(value)} for value in values]


def _scored(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """Returns fields of all models that Table 1 compares."""
    return {"eval.evaluators": (*config.eval.evaluators, "validation")}


def _forms(
    config: ml_collections.ConfigDict,
    scored: dict[str, Any],
    betas: tuple[float, ...] = (),
) -> Iterator[protocol.Stage]:
    """Yields the stages of both forms of AbsAE, by tau and by beta."""
    options = config.experiment
    # The config's own beta is that of the first stage, which has its tau too.
    others = [beta for beta in betas if beta != _settings(config)["beta"]]
    forms = {"absae": scored}
    if options.labelled_batch:
        labelled = {
            **config.method,
            "name": "absae_labelled",
            "labelled_batch": options.labelled_batch,
            "label_weight": options.label_weight,
        }
        forms["absae_labelled"] = {**scored, "method": labelled}
    for name, fields in forms.items():
        yield protocol.Stage(name, fields, _rows("tau", options.taus))
        if others:
            yield protocol.Stage(f"{name}-beta", fields, _rows("beta", others))


def _baselines(
    config: ml_collections.ConfigDict, sizes: tuple[int, ...]
) -> list[protocol.Stage]:
    """Returns the stages of the methods that AbsAE is compared with."""
    options, settings = config.experiment, _settings(config)
    rate = config.optimizer.learning_rate
    # The others do not have AbsAE's hyperparameters.
    schedules = {
        name: schedule
        for name, schedule in config.train.schedules.items()
        if name == "learning_rate"
    }
    shared = {
        **_scored(config),
        "data.num_labels": int(settings["tau"] * np.prod(sizes)),
        "train.schedules": schedules,
    }
    if config.model.name == "absae":
        shared["model.stochastic"] = True
    critic = {"critic_width": settings["width"], "critic_learning_rate": rate}
    stages = []
    for name, method, values in (
        ("beta_vae", {}, options.vae_betas),
        ("factor_vae", critic, options.gammas),
        (
            "few_labels_vae",
            {"beta": options.vae_betas[0]},
            options.supervised_weights,
        ),
    ):
        fields = {**shared, "method": {"name": name, **method}}
        if name == "few_labels_vae":
            fields["train.input"] = "stream"  # Its labels come with the stream.
        if name == "factor_vae" and schedules:
            schedule = schedules["learning_rate"]
            fields["train.schedules"] = {**schedules, "critic_learning_rate": schedule}
        varied = relations_page.SYSTEMS[name].varied
        stages.append(protocol.Stage(name, fields, _rows(varied, values)))
    return stages
