"""From a config to everything that a run needs, checked before compilation."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import ml_collections
import numpy as np
import optax

from disentangle_jax import config as config_lib
from disentangle_jax import data, methods, metrics, models, rows
from disentangle_jax.methods import Method
from disentangle_jax.training import schedules, writers
from disentangle_jax.training.lanes import Lane, expand
from disentangle_jax.training.mesh import make_mesh
from disentangle_jax.training.workdir import (
    check_workdir,
    has_checkpoint,
    named_place,
    read_config,
)
from disentangle_jax.types import unknown_name


@dataclasses.dataclass(frozen=True)
class Run:
    """A checked run: nothing was compiled or written yet.

    Attributes:
      config: the complete config.
      workdir: folder of the run; it may not exist yet.
      train_set: the training split.
      test_set: the test split.
      method: networks, objective and step.
      lanes: the models that are trained; one where the config asks for no lanes.
      mesh: devices, ``("lanes", "data")``.
      validation_set: what ``eval.every`` scores while the run trains: the validation
        split, or the test split where the run trains on the former; None where
        ``eval.every`` is 0.
    """

    config: ml_collections.ConfigDict
    workdir: pathlib.Path
    train_set: data.Dataset
    test_set: data.Dataset
    method: Method
    lanes: tuple[Lane, ...]
    mesh: jax.sharding.Mesh
    validation_set: data.Dataset | None = None

    @property
    def laned(self) -> bool:
        """Whether its models have folders of their own."""
        return bool(self.lanes[0].name)

    def batch_shapes(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Returns the shapes of one batch."""
        return self.method.inputs.shapes(self.train_set, self.config.train.batch_size)

    def constant_shapes(self) -> dict[str, Any]:
        """Returns the shapes of the arrays that every step sees beside its batch."""
        return self.method.constant_shapes(self.train_set, self._hypers())

    def constants(self) -> dict[str, Any]:
        """Returns the arrays that every step sees beside its batch."""
        seed = self.config.data.seed
        return self.method.constants(self.train_set, self._hypers(), seed)

    def _hypers(self) -> list[dict[str, float]]:
        return [lane.hyper for lane in self.lanes]

    def models(self) -> list["Run"]:
        """Returns the run of each model alone, in a folder below this one's.

        A run without lanes is its own only model.
        """
        if not self.laned:
            return [self]
        return [
            dataclasses.replace(
                self,
                config=rows.alone(self.config, lane.fields),
                workdir=self.workdir / "lanes" / lane.name,
                lanes=(lane._replace(name=""),),
            )
            for lane in self.lanes
        ]


def prepare(
    config: ml_collections.ConfigDict,
    workdir: str | os.PathLike,
    *,
    dataset: Any = None,
    devices: Sequence[jax.Device] | None = None,
) -> Run:
    """Checks `config` against the library and `workdir` and returns the run.

    Args:
      config: the complete config.
      workdir: folder of the run.
      dataset: a :class:`data.Dataset`, or an object with its methods, that replaces
        the config's; its ``indices`` are split by ``data.split_recipe``.
      devices: what it is compiled for; None for all that this process sees. Devices
        that are not there, of a described topology, can be compiled for too.

    Raises:
      ValueError: a name, value or combination is wrong; one line, with the fix.
      FileNotFoundError: a dataset's file is missing; says what to fetch.
    """
    workdir = pathlib.Path(workdir)
    if dataset is not None:
        dataset = data.as_dataset(dataset)
        config = config.copy_and_resolve_references()
        config.data.name = f"{data.as_dataset.__module__}:dataset"
        config.data.options = {"called": dataset.name}
    config_lib.check_values(config)
    check_workdir(config, workdir)
    lanes = expand(config)
    _check_start(config, lanes, workdir)
    writers.check(config.train.writers)
    for name in config.train.schedules:
        if name not in lanes[0].hyper:
            raise unknown_name("config", "train.schedules", name, lanes[0].hyper)
        schedules.create(name, config.train.schedules[name])
    train_set = _training_set(config, workdir, dataset)
    config = _in_steps(config, len(train_set.indices))
    _check_steps(config)
    method = make_method(config, train_set)
    _check_input(config, train_set, method)
    config = _with_input(config, train_set, method)
    _check_evaluation(config, train_set, method)
    mesh = make_mesh(config, len(lanes), jax.devices() if devices is None else devices)
    test_set = load_split(config, "test", dataset)
    held_out = None
    if config.eval.every:
        used = "validation" in config.data.train_split
        held_out = test_set if used else load_split(config, "validation", dataset)
    run = Run(config, workdir, train_set, test_set, method, lanes, mesh, held_out)
    _check_frozen(run)
    _check_constants(run)
    return run


def _in_steps(
    config: ml_collections.ConfigDict, size: int
) -> ml_collections.ConfigDict:
    """Returns a config whose length is given in steps, for `size` training examples.

    The last, incomplete batch of all epochs together is left out, and so are steps that
    do not fill a dispatch.
    """
    train = config.train
    if (train.num_steps > 0) == (train.num_epochs > 0):
        raise ValueError(
            "config: one of `train.num_steps` and `train.num_epochs` must be positive "
            f"and the other 0, got {train.num_steps} and {train.num_epochs}."
        )
    if not train.num_epochs:
        return config
    steps = train.num_epochs * size // train.batch_size
    steps -= steps % train.steps_per_dispatch
    return rows.apply(config, {"train.num_steps": steps, "train.num_epochs": 0})


def make_method(config: ml_collections.ConfigDict, train_set: data.Dataset) -> Method:
    """Returns networks, objective and step of a config."""
    model_options = dict(config.model)
    model = models.create(
        model_options.pop("name"), train_set.image_shape, **model_options
    )
    fields = dict(config.method)
    name = fields.pop("name")
    hyperparameters, options = methods.hyperparameters(name), methods.options(name)
    for field in fields:
        if field not in hyperparameters and field not in options:
            known = [*hyperparameters, *options]
            raise unknown_name(f"method {name!r}", "field", field, known)
    method = methods.create(
        name,
        model,
        _optimizer(config),
        dataset_size=len(train_set.indices),
        factor_sizes=train_set.factor_sizes,
        **{field: value for field, value in fields.items() if field in options},
    )
    if config.data.standardize:
        # It has all that a method has, by forwarding what it does not change.
        standardized = methods.Standardized(method, *_moments(config.data.name))
        return cast(Method, standardized)
    return method


def _moments(dataset: str) -> tuple[Sequence[float], Sequence[float]]:
    moments = data.describe(dataset).moments
    if moments is None:
        known = [name for name in data.names() if data.describe(name).moments]
        raise ValueError(
            f"config: `data.standardize` must be False for {dataset}, of which no "
            f"moments are published; known are {', '.join(known)}."
        )
    return moments


def _optimizer(config: ml_collections.ConfigDict) -> optax.GradientTransformation:
    fields = config.optimizer
    parts = [optax.scale_by_adam(b1=fields.b1, b2=fields.b2, eps=fields.eps)]
    if fields.clip:
        parts.insert(0, optax.clip(fields.clip))
    if fields.weight_decay:
        decay = optax.add_decayed_weights(
            fields.weight_decay, _where(lambda names: "kernel" in names)
        )
        parts.append(decay)
    if fields.frozen:
        # After Adam, whose state then has the same leaves as without.
        frozen = _where(lambda names: bool(set(fields.frozen) & names))
        parts.append(optax.masked(optax.set_to_zero(), frozen))
    optimizer = optax.chain(*parts) if len(parts) > 1 else parts[0]
    if fields.accumulate == 1:
        return optimizer
    several = optax.MultiSteps(optimizer, fields.accumulate)
    return several.gradient_transformation()


def _where(chosen: Callable[[set[str]], bool]) -> Callable[[Any], Any]:
    """Returns a mask of the parameters, chosen by the names on the way to them."""
    return lambda tree: jax.tree.map_with_path(
        lambda path, _: chosen(_names(path)), tree
    )


def _names(path: tuple) -> set[str]:
    """Returns the names of the modules on the way to a parameter."""
    return {entry.key for entry in path if isinstance(entry, jax.tree_util.DictKey)}


def _check_frozen(run: Run) -> None:
    frozen = run.config.optimizer.frozen
    if not frozen:
        return
    state = jax.eval_shape(run.method.init, jax.random.key(0), run.batch_shapes())
    known = set()
    for path, _ in jax.tree.leaves_with_path(state.params):
        known |= _names(path)
    for name in frozen:
        if name not in known:
            raise unknown_name("config", "optimizer.frozen", name, sorted(known))
    if state.model_state:
        raise ValueError(
            f"config: `optimizer.frozen` must be () for {run.config.model.name}: its "
            "batch norm would go on changing what a frozen part computes."
        )


def _check_start(
    config: ml_collections.ConfigDict, lanes: Sequence[Lane], workdir: pathlib.Path
) -> None:
    """Raises where ``train.start_from`` names no run that this one can begin with."""
    if not config.train.start_from or has_checkpoint(workdir):
        return
    folder = named_place(config.train.start_from, workdir)
    if not has_checkpoint(folder):
        raise ValueError(
            f"config: `train.start_from` must be the workdir of a trained run, and "
            f"{folder} holds no checkpoint."
        )
    other = read_config(folder)
    differing = []
    if rows.flat(other.model) != rows.flat(config.model):
        differing.append("model")
    if other.method.name != config.method.name:
        differing.append("method")
    if [lane.name for lane in lanes] != [lane.name for lane in expand(other)]:
        differing.append("lanes")
    if differing:
        raise ValueError(
            f"config: `train.start_from`: the run {folder} has another "
            f"{' and '.join(differing)}; parameters can only be taken from the same."
        )


def load_split(
    config: ml_collections.ConfigDict, split: str, given: data.Dataset | None = None
) -> data.Dataset:
    """Returns one split of the config's dataset, or of the one that is given."""
    recipe = config.data.split_recipe
    if given is not None:
        parts = data.split_indices(len(given.indices), recipe=recipe)
        chosen = np.concatenate([parts[part] for part in split.split("+")])
        return given.narrow(given.indices[np.sort(chosen)])
    return data.load(
        config.data.name,
        data_dir=config.data.data_dir or None,
        split=split,
        split_recipe=recipe,
        **config.data.options,
    )


def _training_set(
    config: ml_collections.ConfigDict,
    workdir: pathlib.Path,
    given: data.Dataset | None,
) -> data.Dataset:
    """Returns the training split without the images that the config leaves out."""
    train_set = load_split(config, config.data.train_split, given)
    if config.data.drop:
        train_set = train_set.drop(**config.data.drop)
    if config.data.hold_out:
        path = named_place(config.data.hold_out, workdir)
        if not path.is_file():
            raise FileNotFoundError(
                f"config: `data.hold_out`: there is no file {path}; it must hold "
                "indices of images as numpy.save writes them."
            )
        held_out = _indices(path, len(train_set))
        train_set = train_set.narrow(np.setdiff1d(train_set.indices, held_out))
    return train_set


def _indices(path: pathlib.Path, count: int) -> np.ndarray:
    """Returns the indices of images that a file holds."""
    try:
        indices = np.load(path)
        integers = np.issubdtype(indices.dtype, np.integer)
        fit = integers and (indices >= 0).all() and (indices < count).all()
    except (ValueError, EOFError, AttributeError):
        fit = False
    if not fit:
        raise ValueError(
            f"config: `data.hold_out`: {path} must hold indices of images, integers in "
            f"[0, {count}), as numpy.save writes them."
        )
    return indices


def _check_input(
    config: ml_collections.ConfigDict, train_set: data.Dataset, method: Method
) -> None:
    count = len(train_set.indices)
    if count < config.train.batch_size:
        raise ValueError(
            f"config: `train.batch_size` must be at most the {count} training images "
            f"of {config.data.name}, got {config.train.batch_size}."
        )
    try:
        method.inputs.check(train_set, config.data)
    except ValueError as error:
        name = config.method.name
        raise ValueError(f"config: `method.name` {name!r} {error}") from None
    known = ("stream", "device", "auto")
    if config.train.input not in known:
        raise unknown_name("config", "train.input", config.train.input, known)
    if config.train.input == "device" and not method.inputs.can_be_on_device:
        raise ValueError(
            f"config: `train.input` must be 'stream' for {config.method.name!r}, whose "
            "batches hold labels or documents."
        )


# Largest dataset that "auto" input keeps on the device: dSprites takes 0.4 GB there. A
# fixed size, so that a run sees the same batches on every machine.
_ON_DEVICE = 10**9


def _with_input(
    config: ml_collections.ConfigDict, train_set: data.Dataset, method: Method
) -> ml_collections.ConfigDict:
    """Returns a config whose ``train.input`` is "stream" or "device"."""
    if config.train.input != "auto":
        return config
    size = data.device_bytes(train_set)
    fits = size is not None and size <= _ON_DEVICE
    where = "device" if fits and method.inputs.can_be_on_device else "stream"
    return rows.apply(config, {"train.input": where})


def _check_evaluation(
    config: ml_collections.ConfigDict, train_set: data.Dataset, method: Method
) -> None:
    metrics.check_scores(tuple(config.eval.scores), "config", "eval.scores")
    sampled = config.eval.interventions
    if sampled not in ("codes", "dataset"):
        known = ("codes", "dataset")
        raise unknown_name("config", "eval.interventions", sampled, known)
    if sampled == "dataset" and not train_set.is_grid:
        raise ValueError(
            "config: `eval.interventions` must be 'codes' for "
            f"{config.data.name}, which is no complete grid of factors."
        )
    parts, known = config.eval.hybrid_parts, ("variables", "dimensions")
    if parts not in known:
        raise unknown_name("config", "eval.hybrid_parts", parts, known)
    if not config.eval.fid_weights:
        return
    if "generation" not in (*method.evaluators, *config.eval.evaluators):
        raise ValueError(
            "config: `eval.fid_weights` must be '' for "
            f"{config.method.name!r}: FID compares images."
        )
    metrics.check_inception_weights(config.eval.fid_weights)


def _check_constants(run: Run) -> None:
    """Raises where a method is refitted at steps that the loop does not stop at."""
    config, method = run.config, run.method
    if not run.constant_shapes():
        return
    due = [s for s in range(config.train.num_steps) if method.refit_due(s)]
    together = config.train.steps_per_dispatch
    for step in due:
        if step % together:
            raise ValueError(
                f"config: `train.steps_per_dispatch` must divide {step}, the number of "
                f"steps before {config.method.name} is fitted to its labelled images, "
                f"got {together}."
            )
    if not due:
        raise ValueError(
            f"config: `train.num_steps` must be more than the warm-up of "
            f"{config.method.name}, got {config.train.num_steps}."
        )
    if not config.lanes.same_batches or config.data.standardize:
        raise ValueError(
            "config: `lanes.same_batches` must be True and `data.standardize` False "
            f"for {config.method.name}: all lanes have the same labelled images, in "
            "[0, 1]."
        )


def _check_steps(config: ml_collections.ConfigDict) -> None:
    together = config.train.steps_per_dispatch
    lengths = {
        f"train.{field}": config.train[field]
        for field in ("num_steps", "log_every", "checkpoint_every")
    }
    for field, steps in (*lengths.items(), ("eval.every", config.eval.every)):
        if steps % together:
            raise ValueError(
                f"config: `{field}` must be a multiple of the {together} steps "
                f"of `train.steps_per_dispatch`, got {steps}."
            )
