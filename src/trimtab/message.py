"""A sentence for people that carries a stable code for programs.

Every reason, note and outcome that a program or a test may rely on is a `Message`: the code stays
when the sentence is improved. In JSON the code stands beside the sentence (``reason`` and
``reason_code``). Errors carry their code as an attribute (`trimtab.errors`).
"""

from __future__ import annotations

import re
from typing import Final

CODE: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
"""Lower-case words joined by hyphens: ``too-few-runs``."""


class Message(str):
    """A sentence with its code. It is a ``str`` wherever a sentence is wanted.

    Parameters
    ----------
    code
        Stable, as `CODE` says; the same code for the same meaning wherever it arises.
    text
        One sentence, without a final full stop; free to change from version to version.

    Raises
    ------
    ValueError
        For a code of another form.

    Notes
    -----
    Formatting and joining return a plain ``str``: give the code to the sentence that is whole.

    Examples
    --------
    >>> reason = Message("too-few-runs", "3 of at least 24 runs in the window")
    >>> reason.code, reason[:4]
    ('too-few-runs', '3 of')
    """

    __slots__ = ("code",)
    code: str

    def __new__(cls, code: str, text: str) -> Message:
        """Return the sentence with its code."""
        if CODE.fullmatch(code) is None:
            raise ValueError(f"{code!r} is no code: lower-case words joined by hyphens")
        message = super().__new__(cls, text)
        message.code = code
        return message

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> object:
        """Keep the code in what pydantic writes and reads: ``[code, text]``."""
        from pydantic_core import core_schema

        text = core_schema.str_schema()
        return core_schema.no_info_after_validator_function(
            lambda pair: cls(*pair),
            core_schema.tuple_schema([text, text]),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda message: (message.code, str(message))
            ),
        )

    def __reduce__(self) -> tuple[type[Message], tuple[str, str]]:
        """Keep the code when the sentence passes to another process."""
        return Message, (self.code, str(self))


def code_of(text: str | None) -> str | None:
    """Return the code of a sentence; ``None`` where it has none, as text read from a store."""
    return text.code if isinstance(text, Message) else None


def joined(*sentences: str | None) -> str | None:
    """Return sentences as one, with the code of the first that has one; ``None`` of none.

    Examples
    --------
    >>> joined(None, Message("line-cut", "line 3 is cut"), "no space").code
    'line-cut'
    """
    present = tuple(dict.fromkeys(sentence for sentence in sentences if sentence))
    code = next(filter(None, map(code_of, present)), None)
    text = "; ".join(present)
    return Message(code, text) if code is not None else text or None
