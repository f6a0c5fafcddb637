"""The tables of the papers' items: every row has a status and a command that works.

A command is prepared as it stands; where a publisher's file is missing it must say what
to fetch, and is prepared again with generated images. One command of each protocol is
run to its end in small.
"""

import pathlib
import re
import shlex
from typing import NamedTuple

import pytest

from disentangle_jax import commands, evaluation, experiments, reports, sweep, training
from disentangle_jax import config as config_lib
from tests.experiments import small

ROOT = pathlib.Path(__file__).parents[2]
PROGRAMS = {
    ("python", "-m", "disentangle_jax.main"): [],
    ("python", "-m", "launch.sweep"): ["sweep"],
    ("disentangle",): [],
}
# Protocols that take less than ten seconds on two cores.
FAST = ("capacity", "factor_importance", "impossibility")


class Item(NamedTuple):
    """A row of the tables."""

    paper: str
    item: str
    commands: tuple[str, ...]
    status: str


def parsed(text: str) -> dict[str, list[Item]]:
    """Returns the rows by paper."""
    found: dict[str, list[Item]] = {}
    for line in text.splitlines():
        if line.startswith("## "):
            paper = line[3:].partition(":")[0]
            found[paper] = []
        elif line.startswith("| ") and line != "| item | command | status |":
            item, command, status = (
                cell.strip() for cell in line.strip("|").split("|")
            )
            written = tuple(re.findall("`([^`]*)`", command))
            found[paper].append(Item(paper, item, written, status))
    return found


ITEMS = parsed((ROOT / "configs" / "experiments" / "README.md").read_text())
COMMANDS = list(dict.fromkeys(c for rows in ITEMS.values() for r in rows for c in r[2]))


def arguments(command: str) -> list[str]:
    """Returns the name of a command and its arguments.

    Weights for FID, which are the user's file, are left out.
    """
    words = shlex.split(command)
    for program, name in PROGRAMS.items():
        if tuple(words[: len(program)]) == program:
            words = name + words[len(program) :]
            break
    else:
        raise ValueError(f"no program of ours: {command}")
    if words[0].startswith("--"):
        words.insert(0, "run")
    return [w for w in words if not w.startswith("--config.eval.fid_weights=")]


def config_of(command: str):
    """Returns the config of a command that trains, else None."""
    name, *words = arguments(command)
    files = [word.removeprefix("--config=") for word in words if "--config=" in word]
    if name not in ("run", "train") or not files:
        return None
    overrides = [word for word in words if word.startswith("--config.")]
    return config_lib.load(str(ROOT / files[0]), overrides)


def prepare(command: str, workdir: pathlib.Path) -> None:
    """Does everything that the command does before it trains."""
    name, *words = arguments(command)
    words = [word for word in words if not word.startswith("--workdir=")]
    if name == "sweep":
        (file,) = (word for word in words if word.startswith("--config="))
        overrides = [word for word in words if word.startswith("--config.")]
        assert sweep.expand(file.removeprefix("--config="), overrides).models
    elif name in ("run", "train"):
        commands.get(name)([*words, f"--workdir={workdir}"])
    else:
        commands.get(name)  # Of a finished run, or a list.


def test_five_papers_and_their_statuses():
    assert [*ITEMS] == [f"Paper {number}" for number in range(1, 6)]
    for rows in ITEMS.values():
        assert len({row.item for row in rows}) == len(rows)
        for row in rows:
            # `ours` marks what the paper does not have.
            known = re.fullmatch(r"paper|(differs|no|ours): .+", row.status)
            assert known, f"{row.paper}, {row.item}: {row.status!r}"
            assert bool(row.commands) != row.status.startswith("no"), row.item


def test_every_table_and_figure_of_paper_5_has_a_row():
    text = " ".join(row.item for row in ITEMS["Paper 5"])
    numbers = {int(n) for n in re.findall(r"Fig\. (\d+)", text)}
    assert numbers == set(range(1, 13))
    assert {int(n) for n in re.findall(r"Table (\d+)", text)} == set(range(1, 6))


@pytest.mark.parametrize("command", COMMANDS)
def test_command_is_prepared_or_says_what_to_fetch(command, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DISENTANGLE_DATA_DIR", str(tmp_path / "empty"))
    try:
        prepare(command, tmp_path / "run")
    except FileNotFoundError as error:
        assert "Fetch" in str(error)
        small.generate_files(monkeypatch)
        prepare(command, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_wrong_commands_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    start = "python -m disentangle_jax.main --config=configs/experiments"
    for command, message in (
        (f"{start}/capacity.py:paper", "preset"),
        (f"{start}/nothing.py", "there is no file"),
        (f"{start}/capacity.py --config.experiment.knwon=1", "Did you mean 'known'"),
        ("python -m something.else", "no program of ours"),
    ):
        with pytest.raises(ValueError, match=message):
            prepare(command, tmp_path)


def _whole():
    """Yields one command of each protocol, and one that trains a single run."""
    seen = set()
    for command in COMMANDS:
        config = config_of(command)
        if config is None:
            continue
        name = config.experiment.name if "experiment" in config else "run"
        if name not in seen:
            seen.add(name)
            marks = () if name in FAST else pytest.mark.slow
            yield pytest.param(command, id=name, marks=marks)


@pytest.mark.parametrize("command", [*_whole()])
def test_whole_path_in_small(command, tmp_path, monkeypatch):
    small.generate_files(monkeypatch)
    config = small.config(config_of(command))
    if "experiment" in config:
        page = experiments.run(experiments.prepare(config, tmp_path))
    else:
        run = training.prepare(config, tmp_path)
        training.train(run)
        evaluation.evaluate(run)
        page = reports.write(evaluation.folders(run)[0])
    assert page.exists()


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["symbols", "shapes3d"])
def test_other_datasets_of_paper_5_in_small(preset, tmp_path, monkeypatch):
    small.generate_files(monkeypatch)
    file = ROOT / "configs" / "experiments" / "relations.py"
    config = small.config(config_lib.load(f"{file}:{preset}"))
    assert experiments.run(experiments.prepare(config, tmp_path)).exists()
