"""Credits: one the first time a company is fetched, then nothing for as long as the window lasts."""

import os
import struct
from collections.abc import Iterable
from pathlib import Path

_DAY = 86_400.0
_PAYMENT = struct.Struct("<qd")  # a node, and when it was paid for


def _open_private(path: str, flags: int) -> int:
    """Open a file that only its owner may read."""
    return os.open(path, flags, 0o600)


class Account:
    """A balance, and when each company was last paid for.

    References:
        gaps.md, credits.
    """

    def __init__(self, credits: int, window_days: int, book: Path | None = None) -> None:
        """Open an account.

        Args:
            credits: The balance.
            window_days: How long a company stays free once paid.
            book: A file that keeps what was paid; None forgets it when the process ends.
        """
        self.balance = credits
        self.window_days = window_days
        self.charges: dict[int, int] = {}  # by node: how often it was charged
        self._book = book
        self._paid: dict[int, float] = {}
        if book and book.exists():
            os.truncate(book, book.stat().st_size // _PAYMENT.size * _PAYMENT.size)  # a full disk may have cut the last
            self._paid.update(_PAYMENT.iter_unpack(book.read_bytes()))

    def find_unpaid(self, nodes: Iterable[int], now: float) -> list[int]:
        """Return the companies that would cost a credit now, each once."""
        since, paid = now - self.window_days * _DAY, self._paid
        return [node for node in dict.fromkeys(nodes) if paid.get(node, -1.0) <= since]

    def charge(self, unpaid: list[int], now: float) -> int:
        """Charge a credit for each of these companies and return how many that were."""
        for node in unpaid:
            self._paid[node] = now
            self.charges[node] = self.charges.get(node, 0) + 1
        if self._book and unpaid:
            with open(self._book, "ab", opener=_open_private) as file:
                file.write(b"".join(_PAYMENT.pack(node, now) for node in unpaid))
        self.balance -= len(unpaid)
        return len(unpaid)
