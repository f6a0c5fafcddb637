"""`evaluate`, its table and intervals, and the command."""

import json
import math
import subprocess
import sys

import jax
import numpy as np
import pytest

from disentangle_jax import metrics
from disentangle_jax.metrics import score as command

CHEAP = ("mig", "modularity", "irs", "mcc", "unsupervised")


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(11)
    factors = np.stack([rng.integers(s, size=400) for s in (3, 4)], axis=1)
    codes = factors @ np.array([[1.0, 0.3, 0.1], [0.2, 1.0, 0.4]])
    return codes + 0.3 * rng.normal(size=(400, 3)), factors


def test_evaluate_is_the_scores(arrays):
    result = metrics.evaluate(*arrays, scores=CHEAP)
    assert tuple(result) == CHEAP and not result.errors
    for name in CHEAP:
        one = getattr(metrics, name)(*arrays)
        assert dict(result[name]) == dict(one)
        assert result[name].settings == one.settings


def test_a_score_takes_options_in_parentheses(arrays):
    asked = "dci(estimator=logistic), mig,dci"
    result = metrics.evaluate(*arrays, scores=asked)
    assert tuple(result) == ("dci(estimator=logistic)", "mig", "dci")
    one = metrics.dci(*arrays, estimator="logistic")
    assert dict(result["dci(estimator=logistic)"]) == dict(one)
    assert result["dci(estimator=logistic)"].settings["estimator"] == "logistic"
    assert result["dci"].settings["estimator"] == "gbt"
    metrics.check_scores("dci(estimator=gbt_exact)", "config")
    for wrong, message in {
        "dci(estimator=gbt_exat)": "Did you mean 'gbt_exact'",
        "dci(estimater=gbt)": "Did you mean 'estimator'",
        "dci(gbt)": r"name or name\(option=value\)",
        "dci(estimator=gbt": r"name or name\(option=value\)",
        "mig(bins=3)": "option",
    }.items():
        with pytest.raises(ValueError, match=message):
            metrics.check_scores((wrong,), "config", "eval.scores")


def test_one_failure_does_not_fail_the_rest(arrays):
    result = metrics.evaluate(*arrays, scores="mig, downstream,flatness")
    assert float(result["mig"]) > 0
    assert math.isnan(float(result["downstream"]))
    assert "held-out rows" in result.errors["downstream"]
    assert "every combination" in result.errors["flatness"]
    text = str(result)
    assert text == metrics.table(result)
    assert "not computed: downstream: `codes_test` and `factors_test` must be" in text
    assert "bins=20" in text


def test_bad_requests(arrays):
    codes, factors = arrays
    with pytest.raises(ValueError, match=r"evaluate: `scores` .* Did you mean 'mig'"):
        metrics.evaluate(codes, factors, scores=("migg",))
    with pytest.raises(ValueError, match="must be given together"):
        metrics.evaluate(codes, factors, codes_test=codes)
    with pytest.raises(ValueError, match="`codes_test` must have 3 columns"):
        metrics.evaluate(codes, factors, codes_test=codes[:, 1:], factors_test=factors)
    with pytest.raises(ValueError, match=r"`groups` must be .* got \(2, 2\)"):
        metrics.evaluate(codes, factors, groups=(2, 2))
    with pytest.raises(ValueError, match="`codes` must be finite"):
        metrics.evaluate(codes * np.nan, factors)
    for call, message in (
        (lambda: metrics.dci(codes, factors, estimator="gtb"), "Did you mean 'gbt'"),
        (lambda: metrics.mig(codes, factors, normaliser="code_"), "'code'"),
        (lambda: metrics.sap(codes, factors, estimator="r"), "one of svm, r2"),
        (lambda: metrics.irs(codes, factors, quantile=2.0), r"in \[0, 1\]"),
        (lambda: metrics.mcc(codes, factors, correlation="p"), "one of spearman"),
        (lambda: metrics.med(codes, factors, top_k=0), "positive"),
        (lambda: metrics.rmig(codes, factors, limits=(1, 1)), "`limits`"),
        (lambda: metrics.mig(codes, factors, log_var=codes[:9]), "`log_var`"),
        (lambda: metrics.unsupervised(codes, log_var=codes[:9]), "`log_var`"),
        (lambda: metrics.udr([codes]), "at least two arrays"),
        (lambda: metrics.reconstruction(codes, codes[1:]), "same shape"),
        (lambda: metrics.info_mec(codes, factors, information_estimator="x"), "knn"),
        (lambda: metrics.downstream(codes, factors, codes_test=codes,
                                    factors_test=factors, model="g"), "one of gbt"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            call()


OWN = """
from disentangle_jax import metrics

@metrics.define(
    keys={"spread": "largest code (lower is better)"},
    range=(0.0, 9.0),
    higher_is_better=False,
    interval=lambda score, bootstrap: {
        "spread": bootstrap.weights(len(bootstrap.arrays.codes)).max(axis=1)
    },
)
def spread(codes, factors, *, codes_test=None, factors_test=None, seed=0):
    return metrics.Score({"spread": abs(codes).max()}, {"samples": len(codes)})

@metrics.define(keys={"mig": "not the library's"})
def mig(codes, factors, **others):
    return metrics.Score({"mig": 0.0}, {})

@metrics.define(keys={"a": "b"}, needs="images")
def of_images(images):
    return metrics.Score({"a": 0.0}, {})

def undecorated(codes, factors, **others):
    return metrics.Score({"undecorated": 0.0}, {})
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_scores_of_a_test.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_scores_of_a_test", raising=False)
    return "own_scores_of_a_test"


def test_scores_from_outside(own, arrays, file, capsys):
    result = metrics.evaluate(
        *arrays, scores=("mig", f"{own}:spread"), intervals=True, seed=0
    )
    assert tuple(result) == ("mig", "spread")
    assert result["spread"]["spread"] == np.abs(arrays[0]).max()
    assert "0 … 9 ↓" in str(result)
    low, high = result["spread"].intervals["spread"]
    assert low < high
    description = metrics.describe(f"{own}:spread")
    assert description.keys == {"spread": "largest code (lower is better)"}
    assert "spread" not in metrics.names()  # which lists the library's scores
    assert command.main([str(file), f"--scores=mcc,{own}:spread"]) == 0
    assert "spread" in capsys.readouterr().out
    for scores, message in (
        ((f"{own}:undecorated",), "`scores` must name a score, .* decorate it"),
        ((f"{own}:sprad",), "Did you mean 'spread'"),
        (("no_such_module:spread",), "cannot be imported"),
        (("mig", f"{own}:mig"), "two called 'mig'"),
        ((f"{own}:of_images",), "needs images"),
        (("disentangle_jax.metrics:fid",), "needs images"),
        (("fid",), "evaluate: `scores` must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            metrics.evaluate(*arrays, scores=scores)


def test_groups_reach_the_scores_that_have_them(arrays):
    result = metrics.evaluate(*arrays, scores=("mig", "explicitness"), groups=(2, 1))
    assert result["mig"].settings["groups"] == (2, 1)
    assert result["mig"].matrices["mi"].shape == (2, 2)
    assert "groups" not in result["explicitness"].settings  # of the code as a whole


def test_intervals_hold_the_score_and_shrink_with_more_rows(arrays):
    codes, factors = arrays
    test = {"codes_test": codes, "factors_test": factors}
    names = ("mig", "mig_sup", "jemmig", "dcimig", "modularity", "med", "sap",
             "unsupervised")  # fmt: skip
    small = metrics.evaluate(codes, factors, scores=names, intervals=True, **test)
    many = np.tile(codes, (4, 1)), np.tile(factors, (4, 1))
    test = {"codes_test": many[0], "factors_test": many[1]}
    large = metrics.evaluate(*many, scores=names, intervals=True, **test)
    for name in names:
        for key, (low, high) in small[name].intervals.items():
            assert low < small[name][key] < high
            width = np.ptp(large[name].intervals[key])
            assert width < 0.75 * (high - low), (name, key)
    assert set(small["mig"].intervals) == {"mig"}
    again = metrics.evaluate(codes, factors, scores=("mig",), intervals=True)
    assert again["mig"].intervals == small["mig"].intervals


def test_interval_width_against_fresh_samples():
    """The bootstrap deviation of MIG is that of drawing the data anew."""

    def draw(seed):
        rng = np.random.default_rng(seed)
        factors = np.stack([rng.integers(s, size=500) for s in (3, 4)], axis=1)
        return factors + 0.4 * rng.normal(size=(500, 2)), factors

    fresh = np.std([float(metrics.mig(*draw(s), bins=20)) for s in range(40)])
    result = metrics.evaluate(*draw(99), scores=("mig",), intervals=True)
    width = np.ptp(result["mig"].intervals["mig"])
    assert 0.6 < width / (2 * 1.96 * fresh) < 1.6


@pytest.fixture(scope="module")
def file(arrays, tmp_path_factory):
    path = tmp_path_factory.mktemp("codes") / "codes.npz"
    np.savez(path, codes=arrays[0], factors=arrays[1])
    return path


def test_command_prints_a_table(file, arrays, capsys):
    assert command.main([str(file), "--scores=mig,irs"]) == 0
    out = capsys.readouterr().out
    assert f"{float(metrics.mig(*arrays)):.4f}" in out and out.startswith("score")


def test_command_prints_json(file, arrays, capsys):
    status = command.main(
        [str(file), "--scores=mig,downstream", "--json", "--groups=2,1"]
    )
    assert status == 0
    out = json.loads(capsys.readouterr().out)
    want = float(metrics.mig(*arrays, groups=(2, 1)))
    assert out["mig"]["values"]["mig"] == want
    assert out["mig"]["settings"]["bins"] == 20
    assert out["downstream"]["values"]["accuracy"] is None
    assert "held-out" in out["downstream"]["error"]


def test_help_lists_the_scores_and_their_meanings(capsys):
    with pytest.raises(SystemExit):
        command.main(["--help"], prog="disentangle score")
    out = capsys.readouterr().out
    assert out.startswith("usage: disentangle score")
    for name in metrics.names(needs=("factors", "codes", "full grid")):
        assert f"  {name}" in out and metrics.describe(name).meaning in out


def test_command_refuses(file, tmp_path, capsys):
    assert command.main([str(tmp_path / "none.npz")]) == 2
    assert "there is no file" in capsys.readouterr().err
    np.savez(tmp_path / "bare.npz", codes=np.zeros((2, 2)))
    assert command.main([str(tmp_path / "bare.npz")]) == 2
    assert "must hold `codes` and `factors`" in capsys.readouterr().err
    assert command.main([str(file), "--scores=nope"]) == 2
    assert "`scores` must be one of" in capsys.readouterr().err


def test_module_runs_and_imports_little(file):
    done = subprocess.run(
        [sys.executable, "-m", "disentangle_jax.metrics.score", file, "--scores=mig"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("score")
    code = (
        "import sys, disentangle_jax.metrics\n"
        "heavy = {'sklearn', 'tensorflow', 'matplotlib', 'orbax', 'flax', 'optax'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_refitted_intervals_against_a_loop(rng):
    """The interval of a refitted score is that of the score on each resample."""
    factors = rng.integers(3, size=(60, 2))
    codes = factors @ np.array([[1.0, 0.2], [0.1, 1.0]]) + rng.normal(size=(60, 2)) / 5
    scores = {"dci": {"estimator": "logistic"}, "explicitness": {}}
    found = metrics.evaluate(
        codes, factors, scores=tuple(scores), options=scores, intervals="refit",
        resamples=5, seed=3,
    )  # fmt: skip
    plain = metrics.evaluate(
        codes, factors, scores=tuple(scores), options=scores, intervals=True,
        resamples=5, seed=3,
    )  # fmt: skip
    assert set(plain["dci"].intervals) == {"informativeness"}
    assert not plain["explicitness"].intervals
    keys = jax.random.split(jax.random.key(3), 5)
    drawn = [np.sort(np.asarray(jax.random.randint(k, (60,), 0, 60))) for k in keys]
    for name, options in scores.items():
        again = [
            getattr(metrics, name)(codes[i], factors[i], seed=3, **options)
            for i in drawn
        ]
        assert set(found[name].intervals) == set(found[name])
        for key, value in found[name].items():
            if key in plain[name].intervals:
                assert found[name].intervals[key] == plain[name].intervals[key]
                continue
            values = np.array([score[key] for score in again])
            expected = np.percentile(value + values - values.mean(), [2.5, 97.5])
            np.testing.assert_allclose(found[name].intervals[key], expected, rtol=1e-12)
    with pytest.raises(ValueError, match="refit"):
        metrics.evaluate(codes, factors, scores="mig", intervals="refitted")
