"""The report's chapter on groups: its sections, and the drawing of a group.

The drawing is a tree from left to right. Each member appears once, on its shortest path from the head.
"""

# ruff: noqa: S608 - statements are put together from texts of this module

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from firmlake.report.section import Section, shown_text

__all__ = ["GROUPS", "TREE", "draw_groups"]


def draw_groups(rows: Sequence[dict[str, Any]]) -> str:
    """Draw groups.

    Args:
        rows: The members, grouped by head, each after its parent: head_no, no, parent_no (None for the head), depth,
            name, number, stake (the fraction that the parent holds), is_held (whether we hold its accounts), is_asked
            (whether it is the company that the page is about), is_ring,
            member_count (of the group, including members that are not drawn).

    Returns:
        HTML with one figure per group. A name too long for its box ends in an ellipsis; its tooltip has the whole name.
    """
    return "".join(_figure(list(members)) for _, members in groupby(rows, lambda row: row["head_no"]))


# ---------------------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _GAP, _SPACE = 200, 42, 64, 10
"""Width and height of a box, distance to the next column and to the next row, in pixels."""


def _figure(members: Sequence[dict[str, Any]]) -> str:
    head = members[0]
    rows = _place(members)
    width = max(row["depth"] for row in members) * (_WIDTH + _GAP) + _WIDTH + 2
    height = (max(rows.values()) + 1) * (_HEIGHT + _SPACE)
    left_out = head["member_count"] - len(members)
    caption = f"{head['member_count']:,} members" + (f", {left_out:,} of them not drawn" if left_out else "")
    shapes = "".join(shape for row in members for shape in _member(row, rows))
    # Its texts are all there is to read, so it is no single picture for a screen reader.
    drawing = f'role="group" aria-label="Group of {shown_text(head["name"])}"'
    return (
        f"<figure><figcaption><b><bdi>{shown_text(head['name'])}</bdi></b>, {caption}</figcaption>"
        f'<div class="wide" tabindex="0">'
        f'<svg class="tree" {drawing} width="{width}" height="{height}" viewBox="-1 0 {width} {height}">'
        f"{shapes}</svg></div></figure>"
    )


def _place(members: Sequence[dict[str, Any]]) -> dict[int, int]:
    """Assign a row to each member: a leaf gets a row of its own, a parent the row of its first child."""
    below: dict[int, list[int]] = {row["no"]: [] for row in members}
    for row in members[1:]:
        below[row["parent_no"]].append(row["no"])
    rows: dict[int, int] = {}
    free = iter(range(len(members)))

    def place(one: int) -> int:
        places = [place(child) for child in below[one]]
        rows[one] = places[0] if places else next(free)
        return rows[one]

    place(members[0]["no"])
    return rows


def _member(row: dict[str, Any], rows: dict[int, int]) -> Iterator[str]:
    x, y = row["depth"] * (_WIDTH + _GAP), _top(rows[row["no"]])
    if row["parent_no"] is not None:
        start, end = (_top(rows[one]) + _HEIGHT // 2 for one in (row["parent_no"], row["no"]))
        yield f'<path d="M{x - _GAP} {start}h14V{end}H{x}"/>'
        yield f'<text class="stake" x="{x - 5}" y="{end - 4}">{row["stake"]:.0%}</text>'
    kind = f"box{'' if row['is_held'] else ' unheld'}{' asked' if row['is_asked'] else ''}"
    about = f"{row['number'] or 'no number'}{', in a ring' if row['is_ring'] and row['parent_no'] is None else ''}"
    yield f'<rect class="{kind}" x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="4"/>'
    # HTML, because SVG does not shorten text that is too long.
    yield (
        f'<foreignObject x="{x + 8}" y="{y + 4}" width="{_WIDTH - 16}" height="{_HEIGHT - 8}"><div '
        f'title="{shown_text(row["name"])}">{shown_text(row["name"])}</div><div class="about">{shown_text(about)}</div>'
        "</foreignObject>"
    )


def _top(row: int) -> int:
    return row * (_HEIGHT + _SPACE) + _SPACE // 2


TREE = """
    WITH RECURSIVE heads(no, is_ring, member_count) AS MATERIALIZED (
        {heads}
    ),
    tree(head_no, no, parent_no, depth, stake) USING KEY (head_no, no) AS (
        SELECT no, no, NULL::INTEGER, 0, NULL::DOUBLE FROM heads
        UNION
        SELECT t.head_no, s.child_no, arg_min(t.no, (-s.stake, t.no)), min(t.depth) + 1,
            arg_min(s.stake, (-s.stake, t.no))
        FROM tree t
        JOIN shareholdings s ON s.parent_no = t.no
        LEFT JOIN recurring.tree known ON known.head_no = t.head_no AND known.no = s.child_no
        WHERE s.stake >= 0.5 AND t.depth < {steps} AND known.no IS NULL
        GROUP BY t.head_no, s.child_no
    ),
    named AS MATERIALIZED (
        SELECT p.* FROM parties p SEMI JOIN tree USING (no)
    ),
    held AS (
        SELECT DISTINCT no FROM financials JOIN named USING (country, company_number)
    )
    SELECT t.head_no, t.no, t.parent_no, t.depth, t.stake, h.is_ring, h.member_count, p.name,
        p.country || ' ' || p.company_number AS number, held.no IS NOT NULL AS is_held, {is_asked} AS is_asked
    FROM tree t
    JOIN heads h ON h.no = t.head_no
    JOIN named p ON p.no = t.no
    LEFT JOIN held ON held.no = t.no
    QUALIFY row_number() OVER (PARTITION BY t.head_no ORDER BY {first}t.depth, t.stake DESC, t.no) <= 20
    ORDER BY h.member_count DESC, t.head_no, t.depth, t.stake DESC, t.no
"""
"""The rows that `draw_groups` draws: `heads` are the groups, `steps` the greatest depth, `is_asked` marks a member, and
`first` orders the members before their depth does."""

LARGEST_GROUPS = 8
"""Groups that the report names."""
_LARGEST = """
    SELECT no, is_ring, member_count FROM group_sizes JOIN parties ON id = head_id
    ORDER BY member_count DESC, no LIMIT 3
"""

GROUPS = (
    Section(
        "Groups",
        "Largest groups",
        "A head and all companies that it reaches through stakes of at least 50 %. Sums cover the members whose "
        "accounts we hold; they are not consolidated, and leave out doubtful amounts.",
        f"""
        WITH largest AS (
            SELECT *, count(*) OVER () AS total FROM group_sizes ORDER BY member_count DESC, head_id
            LIMIT {LARGEST_GROUPS}
        )
        SELECT p.name AS head, p.country || ' ' || p.company_number AS number, l.is_ring, member_count AS members,
            count(s.country) AS held, sum(s.employee_count) AS employees,
            sum(s.total_assets) FILTER (s.is_comparable) AS total_assets_amount,
            sum(s.debt) FILTER (s.is_comparable) AS debt_amount, total
        FROM largest l
        JOIN branches_at_half b USING (head_id)
        JOIN branches_at_half g ON g.branch_no = b.branch_no
        JOIN parties p ON p.id = head_id
        LEFT JOIN shown s ON s.country || s.company_number = g.id
        GROUP BY head_id, p.name, number, l.is_ring, member_count, total ORDER BY members DESC, head_id
        """,
    ),
    Section(
        "",
        "Charts of the largest groups",
        "Up to twenty members within three steps of the head. The number on a line is the stake. We hold no accounts "
        "of members with a dashed border.",
        TREE.format(heads=_LARGEST, steps=3, is_asked="false", first=""),
        draw=draw_groups,
    ),
)
