"""The pictures of a page's first screens."""

from PIL import Image

from tools import screens


def test_four_pictures_are_taken_two_sizes_in_two_themes(chromium, tmp_path, monkeypatch):
    monkeypatch.setattr(screens, "SETTLED", 0)
    page = tmp_path / "page.html"
    dark = "@media (prefers-color-scheme: dark) { body { background: black } }"
    page.write_text(f"<!doctype html><style>body {{ background: white }} {dark}</style>")
    seen = {}
    for path in screens.take(chromium, page, tmp_path / "taken"):
        with Image.open(path) as picture:
            seen[path.name] = (*picture.size, picture.convert("L").getpixel((0, 0)))
    assert seen == {
        "page-1280-light.png": (2560, 1800, 255),
        "page-1280-dark.png": (2560, 1800, 0),
        "page-390-light.png": (780, 1688, 255),
        "page-390-dark.png": (780, 1688, 0),
    }
