"""From a config to everything a run needs, with every check before compilation."""

import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import ml_collections
import numpy as np
import optax
from flax.traverse_util import flatten_dict
from jax.sharding import AxisType

from disentangle_jax import data, methods, metrics, models
from disentangle_jax.methods import Method
from disentangle_jax.training import schedules
from disentangle_jax.training.lanes import Lane, config_of, expand
from disentangle_jax.training.processes import is_first
from disentangle_jax.training.provenance import write_json
from disentangle_jax.types import unknown_name

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
      lanes: the models that are trained; one where the config asks for no lanes.
      mesh: devices, ``("lanes", "data")``.
    """

    config: ml_collections.ConfigDict
    workdir: pathlib.Path
    train_set: data.Dataset
    test_set: data.Dataset
    method: Method
    lanes: tuple[Lane, ...]
    mesh: jax.sharding.Mesh

    @property
    def laned(self) -> bool:
        """Whether the state has a lane axis."""
        return bool(self.lanes[0].name)

    def example(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Returns the shapes of one batch."""
        rows = self.config.train.batch_size
        image = jax.ShapeDtypeStruct((rows, *self.train_set.image_shape), "uint8")
        factors = len(self.train_set.factor_sizes)
        return {
            "images": {"image": image},
            "documents": {"image": jax.ShapeDtypeStruct(image.shape, "uint16")},
            "pairs": {"image": image, "image2": image},
            "labels": {
                "image": image,
                "labelled_image": image,
                "labels": jax.ShapeDtypeStruct((rows, factors), "int32"),
            },
        }[self.method.feed]

    def labelled_example(self) -> dict[str, dict[str, jax.ShapeDtypeStruct]]:
        """Returns the shapes of what a step of a method with regions has besides."""
        regions = self.method.regions
        if regions is None:
            return {}
        most = max(math.ceil(lane.hyper["tau"]) for lane in self.lanes)
        shape = (math.prod(regions.factor_sizes), most, *self.train_set.image_shape)
        image = jax.ShapeDtypeStruct(shape, "uint8")
        count = jax.ShapeDtypeStruct(shape[:1], "int32")
        return {"labelled": {"image": image, "count": count}}

    def lane_run(self, lane: Lane) -> "Run":
        """Returns the run that one lane is, in a folder below this one's."""
        return dataclasses.replace(
            self,
            config=config_of(self.config, lane),
            workdir=self.workdir / "lanes" / lane.name,
            lanes=(lane._replace(name=""),),
        )


def prepare(
    config: ml_collections.ConfigDict,
    workdir: str | os.PathLike,
    *,
    devices: Sequence[jax.Device] | None = None,
) -> Run:
    """Checks `config` against the library and `workdir` and returns the run.

    Args:
      config: the complete config.
      workdir: folder of the run.
      devices: what it is compiled for; None for all that this process sees. Devices
        that are not there, of a described topology, can be compiled for too.

    Raises:
      ValueError: a name, value or combination is wrong; one line, with the fix.
      FileNotFoundError: a dataset's file is missing; says what to fetch.
    """
    workdir = pathlib.Path(workdir)
    _check_numbers(config)
    check_workdir(config, workdir)
    lanes = expand(config)
    _check_start(config, lanes)
    for name in config.train.schedules:
        if name not in lanes[0].hyper:
            raise unknown_name("config", "train.schedules", name, lanes[0].hyper)
        schedules.create(name, config.train.schedules[name])
    train_set = _training_set(config)
    test_set = load_split(config, "test")
    model_options = dict(config.model)
    model = models.create(
        model_options.pop("name"), train_set.image_shape, **model_options
    )
    method = methods.create(
        config.method.name,
        model,
        _optimizer(config),
        dataset_size=len(train_set.indices),
        factor_sizes=train_set.factor_sizes,
        **_method_options(config),
    )
    if config.data.standardize:
        method = methods.standardized(method, *_moments(config))
    _check_feed(config, train_set, method)
    _check_regions(config, method)
    _check_frozen(config, train_set, method)
    metrics.check_scores(tuple(config.eval.scores), "config", "eval.scores")
    if config.eval.fid_weights:
        metrics.check_inception_weights(config.eval.fid_weights)
    mesh = _mesh(config, len(lanes), jax.devices() if devices is None else devices)
    return Run(config, workdir, train_set, test_set, method, lanes, mesh)


def _optimizer(config: ml_collections.ConfigDict) -> optax.GradientTransformation:
    optimizer = optax.scale_by_adam(
        b1=config.optimizer.b1, b2=config.optimizer.b2, eps=config.optimizer.eps
    )
    if config.optimizer.frozen:
        # After Adam, whose state then has the same leaves as without.
        frozen = set(config.optimizer.frozen)
        zero = optax.masked(
            optax.set_to_zero(),
            lambda tree: jax.tree.map_with_path(
                lambda path, _: bool(frozen & _names(path)), tree
            ),
        )
        optimizer = optax.chain(optimizer, zero)
    if config.optimizer.accumulate == 1:
        return optimizer
    several = optax.MultiSteps(optimizer, config.optimizer.accumulate)
    return several.gradient_transformation()


def _names(path: tuple) -> set[str]:
    """Returns the names of the modules on the way to a parameter."""
    return {entry.key for entry in path if isinstance(entry, jax.tree_util.DictKey)}


def _check_frozen(
    config: ml_collections.ConfigDict, train_set: data.Dataset, method: Method
) -> None:
    if not config.optimizer.frozen:
        return
    image = jax.ShapeDtypeStruct((1, *train_set.image_shape), "uint8")
    state = jax.eval_shape(method.init, jax.random.key(0), {"image": image})
    known = set()
    for path, _ in jax.tree.leaves_with_path(state.params):
        known |= _names(path)
    for name in config.optimizer.frozen:
        if name not in known:
            raise unknown_name("config", "optimizer.frozen", name, sorted(known))
    if state.model_state:
        raise ValueError(
            f"config: `optimizer.frozen` must be () for {config.model.name}: its batch "
            "norm would go on changing what a frozen part computes."
        )


def _moments(
    config: ml_collections.ConfigDict,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    name = config.data.name
    if name not in data.CHANNEL_MOMENTS:
        raise ValueError(
            f"config: `data.standardize` must be False for {name}, of which no moments "
            f"are published; known are {', '.join(sorted(data.CHANNEL_MOMENTS))}."
        )
    return data.CHANNEL_MOMENTS[name]


def _check_start(config: ml_collections.ConfigDict, lanes: Sequence[Lane]) -> None:
    """Raises where ``train.start_from`` names no run that this one can begin with."""
    folder = config.train.start_from
    if not folder:
        return
    try:
        other = read_config(folder)
    except ValueError:
        other = None
    if other is None or not has_checkpoint(pathlib.Path(folder)):
        raise ValueError(
            f"config: `train.start_from` must be the workdir of a trained run, and "
            f"{folder} holds no checkpoint."
        )
    differing = []
    if json.loads(other.model.to_json()) != json.loads(config.model.to_json()):
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


def has_checkpoint(workdir: pathlib.Path) -> bool:
    """Returns whether a run saved its state there."""
    folder = workdir / "checkpoints"
    return folder.is_dir() and any(path.name.isdigit() for path in folder.iterdir())


def _training_set(config: ml_collections.ConfigDict) -> data.Dataset:
    """Returns the training split without what the config keeps from it."""
    train_set = load_split(config, "train")
    if config.data.drop:
        train_set = train_set.drop(**config.data.drop)
    if config.data.hold_out:
        path = pathlib.Path(config.data.hold_out)
        if not path.is_file():
            raise FileNotFoundError(
                f"config: `data.hold_out`: there is no file {path}; it must hold "
                "indices of images as numpy.save writes them."
            )
        held_out = np.load(path)
        train_set = train_set.narrow(np.setdiff1d(train_set.indices, held_out))
    return train_set


def _method_options(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """Returns the choices of ``config.method``, and rejects what is no field of it."""
    fields = dict(config.method)
    name = fields.pop("name")
    numbers, choices = methods.hyperparameters(name), methods.options(name)
    for field in fields:
        if field not in numbers and field not in choices:
            known = [*numbers, *choices]
            raise unknown_name(f"method {name!r}", "field", field, known)
    return {field: fields[field] for field in fields if field in choices}


def _check_feed(
    config: ml_collections.ConfigDict, train_set: data.Dataset, method: Method
) -> None:
    count = len(train_set.indices)
    if count < config.train.batch_size:
        raise ValueError(
            f"config: `train.batch_size` must be at most the {count} training images "
            f"of {config.data.name}, got {config.train.batch_size}."
        )
    if method.feed == "labels" and config.data.num_labels > count:
        raise ValueError(
            f"config: `data.num_labels` must be at most the {count} training images "
            f"of {config.data.name}, got {config.data.num_labels}."
        )
    _check_documents(config, train_set, method)
    if method.feed in ("pairs", "labels") and not train_set.factor_sizes:
        raise ValueError(
            f"config: `method.name` {config.method.name!r} needs a dataset with "
            f"factors, and {config.data.name} has none."
        )
    if config.train.input not in ("stream", "device"):
        raise unknown_name(
            "config", "train.input", config.train.input, ("stream", "device")
        )
    if config.train.input == "device" and (
        method.feed != "images" or not config.lanes.same_batches
    ):
        raise ValueError(
            "config: `train.input` must be 'stream' for methods that see pairs, "
            "labels or documents, and for lanes with batches of their own."
        )


def _check_documents(
    config: ml_collections.ConfigDict, train_set: data.Dataset, method: Method
) -> None:
    """Raises where images and documents are mixed up, or documents are empty."""
    documents = isinstance(train_set, data.Corpus)
    if documents != (method.feed == "documents"):
        needs, has = ("images", "documents") if documents else ("documents", "images")
        raise ValueError(
            f"config: `method.name` {config.method.name!r} needs {needs}, and "
            f"{config.data.name} holds {has}."
        )
    if not documents:
        return
    empty = int((train_set.lengths[train_set.indices] == 0).sum())
    if empty:
        raise ValueError(
            f"config: `data.name`: {empty} training documents of {config.data.name} "
            "have no words; leave them out with Corpus.without_empty()."
        )
    if config.eval.fid_weights:
        raise ValueError(
            "config: `eval.fid_weights` must be '' for documents: FID is about images."
        )


def _check_regions(config: ml_collections.ConfigDict, method: Method) -> None:
    """Raises where the regions of a method could not be fitted in time."""
    if method.regions is None:
        return
    first, every = method.regions.fit_steps
    together = config.train.steps_per_dispatch
    for field, steps in (("warmup_steps", first), ("refit_every", every)):
        if steps % together:
            raise ValueError(
                f"config: `method.{field}` must be a multiple of the {together} steps "
                f"of `train.steps_per_dispatch`, got {steps}."
            )
    if config.train.num_steps <= first:
        raise ValueError(
            f"config: `train.num_steps` must be more than the {first} steps of "
            f"`method.warmup_steps`, got {config.train.num_steps}."
        )
    if not config.lanes.same_batches or config.data.standardize:
        raise ValueError(
            "config: `lanes.same_batches` must be True and `data.standardize` False "
            "for methods with labelled regions: all lanes have the same labelled "
            "images, in [0, 1]."
        )


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
    if not is_first():
        return
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
    return config_from_json(json.loads(path.read_text()))


def config_from_json(stored: Mapping[str, Any]) -> ml_collections.ConfigDict:
    """Returns a config that was written as JSON, which has lists for tuples."""
    sections = dict(stored)
    lanes = ml_collections.ConfigDict(sections.pop("lanes"), convert_dict=False)
    config = ml_collections.ConfigDict(sections)
    config.lanes = lanes
    with config.ignore_type():
        for section in config.values():
            for name, value in section.items():
                if isinstance(value, list):
                    section[name] = tuple(value)
    return config


def _mesh(
    config: ml_collections.ConfigDict, lanes: int, devices: Sequence[jax.Device]
) -> jax.sharding.Mesh:
    """Returns `devices` as lanes × data; as many as can be share the lanes."""
    count = len(devices)
    across = math.gcd(lanes, count)
    if config.train.mesh:
        across, along = config.train.mesh
        if across * along != count or lanes % across:
            raise ValueError(
                "config: `train.mesh` must be two numbers whose product is the "
                f"{count} devices, the first dividing the {lanes} lanes, got "
                f"{config.train.mesh}."
            )
    along = count // across
    batch_size = config.train.batch_size
    if batch_size % along:
        raise ValueError(
            f"config: `train.batch_size` must be a multiple of the {along} devices "
            f"that share a batch, got {batch_size}; use "
            f"{max(1, round(batch_size / along)) * along}."
        )
    return jax.make_mesh(
        (across, along),
        ("lanes", "data"),
        axis_types=(AxisType.Auto,) * 2,
        devices=devices,
    )


def _check_numbers(config: ml_collections.ConfigDict) -> None:
    positive = {
        "data.num_labels": config.data.num_labels,
        "optimizer.accumulate": config.optimizer.accumulate,
        "train.num_steps": config.train.num_steps,
        "train.batch_size": config.train.batch_size,
        "train.steps_per_dispatch": config.train.steps_per_dispatch,
        "train.log_every": config.train.log_every,
        "train.checkpoint_every": config.train.checkpoint_every,
        "train.keep_checkpoints": config.train.keep_checkpoints,
        "train.prefetch": config.train.prefetch,
        "eval.num_train": config.eval.num_train,
        "eval.num_test": config.eval.num_test,
        "eval.batch_size": config.eval.batch_size,
        "eval.hybrid_bank": config.eval.hybrid_bank,
        "eval.fid_images": config.eval.fid_images,
        "eval.num_samples": config.eval.num_samples,
    }
    for field, value in positive.items():
        if value <= 0:
            raise ValueError(f"config: `{field}` must be positive, got {value}.")
    together = config.train.steps_per_dispatch
    for field in ("num_steps", "log_every", "checkpoint_every"):
        if config.train[field] % together:
            raise ValueError(
                f"config: `train.{field}` must be a multiple of the {together} steps "
                f"of `train.steps_per_dispatch`, got {config.train[field]}."
            )
    if not 0 <= config.train.ema_decay < 1:
        raise ValueError(
            f"config: `train.ema_decay` must lie in [0, 1), got "
            f"{config.train.ema_decay}."
        )


def check_workdir(config: ml_collections.ConfigDict, workdir: pathlib.Path) -> None:
    """Raises where `workdir` cannot be written to or was begun with another config."""
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
    stored = json.loads((workdir / "config.json").read_text())
    old = flatten_dict(stored, sep=".")
    new = flatten_dict(json.loads(config.to_json()), sep=".")
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
