"""Wrong input is answered by one line that names the cause; right input is accepted."""

import gzip
import io
import os
import pathlib
import pickle
import shutil
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import data, losses, main, metrics, models, training
from disentangle_jax import sweep as sweep_lib
from disentangle_jax.metrics import score
from launch import sweep as launcher
from tests.faults import corpus, library_corpus
from tests.launch import tiny_sweep
from tests.training import tiny

FILES = {
    "TINY": "from tests.faults.test_corpus import get_config",
    "SYNTAX": "def get_config(preset=''):\n    return (",
    "NO_GET_CONFIG": "def config(preset=''):\n    return None",
    "RAISES": "def get_config(preset=''):\n    return 1 / 0",
    "NOT_A_CONFIG": "def get_config(preset=''):\n    return {'train': 1}",
    "NO_ARGUMENT": "def get_config():\n    return None",
    "UNKNOWN_IMPORT": "import no_such_module",
    "HALF_A_CONFIG": "from ml_collections import ConfigDict\n"
    "def get_config(preset=''):\n    return ConfigDict({'train': {'seed': 1}})",
}


def get_config(preset=""):
    from disentangle_jax import config as config_lib

    config_lib.check_preset("tiny", preset, ())
    config = tiny.config(num_steps=2, checkpoint_every=2)
    config.method.name = "beta_vae"
    config.method.beta = 1.0
    return config


# Scores that draw their own batches take test arrays, and do not use them.
DRAWING = ("beta_vae_score", "factor_vae_score", "z_max_var")


class Answers:
    """Collects the answers to cases; fails with a list of those that are wrong."""

    def __init__(self):
        self._wrong, self._count = [], 0

    def __enter__(self):
        return self

    def add(self, case, part, code, said):
        """Takes an answer: the exit code of a command, and what it said."""
        self._count += 1
        right = code == 0
        if part != corpus.OK:
            right = code == 2 and part in said and said.strip().count("\n") == 0
        if not right:
            self._wrong.append(f"{case}: wanted {part!r}, got {code}: {said.strip()}")

    def command(self, case, part, main, argv, capsys):
        """Runs a command and takes its answer."""
        try:
            code = main(argv)
        except BaseException as error:  # What a user would see as a traceback.
            if not isinstance(error, SystemExit):
                capsys.readouterr()
                self.add(case, part, -1, f"{type(error).__name__}: {error}")
                return
            code = error.code  # Of argparse, whose last line is the answer.
        said = capsys.readouterr().err
        self.add(case, part, code, said.splitlines()[-1] if said else "")

    def call(self, case, part, function):
        """Calls a function of the library and takes its answer."""
        code, said = 0, ""
        try:
            function()
        except (ValueError, TypeError, FileNotFoundError) as error:
            code, said = 2, str(error)
        except Exception as error:
            code, said = -1, f"{type(error).__name__}: {error}"
        self.add(case, part, code, said)

    def __exit__(self, kind, *_):
        if kind is None:
            shown = "\n".join(line[:300] for line in self._wrong)
            assert not self._wrong, f"{len(self._wrong)} of {self._count}:\n{shown}"


@pytest.fixture(scope="module")
def places(tmp_path_factory, tiny_lanes):
    """The files and folders that cases name in capitals."""
    folder = tmp_path_factory.mktemp("corpus")
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "NEW").mkdir()
    (folder / "BINARY.py").write_bytes(bytes(range(256)))
    (folder / "FILE").write_text("text")
    (folder / "FOLDER").mkdir()
    np.save(folder / "FLOATS.npy", np.zeros(3))
    np.save(folder / "BEYOND.npy", np.array([-1, 10**9]))
    np.save(folder / "PICKLED.npy", np.array([{}], object), allow_pickle=True)
    np.savez(folder / "CODES.npz", codes=np.zeros((3, 2)))
    training.start_workdir(get_config(), folder / "UNTRAINED")
    shutil.copytree(tiny_lanes.workdir, folder / "RUN")
    for name, file in (
        ("DAMAGED_CONFIG", "config.json"),
        ("DAMAGED_SCORES", "scores.json"),
    ):
        shutil.copytree(folder / "UNTRAINED", folder / name)
        (folder / name / file).write_text("{")
    return {path.stem: str(path) for path in folder.iterdir()}


def filled(text: str, places: dict[str, str]) -> str:
    """Returns a case with the paths of the places that it names."""
    words = [
        "/".join(places.get(part, part) for part in word.split("/"))
        for word in text.replace("=", " = ").replace(":", " : ").split(" ")
    ]
    return " ".join(words).replace(" = ", "=").replace(" : ", ":")


@pytest.fixture
def checked_only(monkeypatch, tmp_path):
    """Lets commands be checked, and not run, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(main, "_run", lambda work: 0)
    tiny.show_devices(monkeypatch, 1)


def test_commands(places, checked_only, capsys):
    with Answers() as answers:
        for case, part in corpus.COMMANDS:
            argv = filled(case, places).split()
            answers.command(case, part, main.main, argv, capsys)


def test_fields(places, checked_only, capsys):
    with Answers() as answers:
        for case, part in corpus.FIELDS:
            fields = filled(case, places).split(" --config.")
            argv = [f"--config={places['TINY']}"]
            argv += [f"--config.{field}" for field in fields]
            answers.command(case, part, main.main, argv, capsys)


def test_models():
    with Answers() as answers:
        for name, overrides, part in library_corpus.MODELS:
            answers.call(
                f"{name} {overrides}",
                part,
                lambda: models.create(name, (64, 64, 3), **overrides),  # noqa: B023
            )


def test_metrics(rng):
    given = {
        "np": np,
        "codes": rng.normal(size=(20, 3)),
        "factors": rng.integers(0, 3, (20, 2)),
    }
    names = metrics.names(needs=("factors",), cost=("fast",))
    with Answers() as answers:
        for case, part in library_corpus.METRICS:
            used = names if part else ("mig", "sap")
            if "_test" in case:
                used = [name for name in names if name not in DRAWING]
            for name in used:
                call = f"function({case})"
                scope = {**given, "function": getattr(metrics, name)}
                answers.call(
                    f"{name}({case})",
                    part,
                    lambda: eval(call, scope),  # noqa: B023
                )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # Of NumPy, at huge codes.
def test_a_score_that_is_nan_has_a_reason(rng):
    codes, factors = rng.normal(size=(40, 3)), rng.integers(0, 3, (40, 2))
    one = factors * [1, 0]
    degenerate = {
        "constant codes": (0 * codes, factors),
        "one constant code": (codes * [1, 0, 1], factors),
        "equal codes": (codes[:, [0, 0, 0]], factors),
        "one code": (codes[:, :1], factors),
        "one constant factor": (codes, one),
        "one factor": (codes, factors[:, :1]),
        "equal factors": (codes, factors[:, [0, 0]]),
        "two rows": (codes[:2], np.array([[0, 0], [1, 1]])),
        "factors without repeats": (codes, np.arange(80).reshape(40, 2)),
        "huge codes": (codes * 1e300, factors),
        "tiny codes": (codes * 1e-300, factors),
    }
    names = metrics.names(needs=("factors", "codes"), cost=("fast",))
    undefined = 0
    for case, (given, known) in degenerate.items():
        found = metrics.evaluate(given, known, scores=names)
        for name, values in found.items():
            wrong = [key for key, value in values.items() if np.isnan(value)]
            undefined += len(wrong)
            if wrong:
                assert len(found.errors.get(name, "")) > 20, (case, name, wrong)
    assert undefined > 5


def test_losses():
    with Answers() as answers:
        for name, shapes, keywords, part in library_corpus.LOSSES:
            arrays = [None if s is None else jnp.full(s, 0.5) for s in shapes]
            answers.call(
                f"{name}{shapes} {keywords}",
                part,
                lambda: getattr(losses, name)(*arrays, **keywords),  # noqa: B023
            )


def write_content(path: pathlib.Path, kind: str) -> None:
    """Writes what is no publisher's file."""
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.txt", "text")
    elif kind == "gzip":
        path.write_bytes(gzip.compress(b"text"))
    elif kind == "pickle":
        path.write_bytes(pickle.dumps({"a": [1]}))
    else:
        path.write_text("text" if kind == "text" else "")


def test_publishers_files(tmp_path):
    names = [n for n in data.names() if data.describe(n).fetch and n != "image_folder"]
    with Answers() as answers:
        for name in names:
            for kind in corpus.CONTENTS:
                folder = tmp_path / name / kind
                folder.mkdir(parents=True)
                for file in corpus.FILES.get(name) or data.describe(name).patterns[:1]:
                    path = folder / file.replace("*", "x")
                    path.parent.mkdir(parents=True, exist_ok=True)
                    write_content(path, kind)
                answers.call(
                    f"{name} of {kind}",
                    str(folder),
                    lambda: data.load(name, data_dir=folder),  # noqa: B023
                )
                assert list(folder.iterdir()), name


def score_file(path: pathlib.Path, kind: str, rng) -> None:
    """Writes a file for the score command."""
    codes, factors = rng.normal(size=(20, 3)), rng.integers(0, 3, (20, 2))
    arrays = {
        "whole": {},
        "nan": {"codes": codes * np.nan},
        "strings": {"codes": codes.astype(str)},
        "objects": {"codes": codes.astype(object)},
        "lengths": {"codes": codes[:-1]},
        "one row": {"codes": codes[:1], "factors": factors[:1]},
        "no rows": {"codes": codes[:0], "factors": factors[:0]},
        "scalars": {"codes": np.array(1.0), "factors": np.array(1)},
        "constant": {"factors": 0 * factors},
        "test codes only": {"codes_test": codes},
        "bad groups": {"groups": np.array([1, 1])},
        "group names": {"groups": np.array(["a", "b"])},
    }
    if kind in ("folder", "pipe", "empty", "text", "pickle"):
        write_content(path, kind)
    elif kind == "npy":
        with path.open("wb") as file:
            np.save(file, codes)
    elif kind in ("no codes", "no factors", "nothing"):
        kept = {"no codes": {"factors": factors}, "no factors": {"codes": codes}}
        np.savez(path, **kept.get(kind, {}))
    elif kind != "missing":
        buffer = io.BytesIO()
        np.savez(buffer, **{"codes": codes, "factors": factors, **arrays.get(kind, {})})
        content = bytearray(buffer.getvalue())
        if kind == "flipped":
            content[300] ^= 16
        path.write_bytes(content[: len(content) // 2] if kind == "cut" else content)


def test_score_command(tmp_path, rng, capsys):
    with Answers() as answers:
        for number, (kind, options, part) in enumerate(corpus.SCORES):
            path = tmp_path / f"{number}.npz"
            score_file(path, kind, rng)
            argv = [str(path), *options.split()]
            if part == corpus.OK and not options:
                argv.append("--scores=mig")
            answers.command(f"{kind} {options}", part, score.main, argv, capsys)


def test_sweep_files(tmp_path):
    file = tmp_path / "file.py"
    with Answers() as answers:
        for body, part in corpus.SWEEPS:
            file.write_text(
                "from tests.launch.tiny_sweep import get_config\n"
                f"def sweep(add, preset=''):\n    {body}\n"
            )
            answers.call(body, part, lambda: sweep_lib.expand(str(file)))


def test_sweep_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tiny.show_devices(monkeypatch, 1)
    monkeypatch.setattr(launcher.work, "work", lambda *_, **__: None)
    monkeypatch.setattr(launcher.slurm.shutil, "which", lambda _: None)  # No Slurm.
    sweep_lib.create(sweep_lib.expand(tiny_sweep.__file__), tmp_path / "SWEEP", lanes=2)
    manifest = (tmp_path / "SWEEP" / "manifest.jsonl").read_bytes()
    for name, content in (
        ("CUT_MANIFEST", manifest[:-80]),
        ("EMPTY_MANIFEST", b""),
        ("BINARY_MANIFEST", bytes(range(256))),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.jsonl").write_bytes(content)
    (tmp_path / "FILE").write_text("text")
    (tmp_path / "RUN_FILE.py").write_text(FILES["TINY"])
    (tmp_path / "TWINS.py").write_text(
        "from tests.launch.tiny_sweep import get_config\n"
        "def sweep(add, preset=''):\n"
        "    for beta in (1.0, 1.00000001):\n"
        "        add({'method.beta': beta}, strength=beta)\n"
    )
    places = {path.stem: str(path) for path in tmp_path.iterdir()}
    places["TINY"] = tiny_sweep.__file__
    with Answers() as answers:
        for case, part in corpus.SWEEP_COMMANDS:
            argv = filled(case, places).split()
            answers.command(case, part, launcher.main, argv, capsys)
    assert not (tmp_path / "W").exists()


def test_the_corpus_is_large():
    named = [*vars(corpus).items(), *vars(library_corpus).items()]
    lists = [value for name, value in named if name.isupper()]
    cases = sum(len(value) for value in lists if isinstance(value, list))
    assert cases >= 300
