"""The config of a run: every field, its default, what it means and what it affects.

A file of ``configs/`` calls :func:`default`, changes what its paper changes, and
returns the result from ``get_config(preset)``. Fields that are added there under
``model`` or ``method`` are passed on by name: ``config.model.channels`` to
``models.create``, ``config.method.beta`` to the objective.
"""

import ast
import difflib
import math
import pathlib
import runpy
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from disentangle_jax.registry import split_names
from disentangle_jax.types import unknown_name

# The two ways to give the length of training: a given one replaces the other.
_LENGTHS = ("train.num_steps", "train.num_epochs")
# Sections whose fields are arguments of a function: a field may be added to them.
_PASSED_ON = ("model", "method", "data.options", "data.drop", "train.schedules")
# The same for sections below it: options of the stages of a protocol, by their names.
_OF_STAGES = "experiment.options."


# JAX takes larger seeds modulo this; NumPy refuses negative ones.
_LARGEST_SEED = 2**32 - 1


class Field(NamedTuple):
    """One field of a config.

    Attributes:
      default: value of a config that does not set it; its type is the field's type.
      doc: what it means.
      affects: ``"model"``, which model is trained; ``"seed"``, which of several equally
        good models; ``"length"``, how long it is trained; ``"rows"``, which models
        are trained together; ``"execution"``, how and where the program runs;
        ``"evaluation"``, how the model is evaluated.
      low: smallest allowed value of a number; None for no limit.
      high: largest allowed value.
      below: number that the value must lie below.
      above: number that the value must lie above.
    """

    default: Any
    doc: str
    affects: str = "model"
    low: float | None = None
    high: float = math.inf
    below: float = math.inf
    above: float = -math.inf

    def check(self, name: str, value: Any) -> None:
        """Raises a ValueError where a number lies outside of the limits."""
        if not isinstance(self.default, int | float) or isinstance(self.default, bool):
            return
        low = -math.inf if self.low is None else self.low
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and (
            low <= value <= self.high
            and self.above < value < self.below
            and math.isfinite(value)
        ):
            return
        if self.below < math.inf:
            text = f"lie in [{low:g}, {self.below:g})"
        elif self.low == 1 or self.above == 0:
            text = "be positive"
            text += " and finite" if isinstance(self.default, float) else ""
        else:
            text = "be finite" if self.low is None else f"be at least {low}"
        if self.high < math.inf:
            text += f" and at most {self.high}"
        raise ValueError(f"config: `{name}` must {text}, got {value!r}.")


FIELDS: dict[str, Field] = {
    "data.name": Field("rendered_shapes3d", "dataset, one of data.names()"),
    "data.data_dir": Field(
        "", "directory of the publishers' files; '' for the default", "execution"
    ),
    "data.seed": Field(
        0, "seed of the order of images, pairs and labels", "seed", 0, _LARGEST_SEED
    ),
    "data.split_recipe": Field(
        "paper", "'paper' is 70/10/20, 'sae_code' 72/8/20, 'none' uses all for both"
    ),
    "data.train_split": Field("train", "trained on; or 'train+validation'"),
    "data.changed_factors": Field(
        "uniform",
        "which factors differ in a pair: 'uniform', 'dlib', 'laplace' or a number",
    ),
    "data.num_labels": Field(1000, "labelled images of methods that use labels", low=1),
    "data.options": Field({}, "further arguments of data.load"),
    "data.drop": Field({}, "values of factors whose images are not trained on"),
    "data.standardize": Field(
        False, "standardise each channel by the dataset's published moments"
    ),
    "data.hold_out": Field(
        "", ".npy file of indices not trained on; '{workdir}' in it as in start_from"
    ),
    "model.name": Field("sae-12", "network, one of models.names()"),
    "method.name": Field("ae", "training method, one of methods.names()"),
    "optimizer.learning_rate": Field(5e-4, "learning rate of Adam", above=0),
    "optimizer.b1": Field(0.9, "Adam's decay of the first moment", low=0, below=1),
    "optimizer.b2": Field(0.999, "Adam's decay of the second moment", low=0, below=1),
    "optimizer.eps": Field(1e-8, "Adam's epsilon", above=0),
    "optimizer.clip": Field(
        0.0, "largest size of an element of a gradient; 0: no limit", low=0
    ),
    "optimizer.weight_decay": Field(
        0.0, "decoupled decay of kernels, not of biases (AdamW); 0: none", low=0
    ),
    "optimizer.accumulate": Field(
        1, "batches whose gradients are averaged for one update", low=1
    ),
    "optimizer.frozen": Field((), "modules that are not updated, as ('encoder',)"),
    "train.seed": Field(
        0, "seed of the parameters and of the noise", "seed", 0, _LARGEST_SEED
    ),
    "train.batch_size": Field(128, "examples of a batch, over all devices", low=1),
    "train.num_steps": Field(
        100_000, "number of updates; 0 where train.num_epochs is given", "length", 0,
        2**31 - 1,
    ),
    "train.num_epochs": Field(
        0, "number of passes over the training set, instead of num_steps", "length", 0
    ),
    "train.log_every": Field(
        100, "steps between rows of metrics.jsonl", "execution", low=1
    ),
    "train.checkpoint_every": Field(
        1000, "steps between checkpoints: a kill loses at most these", "execution", 1
    ),
    "train.keep_checkpoints": Field(3, "checkpoints that are kept", "execution", low=1),
    "train.writers": Field(
        ("tensorboard",), "where rows are also sent: 'tensorboard', 'wandb'",
        "execution",
    ),
    "train.input": Field(
        "stream",
        "'stream' by tf.data; 'device': drawn in a step; 'auto': on the device where "
        "the method allows it and the images are rendered or at most 1 GB",
    ),
    "train.prefetch": Field(2, "batches prepared ahead", "execution", 1, 1000),
    "train.steps_per_dispatch": Field(1, "steps of one compiled call", low=1),
    "train.schedules": Field({}, "changes of hyperparameters; training/schedules.py"),
    "train.ema_decay": Field(
        0.0, "decay of a moving average of the parameters that is evaluated; 0: none",
        low=0, below=1,
    ),
    "train.mesh": Field((), "devices as (lanes, data); () chooses", "execution"),
    "train.start_from": Field(
        "", "workdir of a run to start from; '{workdir}' in it is this run's folder"
    ),
    "train.start_optimizer": Field(True, "take the optimizer state of that run too"),
    "lanes.seeds": Field(1, "models with the seeds train.seed, train.seed + 1, …",
                         "rows", 1, 100_000),
    "lanes.sweep": Field({}, "values of fields: {'method.beta': (1.0, 4.0)}", "rows"),
    "lanes.rows": Field(
        (), "or a list of models: ({'train.seed': 3, 'method.beta': 4.0}, …)", "rows"
    ),
    "lanes.same_batches": Field(
        True, "all lanes see the same batches; False: an order by each lane's seed",
        "seed",
    ),
    "lanes.chunk": Field(
        0, "lanes computed at once; 0: all, on TPUs up to 4 per chip, on CPUs one per "
        "device if a dispatch has several steps", "execution", low=0
    ),
    "eval.seed": Field(0, "seed of the evaluation", "evaluation", 0, _LARGEST_SEED),
    "eval.num_train": Field(10_000, "test images that scores are fitted on",
                            "evaluation", low=2),
    "eval.num_test": Field(5_000, "further test images that scores are measured on",
                           "evaluation", low=1),
    "eval.batch_size": Field(64, "images encoded at once", "evaluation", 1, 2**16),
    "eval.interventions": Field(
        "codes", "scores that fix a factor sample the scored 'codes' or the 'dataset'",
        "evaluation",
    ),
    "eval.scores": Field(
        ("mig", "dci"), "names of metrics.names(), as 'dci(estimator=gbt_exact)'",
        "evaluation",
    ),
    "eval.evaluators": Field(
        (), "evaluators beside those of the method, of evaluation.names()", "evaluation"
    ),
    "eval.every": Field(
        0, "steps between fast scores of validation images while training; 0: none",
        "execution", 0,
    ),
    "eval.hybrid_bank": Field(128, "stored codes that hybrids recombine", "evaluation",
                              low=1),
    "eval.fid_weights": Field("", "file of Inception weights; '' computes no FID",
                              "evaluation"),
    "eval.hybrid_parts": Field(
        "variables", "what hybrids recombine: 'variables' or single 'dimensions'",
        "evaluation",
    ),
    "eval.fid_images": Field(
        50_000, "images of each kind for FID; of test images at most all", "evaluation",
        1,
    ),
    "eval.num_samples": Field(64, "samples of each kind that `sample` draws",
                              "evaluation", 1, 10**6),
}  # fmt: skip


def affects(field: str) -> str:
    """Returns what a field affects, by its dotted name; see :class:`Field`.

    Fields without a fixed name (``method.beta``, ``data.options.spacing``) affect the
    model; those of the section ``study`` affect the evaluation.
    """
    if field in FIELDS:
        return FIELDS[field].affects
    section = field.partition(".")[0]
    if section == "study":
        return "evaluation"
    return "rows" if section == "lanes" else "model"


def default() -> ConfigDict:
    """Returns a complete config: a SAE-12 on rendered 3D Shapes."""
    config = ConfigDict()
    for name, field in FIELDS.items():
        section, _, key = name.partition(".")
        if section not in config:
            # The keys of a sweep have dots, which a ConfigDict forbids in its own.
            config[section] = ConfigDict(convert_dict=section != "lanes")
        value = field.default
        config[section][key] = dict(value) if isinstance(value, dict) else value
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
    """Returns `config` shortened to a few minutes on a 2-core CPU."""
    config.train.batch_size = 32
    config.train.num_steps, config.train.num_epochs = 1000, 0
    config.train.log_every = 20
    config.train.checkpoint_every = 200
    config.optimizer.learning_rate = 1e-3
    config.eval.num_train = 2000
    config.eval.num_test = 1000
    config.eval.fid_images = 500
    return config


def mini(config: ConfigDict, *, num_steps: int, size: int | None = None) -> ConfigDict:
    """Returns `config` as a miniature: small images, but enough training steps.

    Findings of a paper survive smaller pictures and narrower networks, but not a
    hundredth of the training. Batches are drawn inside the compiled step, ten of which
    are one call. Seeds begin with 1, so that seed 0 is free for choosing settings.

    Args:
      config: the paper's setting.
      num_steps: number of training steps.
      size: height and width to which images are reduced by averaging areas; None for
        those of the dataset.
    """
    if size is not None:
        config.data.options.size = size
    config.train.seed = 1
    config.train.num_steps = num_steps
    config.train.input = "device"
    config.train.steps_per_dispatch = 10
    config.train.log_every = 100
    config.train.checkpoint_every = 1000
    return config


def complete(config: ConfigDict) -> ConfigDict:
    """Returns `config` with the defaults of fields that came after it was written."""
    for name, section in default().items():
        for field, value in section.items():
            if field not in config[name]:
                config[name][field] = value
    return config


def check_values(config: ConfigDict) -> None:
    """Raises a ValueError where a number lies outside of the limits of its field."""
    for name, field in FIELDS.items():
        section, _, key = name.partition(".")
        field.check(name, config[section][key])


def from_json(stored: Mapping[str, Any]) -> ConfigDict:
    """Returns a config that was written as JSON, which has lists for tuples."""
    sections = {
        name: {k: tuple(v) if isinstance(v, list) else v for k, v in section.items()}
        for name, section in stored.items()
    }
    lanes = ConfigDict(sections.pop("lanes"), convert_dict=False)
    config = ConfigDict(sections)
    config.lanes = lanes
    return config


def load(file: str, overrides: Iterable[str] = ()) -> ConfigDict:
    """Returns the config of a file, with some fields changed.

    Args:
      file: as in :func:`find`; the file has ``get_config(preset)``.
      overrides: texts of the form ``--config.train.seed=1``. A value must have the
        type of the field's default; tuples are written as in Python.
    """
    path, preset = find(file)
    return override(_from_file(str(path), preset), overrides)


def find(file: str) -> tuple[pathlib.Path, str]:
    """Returns the path of a config and its preset.

    Args:
      file: path of a Python file, or the name of one that the library ships
        (``sae``, ``experiments/zero_shot``, ``configs/sae.py``), found from any folder;
        then ``:`` and the preset where one is wanted.
    """
    text, _, preset = file.partition(":")
    path = pathlib.Path(text)
    if path.is_file():
        return path, preset
    # A wheel holds them in the package; a checkout beside it.
    package = pathlib.Path(__file__).parent
    shipped = next(p / "configs" for p in (package, package.parent)
                   if (p / "configs" / "sae.py").is_file())  # fmt: skip
    name = text.removeprefix("configs/").removesuffix(".py")
    found = shipped / f"{name}.py"
    if not found.is_file():
        known = sorted(
            p.relative_to(shipped).with_suffix("").as_posix()
            for p in shipped.rglob("*.py")
        )
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        raise ValueError(
            f"--config: there is no file {text or '(no name was given)'}. Give the "
            "path of a Python file, or one of the included configs: "
            f"{', '.join(n for n in known if '/' not in n)}, experiments/… and "
            f"studies/….{f' Did you mean {near[0]!r}?' if near else ''}"
        )
    return found, preset


def run_file(path: str) -> dict[str, Any]:
    """Runs a config file and returns what it defines.

    Raises:
      ValueError: the file is not valid Python, or fails; the message says where.
    """
    try:
        return runpy.run_path(path)
    except SyntaxError as error:
        raise ValueError(
            f"--config: {path} is not valid Python: {error.msg}"
            f"{f' (line {error.lineno})' if error.lineno else ''}."
        ) from None
    except Exception as error:
        raise ValueError(
            f"--config: {path} fails with {type(error).__name__}: {error}."
        ) from error


def _from_file(path: str, preset: str) -> ConfigDict:
    get_config = run_file(path).get("get_config")
    if get_config is None:
        raise ValueError(
            f"--config: {path} has no `get_config(preset)` that returns a config; see "
            "the files of configs/."
        )
    try:
        config = get_config(preset)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(
            f"--config: get_config of {path} fails with {type(error).__name__}: "
            f"{error}."
        ) from error
    if not isinstance(config, ConfigDict):
        raise ValueError(
            f"--config: get_config of {path} must return a config, as "
            f"disentangle_jax.config.default() does, got {type(config).__name__}."
        )
    for name in FIELDS:
        section, _, field = name.partition(".")
        if section not in config or field not in config[section]:
            raise ValueError(
                f"--config: the config of {path} must have the section {section!r} "
                f"with {field!r}; begin with disentangle_jax.config.default()."
            )
    return config


def override(config: ConfigDict, overrides: Iterable[str]) -> ConfigDict:
    """Changes fields of `config` by texts ``--config.SECTION.FIELD=VALUE``.

    A length of training in steps replaces one in epochs, and the other way round.
    """
    overrides = list(overrides)
    given = [o.removeprefix("--config.").partition("=")[0] for o in overrides]
    lengths = [name for name in _LENGTHS if name in given]
    if len(lengths) == 1:
        config.train.update(num_steps=0, num_epochs=0)
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
        of_stage = name.startswith(_OF_STAGES) and "experiment" in config
        for place, part in enumerate(sections):
            if of_stage and place and part not in section:
                section[part] = ConfigDict()
            section = _field(section, part, name)
        if (of_stage or ".".join(sections) in _PASSED_ON) and field not in section:
            section[field] = _literal(text)  # Validated by the function that takes it.
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
        value = split_names(value)
    if type(value) is not type(default):
        raise ValueError(
            f"--config.{name}: `value` must be of type {type(default).__name__} like "
            f"{default!r}, got {text!r}."
        )
    return value


def check_preset(file: str, preset: str, known: Iterable[str]) -> None:
    """Raises a ValueError unless `preset` is empty or one that `file` knows."""
    known = list(known)
    if preset and not known:
        raise ValueError(f"configs/{file}.py: has no presets, got {preset!r}.")
    if preset and preset not in known:
        raise unknown_name(f"configs/{file}.py", "preset", preset, known)
