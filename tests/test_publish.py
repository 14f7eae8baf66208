"""What a public home adds to the site, and that nothing of it is there without one."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

EXTENSIONS = Path(__file__).parents[1] / "book" / "_ext"
sys.path.append(str(EXTENSIONS))
import attn_publish  # noqa: E402
import attn_search  # noqa: E402

HOME = "https://github.com/Someone/notes"
SITE = "https://someone.github.io/notes/"


@pytest.fixture
def clone(tmp_path):
    """A clone with a remote, whose `_config.yml` names no home."""
    (tmp_path / "_config.yml").write_text('repository:\n  url: ""\n', encoding="utf-8")
    for command in (["init", "-q"], ["remote", "add", "origin", f"{HOME}.git"]):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    return tmp_path


def configured(folder):
    options = {"launch_buttons": {"colab_url": "c", "binderhub_url": "b"}}
    config = SimpleNamespace(html_theme_options=options, html_baseurl="", html_title="Notes")
    attn_publish.use_repository(SimpleNamespace(srcdir=folder), config)
    return config


def test_a_remote_brings_addresses_and_binder_and_the_named_home_colab_too(clone):
    config = configured(clone)
    assert config.html_theme_options["repository_url"] == HOME
    assert config.html_theme_options["launch_buttons"] == {"binderhub_url": "b"}
    assert (config.html_baseurl, config.ogp_site_url) == (SITE, SITE)
    assert config.notfound_urls_prefix == "/notes/"
    named = 'repository:\n  url: "https://github.com/other/fork"\n'
    (clone / "_config.yml").write_text(named, encoding="utf-8")
    config = configured(clone)
    assert config.html_theme_options["launch_buttons"] == {"colab_url": "c", "binderhub_url": "b"}
    assert config.html_baseurl == "https://other.github.io/fork/"


def test_without_either_there_is_no_button_and_no_address(clone):
    subprocess.run(["git", "-C", clone, "remote", "remove", "origin"], check=True)
    config = configured(clone)
    assert config.html_theme_options["launch_buttons"] == {}
    assert config.html_theme_options["use_repository_button"] is False
    assert config.html_baseurl == ""


def finished(site, base):
    builder = SimpleNamespace(format="html", get_target_uri=lambda name: f"{name}.html")
    config = SimpleNamespace(html_baseurl=base, html_title="Notes & more", root_doc="book/index")
    env = SimpleNamespace(found_docs={"book/index", "book/01"})
    attn_publish.finish(SimpleNamespace(outdir=site, builder=builder, config=config, env=env), None)
    return {path.name for path in site.iterdir()}


def test_the_map_names_every_page_and_the_root_leads_to_the_opening_page(tmp_path):
    assert finished(tmp_path, "") == {"index.html"}
    root = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<title>Notes &amp; more</title>" in root
    assert '<a href="book/index.html">' in root
    assert finished(tmp_path, SITE) == {"index.html", "robots.txt", "sitemap.xml"}
    places = ET.parse(tmp_path / "sitemap.xml").findall(".//{*}loc")
    assert [place.text for place in places] == [f"{SITE}book/01.html", f"{SITE}book/index.html"]
    assert f"Sitemap: {SITE}sitemap.xml" in (tmp_path / "robots.txt").read_text(encoding="utf-8")


def test_a_script_of_another_sphinx_is_not_changed_by_half(tmp_path):
    script = tmp_path / "_static" / "searchtools.js"
    script.parent.mkdir()
    app = SimpleNamespace(outdir=tmp_path, builder=SimpleNamespace(format="html"))
    script.write_text(" ".join([*attn_search.CHANGES][1:]), encoding="utf-8")
    with pytest.raises(RuntimeError, match="no longer has"):
        attn_search.finish(app, None)
    script.write_text(" ".join(attn_search.CHANGES), encoding="utf-8")
    attn_search.finish(app, None)
    assert script.read_text(encoding="utf-8") == " ".join(attn_search.CHANGES.values())
