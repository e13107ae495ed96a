"""What the service saw and charged, for tests to judge a client by."""

from array import array
from collections import Counter

from firmlake_sandbox.numbers import BASE_BITS, COUNTRIES, spell_number

_MINUTE = 60.0


class Ledger:
    """Requests by endpoint and status, and when each came."""

    def __init__(self) -> None:
        """Begin empty."""
        self._answers: Counter[tuple[str, str]] = Counter()
        self._times = array("d")

    def count_arrival(self, ticks: float) -> None:
        """Note when a request came, on the clock of the rate limit."""
        self._times.append(ticks)

    def count_answer(self, endpoint: str, outcome: str) -> None:
        """Note how a request ended.

        Args:
            endpoint: Its name in `contract.ENDPOINTS`, or `unknown`.
            outcome: The status as sent, or the fault that took its place.
        """
        self._answers[endpoint, outcome] += 1

    def summarise(self, charges: dict[int, int], balance: int) -> dict[str, object]:
        """Return the totals."""
        by_outcome: Counter[str] = Counter()
        requests: dict[str, dict[str, int]] = {}
        for (endpoint, outcome), count in sorted(self._answers.items()):
            by_outcome[outcome] += count
            requests.setdefault(endpoint, {})[outcome] = count
        return {
            "requests": len(self._times),
            "by_outcome": by_outcome,
            "by_endpoint": requests,
            "busiest_minute": _count_busiest(self._times),
            "credits_charged": sum(charges.values()),
            "credits_remaining": balance,
            "companies_charged": len(charges),
            "companies_charged_again": sum(count > 1 for count in charges.values()),
        }

    def list_times(self) -> list[float]:
        """Return when each request came, in order."""
        return list(self._times)


def spell_charges(charges: dict[int, int]) -> dict[str, int]:
    """Return how often each company was charged, by country and number in full, such as BE0403227515."""
    return {COUNTRIES[node >> BASE_BITS] + spell_number(node): count for node, count in charges.items()}


def _count_busiest(times: "array[float]") -> int:
    """Return the most requests within any sixty seconds."""
    busiest = first = 0
    for last, time in enumerate(times):
        while times[first] <= time - _MINUTE:
            first += 1
        busiest = max(busiest, last - first + 1)
    return busiest
