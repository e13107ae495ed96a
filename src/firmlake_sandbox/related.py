"""Lookalikes and relationships of a company, the same whoever of the two is asked about."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from firmlake_sandbox.numbers import BASE_BITS, BASE_MASK, END, FIRST
from firmlake_sandbox.world import WORDS, World, company_id, draw, identify, is_found, is_lasting, list_beats

Entry = dict[str, Any]

_POPULAR = 256  # in each country
_REPLACED_EVERY = 200  # weeks

# How many lookalikes a company has: mostly all 20, one in 25 none.
_COUNTS = (0, 3, 7, 12, 16, 18, 19, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 1)


def list_lookalikes(world: World, node: int) -> list[Entry]:
    """Return the companies most like this one, which is found, the most alike first."""
    bits = draw(world.key, "lookalikes", node)
    count = _COUNTS[bits % 25]
    replaced = len(list_beats(bits >> 5, world.week, _REPLACED_EVERY))
    dropped = (bits >> 12) % 20 + replaced - 1 if replaced else -1
    highest, step = 999_000 - (bits >> 20) % 100_000, 2_000 + (bits >> 40) % 24_000
    found: dict[int, Entry] = {}
    for place, other in enumerate(_candidates(world, node, bits)):
        if len(found) == count:
            break
        if place != dropped and other not in found and is_found(world, other):
            # The jitter is smaller than the step, which keeps the order strict.
            score = highest - place * step - (bits >> place) % step
            found[other] = {"companyId": company_id(world, other), "score": score / 1_000_000}
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
        country << BASE_BITS | FIRST[country] + draw(key, "popular", country << 32 | place) % span
        for place in range(600)
    )
    return tuple(dict.fromkeys(node for node in nodes if is_lasting(key, node)))[:_POPULAR]


_GROUP = 32
_CHANGED_EVERY = 40  # weeks: an edge that changes at all
_FAR = 3  # the place of the owner elsewhere; 0 to 2 are those within the group
_FAR_PERCENT = 10

# Stakes by place, in ten-thousandths: low and span. All of them together stay under 1.
_STAKES = ((2500, 3500), (1000, 1000), (300, 700), (300, 700))
_PERSON_STAKES = (400, 600)
_WHOLE, _EXCESSIVE = 10_000, 9_700

# Names of the relationship; nearly all are the first.
_FUNCTIONS = ("SHAREHOLDER",) * 61 + ("BENEFICIAL_OWNER", "PARTNER", "BRANCH_OF")
# Owners that are no company: how many persons, and whether one more is anonymous.
_PERSONS = (0, 0, 0, 0, 1, 1, 1, 2, 2, 4)
_ANONYMOUS_ONE_IN = 9


_Owners = Callable[[int], tuple[int, ...]]

# Forms of groups: how many of 64 groups have it, the percentage of its edges that are there, and who may own a member.
_FORMS: tuple[tuple[int, int, _Owners], ...] = (
    (14, 0, lambda _m: ()),
    (18, 85, lambda m: ((m - 1) // 3,) if m else ()),  # tree
    (7, 90, lambda m: (0,) if m else ()),  # star: a holding with up to 31 children
    (5, 98, lambda m: (m - 1,) if m else ()),  # chain, up to 31 deep
    (6, 85, lambda m: (m ^ 1,)),  # cross-holdings
    (4, 95, lambda m: (m & 24 | (m + 1) & 7,)),  # rings of eight
    (7, 92, lambda m: ((), (m - 1,), (m - 2,), (m - 1, m - 2))[m & 3]),  # diamonds
    (3, 90, lambda m: ((m - 1) // 2, m) if m else (m,)),  # a tree whose companies hold shares of themselves
)


class _Form(NamedTuple):
    """A form of group, tabulated in both directions: of each member, the other one and the place among its owners."""

    percent: int
    owners: list[list[tuple[int, int]]]
    owned: list[list[tuple[int, int]]]


def _tabulate(percent: int, owners: _Owners) -> _Form:
    table = [[(owner, place) for place, owner in enumerate(owners(member))] for member in range(_GROUP)]
    owned: list[list[tuple[int, int]]] = [[] for _ in range(_GROUP)]
    for child, places in enumerate(table):
        for owner, place in places:
            owned[owner].append((child, place))
    return _Form(percent, table, owned)


_FORM_OF = [form for weight, percent, owners in _FORMS for form in [_tabulate(percent, owners)] * weight]

# The permutation of all companies, counted through the countries from the first number given out.
_SPANS = tuple(end - first for end, first in zip(END, FIRST, strict=True))
_ALL = sum(_SPANS)
_FACTOR, _SHIFT = 48_271_813, 70_368_743
_INVERSE = pow(_FACTOR, -1, _ALL)


def list_relationships(world: World, node: int, language: str) -> dict[str, list[Entry]]:
    """Return the parents and the children of a company that is found.

    A company names another as its parent with a stake exactly if that one names it as a child with the same stake.
    """
    first, member = node - node % _GROUP, node % _GROUP
    form, index = _form_of(world, node), _index(node)
    owners = [(first + other, place) for other, place in form.owners[member]]
    owned = [(first + other, place) for other, place in form.owned[member]]
    if index is not None:
        owners.append((_node((index * _FACTOR + _SHIFT) % _ALL), _FAR))
        owned.append((_node((index - _SHIFT) * _INVERSE % _ALL), _FAR))
    parents = [_relate(world, other, other, node, place, language) for other, place in owners]
    children = [_relate(world, other, node, other, place, language) for other, place in owned]
    return {
        "parents": [*filter(None, parents), *_list_persons(world, node)],
        "children": [*filter(None, children)],
    }


def _relate(world: World, other: int, parent: int, child: int, place: int, language: str) -> Entry | None:
    """Return the entry that names the other company, None where there is no such relationship in this week."""
    stake = _find_stake(world, parent, child, place)
    if stake is None:
        return None
    identifier = identify(world, other, language)
    function = _FUNCTIONS[draw(world.key, f"edge {place}", child) >> 58]
    return {"identifier": identifier, "function": function, "percentage": stake / 10_000, "name": identifier["name"]}


def _find_stake(world: World, parent: int, child: int, place: int) -> int | None:
    """Return the stake in ten-thousandths, or None where there is none."""
    bits, owners = draw(world.key, f"edge {place}", child), draw(world.key, "owners", child)
    percent = _FAR_PERCENT if place == _FAR else _form_of(world, child).percent
    # Of 32 edges one comes and goes, one is absent at first, and two change their stake.
    kind, beats = bits >> 8 & 31, len(list_beats(bits >> 16, world.week, _CHANGED_EVERY))
    is_absent = bits % 100 >= percent or (kind < 2 and (kind + beats) % 2)
    if is_absent or (place and _is_whole(owners)) or not (is_found(world, parent) and is_found(world, child)):
        return None
    if place == 0 and _is_whole(owners):
        return _WHOLE
    if place == 0 and 50 <= owners % 200 < 53:  # the stakes come to more than 1, as happens in registers
        return _EXCESSIVE
    return _draw_stake(bits, _STAKES[place], beats if kind in (2, 3) else 0)


def _draw_stake(bits: int, span: tuple[int, int], changes: int = 0) -> int:
    """Return a stake: three of four in whole percents, the others to four decimals."""
    stake = span[0] + ((bits >> 24) + changes * 100) % span[1]
    return stake if bits >> 56 & 3 == 0 else stake // 100 * 100


def _is_whole(owners: int) -> bool:
    """Tell whether the company belongs to its main parent altogether."""
    return owners % 200 < 50


def _list_persons(world: World, node: int) -> Iterator[Entry]:
    """Yield the owners that are no company: people by name, and now and then somebody anonymous."""
    owners = draw(world.key, "owners", node)
    for turn in range(0 if _is_whole(owners) else _PERSONS[(owners >> 16) % 10]):
        bits = draw(world.key, "person", node << 4 | turn)
        name = f"{WORDS['first_names'][bits % 12]} {WORDS['last_names'][(bits >> 8) % 14]}"
        stake = _draw_stake(bits, _PERSON_STAKES) / 10_000
        yield {"identifier": None, "function": "SHAREHOLDER", "percentage": stake, "name": name}
    if (owners >> 24) % _ANONYMOUS_ONE_IN == 0:
        yield {"identifier": None}


def _form_of(world: World, node: int) -> _Form:
    return _FORM_OF[draw(world.key, "shape", node - node % _GROUP) & 63]


def _index(node: int) -> int | None:
    """Return a company's place among all numbers given out, None for one below."""
    country, base = node >> BASE_BITS, node & BASE_MASK
    return sum(_SPANS[:country]) + base - FIRST[country] if base >= FIRST[country] else None


def _node(index: int) -> int:
    country = 0
    while index >= _SPANS[country]:
        index -= _SPANS[country]
        country += 1
    return country << BASE_BITS | FIRST[country] + index
