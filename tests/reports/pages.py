"""Reads a page as a browser would, as far as a test needs."""

import html.parser

# Elements without an end tag.
_VOID = {"meta", "img", "link", "input", "br", "wbr"}


class Page(html.parser.HTMLParser):
    """Collects what a page would load and its text; raises on tags that do not match.

    Attributes:
      sources: values of src, href and the like.
      words: the text.
      attributes: ``(tag, attribute, value)`` of everything.
    """

    def __init__(self, text):
        super().__init__()
        self.sources, self.words, self.attributes = [], [], []
        self._open = []
        self.feed(text)
        self.close()
        assert self._open == [], f"never closed: {self._open}"

    @property
    def text(self):
        return "".join(self.words)

    def handle_starttag(self, tag, attrs):
        if tag not in _VOID:
            self._open.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        loading = ("src", "href", "srcset", "action", "data", "poster")
        self.sources += [value for name, value in attrs if name in loading]

    def handle_endtag(self, tag):
        assert self._open and self._open[-1] == tag, f"</{tag}> in {self._open}"
        self._open.pop()

    def handle_data(self, data):
        if self._open[-1:] not in (["style"], ["script"]):
            self.words.append(data)


def check_self_contained(text):
    """Fails where a page would ask anyone for anything, or is not fit for a phone."""
    page = Page(text)
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(set(ids)) == len(ids)
    inside = {f"#{name}" for name in ids}
    assert all(s.startswith("data:image/") or s in inside for s in page.sources)
    assert "url(" not in text and "@import" not in text
    names = {
        value for tag, name, value in page.attributes if (tag, name) == ("meta", "name")
    }
    assert "viewport" in names
    assert "img { max-width: 100%" in text
    return page
