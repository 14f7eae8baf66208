"""The bibliography's list: authors and year as labels, as the text cites them."""

from collections.abc import Iterator
from typing import Any

from pybtex.database import Entry, Person
from pybtex.plugin import register_plugin
from pybtex.style.formatting.plain import Style
from pybtex.style.labels import BaseLabelStyle
from pybtex.style.sorting.author_year_title import SortingStyle


def authors(entry: Entry) -> str:
    """`Sutskever et al.`, or the names where there are one or two."""
    people = [
        person.rich_prelast_names + person.rich_last_names for person in entry.persons["author"]
    ]
    names = [" ".join(map(str, parts)) for parts in people]
    return " and ".join(names) if len(names) < 3 else f"{names[0]} et al."


class AuthorYearLabels(BaseLabelStyle):
    """`Devlin et al., 2019`, where `plain` has a number; a letter tells works of a year apart."""

    def format_labels(self, sorted_entries: list[Entry]) -> Iterator[str]:
        labels = [f"{authors(entry)}, {entry.fields['year']}" for entry in sorted_entries]
        for n, label in enumerate(labels):
            letter = chr(ord("a") + labels[:n].count(label)) if labels.count(label) > 1 else ""
            yield label + letter


class AuthorsInOrder(SortingStyle):
    """By author; a team's name stands in braces, which count for nothing."""

    def person_key(self, person: Person) -> str:
        return super().person_key(person).replace("{", "").replace("}", "")


class AuthorYearStyle(Style):
    """Pybtex's plain style, sorted by author, with labels of authors and year."""

    default_sorting_style = AuthorsInOrder
    default_label_style = AuthorYearLabels


def setup(app: Any) -> None:
    register_plugin("pybtex.style.formatting", "authoryear", AuthorYearStyle)
