"""A widget with a box for the reader's own words, which a live kernel answers."""

from collections.abc import Callable
from typing import Any

import traitlets

from attn_notes.widgets.base import BookWidget
from attn_notes.widgets.encoding import whole

__all__ = ["AnsweringWidget"]


class AnsweringWidget(BookWidget):
    """A widget that shows what a function makes of a text that the reader types.

    A subclass names in `_asks` its argument that is the function, and in `_answers` the key of
    `reply` that holds the answer; `_encode_answer` makes one for JSON, `_show_answer` chooses it.

    Args:
        function: what answers a text, or None for no box.
        state: the other traits.

    Raises:
        TypeError: a function that cannot be called.

    Example:
        >>> AnsweringWidget._asks, AnsweringWidget._answers
        ('', '')
    """

    _asks = ""
    _answers = ""

    typing = traitlets.Enum(("off", "live", "page"), "off").tag(sync=True)
    text = traitlets.Unicode("").tag(sync=True)
    reply = traitlets.Dict().tag(sync=True)  # {text, error, answer}: the answer to a text

    def __init__(self, function: Callable[[str], Any] | None, **state: Any) -> None:
        if function is not None and not callable(function):
            raise TypeError(f"{self._asks} must be a function, got {type(function).__name__}")
        self._function = function
        super().__init__(
            typing="off" if function is None else "live",
            reply={"text": "", "error": "", self._answers: None},
            **state,
        )
        self.observe(self._answer, "text")

    def _encode_answer(self, answer: Any) -> dict[str, Any]:
        """What the function returned, checked, as the front end reads it."""
        raise NotImplementedError

    def _show_answer(self) -> None:
        """Set the traits so that the answer is on show."""
        raise NotImplementedError

    @traitlets.validate("text")
    def _whole(self, proposal: Any) -> str:
        if proposal["value"] and self._function is None:
            raise traitlets.TraitError(f"text can be set only where {self._asks} was given")
        return whole(proposal["value"])

    def _answer(self, _: Any) -> None:
        """Answer what the reader typed; what goes wrong is said, and the last answer stays."""
        if self._function is None:
            return
        try:
            answer = self._encode_answer(self._function(self.text))
        except Exception as error:  # the reader may type anything, and the function may raise it
            words = f"{type(error).__name__}: {error}"
            if isinstance(error, ValueError):  # written for the reader
                words = str(error)
            self.reply = {**self.reply, "text": self.text, "error": whole(words)}
            return
        with self.hold_sync():  # one message: no moment at which the parts do not fit
            self.reply = {"text": self.text, "error": "", self._answers: answer}
            self._show_answer()

    def page_state(self) -> dict[str, Any]:
        """The state for a page: the same, but that nobody is there to answer a text.

        Returns:
            Trait names and values, ready for JSON.
        """
        typing = "off" if self.typing == "off" else "page"
        return {**super().page_state(), "typing": typing, "text": ""}
