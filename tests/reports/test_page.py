"""The page of a run holds its pictures and numbers, and needs nothing else."""

import base64
import html.parser
import io

import numpy as np
import pytest
from PIL import Image

from disentangle_jax import reports, training
from disentangle_jax.reports._grids import latent_labels, sheet
from tests.training import tiny


class Page(html.parser.HTMLParser):
    """Collects images, links and text."""

    def __init__(self, text):
        super().__init__()
        self.sources, self.words = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.sources += [v for k, v in attrs if k in ("src", "href")]

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    training.train_and_evaluate(tiny.config(num_steps=4), folder)
    return folder


def test_page_is_self_contained(workdir):
    path = reports.write(workdir)
    page = Page(path.read_text())
    assert len(page.sources) == 9
    assert all(source.startswith("data:image/") for source in page.sources)
    shown = [
        Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2])))
        for source in page.sources
    ]
    # Three latents in nine steps of 64 pixels with a gap of 2, beside labels.
    assert shown[1].size == (44 + 9 * 66, 3 * 66)
    saved = {p.stem for p in (*workdir.glob("*.png"), *workdir.glob("*.webp"))}
    assert saved == {
        "reconstructions",
        "traversals_1",
        "traversals_2",
        "traversals_moving",
        "hybrids",
        "priors",
        "chunk_hybrids",
        "mutual_information",
        "loss",
    }


def test_page_and_table_show_each_score(workdir):
    import json

    scores = json.loads((workdir / "scores.json").read_text())
    text = "".join(Page(reports.write(workdir).read_text()).words)
    table = reports.score_table(workdir)
    mse = scores["reconstruction"]["mse"]
    for shown in (text, table):
        assert f"{mse:.4f}" in shown
        assert "mig" in shown
    assert scores["commit"] in text


def test_run_without_scores_is_refused(tmp_path):
    with pytest.raises(ValueError, match="was not evaluated yet"):
        reports.write(tmp_path)


def test_sheet_places_images_and_repeats_grey():
    images = np.zeros((2, 3, 4, 5, 1), np.uint8)
    images[1, 2] = 200
    drawn = np.asarray(sheet(images))
    assert drawn.shape == (2 * 6, 3 * 7, 3)
    assert (drawn[6:10, 14:19] == 200).all()
    assert (drawn[:4, :5] == 0).all()
    assert (drawn[4:6] == 255).all()


def test_latent_labels_number_variables_and_their_parts():
    assert latent_labels((1, 2, 1)) == ["z1", "z2.1", "z2.2", "z3"]
