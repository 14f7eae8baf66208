"""The functions of a widget's module, called from Python and held against torch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from playwright.sync_api import Browser

from attn_widgets.assets import module_source

CLOSE = 1e-10  # both compute in float64


def within(module: str, statement: str) -> str:
    """A statement where a module's functions are known, and what the files before it export."""
    body = module_source(module).replace("export default { render };", "")
    return f"{body}\nwith (Object.assign({{}}, ...Object.values(FILES))) {{ {statement} }}"


@contextmanager
def functions_of(chromium: Browser, module: str) -> Iterator[Callable]:
    """What calls them, while the page is open: `call("(stored, x) => ...", stored, x)`."""
    page = chromium.new_page()

    def call(function: str, *arguments):
        code = f"(given) => {{ {within(module, f'return ({function})(...given);')} }}"
        return page.evaluate(code, list(arguments))

    yield call
    page.close()


def assert_close(found: list, expected: torch.Tensor) -> None:
    numbers = torch.tensor(found, dtype=torch.float64)
    torch.testing.assert_close(numbers, expected, rtol=CLOSE, atol=CLOSE)
