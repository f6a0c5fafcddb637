"""Results are stored as rows, and the page of findings is made from them alone."""

import pathlib
import re
import runpy

import pytest

from disentangle_jax import commands
from disentangle_jax.reports import results

STUDIES = pathlib.Path(__file__).parents[2] / "configs" / "studies"

FINDINGS = """
from disentangle_jax.reports.results import Finding, Verdict
FINDINGS = [
    Finding("A claim", "Paper 0", "tiny", "command", lambda row: "line",
            {"mse": "error"},
            lambda g: Verdict("yes", f"{g['line'].mean('mse'):.3f}", "0"), "Short."),
    Finding("No results yet", "Paper 0", "absent", "command", None, {}, None, ""),
]
"""


def test_a_run_becomes_rows_and_a_page(tiny_lanes, tmp_path, capsys):
    from disentangle_jax import evaluation

    evaluation.evaluate(tiny_lanes)
    (tmp_path / "findings.py").write_text(FINDINGS)
    folder = tmp_path / "results"
    folder.mkdir()
    rows = results.model_rows(tiny_lanes.workdir)
    assert [row["seed"] for row in rows] == [lane.seed for lane in tiny_lanes.lanes]
    assert all(row["lanes"] == len(rows) and row["commit"] for row in rows)
    results.write_csv(folder / "tiny.csv", rows)
    assert commands.get("results")([f"--to={folder}"])() == 0
    text = (tmp_path / "RESULTS.md").read_text()
    mean = sum(row["mse"] for row in rows) / len(rows)
    assert f"| A claim (Paper 0) | {mean:.3f} | 0 | yes |" in text
    assert "No results yet" not in text
    # Another number gives another page.
    stored = (folder / "tiny.csv").read_text()
    value = f"{rows[0]['mse']:.6g}"
    (folder / "tiny.csv").write_text(stored.replace(value, "9", 1))
    assert results.page(results.load(folder)) != text


@pytest.mark.parametrize("folder", ["nothing"])
def test_folders_without_models_are_refused(folder, tmp_path):
    with pytest.raises(ValueError, match="holds no evaluated model"):
        results.model_rows(tmp_path / folder)


def test_published_page_and_readme_equal_the_rows():
    loaded = results.load(STUDIES / "results")
    assert (STUDIES / "RESULTS.md").read_text() == results.page(loaded)
    readme = (STUDIES.parents[1] / "README.md").read_text()
    assert results.summary(loaded) in readme


def test_commands_of_findings_exist():
    for finding in runpy.run_path(str(STUDIES / "findings.py"))["FINDINGS"]:
        path = re.search(r"configs/[\w/]+\.py", finding.command).group()
        assert (STUDIES.parents[1] / path).exists()
