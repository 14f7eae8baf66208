"""What an import says where a library is missing that an extra of this package installs."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Imports inside: where a library is missing, the error says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if "pip install" in str(error):  # a package below has said it
            raise
        library, install = str(error.name).partition(".")[0], f"pip install -e '.[{name}]'"
        words = f"{library} is missing: `{install}` in the folder of the repository installs it"
        raise ModuleNotFoundError(words, name=library) from error
