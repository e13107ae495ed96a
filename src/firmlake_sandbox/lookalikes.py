"""The companies a company resembles: up to 20 others that exist, in strictly falling score.

Most are near neighbours by number, so that resemblance is often mutual and neighbours share lookalikes; every third
is one of a few hundred companies that many resemble.
"""

from collections.abc import Iterator
from functools import lru_cache

from firmlake_sandbox.draws import LOOKALIKES, POPULAR, draw, list_beats
from firmlake_sandbox.numbers import BASE_BITS, END, FIRST
from firmlake_sandbox.records import Lookalike
from firmlake_sandbox.world import World, company_id, is_found, is_lasting

_POPULAR = 256  # in each country
_REPLACED_EVERY = 200  # weeks

# How many lookalikes a company has: mostly all 20, one in 25 none.
_COUNTS = (0, 3, 7, 12, 16, 18, 19, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 1)


def list_lookalikes(world: World, node: int) -> list[Lookalike]:
    """Return the companies most like this one, the most alike first.

    Args:
        world: Seed and week.
        node: A company that is found.
    """
    bits = draw(world.key, LOOKALIKES, node)
    count = _COUNTS[bits % 25]
    replaced = len(list_beats(bits >> 5, world.week, _REPLACED_EVERY))
    dropped = (bits >> 12) % 20 + replaced - 1 if replaced else -1
    highest, step = 999_000 - (bits >> 20) % 100_000, 2_000 + (bits >> 40) % 24_000
    found: dict[int, Lookalike] = {}
    for place, other in enumerate(_candidates(world, node, bits)):
        if len(found) == count:
            break
        if place != dropped and other not in found and is_found(world, other):
            # The jitter is smaller than the step, which keeps the order strict.
            score = highest - place * step - (bits >> place) % step
            found[other] = Lookalike(company_id(world, other), score / 1_000_000)
    return list(found.values())


def _candidates(world: World, node: int, bits: int) -> Iterator[int]:
    """Yield other companies in falling likeness, more than enough of them."""
    popular = _list_popular(world.key, node >> BASE_BITS)
    near, stride, far = bits >> 8 & 63, bits >> 14 & 62 | 1, bits >> 25
    for place in range(32):
        other = popular[(far + place * 37) % _POPULAR] if place % 3 == 2 else node ^ (near + place * stride & 63)
        if other != node:
            yield other


@lru_cache(maxsize=12)
def _list_popular(key: int, country: int) -> tuple[int, ...]:
    """Return the companies of a country that many resemble; they never vanish."""
    span = END[country] - FIRST[country]
    nodes = (
        country << BASE_BITS | FIRST[country] + draw(key, POPULAR, country << 32 | place) % span for place in range(600)
    )
    return tuple(dict.fromkeys(node for node in nodes if is_lasting(key, node)))[:_POPULAR]
