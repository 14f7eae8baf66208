"""What a public home adds: launch buttons, descriptions, previews, a map of the site, a 404 page.

All of it follows `repository: url` in `_config.yml`. Without an address, none of it is there.
"""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from sphinx.application import Sphinx
from sphinx.config import Config

ONLY_IN_PUBLIC = (
    *("notfound.extension", "sphinx.ext.githubpages"),
    *("sphinx_sitemap", "sphinxext.opengraph"),
)


def named_url(folder: Path) -> str:
    """The address of the repository that `_config.yml` names."""
    settings = yaml.safe_load((folder / "_config.yml").read_text(encoding="utf-8"))
    return (settings["repository"]["url"] or "").removesuffix("/").removesuffix(".git")


def site_url(repository: str) -> str:
    """Where GitHub Pages shows the site of a repository."""
    owner, name = repository.split("/")[-2:]
    host = f"{owner.lower()}.github.io"
    return f"https://{host}/" if name.lower() == host else f"https://{host}/{name}/"


def use_repository(app: Sphinx, config: Config) -> None:
    url = named_url(Path(app.srcdir))
    options: dict[str, Any] = config.html_theme_options
    options |= {"repository_url": url, "use_repository_button": bool(url)}
    if not url:
        options["launch_buttons"] = {}
        return
    config.html_baseurl = config.html_baseurl or site_url(url)  # Sphinx's canonical links
    config.sitemap_url_scheme = "{link}"
    config.sitemap_excludes = ["404.html", "genindex.html", "search.html"]
    config.ogp_site_url, config.ogp_site_name = config.html_baseurl, config.html_title
    config.ogp_social_cards = dict.fromkeys(("image", "image_mini"), "book/_static/card.png")
    config.notfound_urls_prefix = urlsplit(config.html_baseurl).path


def setup(app: Sphinx) -> None:
    if named_url(Path(app.srcdir)):
        for extension in ONLY_IN_PUBLIC:
            app.setup_extension(extension)
    app.connect("config-inited", use_repository)
