"""The README's Python examples run as they stand, in the order of the page."""

import pathlib
import re

import numpy as np
import pytest

from disentangle_jax import config, main
from tests.training import tiny
from tests.users.test_own_data import TINY, squares, tiny_config

README = pathlib.Path(__file__).parents[2] / "README.md"
SECTIONS = ("In Python", "Your own data", "Your model back", "Score your own codes")


def blocks(section: str, kind: str) -> list[str]:
    """Returns the code blocks of a section of the README."""
    parts = re.split(r"^#+ (.*)$", README.read_text(), flags=re.MULTILINE)
    texts = dict(zip(parts[1::2], parts[2::2]))
    if section not in texts:
        pytest.skip(f"the README has no section {section!r}")
    return re.findall(rf"^```{kind}\n(.*?)^```$", texts[section], re.DOTALL | re.M)


def test_the_python_examples(tmp_path, monkeypatch):
    tiny.show_devices(monkeypatch, 1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "load", lambda file: tiny_config())
    images, factors = squares()
    codes = factors + 0.1 * np.random.default_rng(0).normal(size=factors.shape)
    names = {"images": images, "factors": factors}
    examples = [block for section in SECTIONS for block in blocks(section, "python")]
    assert len(examples) == len(SECTIONS)
    for example in examples:
        if "metrics.evaluate(codes, factors))" in example:
            example = example.replace("factors))", 'factors, scores="mig"))')
        elif "metrics.evaluate" in example:
            # Two fast scores: the example shows how, not how long it takes.
            example = example.replace(
                'options={"mig": {"bins": 40}}',
                'scores="mig,dci", options={"mig": {"bins": 40}, '
                '"dci": {"estimator": "forest"}}',
            )
            names |= {"codes": codes[:200], "theirs": codes[:200] + 0.3}
            names["factors"] = factors[:200]
        exec(compile(example, str(README), "exec"), names)
    assert names["pictures"].shape == images.shape
    assert names["walks"].shape == (3, 9, 64, 64, 3)
    assert len(names["rows"]) == 5 and names["both"].differences()


def test_the_command(tmp_path, monkeypatch):
    tiny.show_devices(monkeypatch, 1)
    monkeypatch.chdir(tmp_path)
    images, factors = squares()
    np.savez("my.npz", images=images, factors=factors)
    command = blocks("Your own data", "")[0].replace("\\\n", "").split()
    assert command[0] == "disentangle"
    assert main.main([*command[1:], *TINY, "--config.eval.scores=mig"]) == 0
    assert (tmp_path / "runs" / "own" / "report.html").exists()
