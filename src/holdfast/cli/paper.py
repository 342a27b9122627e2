"""Text on a terminal that can really be taken back: across line ends, wrapped lines and wide characters."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.cells import cell_len


class Paper:
    """Writes and erases at the end of a text. Lines are broken here, before the terminal would, so that places are known."""

    def __init__(self, write: Callable[[str], object], width: int) -> None:
        self._write, self._width = write, max(width - 1, 2)
        self.text = ""
        self._row, self._column = 0, 0

    def insert(self, text: str) -> None:
        """Write at the end."""
        shown = "".join(_harmless(text))
        self.text += shown
        for char in shown:
            row, column = self._after(char, self._row, self._column)
            if char == "\n":
                self._write("\n")
            else:
                self._write(("\n" if row > self._row else "") + char)
            self._row, self._column = row, column

    def delete(self, num_chars: int) -> None:
        """Erase from the end, wherever on the screen that is."""
        self.text = self.text[: len(self.text) - num_chars]
        row = column = 0
        for char in self.text:
            row, column = self._after(char, row, column)
        up, right = self._row - row, column
        self._write((f"\x1b[{up}A" if up else "") + "\r" + (f"\x1b[{right}C" if right else "") + "\x1b[J")
        self._row, self._column = row, column

    def _after(self, char: str, row: int, column: int) -> tuple[int, int]:
        """Where the next character goes after this one."""
        if char == "\n":
            return row + 1, 0
        cells = cell_len(char)
        return (row + 1, cells) if column + cells > self._width else (row, column + cells)


def _harmless(text: str) -> Iterator[str]:
    """One sign per character, so that deletions count alike; whatever would steer the terminal is a dot."""
    return (char if char == "\n" or char.isprintable() else "·" for char in text)
