"""Several models: tables, files, and paired intervals of their differences."""

import csv
import json

import numpy as np
import pytest

from disentangle_jax import metrics
from disentangle_jax.metrics import score


@pytest.fixture
def models(rng):
    factors = rng.integers(4, size=(400, 2))
    noise = rng.normal(size=(400, 2))
    # The second model is the first with a little more of the same noise.
    return {"a": factors + 0.5 * noise, "b": factors + 0.6 * noise}, factors


@pytest.fixture
def files(models, tmp_path):
    codes, factors = models
    for name, own in codes.items():
        np.savez(tmp_path / f"{name}.npz", codes=own, factors=factors)
    return [str(tmp_path / f"{name}.npz") for name in codes]


def test_rows_and_pandas(models):
    codes, factors = models
    found = metrics.evaluate(codes["a"], factors, scores="mig,med", intervals=True)
    rows = found.to_rows()
    assert [(r["score"], r["key"]) for r in rows] == [
        ("mig", "mig"), ("med", "med"), ("med", "completeness")
    ]  # fmt: skip
    assert rows[0]["value"] == found["mig"]["mig"]
    assert (rows[0]["low"], rows[0]["high"]) == found["mig"].intervals["mig"]
    assert rows[2]["low"] is None and rows[0]["settings"]["bins"] == 20
    pandas = pytest.importorskip("pandas")
    frame = found.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 3


def test_pandas_is_optional(models, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    found = metrics.evaluate(models[0]["a"], models[1], scores="mig")
    with pytest.raises(ImportError, match="pandas is not installed; install it, or"):
        found.to_pandas()


def test_paired_intervals_against_a_loop(models):
    """The interval of a difference is that of the differences on shared resamples."""
    codes, factors = models
    both = metrics.compare(codes, factors, scores="mig", resamples=30, seed=4)
    (row,) = both.differences()
    a, b = (both[name]["mig"] for name in codes)
    drawn = []
    weights = np.asarray(metrics.intervals._bootstrap_weights(
        metrics.inputs.as_key("test", 4), resamples=30, rows=400
    )).astype(int)  # fmt: skip
    for count in weights:
        rows = np.repeat(np.arange(400), count)
        mig = []
        for own in codes.values():
            # The bins are those of all rows.
            edges = [np.linspace(*np.percentile(c, [0, 100]), 21)[1:-1] for c in own.T]
            bins = [np.digitize(c, e) for c, e in zip(own.T, edges)]
            mig.append(_mig([c[rows] for c in bins], factors[rows].T))
        drawn.append(mig)
    difference = np.subtract(*np.array(drawn).T)
    low, high = np.percentile(difference - difference.mean(), [2.5, 97.5])
    assert row["difference"] == pytest.approx(float(a) - float(b))
    assert row["low"] == pytest.approx(row["difference"] + low, abs=1e-5)
    assert row["high"] == pytest.approx(row["difference"] + high, abs=1e-5)
    # Pairing removes what both models share: the interval is narrower.
    alone = [np.ptp(both[name]["mig"].intervals["mig"]) for name in codes]
    assert row["high"] - row["low"] < 0.8 * np.hypot(*alone)


def _mig(codes, factors):
    def entropy(*columns):
        _, count = np.unique(np.stack(columns), axis=1, return_counts=True)
        p = count / count.sum()
        return -np.sum(p * np.log(p))

    gaps = []
    for f in factors:
        mi = sorted(entropy(c) + entropy(f) - entropy(c, f) for c in codes)
        gaps.append((mi[-1] - mi[-2]) / entropy(f))
    return np.mean(gaps)


def test_table_of_several_files(files, capsys):
    assert score.main([*files, "--scores=mig,med", "--intervals"]) == 0
    out = capsys.readouterr().out
    head, mig, *_ = out.splitlines()
    assert head.split() == ["score", *files]
    assert mig.split()[0] == "mig" and len(mig.split()) == 3
    assert "paired bootstrap 95 %" in out and f"{files[0]} - {files[1]}" in out


def test_csv_latex_and_json(files, tmp_path, capsys):
    path = tmp_path / "out.csv"
    assert score.main([*files, "--scores=mig", f"--csv={path}"]) == 0
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == files
    assert json.loads(rows[0]["settings"])["bins"] == 20
    capsys.readouterr()
    assert score.main([*files, "--scores=mig_sup", "--latex"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == r"\begin{tabular}{lrr}" and lines[-1] == r"\end{tabular}"
    assert lines[3].startswith(r"mig\_sup & 0.")
    assert score.main([*files, "--scores=mig", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == set(files)
    option = '--options={"mig": {"bins": 7}}'
    assert score.main([files[0], "--scores=mig", "--json", option]) == 0
    assert json.loads(capsys.readouterr().out)["mig"]["settings"]["bins"] == 7


def test_other_observations_are_not_paired(files, tmp_path, capsys):
    with np.load(files[1]) as arrays:
        np.savez(files[1], codes=arrays["codes"][:300], factors=arrays["factors"][:300])
    assert score.main([*files, "--scores=mig", "--intervals"]) == 0
    out = capsys.readouterr().out
    assert "no differences: the files have different factors" in out
    assert "paired" not in out


def test_what_is_refused(models, files, capsys):
    codes, factors = models
    with pytest.raises(ValueError, match="`codes_test` must have the models of"):
        metrics.compare(codes, factors, codes_test={"a": codes["a"]})
    assert score.main([files[0], files[0]]) == 2
    assert "each file must be named once" in capsys.readouterr().err
