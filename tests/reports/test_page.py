"""The page of a run holds its pictures and numbers, and needs nothing else."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from disentangle_jax import evaluation, files, reports
from disentangle_jax.reports import drawing, markup, plots
from tests.reports import made
from tests.reports.pages import Page, check_self_contained

FILES = {
    "reconstructions.png",
    "traversals_1.png",
    "traversals_2.png",
    "traversals_moving.webp",
    "hybrids.png",
    "priors.png",
    "chunk_hybrids.png",
    "mi.png",
    "importance.png",
    "loss.png",
}


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = made.run(tmp_path_factory.mktemp("runs") / "one")
    reports.write(folder)
    return folder


def test_page_is_self_contained_and_holds_each_picture(workdir):
    page = check_self_contained((workdir / "report.html").read_text())
    embedded = [s for s in page.sources if not s.startswith("#")]
    images = [base64.b64decode(s.partition(",")[2]) for s in embedded]
    pictures = (*workdir.glob("*.png"), *workdir.glob("*.webp"))
    assert {p.name for p in pictures} == FILES
    assert sorted(images) == sorted(p.read_bytes() for p in pictures)
    for content in images:
        Image.open(io.BytesIO(content)).verify()
    assert "an older version" not in page.text


def test_page_lists_its_sections_and_its_tables_scroll(workdir):
    text = (workdir / "report.html").read_text()
    page = check_self_contained(text)
    sections = [v for tag, n, v in page.attributes if (tag, n) == ("section", "id")]
    linked = [v for tag, n, v in page.attributes if (tag, n) == ("a", "href")]
    assert linked == [f"#{name}" for name in sections]
    assert linked[0] == "#scores" and linked[-1] == "#recipe"
    assert text.count("<table>") == text.count("<div class=scroll><table>") > 0
    assert "large.showModal()" in text and "text/csv" in text


def test_page_and_table_show_each_score_and_the_recipe(workdir):
    text = Page((workdir / "report.html").read_text()).text
    for shown in (text, reports.score_table(workdir)):
        assert "0.5000" in shown and "mig" in shown
        assert "0.2500" in shown and "dci.disentanglement" in shown
        assert "sap: not computed: one <class>" in shown
    assert "abc123" in text


def test_names_are_escaped(workdir):
    content = (workdir / "report.html").read_text()
    assert "<b>" not in content and "<class>" not in content
    assert "sae-3 trained as <b>&ae on made" in Page(content).text
    shown = Page(markup.image('a"><script>', b"\x89PNG") + "<p></p>").attributes
    assert ("img", "alt", 'a"><script>') in shown


def test_tables_without_rows_say_so_and_first_columns_may_be_links():
    assert Page(markup.table(("a", "b"), [], 1)).text == "None."
    shown = markup.table(("a", "b"), [("x_y", "`c` < d")], -1, {"x_y": "#there"})
    assert '<td><a href="#there">x_<wbr>y</a></td>' in shown
    assert "<td><code>c</code> &lt; d</td>" in shown


def test_long_words_of_tables_may_break_and_roles_are_not_shown():
    row = ("'a+b'", "c=0.5|d", "see :func:`e`, `f`")
    shown = markup.table(("a", "b", "c"), [row], -1)
    assert "<td>&#x27;a+<wbr>b&#x27;</td>" in shown
    assert "<td>c=0.5|<wbr>d</td>" in shown  # Numbers stay whole.
    assert "<td>see <code>e</code>,<wbr> <code>f</code></td>" in shown


def test_a_curve_of_one_point_is_visible():
    def coloured(values):
        drawn = Image.open(io.BytesIO(plots.curves({"loss": values}, "step", "loss")))
        pixels = np.asarray(drawn.convert("RGB"), int)
        return int((np.ptp(pixels, axis=-1) > 40).sum())

    assert coloured(([100], [0.5])) > 20
    assert coloured(([100, 200, 300], [np.nan, 0.5, np.nan])) > 20
    assert coloured(([100, 200], [np.nan, np.nan])) == 0


def test_the_recipe_is_folded_with_lists_in_one_line(tmp_path):
    recipe = {"groups": [1, 2], "text": ["a]\n", "[b"], "none": [], "more": [{"x": []}]}
    text = reports.write_parts(tmp_path, "A page", [], recipe).read_text()
    shown = Page(text).text.partition("Show")[2]
    assert '"groups": [1, 2],' in shown and json.loads(shown) == recipe


def test_runs_without_scores_or_with_old_ones_are_refused(tmp_path):
    with pytest.raises(ValueError, match="was not evaluated yet"):
        reports.write(tmp_path)
    folder = made.run(tmp_path / "old")
    old = made.scores()
    del old["evaluators"]
    files.write_json(folder / "scores.json", old)
    for read in (reports.check_evaluated, reports.write):
        with pytest.raises(ValueError, match="an older version; run evaluate again"):
            read(folder)


class Note(evaluation.Section):
    """A kind of section that the library does not know."""


def test_a_new_kind_of_section_is_drawn_as_registered(tmp_path):
    note = Note("note", "A note", "Its caption.")
    with pytest.raises(TypeError, match="got Note"):
        reports.draw(note)
    drawing.draw.register(Note, lambda section: drawing.Drawn("<em>drawn</em>"))
    path = reports.write_parts(tmp_path, "A page", [note], {"commit": "abc"})
    text = path.read_text()
    assert "A note" in text and "<em>drawn</em>" in text and "abc" in text
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
