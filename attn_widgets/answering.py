"""A widget with a text box, whose input a live kernel answers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import traitlets

from attn_widgets.base import DataWidget
from attn_widgets.encoding import replace_surrogates


class AnsweringWidget(DataWidget):
    """A widget that shows the result of a function on a text that the reader types.

    A subclass names in `_answers` both the trait that chooses a result and the key of `reply` that
    holds the typed one; `encode` checks and encodes a result, of which `_starts` is the trait that
    walks it. The results given at first are in `data`, under the plural.
    """

    _answers, _starts = "", ""
    typing = traitlets.Enum(("off", "live", "page"), "off").tag(sync=True)
    text = traitlets.Unicode("").tag(sync=True)
    reply = traitlets.Dict().tag(sync=True)  # {text, error, answer}: the answer to a text

    def __init__(
        self,
        function: Callable[[str], Any] | None,
        encode: Callable[[Any], dict[str, Any]],
        **state: Any,
    ) -> None:
        self._encode, typing = encode, "off" if function is None else "live"
        reply = {"text": "", "error": "", self._answers: None}
        super().__init__(typing=typing, reply=reply, **state)
        if function is not None:
            self.observe(partial(self._answer, function), "text")

    def _all(self) -> list[dict[str, Any]]:
        """The results that can be chosen: the one that the reader typed is the last."""
        typed = self.reply[self._answers]
        return self.data[f"{self._answers}s"] + ([] if typed is None else [typed])

    def _answer(self, function: Callable[[str], Any], _: Any) -> None:
        """Answer the text; an error is shown, and the last answer stays."""
        try:
            answer = self._encode(function(self.text))
        except Exception as error:  # the reader may type anything, and the function may raise it
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            words = replace_surrogates(f"{kind}{error}")
            self.reply = {**self.reply, "text": self.text, "error": words}
            return
        with self.hold_sync():  # one message: no moment at which the parts do not fit
            self.reply = {"text": self.text, "error": "", self._answers: answer}
            setattr(self, self._answers, len(self._all()) - 1)
            setattr(self, self._starts, 0)

    def page_state(self) -> dict[str, Any]:
        """As `BookWidget.page_state`, but no kernel is there to answer a text."""
        typing = "off" if self.typing == "off" else "page"
        return {**super().page_state(), "typing": typing, "text": ""}
