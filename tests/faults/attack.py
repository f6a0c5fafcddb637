"""Attacks on real processes: kills, signals, limits, two writers.

This process imports the library and uses no device; each attacked process is a fork of
it, which begins at once. Afterwards the same command must give the same result as
without the attack.
"""

import contextlib
import gc
import importlib
import json
import os
import pathlib
import pkgutil
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import PIL.Image

import disentangle_jax
from disentangle_jax import files, main, training
from disentangle_jax.commands import process
from disentangle_jax.data import streaming
from disentangle_jax.experiments import capacity
from launch import sweep as launcher
from tests.launch import tiny_sweep

# Imported once and left alone by the garbage collector, so that forks begin at once.
for _module in pkgutil.walk_packages(disentangle_jax.__path__, "disentangle_jax."):
    if not _module.name.endswith("__main__"):
        importlib.import_module(_module.name)
streaming.import_tensorflow()
PIL.Image.init()
gc.freeze()

FILE = """
from ml_collections import ConfigDict
from tests.training import tiny

def get_config(preset=""):
    steps = 4 if preset == "protocol" else 24
    config = tiny.config(num_steps=steps, log_every=2, checkpoint_every=4)
    config.method.name = "beta_vae"
    config.method.beta = 1.0
    if preset == "lanes":
        config.lanes.sweep["method.beta"] = (1.0, 4.0)
    if preset == "protocol":
        config.method = {"name": "annealed_vae", "c_max": 25.0}
        options = {"name": "capacity", "capacities": (1.0, 4.0), "pairs": 50}
        config.experiment = ConfigDict(options)
    return config
"""


class Scenario(NamedTuple):
    """A command that is attacked.

    Attributes:
      name: what it does.
      main: the function of the command.
      argv: its arguments, with WORKDIR for the folder that it writes to.
      begun: folder that it begins with; None for none.
      seconds: of the processor that it takes.
      outcome: what it leaves in its folder.
    """

    name: str
    main: Callable[[list[str]], int]
    argv: list[str]
    begun: pathlib.Path | None = None
    seconds: float = 0.0
    outcome: dict[str, Any] | None = None


class Ended(NamedTuple):
    """How a process ended.

    Attributes:
      code: its exit code, negative for a signal.
      said: its output.
      seconds: of the processor that it took.
    """

    code: int
    said: str
    seconds: float


def start(
    scenario: Scenario,
    workdir: pathlib.Path,
    log: pathlib.Path,
    prepare: Callable[[], None] = lambda: None,
) -> int:
    """Starts a scenario in a fork of this process; returns the number of the fork."""
    number = os.fork()
    if number:
        return number
    code = 99
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = (open(n, "w", closefd=False) for n in (1, 2))  # noqa: SIM115
        for ignored in (signal.SIGHUP, signal.SIGINT):  # By nohup, or a shell's `&`.
            signal.signal(ignored, signal.SIG_DFL)
        prepare()
        process.set_up()
        capacity._IMAGES = 20
        argv = [word.replace("WORKDIR", str(workdir)) for word in scenario.argv]
        code = scenario.main(argv)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def end(number: int, log: pathlib.Path) -> Ended:
    """Waits for a process."""
    _, status, used = os.wait4(number, 0)
    said = log.read_text(errors="replace")
    seconds = used.ru_utime + used.ru_stime
    return Ended(os.waitstatus_to_exitcode(status), said, seconds)


def wait(number: int, seconds: float) -> None:
    """Returns when a process has used the processor for so long, or has ended.

    Its progress, unlike the time of the day, does not depend on what else runs.
    """
    while True:
        text = pathlib.Path(f"/proc/{number}/stat").read_text()
        state, *fields = text.rpartition(")")[2].split()
        used = sum(map(int, fields[10:12])) / os.sysconf("SC_CLK_TCK")
        if state == "Z" or used >= seconds:
            return
        time.sleep(0.005)


def outcome(workdir: pathlib.Path) -> dict[str, Any]:
    """Returns what must be equal: states, metric rows, scores; and which reports are.

    Rates, times and the version of the source may differ.
    """
    found: dict[str, Any] = {}
    for path in sorted(workdir.rglob("*")):
        name = str(path.relative_to(workdir))
        if any(part.startswith((".", "damaged-")) for part in path.parts[1:]):
            continue
        if path.name == "metrics.jsonl":
            rows = training.read_metrics(path.parent)
            found[name] = [
                {k: v for k, v in row.items() if k != "images_per_second"}
                for row in rows
            ]
        elif path.name == "scores.json":
            scores = files.read_json(path)
            found[name] = [scores[key] for key in ("reconstruction", "metrics")]
        elif path.name == "result.json":
            found[name] = files.read_json(path)["values"]
        elif path.parent.name == "rows" and path.suffix == ".json":
            row = json.loads(path.read_bytes())["row"]
            found[name] = [row[key] for key in ("id", "scores", "finite")]
        elif path.name == "report.html" or path.name.startswith("claim."):
            found[name] = True
        elif path.name == "checkpoints":
            newest = max(int(p.name) for p in path.iterdir() if p.name.isdigit())
            hashes = path / str(newest) / "digests" / "metadata"
            found[name] = newest, json.loads(hashes.read_text())
    return found


class Count:
    """What attacks of one kind led to."""

    def __init__(self):
        self.tries = self.different = self.rows = self.tracebacks = self.wrong_codes = 0
        self.examples: list[str] = []

    @property
    def failed(self) -> int:
        """The number of failures."""
        return self.different + self.rows + self.tracebacks + self.wrong_codes

    def add(self, scenario: Scenario, ended: list[Ended], workdir: pathlib.Path):
        """Counts an attack, after which the command was run to its end."""
        self.tries += 1
        if any("Traceback (most recent call last)" in e.said for e in ended):
            self.tracebacks += 1
            self.examples.append(ended[0].said[-2000:] + ended[-1].said[-2000:])
        if ended[-1].code:
            self.wrong_codes += 1
            self.examples.append(f"{scenario.name}: {ended[-1]}")
            return
        found = outcome(workdir)
        differing = [
            name
            for name in scenario.outcome.keys() | found.keys()
            if found.get(name) != scenario.outcome.get(name)
        ]
        self.rows += any("metrics.jsonl" in n or "rows/" in n for n in differing)
        self.different += bool(differing)
        if differing:
            self.examples.append(f"{scenario.name}: {differing[:5]} differ")


class Attack:
    """The scenarios in a folder, and what was tried on them.

    Args:
      folder: an empty folder.
    """

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.counts: dict[str, Count] = {}
        self._log = folder / "log.txt"
        file = folder / "tiny_run.py"
        file.write_text(FILE)
        run = [f"--config={file}", "--workdir=WORKDIR"]
        lanes = [f"--config={file}:lanes", "--workdir=WORKDIR"]
        protocol = [f"--config={file}:protocol", "--workdir=WORKDIR"]
        sweep = [f"--config={tiny_sweep.__file__}", "--workdir=WORKDIR"]
        sweep += ["--cluster=debug", "--lanes=2", "--config.train.num_steps=8"]
        self.scenarios = [
            self._measured(Scenario("solo", main.main, run)),
            self._measured(Scenario("lanes", main.main, lanes)),
            self._measured(Scenario("sweep", launcher.main, sweep)),
            self._measured(Scenario("protocol", main.main, protocol)),
        ]
        trained = folder / "trained"
        self._ran(Scenario("train", main.main, ["train", *run]), trained)
        evaluate = ["evaluate", "WORKDIR"]
        self.scenarios.append(
            self._measured(Scenario("evaluation", main.main, evaluate, trained))
        )

    def _ran(self, scenario: Scenario, workdir: pathlib.Path) -> float:
        """Runs a scenario to its end; returns the seconds that it took."""
        self._begin(scenario, workdir)
        ended = end(start(scenario, workdir, self._log), self._log)
        if ended.code:
            raise RuntimeError(f"{scenario.name} fails without an attack: {ended}")
        return ended.seconds

    def _begin(self, scenario: Scenario, workdir: pathlib.Path) -> None:
        shutil.rmtree(workdir, ignore_errors=True)
        if scenario.begun is not None:
            shutil.copytree(scenario.begun, workdir)

    def _measured(self, scenario: Scenario) -> Scenario:
        """Returns a scenario with its outcome and its time."""
        workdir = self.folder / "reference"
        self._ran(scenario, workdir)  # Compiles.
        seconds = self._ran(scenario, workdir)
        print(f"{scenario.name}: {seconds:.1f} s", file=sys.stderr, flush=True)
        return scenario._replace(seconds=seconds, outcome=outcome(workdir))

    def kill(self, scenario: Scenario, chance: random.Random) -> None:
        """Kills a command, often twice, and runs it to its end."""
        workdir = self.folder / "attacked"
        self._begin(scenario, workdir)
        ended = []
        for _ in range(1 + (chance.random() < 0.3)):
            number = start(scenario, workdir, self._log)
            wait(number, chance.uniform(0.02, 1.0) * scenario.seconds)
            os.kill(number, signal.SIGKILL)
            ended.append(end(number, self._log))
        ended.append(end(start(scenario, workdir, self._log), self._log))
        self._count(f"kill -9: {scenario.name}").add(scenario, ended, workdir)

    def interrupt(self, scenario: Scenario, number: int, share: float) -> None:
        """Sends a signal after a share of the time, and runs the command again."""
        workdir = self.folder / "attacked"
        self._begin(scenario, workdir)
        child = start(scenario, workdir, self._log)
        wait(child, share * scenario.seconds)
        os.kill(child, number)
        ended = [end(child, self._log)]
        count = self._count(f"{signal.Signals(number).name}: {scenario.name}")
        # Before its own handlers, a process ends by the signal itself.
        if ended[0].code not in (0, 128 + number, -number):
            count.wrong_codes += 1
            count.examples.append(str(ended[0]))
        ended.append(end(start(scenario, workdir, self._log), self._log))
        count.add(scenario, ended, workdir)

    def limit(self, name: str, scenario: Scenario, prepare: Callable) -> None:
        """Runs a command under a limit, which it may not survive, and then without."""
        workdir = self.folder / "attacked"
        self._begin(scenario, workdir)
        ended = [end(start(scenario, workdir, self._log, prepare), self._log)]
        if ended[0].code not in (0, 1, 2):
            self._count(name).wrong_codes += 1
            self._count(name).examples.append(str(ended[0])[-500:])
        ended.append(end(start(scenario, workdir, self._log), self._log))
        self._count(name).add(scenario, ended, workdir)

    def write_twice(self, scenario: Scenario, chance: random.Random) -> None:
        """Starts a command a second time while it runs."""
        workdir = self.folder / "attacked"
        self._begin(scenario, workdir)
        other = self.folder / "other.txt"
        first = start(scenario, workdir, self._log)
        wait(first, chance.uniform(0.0, 0.8) * scenario.seconds)
        second = start(scenario, workdir, other)
        late, early = end(second, other), end(first, self._log)
        count = self._count(f"two writers: {scenario.name}")
        if sorted((early.code, late.code)) not in ([0, 0], [0, 2]):
            count.wrong_codes += 1
            count.examples.append(f"{early} {late}")
        whole = early if early.code == 0 else late
        count.add(scenario, [early, late, whole], workdir)

    def _count(self, name: str) -> Count:
        return self.counts.setdefault(name, Count())


def close_output() -> None:
    """Leaves standard output to a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 1)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 (until the end)


def small_files(size: int = 20_000) -> None:
    """Lets no file grow above a number of bytes, as a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def few_files() -> None:
    """Lets the process open few files."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))


def ascii_only() -> None:
    """Gives the process a terminal without Unicode."""
    sys.stdout.reconfigure(encoding="ascii", errors="strict")


LIMITS = {
    "closed standard output": close_output,
    "full disk": small_files,
    "few open files": few_files,
    "ASCII terminal": ascii_only,
}
