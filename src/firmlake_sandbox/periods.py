"""Which financial periods a company has in a given week, when each began and ended, and when its accounts came in.

A company files once a year, in a week of its own. Its fiscal year ends on the last day of a quarter before that. One in
twelve has changed its year end, which makes one period longer or shorter; one in twenty has filed a period twice.
"""

from datetime import date

from msgspec import Struct

from firmlake_sandbox.draws import EVENTS, draw, list_beats
from firmlake_sandbox.world import World

MAX_PERIODS = 20

MONDAY_OF_WEEK_0 = date(2026, 1, 5).toordinal()
_WEEKS_A_YEAR = 52
_REVISED_EVERY = 100  # weeks: an old income statement, and a health indicator
_SOONEST_FILING = 45  # days after the end of the period

# A fiscal year end: its month and day, the next day, and how many calendar years that is later.
_YearEnd = tuple[int, int, str, int]
_DECEMBER: _YearEnd = (12, 31, "01-01", 1)
_MARCH: _YearEnd = (3, 31, "04-01", 0)
_JUNE: _YearEnd = (6, 30, "07-01", 0)
_SEPTEMBER: _YearEnd = (9, 30, "10-01", 0)
# By the month in which a company files: year ends at least two months before.
_YEAR_ENDS = (
    (_JUNE, _SEPTEMBER), (_JUNE, _SEPTEMBER), (_DECEMBER,), (_DECEMBER,), (_DECEMBER,), (_DECEMBER, _MARCH),
    (_DECEMBER, _DECEMBER, _MARCH), (_DECEMBER,), (_DECEMBER,), (_DECEMBER, _JUNE), (_DECEMBER, _JUNE),
    (_JUNE, _SEPTEMBER),
)  # fmt: skip


class Calendar(Struct, frozen=True):
    """The periods of a company in one week.

    A year is counted back from the period that is newest in week 0: 0, 1, 2 ...; those filed since are -1, -2 ...

    Attributes:
        years: Of each period, newest first; a year that was filed twice is there twice.
        restated: Years whose income statement was filed anew, once for each time.
        revised: Years whose health indicator changed, being then the newest, once for each time.
    """

    years: tuple[int, ...]
    restated: tuple[int, ...]
    revised: tuple[int, ...]
    _filing_day: int  # ordinal, of year 0
    _end_year: int  # calendar year in which year 0 ended
    _year_end: _YearEnd
    _earlier_year_end: _YearEnd  # of the years before `_switch`
    _switch: int

    def is_second(self, place: int) -> bool:
        """Tell whether a period is the older of the two filings of its year."""
        return place > 0 and self.years[place - 1] == self.years[place]

    def date_period(self, place: int, noise: int) -> tuple[str, str, str]:
        """Return when a period began and ended and its accounts came in, as ISO dates.

        Args:
            place: The period's, in `years`.
            noise: Any number; shifts the last date by some days.
        """
        year = self.years[place]
        month, day, _, _ = self._end_of(year)
        _, _, next_day, later = self._end_of(year + 1)
        end_year = self._end_year - year
        end = date(end_year, month, day)
        received = max(self._filing_day - year * 7 * _WEEKS_A_YEAR - noise % 7, end.toordinal() + _SOONEST_FILING)
        received -= 30 * self.is_second(place)
        return f"{end_year - 1 + later}-{next_day}", end.isoformat(), date.fromordinal(received).isoformat()

    def _end_of(self, year: int) -> _YearEnd:
        """Return where the fiscal year ends."""
        return self._year_end if year <= self._switch else self._earlier_year_end


def draw_calendar(world: World, node: int, count: int) -> Calendar:
    """Return the periods of a company in the world's week.

    Args:
        world: Seed and week.
        node: The company.
        count: How many periods it has in week 0; those it files later are added, up to 20 in all.
    """
    bits, week = draw(world.key, EVENTS, node), world.week
    filing_week = bits % _WEEKS_A_YEAR
    filing_day = MONDAY_OF_WEEK_0 + (filing_week + 1 - _WEEKS_A_YEAR) * 7
    filing_date = date.fromordinal(filing_day)
    choices = _YEAR_ENDS[filing_date.month - 1]
    year_end = choices[(bits >> 8) % len(choices)]
    is_twice, is_odd = count > 1 and (bits >> 16) % 20 == 0, (bits >> 24) % 12 == 0
    first = count - 1 - is_twice  # the oldest year
    filed = _count_filed(filing_week, week)
    years = [*range(-filed, first + 1)]
    if is_twice:
        twice = (bits >> 32) % (first + 1)
        years.insert(twice + filed, twice)
    return Calendar(
        tuple(years[:MAX_PERIODS]),
        tuple(beat * 7 % (first + 1) for beat in list_beats(bits >> 44, week, _REVISED_EVERY)),
        tuple(-_count_filed(filing_week, beat) for beat in list_beats(bits >> 50, week, _REVISED_EVERY)),
        filing_day,
        filing_date.year - (year_end[0] >= filing_date.month),
        year_end,
        (_JUNE if year_end is _DECEMBER else _DECEMBER) if is_odd else year_end,
        (bits >> 40) % (first + 1),
    )


def _count_filed(filing_week: int, week: int) -> int:
    """Return how many new accounts a company has filed since week 0."""
    return len(list_beats(_WEEKS_A_YEAR - 1 - filing_week, week, _WEEKS_A_YEAR))
