"""The config of a run: every field, its default and what it means.

A file of ``configs/`` calls :func:`default`, changes what its paper changes, and
returns the result from ``get_config(preset)``. Fields that are added there under
``model`` or ``method`` are passed on by name: ``config.model.channels`` to
``models.create``, ``config.method.beta`` to the objective.
"""

import ast
import pathlib
import runpy
from collections.abc import Iterable
from typing import Any

from ml_collections import ConfigDict

from disentangle_jax.types import unknown_name

# Sections whose fields are arguments of a function: a field may be added to them.
_PASSED_ON = ("model", "method", "data.options", "data.drop", "train.schedules")


def default() -> ConfigDict:
    """Returns a complete config: a SAE-12 on rendered 3D Shapes."""
    config = ConfigDict()

    config.data = data = ConfigDict()
    data.name = "rendered_shapes3d"  # one of data.names()
    data.data_dir = ""  # folder of the publishers' files; "" for the default place
    data.seed = 0  # of the order of the images, pairs and labels
    data.split_recipe = "paper"  # 70/10/20; "sae_code" for 72/8/20
    data.changed_factors = "uniform"  # between the images of a pair; "1", "dlib", …
    data.num_labels = 1000  # labelled images, for methods that see labels
    data.options = ConfigDict()  # passed on to data.load
    data.drop = ConfigDict()  # not trained on: images with these values of factors
    data.standardize = False  # per channel, by the set's published moments
    data.hold_out = ""  # .npy file of further indices that are not trained on

    config.model = model = ConfigDict()
    model.name = "sae-12"  # one of models.names(); other fields are its overrides

    config.method = method = ConfigDict()
    method.name = "ae"  # one of methods.names(); other fields are hyperparameters

    config.optimizer = optimizer = ConfigDict()  # Adam
    optimizer.learning_rate = 5e-4
    optimizer.b1 = 0.9
    optimizer.b2 = 0.999
    optimizer.eps = 1e-8
    optimizer.accumulate = 1  # batches whose gradients are averaged for one update
    optimizer.frozen = ()  # parts that are not updated, as ("encoder",)

    config.train = train = ConfigDict()
    train.seed = 0  # of the parameters and the noise
    train.batch_size = 128
    train.num_steps = 100_000
    train.log_every = 100  # steps between rows of metrics.jsonl
    train.checkpoint_every = 1000  # steps; at most this much is lost by a kill
    train.keep_checkpoints = 3
    train.input = "stream"  # by tf.data; "device" draws inside the step
    train.prefetch = 2  # batches made ahead
    train.steps_per_dispatch = 1  # steps of one call of the compiled program
    train.schedules = ConfigDict()  # see training/schedules.py
    train.ema_decay = 0.0  # moving average of the parameters that is scored; 0: none
    train.mesh = ()  # devices as (lanes, data); () chooses
    train.start_from = ""  # workdir of a run whose parameters this one begins with
    train.start_optimizer = True  # take that run's optimizer state too

    # Dicts stay dicts: the keys of a sweep have dots, which a ConfigDict forbids.
    config.lanes = lanes = ConfigDict(convert_dict=False)
    lanes.seeds = 1  # models with the seeds train.seed, train.seed + 1, …
    lanes.sweep = {}  # {"method.beta": (1.0, 4.0)}
    lanes.rows = ()  # or exactly these: ({"train.seed": 3, "method.beta": 4.0}, …)
    lanes.same_batches = True  # or each lane's own order, by its seed
    lanes.chunk = 0  # lanes computed at once; 0: all, on TPUs one on each chip

    config.eval = evaluation = ConfigDict()
    evaluation.seed = 0
    evaluation.num_train = 10_000  # test images that scores are fitted on
    evaluation.num_test = 5_000  # further test images that judge the fit
    evaluation.batch_size = 64
    evaluation.scores = ("mig", "dci")  # names of disentangle_jax.metrics
    evaluation.hybrid_bank = 128  # stored codes that hybrids recombine
    evaluation.fid_weights = ""  # file of Inception weights; "" computes no FID
    evaluation.fid_images = 50_000  # of each kind, at most as many as the test split
    evaluation.num_samples = 64  # of each kind that --mode=sample draws
    return config


def study() -> ConfigDict:
    """Returns the setting that the six methods of the large study share.

    Locatello et al., "Challenging Common Assumptions in the Unsupervised Learning of
    Disentangled Representations", Table 2: convolutional networks, 10 latents, batch
    64, 300,000 steps of Adam 1e-4; here on a dSprites that needs no download
    (``--config.data.name=dsprites`` for the publisher's file).
    """
    config = default()
    config.data.name = "rendered_dsprites"
    config.model.name = "conv64"
    config.model.latent_dim = 10
    config.optimizer.learning_rate = 1e-4
    config.train.batch_size = 64
    config.train.num_steps = 300_000
    return config


def quick(config: ConfigDict) -> ConfigDict:
    """Returns `config` shortened to some minutes on a 2-core CPU."""
    config.train.batch_size = 32
    config.train.num_steps = 1000
    config.train.log_every = 20
    config.train.checkpoint_every = 200
    config.optimizer.learning_rate = 1e-3
    config.eval.num_train = 2000
    config.eval.num_test = 1000
    config.eval.fid_images = 500
    return config


def complete(config: ConfigDict) -> ConfigDict:
    """Returns `config` with the defaults of the fields that it lacks.

    The config that a run of an earlier version wrote lacks those that came later.
    """
    for name, section in default().items():
        for field, value in section.items():
            if field not in config[name]:
                config[name][field] = value
    return config


def load(file: str, overrides: Iterable[str] = ()) -> ConfigDict:
    """Returns the config of a file, with some fields changed.

    Args:
      file: path of a Python file with ``get_config(preset)``, then ``:`` and the
        preset where one is wanted.
      overrides: texts of the form ``--config.train.seed=1``. A value must be of the
        type of the field's default; tuples are written as in Python.
    """
    path, _, preset = file.partition(":")
    if not pathlib.Path(path).is_file():
        raise ValueError(f"--config: there is no file {path}; see the folder configs/.")
    config = runpy.run_path(path)["get_config"](preset)
    for override in overrides:
        name, equals, text = override.removeprefix("--config.").partition("=")
        if name.startswith("lanes.sweep."):
            field = name.removeprefix("lanes.sweep.")
            config.lanes.sweep[field] = _values(name, text)
            continue
        if not equals:
            raise ValueError(f"--config.{name}: must be followed by =VALUE.")
        *sections, field = name.split(".")
        section = config
        for part in sections:
            section = _field(section, part, name)
        if ".".join(sections) in _PASSED_ON and field not in section:
            section[field] = _literal(text)  # Checked by who takes it.
        else:
            section[field] = _typed(name, text, _field(section, field, name))
    return config


def _field(section: Any, field: str, name: str) -> Any:
    if not isinstance(section, ConfigDict):
        raise ValueError(f"--config.{name}: there is nothing below a plain value.")
    if field not in section:
        raise unknown_name(f"--config.{name}", "field", field, section)
    return section[field]


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False}.get(text.lower(), text)


def _values(name: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.strip("()[] ,").split(","))
    except ValueError:
        raise ValueError(
            f"--config.{name}: `value` must be numbers like 1,2,4, got {text!r}."
        ) from None


def _typed(name: str, text: str, default: Any) -> Any:
    if isinstance(default, ConfigDict):
        raise ValueError(
            f"--config.{name}: is a section; set one of {', '.join(default) or '-'}."
        )
    if isinstance(default, str):
        return text
    value = _literal(text)
    if isinstance(default, float) and type(value) is int:
        value = float(value)
    if isinstance(default, tuple) and isinstance(value, str):
        value = tuple(part.strip() for part in value.split(","))
    if type(value) is not type(default):
        raise ValueError(
            f"--config.{name}: `value` must be of type {type(default).__name__} like "
            f"{default!r}, got {text!r}."
        )
    return value


def check_preset(file: str, preset: str, known: Iterable[str]) -> None:
    """Raises a ValueError unless `preset` is empty or one that `file` knows."""
    if preset and preset not in known:
        raise unknown_name(f"configs/{file}.py", "preset", preset, known)
