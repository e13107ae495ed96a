"""Company numbers: which are well formed, and how a company becomes one whole number and back.

A *node* is a company as an integer: the country's place in `COUNTRIES` in the upper bits, the number without its
check digits in the lower 32. Neighbouring nodes are neighbouring numbers, which is what makes the world's groups and
lookalikes computable without storing anything.
"""

from collections.abc import Iterator

COUNTRIES = ("BE", "NL", "FR")
BASE_BITS = 32
BASE_MASK = (1 << BASE_BITS) - 1

# Where the numbers really given out begin: 0200.000.000, 01000000, 100 000 000. Below, numbers are well formed all the
# same and answer, but nobody far away is related to them. All are multiples of 64, so that blocks never straddle them.
FIRST = (2_000_000, 1_000_000, 10_000_000)
END = (20_000_000, 100_000_000, 100_000_000)

_BLOCK = 32  # companies in a row that `sample_numbers` takes: one group of the world
_STRIDE = 1_000_003  # prime, so that walking the blocks with it meets each once

# Luhn sum of four digits of which the second and the fourth count double, as they do in both halves of a SIREN's base.
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
_PAIR = [tens + _DOUBLED[ones] for tens in range(10) for ones in range(10)]
_LUHN = bytes((high + low) % 10 for high in _PAIR for low in _PAIR)


def parse_number(country: str, text: str) -> int | None:
    """Return the node of a company number in ASCII digits, or None where no company could bear it.

    Belgian numbers are read in both spellings, with and without their leading zero.

    Example:
        >>> parse_number("BE", "403227515") == parse_number("BE", "0403227515")
        True
        >>> parse_number("FR", "356000001") is None
        True
    """
    if country == "BE":
        text = text.zfill(10) if len(text) == 9 else text
        base, check = divmod(int(text), 100)
        return base if len(text) == 10 and base < END[0] and 97 - base % 97 == check else None
    if country == "NL":
        return 1 << BASE_BITS | int(text) if len(text) == 8 else None
    base, check = divmod(int(text), 10)
    return 2 << BASE_BITS | base if len(text) == 9 and _check_siren(base) == check else None


def spell_number(node: int) -> str:
    """Return the number of a company in full: 10 digits in Belgium, 8 in the Netherlands, 9 in France.

    Example:
        >>> spell_number(parse_number("BE", "403227515"))
        '0403227515'
    """
    country, base = node >> BASE_BITS, node & BASE_MASK
    if country == 1:
        return f"{base:08d}"
    return f"{base:08d}{97 - base % 97:02d}" if country == 0 else f"{base:08d}{_check_siren(base)}"


def sample_numbers(count: int, seed: int = 0, countries: tuple[str, ...] = COUNTRIES) -> list[tuple[str, str]]:
    """Return `count` different well-formed companies, as country and number in full, the same for the same seed.

    They come in runs of 32 neighbours, country after country, so that a sample holds whole groups of companies and
    companies alike. There are some tens of millions.
    """
    nodes = _walk_blocks(seed, tuple(COUNTRIES.index(country) for country in countries))
    return [(COUNTRIES[node >> BASE_BITS], spell_number(node)) for node, _ in zip(nodes, range(count), strict=False)]


def _walk_blocks(seed: int, countries: tuple[int, ...]) -> Iterator[int]:
    for turn in range(min(END[country] - FIRST[country] for country in countries) // _BLOCK):
        for country in countries:
            blocks = (END[country] - FIRST[country]) // _BLOCK
            start = FIRST[country] + (seed * 7919 + turn * _STRIDE) % blocks * _BLOCK
            yield from range(country << BASE_BITS | start, (country << BASE_BITS | start) + _BLOCK)


def _check_siren(base: int) -> int:
    """Return the ninth digit of a SIREN."""
    return -(_LUHN[base // 10_000] + _LUHN[base % 10_000]) % 10
