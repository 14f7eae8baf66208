"""What Sphinx writes and a screen reader cannot follow is mended in the page that it builds."""

import re

import pytest
from sphinx.application import Sphinx

PAGE = """
Title
=====

- An item [#note]_.

.. [#note] Its note.

.. py:function:: taking(first, second)

.. [Ro58] A work that nobody cites.

.. list-table::
   :header-rows: 1
   :stub-columns: 1

   * -
     - column
   * - row
     - cell
"""


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    """The article of a page with all that needs mending."""
    folder, site = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    (folder / "index.rst").write_text(PAGE, encoding="utf-8")
    settings = {"extensions": ["sphinx_book_theme", "attn_access"]}
    settings |= {"html_theme": "sphinx_book_theme", "html_theme_options": {"use_sidenotes": True}}
    settings |= {"python_maximum_signature_line_length": 1}
    Sphinx(folder, None, site, site, "html", settings, status=None, warning=None).build()
    html = (site / "index.html").read_text(encoding="utf-8")
    return re.search(r"<article.*</article>", html, re.DOTALL)[0]


def test_a_list_holds_items_alone_and_a_note_stands_inside_its_item(body):
    assert re.search(r'<ul>\s*<li><span class="sidenote"><sup>1</sup>Its note\.</span>', body)


def test_a_signature_of_several_lines_is_no_list_without_terms(body):
    lines = re.search(r'<div class="sig-lines">(.*?)\)', body, re.DOTALL)[1]
    assert re.findall(r"<div>.*?(first|second)", lines) == ["first", "second"]
    assert "<dd>" not in lines


def test_a_work_is_an_item_of_its_list(body):
    assert re.search(r'id="ro58"[^>]* role="listitem"', body)
    assert "doc-biblioentry" not in body


def test_the_corner_of_a_table_is_no_heading(body):
    assert re.search(r"<tr[^>]*><td[^>]*></td>\s*<th[^>]*><p>column", body)
