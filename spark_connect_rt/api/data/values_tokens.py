"""Cuts the text of a value into tokens, for ``values_parse`` (the parser inside Java ``Values``)."""

from __future__ import annotations

_DELIMITERS = frozenset(':,{}[]"')


class Tokens:
    """A position in a text. Every delimiter without a backslash before it is a token, and so is the text in between."""

    def __init__(self, text: str) -> None:
        """Begin before the first token."""
        self.text = text
        self._index = 0
        self._next: str | None = None
        self.previous: str | None = None

    def mark(self) -> int:
        """Return the position of the next token, for ``rewind``."""
        return self._index - len(self._next or "")

    def rewind(self, position: int) -> None:
        """Go back to a marked position."""
        self._index, self._next, self.previous = position, None, None

    @property
    def position(self) -> int:
        """How far the text has been cut."""
        return self._index

    def has_next(self) -> bool:
        """Return whether any token is left."""
        return self._next is not None or self._index < len(self.text)

    def next(self) -> str:
        """Consume and return the next token."""
        token = self._cut() if self._next is None else self._next
        self._next, self.previous = None, token
        return token

    def next_together(self, count: int) -> str | None:
        """Return the text of the next ``count`` tokens, None (and stay) where fewer are left."""
        start = self.mark()
        for _ in range(count):
            if not self.has_next():
                self.rewind(start)
                return None
            self.next()
        return self.text[start : self._index]

    def consume(self, expected: str) -> bool:
        """Take the next token if it is ``expected``; blanks around it do not count."""
        if self._next is None:
            if not self.has_next():
                return False
            self._next = self._cut()
        while not self._next.strip() and self._index < len(self.text):
            self._next = self._cut()
        if self._next.strip() != expected:
            return False
        self._next = None
        return True

    def _cut(self) -> str:
        start, escaped = self._index, False
        for index in range(start, len(self.text)):
            character = self.text[index]
            if character in _DELIMITERS and not escaped:
                self._index = max(index, start + 1)
                return self.text[start : self._index]
            escaped = character == "\\" and not escaped
        self._index = len(self.text)
        return self.text[start:]
