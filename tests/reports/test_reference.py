"""The reference names everything public, and none of its links is broken."""

import inspect

import pytest

import disentangle_jax
from disentangle_jax import config, data, main, methods, metrics, models
from disentangle_jax.reports import reference
from tests.reports.pages import Page


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    assert main.main(["docs", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def pages(folder):
    return {path.name: Page(path.read_text()) for path in folder.glob("*.html")}


def values(page, attribute):
    return [value for _, name, value in page.attributes if name == attribute]


def test_no_link_is_broken_and_nothing_is_loaded(pages):
    ids = {name: values(page, "id") for name, page in pages.items()}
    for name, page in pages.items():
        assert len(set(ids[name])) == len(ids[name]), name
        assert set(page.sources) == set(values(page, "href"))
        for link in page.sources:
            file, _, anchor = link.partition("#")
            assert not anchor or anchor in ids[file or name], (name, link)
            assert file == "" or file in pages, (name, link)
    assert "losses.html" in values(pages["index.html"], "href")


def test_no_page_shows_what_only_python_reads(pages):
    for name, page in pages.items():
        for wrong in ("<class ", "<function ", " object at 0x", ":func:", ":class:"):
            assert wrong not in page.text, (name, wrong)


def test_every_public_name_and_definition_has_its_place(pages):
    for package in disentangle_jax.SUBPACKAGES:
        page = pages[f"{package}.html"]
        module = getattr(disentangle_jax, package)
        assert set(reference.public(module)) <= set(values(page, "id"))
    assert {"beta_tc_vae", "mmd"} <= set(reference.public(disentangle_jax.losses))
    for page, kind in (("methods", methods), ("metrics", metrics), ("data", data)):
        ids = values(pages[f"{page}.html"], "id")
        assert {f"about-{name}" for name in kind.names()} <= set(ids)
    assert all(name in pages["models.html"].text for name in models.names())
    assert all(f"--config.{n}" in pages["config.html"].text for n in config.FIELDS)
    text = pages["commands.html"].text
    assert "disentangle docs DIR" in text and "add({" in text and "--port PORT" in text
    assert "#about-sweep" in values(pages["commands.html"], "href")


def test_every_public_function_has_a_docstring():
    missing = [
        f"{package}.{name}"
        for package in disentangle_jax.SUBPACKAGES
        for name, value in reference.public(getattr(disentangle_jax, package)).items()
        if not inspect.getdoc(value)
    ]
    assert missing == []


DOCSTRING = r"""First ``line`` of *it*, see :func:`there` and `other`.

.. math:: a < b
          + c

Text::

    x = 1

== ==
a  b
== ==

* one
  more
* two

Args:
  x: ``[B]`` values,
    on two lines.
  *rest: more.

Returns:
  A text.
"""


def test_docstrings_become_html():
    text = reference.to_html(DOCSTRING, "here", {"here.there": "here.html#there"})
    assert text == (
        "<p>First <code>line</code> of <em>it</em>, see "
        '<a href="here.html#there"><code>there</code></a> and <code>other</code>.</p>'
        "<pre>a &lt; b\n+ c</pre><p>Text:</p><pre>x = 1</pre>"
        "<pre>== ==\na  b\n== ==</pre>"
        "<ul><li>one more</li><li>two </li></ul><p><strong>Args:</strong></p>"
        "<dl><dt><code>x</code></dt><dd><code>[B]</code> values, on two lines.</dd>"
        "<dt><code>*rest</code></dt><dd>more.</dd></dl>"
        "<p><strong>Returns:</strong></p><p>A text.</p>"
    )


def test_signatures_name_functions_and_break_when_long():
    def short(x, *, how=len):
        """."""

    assert reference.signature(short, "short") == "short(x, *, how=len)"
    text = reference.signature(disentangle_jax.losses.beta_tc_vae, "beta_tc_vae")
    assert "\n    *,\n" in text and "reconstruction" in text and " at 0x" not in text
    assert "    x: jax.Array,\n" in text and "jaxlib" not in text
    text = reference.signature(disentangle_jax.types.Posterior, "Posterior")
    assert "self" not in text and "->" not in text
