"""What a public home adds to the site, and that nothing of it is there without one."""

import subprocess
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import attn_publish
import attn_search
import pytest

HOME = "https://github.com/Someone/notes"
SITE = "https://someone.github.io/notes/"
BUTTONS = {"colab_url": "c", "binderhub_url": "b"}


def configured(folder, named):
    """The settings of a clone whose `_config.yml` names this home."""
    (folder / "_config.yml").write_text(f'repository:\n  url: "{named}"\n', encoding="utf-8")
    options = {"launch_buttons": {**BUTTONS}}
    config = SimpleNamespace(html_theme_options=options, html_baseurl="", html_title="Notes")
    attn_publish.use_repository(SimpleNamespace(srcdir=folder), config)
    return config


def test_a_remote_brings_addresses_and_binder_and_the_named_home_colab_too(tmp_path):
    subprocess.run(["git", "-C", tmp_path, "init", "-q"], check=True)
    config = configured(tmp_path, "")  # neither: no button and no address
    assert config.html_theme_options["launch_buttons"] == {}
    assert config.html_theme_options["use_repository_button"] is False
    assert config.html_baseurl == ""
    remote = ["remote", "add", "origin", f"{HOME}.git"]
    subprocess.run(["git", "-C", tmp_path, *remote], check=True)
    config = configured(tmp_path, "")
    assert config.html_theme_options["repository_url"] == HOME
    assert config.html_theme_options["launch_buttons"] == {"binderhub_url": "b"}
    assert (config.html_baseurl, config.ogp_site_url) == (SITE, SITE)
    assert config.notfound_urls_prefix == "/notes/"
    config = configured(tmp_path, "https://github.com/other/fork")
    assert config.html_theme_options["launch_buttons"] == BUTTONS
    assert config.html_baseurl == "https://other.github.io/fork/"


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
