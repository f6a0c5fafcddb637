"""Flips single bits in every kind of file that the library reads again."""

import json
import pathlib
import random
import shutil
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from disentangle_jax import claims, evaluation, files, training
from disentangle_jax import sweep as sweep_lib
from disentangle_jax.training import program as program_lib
from disentangle_jax.training.checkpoint import Checkpoints
from launch import sweep as launcher
from tests.launch import tiny_sweep
from tests.training import tiny


class Kind(NamedTuple):
    """A kind of file.

    Attributes:
      folder: holds the files.
      pattern: names them, below the folder.
      read: returns what the library reads from a copy of the folder; equal for equal
        content. Where it warns or raises, the change was noticed.
    """

    folder: pathlib.Path
    pattern: str
    read: Callable[[pathlib.Path], Any]


class Flips(NamedTuple):
    """What flips in files of one kind led to; only `silent` is wrong."""

    tries: int
    noticed: int
    harmless: int
    silent: int


def kinds(folder: pathlib.Path) -> dict[str, Kind]:
    """Makes files of every kind in `folder`; returns the kinds by name."""
    run, sweep = folder / "run", folder / "sweep"
    config = tiny.config(num_steps=8, checkpoint_every=4)
    prepared = training.prepare(config, run)
    training.train(prepared)
    evaluation.evaluate(prepared)
    like = program_lib.abstract_carry(prepared)
    argv = [f"--config={tiny_sweep.__file__}", "--cluster=debug", "--lanes=2"]
    assert launcher.main([*argv, f"--workdir={sweep}"]) == 0
    claimed = folder / "claimed"
    claimed.mkdir()
    files.write_json(claimed / "claim.1", {**claims.me(), "since": "now"})

    def state(copy: pathlib.Path) -> Any:
        with Checkpoints(copy / "checkpoints", keep=3) as checkpoints:
            carry = checkpoints.restore(like)
        return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(carry)]

    def manifest(copy: pathlib.Path) -> Any:
        loaded = sweep_lib.load(copy)
        return json.dumps([loaded.header, loaded.models], default=str)

    def rows(copy: pathlib.Path) -> Any:
        found, corrupt = sweep_lib.read_rows(sweep_lib.load(copy))
        if corrupt:
            warnings.warn("corrupt", stacklevel=1)
        return found

    def arrays(found: dict) -> dict:
        return {name: value.tobytes() for name, value in found.items()}

    def codes(copy: pathlib.Path) -> Any:
        loaded = sweep_lib.load(copy)
        found = sweep_lib.read_codes(loaded, [model.id for model in loaded.models])
        return {name: arrays(kept) for name, kept in found}

    def holder(copy: pathlib.Path) -> str:
        if not claims._read(copy / "claim.1"):  # Watched, and moved aside.
            warnings.warn("damaged", stacklevel=1)
        return claims.claim_holder(copy / "claim.1")

    return {
        "checkpoint": Kind(run, "checkpoints/8/**/*", state),
        "config.json": Kind(run, "config.json", lambda f: str(training.read_config(f))),
        "metrics.jsonl": Kind(run, "metrics.jsonl", training.read_metrics),
        "scores.json": Kind(run, "scores.json", evaluation.read_scores),
        "pictures.npz": Kind(
            run, "pictures.npz", lambda f: arrays(evaluation.read_arrays(f))
        ),
        "manifest.jsonl": Kind(sweep, "manifest.jsonl", manifest),
        "rows/ID.json": Kind(sweep, "rows/*.json", rows),
        "codes/ID.npz": Kind(sweep, "codes/*.npz", codes),
        "launch.json": Kind(
            sweep, "launch.json", lambda f: files.read_json_or_move(f / "launch.json")
        ),
        "claim": Kind(claimed, "claim.1", holder),
    }


def flip(kind: Kind, whole: Any, copy: pathlib.Path, chance: random.Random) -> str:
    """Flips a bit in a copy of a file; returns "noticed", "harmless" or "silent".

    Args:
      kind: the kind of file.
      whole: what is read without the flip.
      copy: place for a copy of the folder.
      chance: chooses file and bit.
    """
    paths = [p for p in sorted(kind.folder.glob(kind.pattern)) if p.stat().st_size]
    paths = [path for path in paths if path.is_file()]
    # Any file, or any byte: most files are small, and most bytes are in a few.
    sizes = [path.stat().st_size for path in paths]
    path = chance.choices(paths, chance.choice((None, sizes)))[0]
    shutil.copytree(kind.folder, copy)
    content = bytearray(path.read_bytes())
    bit = chance.randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    (copy / path.relative_to(kind.folder)).write_bytes(content)
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = kind.read(copy)
    except ValueError:
        return "noticed"
    finally:
        shutil.rmtree(copy)
    if any(issubclass(warning.category, UserWarning) for warning in said):
        return "noticed"
    return "harmless" if found == whole else "silent"


def flip_all(folder: pathlib.Path, count: int, seed: int = 0) -> dict[str, Flips]:
    """Flips `count` bits in all, in files of every kind; counts what happened."""
    chance = random.Random(seed)
    made = kinds(folder)
    whole = {name: kind.read(kind.folder) for name, kind in made.items()}
    results: dict[str, list[str]] = {name: [] for name in made}
    for number in range(count):
        # Every second one in a checkpoint, where most of the bytes are.
        name = "checkpoint" if number % 2 else list(made)[number // 2 % len(made)]
        found = flip(made[name], whole[name], folder / "copy", chance)
        results[name].append(found)
    return {
        name: Flips(len(r), *(r.count(w) for w in ("noticed", "harmless", "silent")))
        for name, r in results.items()
    }
