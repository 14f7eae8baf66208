"""What stands in a formula's place until it is typeset."""

from pathlib import Path
from types import SimpleNamespace

import attn_maths


def written(*formulas):
    inline = r'<span class="math notranslate nohighlight">\({}\)</span>'
    context = {"body": " ".join(inline.format(tex) for tex in formulas)}
    attn_maths.stand_in(SimpleNamespace(), "page", "page.html", context, None)
    return context["body"]


def test_beside_few_formulas_stands_their_mathml():
    assert "</span><math" in written(r"a &lt; b")
    assert "<mo>&lt;</mo>" in written(r"a &lt; b")
    assert "<mi>𝜽</mi>" in written(r"\big(\boldsymbol\theta\big)")
    assert "<math" in written(*["a"] * attn_maths.MANY)
    assert "<math" not in written(*["a"] * (attn_maths.MANY + 1))


def test_a_formula_that_docutils_cannot_say_stands_alone_and_has_its_room():
    assert written(r"\unheard x").endswith(r'style="--ems: 1.0">\(\unheard x\)</span>')


def test_a_page_is_one_of_many_formulas_for_the_script_too():
    script = (Path(attn_maths.__file__).parents[1] / "_static" / "maths.js").read_text("utf-8")
    assert f"MANY = {attn_maths.MANY};" in script
