"""Results are stored as rows, and the page of findings is made from them alone."""

import json
import pathlib
import re
import runpy

import pytest

from disentangle_jax import commands
from disentangle_jax import config as config_lib
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


def test_lines_are_in_the_order_of_their_numbers(tmp_path):
    (tmp_path / "findings.py").write_text(
        FINDINGS.replace('"line",', 'row["model"],').replace("['line']", "['a, 9.5']")
    )
    folder = tmp_path / "results"
    folder.mkdir()
    names = ("b 1", "a, 10", "a, 9.5", "a, 9")
    results.write_csv(folder / "tiny.csv", [{"model": n, "mse": 1} for n in names])
    ((_, groups),) = results.load(folder)
    assert list(groups) == ["a, 9", "a, 9.5", "a, 10", "b 1"]


def test_published_page_and_readme_equal_the_rows():
    loaded = results.load(STUDIES / "results")
    assert (STUDIES / "RESULTS.md").read_text() == results.page(loaded)
    readme = (STUDIES.parents[1] / "README.md").read_text()
    assert results.headlines(loaded) in readme
    pictures = {finding.picture: (finding, groups) for finding, groups in loaded}
    assert {p.name for p in (STUDIES / "pictures").iterdir()} == set(pictures)
    for name, drawn in pictures.items():
        stored = results.numbers_of_picture(STUDIES / "pictures" / name)
        assert stored == results.drawn_numbers(*drawn), name


def test_commands_of_findings_exist():
    paths = sorted(STUDIES.glob("findings*.py"))
    for finding in (f for p in paths for f in runpy.run_path(str(p))["FINDINGS"]):
        path = re.search(r"configs/[\w/]+\.py(:\w+)?", finding.command).group()
        config_lib.load(str(STUDIES.parents[1] / path))


def rule(command):
    """Returns the function that makes groups of rows and the rule of a finding."""
    paths = sorted(STUDIES.glob("findings*.py"))
    every = [f for p in paths for f in runpy.run_path(str(p))["FINDINGS"]]
    finding = next(f for f in every if f.command.endswith(command))

    def judged(*rows):
        groups = {}
        for model, fields, numbers in rows:
            row = {"model": model, "fields": json.dumps(fields)}
            row |= {name: str(value) for name, value in numbers.items()}
            groups.setdefault(finding.lines(row), []).append(row)
        return finding.judge({n: results.Group(g) for n, g in groups.items()})

    return judged


def test_extrapolation_compares_what_each_half_closes():
    judged = rule("extrapolation.py:mini")

    def rows(**errors):
        return [
            (f"{system}/{part}/lanes/seed=1", {}, {"novel_mse_x1000": error})
            for system in ("sae-12", "ae")
            for part, error in errors.items()
        ]

    found = judged(*rows(first=11.0, encoder=7.0, decoder=2.0, both=1.0))
    assert found.holds == "yes" and "sae-12 0.90 and 0.40" in found.ours
    assert judged(*rows(first=11, encoder=2, decoder=3, both=1)).holds == "no"


def test_capacity_needs_the_order_of_the_paper():
    judged = rule("capacity.py:mini")

    def rows(**first):
        return [
            (
                f"capacity-{capacity}/lanes/seed=1",
                {},
                {f"known.{n}": 0.5 * (capacity >= at) for n, at in first.items()},
            )
            for capacity in (5, 10, 15, 20)
        ]

    found = judged(*rows(x=5, y=5, scale=10, shape=15, orientation=99))
    assert found.holds == "yes" and "orientation never" in found.ours
    found = judged(*rows(x=5, y=5, scale=15, shape=10, orientation=20))
    assert found.holds == "partly"
    found = judged(*rows(x=10, y=10, scale=5, shape=15, orientation=20))
    assert found.holds == "no"
    # A factor that is forgotten again is not known yet.
    learned = rows(x=5, y=5, scale=5, shape=15, orientation=20)
    learned[1][2]["known.scale"] = 0.0
    found = judged(*learned)
    assert found.holds == "yes" and "scale 15 nats" in found.ours


def test_topics_and_terms_are_grouped_by_their_weights():
    judged = rule("topics.py:mini")
    vae = {"active_topics": 50, **dict.fromkeys(_CORRELATIONS, 0.5)}
    hfvae = {"active_topics": 8, **dict(zip(_CORRELATIONS, (0.4, 0.6)))}
    weights = {"method.beta": 0.1, "method.gamma": 4.0}
    rows = [("prodlda/a", {"method.beta": 1.0}, vae), ("prodlda/b", weights, hfvae)]
    assert judged(*rows).holds == "yes"
    rows[1] = ("prodlda/b", weights, {**hfvae, "active_topics": 50})
    assert judged(*rows).holds == "no"
    judged = rule("elbo_terms.py:mini")
    rows = [("terms/a", {}, {"information": 5, "evidence": -170, "marginal": 0})]
    for removed, values in (
        ("identifiability", (0, -200, 0)),
        ("information", (9, -160, 0)),
        ("evidence", (5, -500, 0)),
        ("marginal", (5, -170, 6)),
    ):
        numbers = dict(zip(("information", "evidence", "marginal"), values))
        rows.append(("terms/b", {f"method.{removed}": 0.0}, numbers))
    assert judged(*rows).holds == "yes"


_CORRELATIONS = ("topic_correlation.within", "topic_correlation.between")


def test_relations_are_judged_by_the_published_value_of_each_tau():
    judged = rule("relations.py:shapes3d_mini")

    def row(tau, region, chain):
        numbers = {"regions.accuracy": region}
        numbers |= {f"relations.prior.{depth}": chain for depth in (1, 10)}
        return f"absae/lanes/tau={tau}", {"method.tau": tau}, numbers

    assert judged(row(10.0, 0.2, 0.71), row(30.0, 0.4, 0.75)).holds == "yes"
    assert judged(row(10.0, 0.2, 0.75), row(30.0, 0.2, 0.75)).holds == "partly"
    assert judged(row(10.0, 0.9, 0.69), row(30.0, 0.3, 0.9)).holds == "no"
