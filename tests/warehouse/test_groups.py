"""Ownership and groups: both sides merged, stakes multiplied along paths and added over them, tops found."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from itertools import product

import duckdb
import pytest

from firmlake.report.sections import SectionTables, find_section
from firmlake.warehouse.list_names import restrict
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.views import create_views

from .figures import Figures

NOW = "2026-01-05 12:00:00"


class Owners:
    """A warehouse that holds nothing but who owns whom; companies are small numbers."""

    def __init__(self):
        self.connection = duckdb.connect()
        create_tables(self.connection)
        self.rows = []

    def names_parent(self, child, parent, stake, *, name=None, function="SHAREHOLDER"):
        """What a company says of its owner; a parent of None has no identifier."""
        self._add(child, "parent", parent, stake, name, function)

    def names_child(self, parent, child, stake, *, function="SHAREHOLDER"):
        self._add(parent, "child", child, stake, None, function)

    def _add(self, company, direction, related, stake, name, function):
        kind = "company" if related is not None else "named_party" if name else "anonymous"
        country, other = (None, None) if related is None else ("NL", number(related))
        row = ("NL", number(company), direction, len(self.rows), kind, country, other, name, function, stake)
        self.rows.append(row)

    def answered(self, company, status="reported"):
        self.connection.execute(
            "INSERT INTO company_state_versions BY NAME SELECT 'NL' AS country, ? AS company_number, "
            f"'relationships' AS dataset, ? AS status, '{NOW}' AS fetched_at, 'r' AS run_id, 1 AS valid_from",
            [number(company), status],
        )
        self.connection.execute(
            "INSERT INTO companies_versions BY NAME SELECT 'NL' AS country, ? AS company_number, 'r' AS run_id, "
            "1 AS valid_from",
            [number(company)],
        )

    def files(self, company, **values):
        """Accounts of a company."""
        columns = "".join(f", {value} AS {name}" for name, value in values.items())
        self.connection.execute(
            "INSERT INTO financials_versions BY NAME SELECT 'NL' AS country, ? AS company_number, DATE '2024-01-01' AS "
            f"start_date, DATE '2024-12-31' AS end_date, 0 AS dup_no, 0 AS position, '{NOW}' AS fetched_at, "
            f"'r' AS run_id, 1 AS valid_from{columns}",
            [number(company)],
        )
        self.connection.execute(
            "INSERT INTO companies_versions BY NAME SELECT 'NL' AS country, ? AS company_number, ? AS name, "
            f"'{NOW}' AS fetched_at, 'r' AS run_id, 1 AS valid_from",
            [number(company), f"company {company}"],
        )

    def insert(self):
        for start in range(0, len(self.rows), 500):
            rows = self.rows[start : start + 500]
            self.connection.execute(
                "INSERT INTO relationships_versions BY NAME SELECT *, "
                f"'{NOW}'::TIMESTAMP AS fetched_at, 'r' AS run_id, 1 AS valid_from FROM (VALUES "
                + ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"] * len(rows))
                + ") AS v(country, company_number, direction, position, related_kind, related_country, "
                "related_company_number, related_name, function, stake_fraction)",
                [value for row in rows for value in row],
            )

    def made(self):
        self.insert()
        create_views(self.connection)
        return self

    def ask(self, sql):
        return self.connection.execute(sql).fetchall()

    def effective(self, company):
        """Owners of a company by id with their effective stake."""
        return dict(self.ask(f"SELECT id, effective_fraction FROM owners_of('NL', '{number(company)}')"))

    def tops(self, company, threshold):
        """Ids of the ultimate parents."""
        sql = f"SELECT id FROM ultimate_parents('NL', '{number(company)}', {threshold}) ORDER BY id"
        return [row[0] for row in self.ask(sql)]

    def members(self, company, threshold=0.5):
        sql = f"SELECT id, effective_fraction FROM group_of('NL', '{number(company)}', {threshold})"
        return dict(self.ask(sql))


def number(company):
    return f"{company:08}"


def key(company):
    return "NL" + number(company)


def about(value):
    """A stake to six decimals."""
    return Decimal(f"{value:.6f}")


@pytest.fixture(scope="module")
def owners():
    """Many small worlds beside each other, each with companies of its own hundred."""
    made = Owners()
    # 100: both sides agree; 110: they differ; 120: the child is silent; 130: only one was asked; 140: twice
    made.names_parent(101, 100, 0.6)
    made.names_child(100, 101, 0.6)
    made.names_parent(111, 110, 0.6)
    made.names_child(110, 111, 0.5)
    made.names_child(120, 121, 0.7)
    made.answered(121, "empty")
    made.names_parent(131, 130, 0.7)
    made.answered(131)
    made.names_parent(141, 140, 0.3)
    made.names_parent(141, 140, 0.4)
    for stake in (0.3, 0.3):
        made.names_parent(141, None, stake, name="Ann")
    made.names_parent(151, 150, 0.7)
    made.answered(150)
    # 200: a diamond. 200 holds 0.6 of 201 and 0.8 of 202, which hold 0.5 and 0.4 of 203.
    made.names_parent(201, 200, 0.6)
    made.names_parent(202, 200, 0.8)
    made.names_parent(203, 201, 0.5)
    made.names_parent(203, 202, 0.4)
    # 500 and 501 hold 0.1 and 0.4 of each other; 502 holds 0.5 of 500.
    made.names_parent(501, 500, 0.4)
    made.names_parent(500, 501, 0.1)
    made.names_parent(500, 502, 0.5)
    # 600, 601, 602: a closed ring, with 603 below it and smaller than it 590, also below.
    for child, parent in ((601, 600), (602, 601), (600, 602), (603, 602), (590, 603)):
        made.names_parent(child, parent, 0.9)
    # 620 and 621 hold each other, 610 and 611 too; both rings hold 630. 640, held by nobody, and 610 hold 641.
    for child, parent in (
        (620, 621),
        (621, 620),
        (610, 611),
        (611, 610),
        (630, 620),
        (630, 610),
        (641, 640),
        (641, 610),
    ):
        made.names_parent(child, parent, 0.5)
    # 700: a person, somebody unidentified and a company; 710: more than everything.
    made.names_parent(700, None, 0.6, name="Els Peeters")
    made.names_parent(700, None, None)
    made.names_parent(700, None, 0.1)
    made.names_parent(700, 701, 0.3)
    made.names_parent(710, 711, 0.9)
    made.names_parent(710, 712, 0.9)
    made.names_parent(713, 710, 1.5)
    # 800: other relationships are no stakes; 810 owns half and half with 811.
    made.names_parent(800, 801, 1, function="BRANCH_OF")
    made.names_parent(812, 810, 0.5)
    made.names_parent(812, 811, 0.5)
    # 900: head of a group, 0.8 of 901, which has 0.5 of 902; 0.2 of 903.
    made.names_parent(901, 900, 0.8)
    made.names_parent(902, 901, 0.5)
    made.names_parent(903, 900, 0.2)
    made.files(900, employee_count=10, total_assets="1000.10", debt="100.01", health_indicator=50)
    made.files(901, employee_count=20, total_assets="2000.20", debt="200.02", health_indicator=-3)
    return made.made()


def merged(owners, child):
    columns = "stake_fraction, stake_by_child, stake_by_parent, seen_from, conflict"
    rows = owners.ask(f"SELECT {columns} FROM ownership WHERE child_id = '{key(child)}'")
    assert len(rows) == 1
    return tuple(float(value) if isinstance(value, Decimal) else value for value in rows[0])


def test_what_both_sides_say_is_one_row(owners):
    assert merged(owners, 101) == (0.6, 0.6, 0.6, "both", None)


def test_what_the_owned_company_says_counts_and_the_conflict_is_told(owners):
    assert merged(owners, 111) == (0.6, 0.6, 0.5, "both", "stakes differ")


def test_a_side_that_was_asked_and_is_silent_is_a_conflict(owners):
    assert merged(owners, 121) == (0.7, None, 0.7, "parent", "the child does not name it")
    assert merged(owners, 151) == (0.7, 0.7, None, "child", "the parent does not name it")


def test_a_side_that_was_never_asked_is_none(owners):
    assert merged(owners, 131) == (0.7, 0.7, None, "child", None)


def test_different_stakes_of_an_owner_add_up_and_the_same_entry_twice_is_one(owners):
    assert owners.ask("SELECT parent_id, stake_fraction FROM ownership WHERE child_id = 'NL00000141' ORDER BY 1") == [
        ("NL00000140", Decimal("0.7")), ("NL00000141/p/Ann", Decimal("0.3")),
    ]  # fmt: skip


def test_stakes_are_multiplied_along_paths_and_added_over_them(owners):
    # 0.6 x 0.5 + 0.8 x 0.4
    assert owners.effective(203) == {key(200): about(0.62), key(201): about(0.5), key(202): about(0.4)}
    direct = "SELECT id, direct_fraction, step_count, is_ultimate FROM owners_of('NL', '00000203') ORDER BY id"
    assert owners.ask(direct) == [
        (key(200), None, 2, True),
        (key(201), Decimal("0.500000"), 1, False),
        (key(202), Decimal("0.400000"), 1, False),
    ]


def test_a_ring_that_nobody_holds_is_its_own_top_under_its_first_id(owners):
    for company in (600, 601, 602, 603, 590):
        assert owners.tops(company, 0.5) == [key(600)]
    assert owners.ask("SELECT DISTINCT is_ring FROM ultimate_parents('NL', '00000590', 0.5)") == [(True,)]
    # 600 holds 0.9 x 0.9 of 602, 0.9 of that of 603; paths that come back to 600 do not count.
    assert owners.members(603) == {
        key(600): 1,
        key(601): about(0.9),
        key(602): about(0.81),
        key(603): about(0.729),
        key(590): about(0.6561),
    }


def test_owners_without_identifier_are_leaves_with_a_name(owners):
    rows = owners.ask(
        "SELECT name, kind, company_number, effective_fraction FROM owners_of('NL', '00000700') ORDER BY ALL"
    )
    assert [(name, kind, company, float(stake)) for name, kind, company, stake in rows] == [
        ("(unidentified)", "anonymous", None, 0.1),
        ("(unidentified)", "company", "00000701", 0.3),
        ("Els Peeters", "named_party", None, 0.6),
    ]
    assert owners.ask("SELECT name, company_number, step_count FROM ultimate_parents('NL', '00000700', 0.5)") == [
        ("Els Peeters", None, 1)
    ]


def test_stakes_over_everything_are_cut_and_found(owners):
    assert owners.effective(713)[key(710)] == 1
    found = owners.ask("SELECT check_name, company_number FROM findings WHERE severity = 'error' ORDER BY ALL")
    assert ("stake_range", number(713)) in found
    assert ("stake_sum", number(710)) in found
    assert ("stake_sum", number(812)) not in found


def test_a_threshold_is_reached_by_exactly_as_much_and_two_halves_are_two_tops(owners):
    assert owners.tops(812, 0.5) == [key(810), key(811)]
    assert owners.tops(203, 0.5) == [key(200)]
    assert owners.tops(500, 0.51) == [key(500)]
    assert owners.tops(903, 0.25) == [key(903)]


def test_only_shareholders_are_followed(owners):
    assert owners.tops(800, 0.25) == [key(800)]
    assert len(owners.ask("SELECT * FROM ownership WHERE child_id = 'NL00000800'")) == 1


def test_a_group_adds_up_what_is_held_and_weighs_it_with_the_heads_stake(owners):
    assert owners.members(902) == {key(900): 1, key(901): about(0.8), key(902): about(0.4)}
    columns = (
        "head_id, member_count, held_count, employee_count, employee_count_weighted, total_assets, "
        "total_assets_weighted, debt, debt_weighted, worst_health_indicator, worst_health_name"
    )
    assert owners.ask(f"SELECT {columns} FROM group_rollup('NL', '00000902')") == [
        (
            key(900), 3, 2, 30, Decimal("26.00"), Decimal("3000.30"), Decimal("2600.26"),
            Decimal("300.03"), Decimal("260.03"), -3, "company 901",
        )
    ]  # fmt: skip


def test_a_group_leaves_out_amounts_in_thousands_and_counts_them():
    made = Figures()
    made.add(
        "relationships", 2, direction="parent", position=0, related_kind="company", related_country="NL",
        related_company_number="00000001", function="SHAREHOLDER", stake_fraction=0.5,
    )  # fmt: skip
    amounts = {"total_assets": 5_000_000, "equity": 2_000_000, "debt": 3_000_000}
    for company, year in product((1, 2), (2021, 2022, 2023, 2024)):
        unit = 1000 if (company, year) == (2, 2024) else 1
        filed = {name: amount / unit for name, amount in amounts.items()}
        made.files(company, f"{year}-12-31", f"{year}-01-01", employee_count=3, **filed)
    columns = "held_count, doubtful_count, employee_count, total_assets, total_assets_weighted, debt, debt_weighted"
    assert made.made().ask(f"SELECT {columns} FROM group_rollup('NL', '00000002')") == [
        (2, 1, 6, *[Decimal("5000000.00")] * 2, *[Decimal("3000000.00")] * 2)
    ]
    made.loads(1, "r")
    largest = find_section("report/largest_groups")
    SectionTables(made.connection, "report").prepare(largest.sql)
    (row,) = made.connection.sql(largest.sql).pl().to_dicts()
    assert (row["held"], row["employees"], row["total_assets_amount"], row["debt_amount"]) == (
        2,
        6,
        5_000_000,
        3_000_000,
    )


def test_a_group_adds_up_ten_billion_and_sums_beyond_what_a_field_holds():
    greatest = "9999999999999999.99"
    made = Owners()
    made.names_parent(2, 1, 1)
    made.names_parent(3, 1, 0.5)
    for company, amount in ((1, greatest), (2, greatest), (3, "10000000000.01")):
        made.files(company, total_assets=amount, debt=amount)
    made.made()
    columns = "total_assets, total_assets_weighted, debt, debt_weighted"
    whole, weighted = Decimal("20000009999999999.99"), Decimal("20000004999999999.99")
    assert made.ask(f"SELECT {columns} FROM group_rollup('NL', '00000002')") == [(whole, weighted, whole, weighted)]


def test_a_company_nobody_knows_is_in_no_group_and_one_we_hold_alone_is_a_group_of_its_own(owners):
    assert owners.ask("FROM group_of('NL', '00009999')") == owners.ask("FROM ultimate_parents('NL', '00009999')") == []
    alone = Owners()
    alone.files(7)
    alone.made()
    assert alone.ask("SELECT head_id, id, country, company_number FROM group_of('NL', '00000007')") == [
        ("NL00000007", "NL00000007", "NL", "00000007")
    ]


# --- against an oracle -----------------------------------------------------------------------------------------------


def add_up(edges, start):
    """Effective stakes of a company in all others, step by step until nothing is left."""
    total, current = Counter(), {start: 1.0}
    while current:
        following = Counter()
        for (parent, child), stake in edges.items():
            if parent in current and child != start:
                following[child] += current[parent] * stake
        current = {company: stake for company, stake in following.items() if stake > 1e-12}
        total.update(current)
    return total


@pytest.mark.parametrize("seed", [0, 1])
def test_effective_stakes_are_the_sum_over_all_paths_in_any_graph(seed):
    chance = random.Random(seed)
    graph = Owners()
    edges = {}
    for child in range(20):
        for parent in chance.sample(range(20), chance.randrange(4)):
            edges[parent, child] = chance.choice((0.05, 0.1, 0.25, 0.3))
            graph.names_parent(child, parent, edges[parent, child])
    graph.made()
    for start in range(0, 20, 4):
        rows = graph.ask(f"SELECT id, effective_fraction FROM holdings_of('NL', '{number(start)}')")
        expected = add_up(edges, start)
        assert {one for one, _ in rows} == {key(company) for company in expected}
        for one, stake in rows:
            assert float(stake) == pytest.approx(expected[int(one[2:])], abs=2e-6)
            assert graph.effective(int(one[2:]))[key(start)] == stake


def test_the_stake_is_the_same_from_above_and_from_below_where_stakes_exceed_the_whole():
    """1 holds three times the whole of 3, on ways of two, three and four steps, and 3 holds a tenth of 4."""
    graph = Owners()
    for child, owner, stake in ((11, 1, 1), (12, 11, 1), (13, 12, 1), (3, 11, 1), (3, 12, 1), (3, 13, 1), (4, 3, 0.1)):
        graph.names_parent(child, owner, stake)
    graph.made()
    above = graph.ask("SELECT id, effective_fraction FROM owners_of('NL', '00000004') WHERE id = 'NL00000001'")
    below = graph.ask("SELECT id, effective_fraction FROM holdings_of('NL', '00000001') WHERE id = 'NL00000004'")
    assert (above, below) == ([(key(1), Decimal("0.3"))], [(key(4), Decimal("0.3"))])


def test_contradictory_stakes_in_one_large_ring_come_to_an_end():
    """All owners of all: stakes add up to far more than the whole, and ways multiply at each step."""
    graph = Owners()
    for company in range(300):
        for owner in (company + 1, company + 7, company + 31, company + 101):
            graph.names_parent(company, owner % 300, 0.6)
    graph.made()
    assert graph.tops(5, 0.5) == [key(0)]
    assert set(graph.members(5)) == {key(company) for company in range(300)}
    for relation in ("owners_of", "holdings_of"):
        rows = graph.ask(f"SELECT id, effective_fraction, is_in_ring FROM {relation}('NL', '00000005')")
        assert len(rows) == 299
        assert all(stake <= 1 and is_in_ring for _, stake, is_in_ring in rows)


def test_a_list_hides_no_owner_and_no_group_of_its_companies():
    """Owners are often on no list, and persons never are. The figures are those of listed companies only."""
    made = Owners()
    made.names_parent(2, 1, 0.9)
    made.names_parent(3, 2, 0.9)
    made.names_parent(13, None, 0.9, name="Ann")
    for owner, company in ((21, 22), (22, 23), (23, 21)):
        made.names_parent(company, owner, 0.6)
    made.names_parent(32, 31, 0.9)
    for company in (1, 2, 3, 13, 21, 31, 32):
        made.files(company, employee_count=company)
    made.made()
    row = "'few', 'few.csv', '[]', 4, 4, '', now()::TIMESTAMP, 'r', 1, NULL"
    made.ask(f"INSERT INTO company_lists_versions SELECT {row}")
    for company in (2, 3, 13, 21):
        made.ask(
            "INSERT INTO list_members_versions BY NAME SELECT 'few' AS list_name, 0 AS line, 'NL' AS country, "
            f"'{number(company)}' AS company_number, '' AS status, '[]' AS columns, 'r' AS run_id, "
            "1 AS valid_from"
        )
    restrict(made.connection, "few")
    assert set(made.members(3)) == {key(1), key(2), key(3)}
    assert made.ask(f"SELECT head_id, employee_count FROM group_rollup('NL', '{number(3)}')") == [(key(1), 2 + 3)]
    assert (made.tops(3, 0.5), made.tops(13, 0.5)) == ([key(1)], [key(13) + "/p/Ann"])
    assert set(made.effective(3)) == {key(1), key(2)}
    assert made.ask("SELECT ring FROM ownership_rings") == [([key(21), key(22), key(23)],)]
    SectionTables(made.connection, "report").prepare("FROM group_sizes")
    groups = made.ask("SELECT head_id, member_count FROM group_sizes ORDER BY ALL")
    assert groups == [(key(1), 3), (key(13) + "/p/Ann", 2), (key(21), 3)]
