"""Credits: one the first time a company is fetched, then nothing for as long as the window lasts."""

from collections.abc import Iterable

_DAY = 86_400.0


class Account:
    """A balance, and when each company was last paid for.

    References:
        gaps.md, credits.
    """

    def __init__(self, credits: int, window_days: int) -> None:
        """Open an account.

        Args:
            credits: The balance.
            window_days: How long a company stays free once paid.
        """
        self.balance = credits
        self.window_days = window_days
        self.charges: dict[int, int] = {}  # by node: how often it was charged
        self._paid: dict[int, float] = {}

    def find_unpaid(self, nodes: Iterable[int], now: float) -> list[int]:
        """Return the companies that would cost a credit now, each once."""
        since, paid = now - self.window_days * _DAY, self._paid
        return [node for node in dict.fromkeys(nodes) if paid.get(node, -1.0) <= since]

    def charge(self, unpaid: list[int], now: float) -> int:
        """Charge a credit for each of these companies and return how many that were."""
        for node in unpaid:
            self._paid[node] = now
            self.charges[node] = self.charges.get(node, 0) + 1
        self.balance -= len(unpaid)
        return len(unpaid)
