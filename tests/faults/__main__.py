"""Attacks the library and prints what happened.

    python -m tests.faults --kills=100 --flips=200 [--seed=0]

Kills, signals, limits and second writers hit real processes (solo, lanes, sweep,
protocol, evaluation); bits are flipped in every kind of file. Ends with code 1 where a
result differs without a word, rows are lost or doubled, or a traceback is printed.
"""

import argparse
import functools
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR",
    os.path.join(tempfile.gettempdir(), "disentangle_jax_fault_programs"),
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

from tests.faults import attack, flips


def _flips(folder: pathlib.Path, count: int, seed: int) -> dict[str, flips.Flips]:
    """Flips bits in a fork, as this process uses no device."""
    folder.mkdir()
    number = os.fork()
    if number == 0:
        code = 1
        try:
            output = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT)
            os.dup2(output, 1)
            found = flips.flip_all(folder, count, seed)
            (folder / "found.json").write_text(json.dumps(found))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.waitpid(number, 0)
    found = json.loads((folder / "found.json").read_text())
    return {name: flips.Flips(*values) for name, values in found.items()}


def _attacks(folder: pathlib.Path, kills: int, seed: int) -> attack.Attack:
    folder.mkdir()
    attacked = attack.Attack(folder)
    chance = random.Random(seed)
    for number in range(kills):
        kind = attacked.scenarios[number % len(attacked.scenarios)]
        began = time.monotonic()
        attacked.kill(kind, chance)
        failed = sum(count.failed for count in attacked.counts.values())
        seconds = time.monotonic() - began
        _say(f"kill {number + 1} of {kills}: {seconds:.1f} s, {failed} failures so far")
        if number % 25 == 24:  # Should the rest never come.
            _show_attacks(attacked)
    for _ in range(1 + kills // 50):
        for kind in attacked.scenarios:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                attacked.interrupt(kind, number, chance.uniform(0.02, 1.0))
    _say("signals are sent")
    solo = attacked.scenarios[0]
    for name, prepare in attack.LIMITS.items():
        attacked.limit(name, solo, prepare)
    for size in (1_000, 4_000, 60_000, 200_000):
        attacked.limit("full disk", solo, functools.partial(attack.small_files, size))
    for _ in range(3):
        attacked.write_twice(solo, chance)
    return attacked


def _show_attacks(attacked: attack.Attack) -> int:
    """Prints the table of attacks; returns the number of failures."""
    print(
        "\n| attack | tries | different | rows lost or doubled | tracebacks | codes |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    failed = 0
    for name, count in sorted(attacked.counts.items()):
        wrong = (count.different, count.rows, count.tracebacks, count.wrong_codes)
        print(f"| {name} | {count.tries} | {' | '.join(map(str, wrong))} |", flush=True)
        failed += count.failed
        for example in count.examples[:3]:
            _say(example)
    return failed


def _show_flips(flipped: dict[str, flips.Flips]) -> int:
    """Prints the table of flipped bits; returns the number of failures."""
    print("| bit flips in | tries | noticed | harmless | silent differences |")
    print("| --- | --- | --- | --- | --- |")
    for name, found in flipped.items():
        print(f"| {name} | {' | '.join(map(str, found))} |", flush=True)
    return sum(found.silent for found in flipped.values())


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--flips", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    began = time.monotonic()
    failed = 0
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        if args.flips:
            failed += _show_flips(_flips(folder / "flips", args.flips, args.seed))
        attacked = _attacks(folder / "attacks", args.kills, args.seed)
        failed += _show_attacks(attacked)
    print(f"\n{failed} failures, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
