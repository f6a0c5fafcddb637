"""From a config to everything a run needs, with every check before compilation."""

import dataclasses
import json
import os
import pathlib
from typing import Any

import jax
import ml_collections
import optax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from disentangle_jax import data, methods, metrics, models
from disentangle_jax.methods import Method
from disentangle_jax.training.provenance import write_json
from disentangle_jax.types import State, unknown_name

# What may differ from the config a workdir was started with: how long it trains,
# how often it saves and reports, and how it is judged.
_MAY_CHANGE = (
    "train.num_steps",
    "train.log_every",
    "train.checkpoint_every",
    "train.keep_checkpoints",
    "train.prefetch",
    "eval.",
)


@dataclasses.dataclass(frozen=True)
class Run:
    """A checked run: nothing was compiled or written yet.

    Attributes:
      config: the complete config.
      workdir: folder of the run; it may not exist yet.
      train_set: the training split.
      test_set: the test split.
      method: networks, objective and step.
      hyper: value of each hyperparameter, and of ``learning_rate``.
      mesh: the devices the batch is spread over.
    """

    config: ml_collections.ConfigDict
    workdir: pathlib.Path
    train_set: data.Dataset
    test_set: data.Dataset
    method: Method
    hyper: dict[str, float]
    mesh: jax.sharding.Mesh

    @property
    def replicated(self) -> NamedSharding:
        return NamedSharding(self.mesh, P())

    @property
    def over_batch(self) -> NamedSharding:
        return NamedSharding(self.mesh, P("data"))

    def keys(self) -> tuple[jax.Array, jax.Array]:
        """Returns the keys of the initial state and of the steps."""
        init_key, step_key = jax.random.split(jax.random.key(self.config.train.seed))
        return init_key, step_key

    def example(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Returns the shapes of one batch."""
        shape = (self.config.train.batch_size, *self.train_set.image_shape)
        return {"image": jax.ShapeDtypeStruct(shape, "uint8")}

    def abstract_state(self) -> State:
        """Returns shapes, dtypes and shardings of the state; allocates nothing."""
        shapes = jax.eval_shape(self.method.init, self.keys()[0], self.example())
        return jax.tree.map(
            lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=self.replicated),
            shapes,
        )


def prepare(config: ml_collections.ConfigDict, workdir: str | os.PathLike) -> Run:
    """Checks `config` against the library and `workdir` and returns the run.

    Raises:
      ValueError: a name, value or combination is wrong; one line, with the fix.
      FileNotFoundError: a dataset's file is missing; says what to fetch.
    """
    workdir = pathlib.Path(workdir)
    _check_positive(config)
    _check_workdir(config, workdir)
    train_set = load_split(config, "train")
    test_set = load_split(config, "test")
    model_options = dict(config.model)
    model = models.create(
        model_options.pop("name"), train_set.image_shape, **model_options
    )
    hyper = _hyper(config)
    optimizer = optax.scale_by_adam(
        b1=config.optimizer.b1, b2=config.optimizer.b2, eps=config.optimizer.eps
    )
    method = methods.create(config.method.name, model, optimizer)
    for score in config.eval.scores:
        if score not in metrics.names():
            raise unknown_name("config", "eval.scores", score, metrics.names())
    mesh = _mesh(config.train.batch_size)
    if len(train_set.indices) < config.train.batch_size:
        raise ValueError(
            f"config: `train.batch_size` must be at most the {len(train_set.indices)} "
            f"training "
            f"images of {config.data.name}, got {config.train.batch_size}."
        )
    return Run(config, workdir, train_set, test_set, method, hyper, mesh)


def load_split(config: ml_collections.ConfigDict, split: str) -> data.Dataset:
    """Returns one split of the config's dataset."""
    recipe = config.data.split_recipe
    dataset = data.load(
        config.data.name,
        data_dir=config.data.data_dir or None,
        split=split if recipe == "paper" else "all",
        **config.data.options,
    )
    return dataset if recipe == "paper" else dataset.split(split, recipe=recipe)


def start_workdir(run: Run) -> None:
    """Creates the run's folder and writes its config there."""
    run.workdir.mkdir(parents=True, exist_ok=True)
    write_json(run.workdir / "config.json", json.loads(run.config.to_json()))


def read_config(workdir: str | os.PathLike) -> ml_collections.ConfigDict:
    """Returns the config that a workdir was started with."""
    path = pathlib.Path(workdir) / "config.json"
    if not path.exists():
        raise ValueError(
            f"workdir: {workdir} holds no run (no config.json); train one there "
            "first, or name the right --workdir."
        )
    return ml_collections.ConfigDict(json.loads(path.read_text()))


def _hyper(config: ml_collections.ConfigDict) -> dict[str, float]:
    values = dict(config.method)
    name = values.pop("name")
    known = methods.hyperparameters(name)
    for field in values:
        if field not in known:
            raise unknown_name(f"method {name!r}", "hyperparameter", field, known)
    missing = [field for field in known if known[field] is None and field not in values]
    if missing:
        raise ValueError(
            f"config: `method.{missing[0]}` must be set for {name!r}; add "
            f"--config.method.{missing[0]}=VALUE."
        )
    return {**values, "learning_rate": config.optimizer.learning_rate}


def _mesh(batch_size: int) -> jax.sharding.Mesh:
    count = jax.device_count()
    if batch_size % count:
        raise ValueError(
            f"config: `train.batch_size` must be a multiple of the {count} devices, "
            f"got {batch_size}; use {max(1, round(batch_size / count)) * count}."
        )
    return jax.make_mesh((count,), ("data",), axis_types=(AxisType.Auto,))


def _check_positive(config: ml_collections.ConfigDict) -> None:
    positive = {
        "train.num_steps": config.train.num_steps,
        "train.batch_size": config.train.batch_size,
        "train.log_every": config.train.log_every,
        "train.checkpoint_every": config.train.checkpoint_every,
        "train.keep_checkpoints": config.train.keep_checkpoints,
        "optimizer.learning_rate": config.optimizer.learning_rate,
        "eval.num_train": config.eval.num_train,
        "eval.num_test": config.eval.num_test,
        "eval.batch_size": config.eval.batch_size,
        "eval.hybrid_bank": config.eval.hybrid_bank,
    }
    for field, value in positive.items():
        if value <= 0:
            raise ValueError(f"config: `{field}` must be positive, got {value}.")


def _check_workdir(config: ml_collections.ConfigDict, workdir: pathlib.Path) -> None:
    absolute = workdir.absolute()
    parent = next(p for p in (absolute, *absolute.parents) if p.exists())
    if not parent.is_dir():
        raise ValueError(
            f"workdir: {parent} is a file; give a folder with --workdir=DIR."
        )
    if not os.access(parent, os.W_OK):
        raise ValueError(
            f"workdir: {parent} is not writable; give another folder with "
            "--workdir=DIR."
        )
    if not (workdir / "config.json").exists():
        return
    old = _flat(json.loads((workdir / "config.json").read_text()))
    new = _flat(json.loads(config.to_json()))
    differing = [
        field
        for field in sorted(old.keys() | new.keys())
        if old.get(field) != new.get(field) and not field.startswith(_MAY_CHANGE)
    ]
    if differing:
        shown = ", ".join(
            f"{field} was {old.get(field)!r}, now {new.get(field)!r}"
            for field in differing[:3]
        )
        more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise ValueError(
            f"workdir: {workdir} holds a run of another config ({shown}{more}); give "
            "another --workdir, or the config it was started with."
        )


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
