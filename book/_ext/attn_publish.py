"""What a public home adds: launch buttons, descriptions, previews, a map of the site, a 404 page.

All of it follows `repository: url` in `_config.yml`, else the GitHub remote of the clone that the
book is built from. Without either, none of it is there.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

import yaml
from sphinx.application import Sphinx
from sphinx.config import Config

ONLY_IN_PUBLIC = ("notfound.extension", "sphinx.ext.githubpages", "sphinxext.opengraph")
CARDS = "_static/cards"
ROOT_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="refresh" content="0; url={page}"></head>
<body><p><a href="{page}">{title}</a></p></body></html>
"""


def github_url(remote: str) -> str:
    """The https address of a GitHub remote in either spelling; empty for any other remote."""
    match = re.fullmatch(
        r"(?:https://|ssh://git@|git@)github\.com[:/]([\w.-]+)/([\w.-]+?)(?:\.git)?/?",
        remote.strip(),
    )
    return f"https://github.com/{match[1]}/{match[2]}" if match else ""


def remote_url(folder: Path) -> str:
    """The GitHub address of the repository that a folder is a clone of; empty without one."""
    git = shutil.which("git")
    command = [git or "git", "-C", str(folder), "remote", "get-url", "origin"]
    done = subprocess.run(command, capture_output=True, text=True, check=False) if git else None
    return github_url(done.stdout) if done and done.returncode == 0 else ""


def named_url(folder: Path) -> str:
    """The address that `_config.yml` names."""
    settings = yaml.safe_load((folder / "_config.yml").read_text(encoding="utf-8"))
    return github_url(settings["repository"]["url"] or "")


def site_url(repository: str) -> str:
    """Where GitHub Pages shows the site of a repository."""
    if not repository:
        return ""
    owner, name = repository.split("/")[-2:]
    host = f"{owner.lower()}.github.io"
    return f"https://{host}/" if name.lower() == host else f"https://{host}/{name}/"


def use_repository(app: Sphinx, config: Config) -> None:
    """Launch buttons and addresses; Colab opens one notebook, and needs its launch cell."""
    named = named_url(Path(app.srcdir))
    url = named or remote_url(Path(app.srcdir))
    options = config.html_theme_options
    options["repository_url"] = url
    options["use_repository_button"] = bool(url)
    if not url:
        options["launch_buttons"] = {}
        return
    if not named:
        options["launch_buttons"].pop("colab_url", None)
    config.html_baseurl = config.html_baseurl or site_url(url)  # Sphinx's canonical links
    config.ogp_site_url, config.ogp_social_cards = config.html_baseurl, {"enable": False}
    config.ogp_custom_meta_tags = ['<meta name="twitter:card" content="summary_large_image">']
    config.ogp_site_name = config.html_title
    config.notfound_urls_prefix = urlsplit(config.html_baseurl).path


def describe_page(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """The opening page's title is the book's, once; the preview of a page is its card."""
    if pagename == app.config.root_doc:
        context["docstitle"] = ""
    card = f"{CARDS}/{Path(pagename).name}.png"
    if doctree is not None and (Path(app.srcdir) / "book" / card).is_file():
        context["meta"] = (context["meta"] or {}) | {
            "og:image": card,
            "og:image:alt": f"A figure of {app.env.titles[pagename].astext()}",
        }


def finish(app: Sphinx, error: Exception | None) -> None:
    """The files at the root of the site."""
    if error is not None or app.builder.format != "html":
        return
    site, base = Path(app.outdir), app.config.html_baseurl
    page = app.builder.get_target_uri(app.config.root_doc)
    root = ROOT_PAGE.format(title=escape(app.config.html_title), page=page)
    (site / "index.html").write_text(root, encoding="utf-8")
    if not base:
        return
    pages = [app.builder.get_target_uri(name) for name in sorted(app.env.found_docs)]
    listed = "\n".join(f"<url><loc>{escape(base + address)}</loc></url>" for address in pages)
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{space}">\n'
    (site / "sitemap.xml").write_text(f"{head}{listed}\n</urlset>\n", encoding="utf-8")
    robots = f"User-agent: *\nAllow: /\nSitemap: {base}sitemap.xml\n"
    (site / "robots.txt").write_text(robots, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    if named_url(Path(app.srcdir)) or remote_url(Path(app.srcdir)):
        for extension in ONLY_IN_PUBLIC:
            app.setup_extension(extension)
    app.connect("config-inited", use_repository)
    app.connect("html-page-context", describe_page, priority=400)  # before the tags are made
    app.connect("build-finished", finish, priority=800)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
