"""Runs of one model are grouped, have short labels, and share a page."""

import re

import numpy as np
import pytest

from disentangle_jax import main, reports
from disentangle_jax.evaluation import Sheet
from disentangle_jax.reports import plots
from disentangle_jax.reports.compare import group_runs, model_labels, stacked
from tests.reports import made
from tests.reports.pages import Page, check_self_contained


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    made.run(folder / "a", seed=0, mig=0.2)
    lanes = folder / "b" / "lanes"
    made.run(lanes / "beta=1,seed=1", seed=1, mig=0.4, shade=1)
    made.run(lanes / "beta=4,seed=1", seed=1, beta=4.0, groups=(1, 1))
    return folder


def test_runs_that_differ_in_seeds_are_one_model(runs):
    folders = reports.find_runs([runs / "a", runs / "b", runs / "a"])
    assert len(folders) == 3  # Lanes are found; a folder counts once.
    one, other = group_runs(folders)
    assert one.label == "sae-3" and other.label == "sae-3, beta=4"
    assert one.values("mig") == [0.2, 0.4] and other.values("mig") == [0.5]
    assert one.values("irs") == []


def test_labels_use_no_more_fields_than_needed():
    def labels(*configs):
        return model_labels([dict(zip(names, values)) for values in configs])

    names = ("model.name", "method.name", "method.beta", "train.steps")
    assert labels(("sae", "ae", 0.0, 1), ("vae", "vae", 0.0, 2)) == ["sae", "vae"]
    assert labels(("v", "vae", 1.0, 1), ("v", "wae", 1.0, 1)) == ["v, vae", "v, wae"]
    assert labels(("v", "b", 1.0, 1), ("v", "b", 4.0, 1), ("v", "b", 4.0, 9)) == [
        "v, beta=1, steps=1",
        "v, beta=4, steps=1",
        "v, beta=4, steps=9",
    ]


def test_page_shows_all_models_and_needs_nothing_else(runs, tmp_path, capsys):
    out = tmp_path / "out"
    argv = ["compare", str(runs / "a"), str(runs / "b"), f"--workdir={out}"]
    assert main.main(argv) == 0
    assert f"comparison: {out}/compare.html" in capsys.readouterr().out
    text = (out / "compare.html").read_text()
    page = check_self_contained(text)
    assert "2 models, 3 runs compared" in page.text
    assert "0.3000 ± 0.1414" in page.text  # MIG 0.2 and 0.4.
    assert "Not drawn: no run here has both" in page.text
    assert "<b>" not in text
    saved = {p.stem for p in out.glob("*.png")}
    assert saved == {
        "scores",
        "errors",
        "loss_curves",
        "traversals_1",
        "traversals_2",
        "mi",
        "importance",
        "reconstructions",
        "hybrids",
        "priors",
        "chunk_hybrids",
    }


def test_published_scores_are_shown_on_request_and_marked(runs, tmp_path, capsys):
    argv = ["compare", str(runs / "a"), str(runs / "b"), f"--workdir={tmp_path}"]
    assert main.main(argv) == 0
    assert "Published scores" not in (tmp_path / "compare.html").read_text()
    assert main.main([*argv, "--published=shapes3d"]) == 0
    text = (tmp_path / "compare.html").read_text()
    (table,) = re.findall(r"<table[^>]*>(?:(?!</table>).)*FDAE.*?</table>", text, re.S)
    head, own, *others = [
        [re.sub(r"<[^>]+>", "", c) for c in re.findall(r"<t[dh].*?</t[dh]>", row, re.S)]
        for row in table.split("<tr>")[1:]
    ]
    place = {name: head.index(name) for name in head}
    assert own[place["from"]] == "ours" and own[place["mig"]] == "0.3000 ± 0.1414"
    assert own[place["dci.disentanglement"]] == "0.2500 ± 0.0000"
    assert own[place["setting"]] == "made, 2 seeds"
    published = [row for row in others if row[place["from"]] == "published"]
    assert len(published) == len(others) - 1
    assert all(row[place["setting"]] and row[place["source"]] for row in published)
    vct = next(row for row in published if row[0] == "VCT")
    assert vct[place["mig"]] == "0.525 ± 0.028" and "FDAE" in vct[place["source"]]
    capsys.readouterr()
    assert main.main([*argv, "--published=shape3d"]) == 2
    assert "Did you mean 'shapes3d'" in capsys.readouterr().err


def test_loss_and_fid_are_drawn_where_runs_hold_both(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        plots, "scatter", lambda points, *_: drawn.append(points) or b"\x89PNG"
    )
    folders = [
        made.run(tmp_path / "a", seed=0, bce=90.0, fid=7.0),
        made.run(tmp_path / "b", seed=1, bce=95.0, fid=8.0),
        made.run(tmp_path / "c", model="vae"),
    ]
    page = Page(reports.write_comparison(folders, tmp_path / "out").read_text())
    assert drawn == [{"sae-3": [(90.0, 7.0), (95.0, 8.0)]}]
    assert "Not drawn" not in page.text
    assert "evaluated on 20 + 10 examples, fid on 50" in page.text
    assert "fid.hybrid ↓" in page.text and "22.5000" in page.text  # 3 · 7.5.


def test_different_datasets_give_a_warning(tmp_path):
    one = made.run(tmp_path / "a")
    other = made.run(tmp_path / "b", dataset="other")
    same = made.run(tmp_path / "c", seed=1)
    page = Page(reports.write_comparison([one, same], tmp_path / "out").read_text())
    assert "cannot be compared" not in page.text
    with pytest.warns(UserWarning, match="have different datasets"):
        path = reports.write_comparison([one, other], tmp_path / "out")
    page = Page(path.read_text())
    assert "differ in data.name (made, other): their scores cannot" in page.text
    assert ("p", "class", "warning") in page.attributes


def test_models_that_saw_the_same_images_share_their_row():
    pictures = made.pictures()
    images = np.stack([pictures["originals"], pictures["reconstructions"]])

    def sheet(images):
        return Sheet("a", "A", "", images, ("image", "model"), shared_rows=1)

    other = images + np.array([1, 0], np.uint8)[:, None, None, None, None]
    rows = stacked({"a": sheet(images), "b": sheet(images), "c": sheet(other)})
    assert rows.labels == ["image", "a", "b", "image", "c"]
    np.testing.assert_array_equal(rows.images[3], other[0])
    np.testing.assert_array_equal(rows.images[4], images[1])


def test_only_pictures_that_all_runs_have_are_compared(tmp_path):
    folders = [
        made.run(tmp_path / "a"),
        made.run(tmp_path / "b", model="vae", evaluators=("codes",)),
    ]
    reports.write_comparison(folders, tmp_path / "out")
    saved = {p.stem for p in (tmp_path / "out").glob("*.png")}
    assert "traversals_1" in saved and "hybrids" not in saved


@pytest.mark.parametrize(
    "argv, fix",
    [
        ([], "name the folders of at least one"),
        (["nowhere"], "there is no folder nowhere"),
        (["."], "was not evaluated yet"),
        ([".", "--config.train.seed=1"], "no --config"),
        ([".", f"--workdir={__file__}/below"], "is no folder that can be written to"),
    ],
)
def test_wrong_comparison_is_one_line_and_code_2(
    argv, fix, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main.main(["compare", *argv]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and fix in err
    assert list(tmp_path.iterdir()) == []
