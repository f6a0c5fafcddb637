"""The scripts of configs/examples run as a user starts them."""

import csv
import os
import runpy
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from tests.training import tiny
from tests.users.test_own_data import TINY

EXAMPLES = tiny.ROOT / "configs" / "examples"


def test_own_data(tmp_path, monkeypatch, capsys):
    tiny.show_devices(monkeypatch, 1)
    example = runpy.run_path(str(EXAMPLES / "own_data.py"))
    fields = [*TINY, "--config.eval.scores=mig,mcc", "--config.model.latent_dim=5"]
    scores = example["main"](str(tmp_path / "own"), *fields, count=400)
    assert set(scores) == {"mig", "mcc"} and not scores.errors
    assert scores["mig"].settings["continuous_factors"] == (0, 1)
    assert (tmp_path / "own" / "run" / "report.html").exists()
    with Image.open(tmp_path / "own" / "traversals.png") as picture:
        assert picture.size == (9 * 32, 5 * 32)
    out = capsys.readouterr().out
    assert "mcc" in out and "- dataset: npz" in out


def test_compare_codes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["compare_codes.py"])
    example = runpy.run_path(str(EXAMPLES / "compare_codes.py"))
    both = example["main"](str(tmp_path), count=300)
    assert both["aligned"]["mig"]["mig"] > both["rotated"]["mig"]["mig"] + 0.3
    out = capsys.readouterr().out
    assert "mig.mig: aligned − rotated = " in out and "0 is not in the interval" in out
    with (tmp_path / "scores.csv").open() as file:
        models = {row["model"] for row in csv.DictReader(file)}
    assert models == {"aligned", "rotated"}
    assert np.load(tmp_path / "rotated.npz")["codes"].shape == (300, 3)


@pytest.mark.slow
def test_the_commands(tmp_path):
    """At their full length, from another folder: the model learns the positions."""
    environment = {**os.environ, "PYTHONPATH": str(tiny.ROOT)}
    for name, last in (("compare_codes.py", "interval"), ("own_data.py", "mcc")):
        command = [sys.executable, EXAMPLES / name, tmp_path / "out"]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, text=True, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        assert last in done.stdout
