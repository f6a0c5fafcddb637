"""No reader runs code that a file holds, and no file is ever there in part."""

import ast
import os
import pathlib
import pickle
import re
import warnings
from typing import NamedTuple

import numpy as np
import pytest

import disentangle_jax
import launch
from disentangle_jax import data, files, metrics, training
from disentangle_jax.metrics import score
from tests.training import tiny

PACKAGE = pathlib.Path(disentangle_jax.__file__).parent

# Calls that run what a file holds, or may.
RUNNING = {
    ("pickle", "load"), ("pickle", "loads"), ("joblib", "load"), ("torch", "load"),
    ("yaml", "load"), ("marshal", "loads"), ("shelve", "open"), ("dill", "load"),
    ("pd", "read_pickle"), ("os", "system"), ("os", "popen"),
}  # fmt: skip


class Command:
    """Unpickled by an ordinary reader, it creates a folder."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (os.mkdir, (str(self.target),))


def of_a_dataset(name, file, *members):
    """Returns a function that loads a dataset whose file holds objects."""

    def read(folder, objects):
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **dict.fromkeys(members, objects))
        data.load(name, data_dir=folder, split="all").images(np.arange(1))

    return read


def labels_of_fingers(folder, objects):
    (folder / "finger").mkdir()
    np.savez(folder / "finger/finger_labels.npz", labels=objects)
    data.load("rfd", data_dir=folder)


def own_arrays(folder, objects):
    np.save(folder / "images.npy", objects)
    data.load("npy", data_dir=folder)


def held_out(folder, objects):
    np.save(folder / "held_out.npy", objects)
    config = tiny.config()
    config.data.hold_out = str(folder / "held_out.npy")
    training.prepare(config, folder / "run")


def vocabulary(folder, objects):
    for name in ("bow_tr_tokens.mat", "bow_tr_counts.mat"):
        (folder / name).write_bytes(b"")
    (folder / "vocab.pkl").write_bytes(pickle.dumps(objects.tolist()))
    data.load("newsgroups", data_dir=folder)


def fid_weights(folder, objects):
    np.savez(folder / "weights.npz", **{"Conv2d_1a_3x3.conv.weight": objects})
    images = np.zeros((4, 32, 32, 3), np.uint8)
    metrics.fid(images, images, weights=folder / "weights.npz")


def torch_weights(folder, objects):
    (folder / "weights.pth").write_bytes(pickle.dumps(objects.tolist()))
    images = np.zeros((4, 32, 32, 3), np.uint8)
    metrics.fid(images, images, weights=folder / "weights.pth")


def arrays(folder, objects):
    np.savez(folder / "pictures.npz", images=objects)
    files.read_arrays(folder / "pictures.npz")


def scored(folder, objects):
    np.savez(folder / "codes.npz", codes=objects, factors=np.zeros((2, 1), int))
    if score.main([str(folder / "codes.npz")]):
        raise ValueError("refused")


_DSPRITES = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
READERS = {
    "dsprites": of_a_dataset("dsprites", _DSPRITES, "imgs", "latents_classes"),
    "mpi3d": of_a_dataset("mpi3d_toy", "mpi3d_toy.npz", "images"),
    "hwf": of_a_dataset("hwf", "symbols.npz", "images", "labels"),
    "npz": of_a_dataset("npz", "images.npz", "images"),
    "npz, factors": of_a_dataset("npz", "images.npz", "images", "factors"),
    "npy": own_arrays,
    "rfd": labels_of_fingers,
    "hold_out": held_out,
    "vocab.pkl": vocabulary,
    "fid": fid_weights,
    "torch": torch_weights,
    "pictures": arrays,
    "score": scored,
}


@pytest.mark.parametrize("name", READERS)
def test_objects_in_files_run_nothing(tmp_path, name):
    target = tmp_path / "created"
    folder = tmp_path / "files"
    folder.mkdir()
    objects = np.full((2, 1), Command(target), object)
    with pytest.raises(ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Some warn that the file is no published one.
        READERS[name](folder, objects)
    assert not target.exists()


class Call(NamedTuple):
    """A call in the source: ``owner.name(…)``, or ``name(…)`` with an empty owner."""

    where: str
    owner: str
    name: str
    arguments: list
    keywords: dict


def calls():
    """Yields the calls in the modules of the package and of ``launch``."""
    paths = [*PACKAGE.rglob("*.py"), *pathlib.Path(launch.__file__).parent.glob("*.py")]
    for path in sorted(paths):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            function, owner = node.func, ""
            if isinstance(function, ast.Attribute):
                owner, name = ast.unparse(function.value), function.attr
            else:
                name = ast.unparse(function)
            values = [getattr(value, "value", "?") for value in node.args]
            given = {k.arg: getattr(k.value, "value", "?") for k in node.keywords}
            where = f"{path.parent.name}/{path.name}:{node.lineno}"
            yield Call(where, owner, name, values, given)


def test_no_module_calls_a_reader_that_runs_code():
    found = [
        call
        for call in calls()
        if (call.owner, call.name) in RUNNING
        or (not call.owner and call.name in ("eval", "exec"))
        or call.keywords.get("allow_pickle")
        or call.keywords.get("shell")
    ]
    assert not found


def test_every_file_is_written_whole_or_not_at_all():
    # Rows, events and logs grow by appended lines; all else takes a new name first.
    found = []
    for call in calls():
        modes = [a for a in (*call.arguments, call.keywords.get("mode")) if a]
        opens = call.name == "open" and any(
            isinstance(mode, str) and re.fullmatch("[wx][bt+]*", mode) for mode in modes
        )
        writes = call.name in ("write_text", "write_bytes") and call.owner
        if (opens or writes) and call.owner not in ("partial", "files"):
            found.append(call)
    # The null device, for processes whose output is dropped.
    assert {call.where.partition(":")[0] for call in found} == {
        "commands/process.py",
        "training/processes.py",
    }
