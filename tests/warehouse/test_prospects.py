"""Lookalikes as a graph, and the companies most similar to a set of customers."""

from __future__ import annotations

import pytest

from .figures import Figures

SIMILAR = {
    1: ((10, 0.9), (11, 0.8), (2, 0.7)),
    2: ((11, 0.6), (12, 0.5), (1, 0.4)),
    3: ((12, 0.95),),
    10: ((1, 0.9),),
}
"""Lookalikes held: company, and those it resembles with their score, best first."""


@pytest.fixture(scope="module")
def graph():
    made = Figures()
    for company, others in SIMILAR.items():
        made.add("companies", company, name=f"company {company}")
        made.add("company_state", company, dataset="lookalikes", status="reported")
        for rank, (other, score) in enumerate(others, 1):
            made.add(
                "lookalikes", company, rank=rank, lookalike_country="NL", lookalike_company_number=f"{other:08}",
                score=score,
            )  # fmt: skip
    made.add("companies", 11, name="company 11")
    made.add("company_state", 11, dataset="financials", status="reported")
    made.add("company_state", 11, dataset="lookalikes", status="empty")
    made.connection.execute(
        "CREATE TEMP TABLE customers AS FROM companies WHERE company_number IN ('00000001', '00000002')"
    )
    made.connection.execute("CREATE TEMP TABLE contacted AS SELECT 'NL' AS country, '00000011' AS company_number")
    return made.made()


def prospects(graph, arguments):
    return graph.ask(f"SELECT company_number::INTEGER, score_sum, seed_count FROM prospects({arguments})")


def test_reciprocity_is_known_only_where_the_other_side_is_held(graph):
    rows = graph.ask("SELECT company_number, lookalike_company_number, is_mutual, reverse_rank FROM lookalike_graph")
    told = {(int(one), int(other)): rest for one, other, *rest in rows}
    assert told[1, 10] == [True, 1]
    assert told[1, 2] == [True, 3]
    assert told[1, 11] == [False, None]
    assert told[2, 12] == [None, None]
    assert len(told) == 8


def test_in_degree_counts_who_names_a_company(graph):
    degrees = dict(graph.ask("SELECT DISTINCT lookalike_company_number::INTEGER, in_degree FROM lookalike_graph"))
    assert degrees == {1: 2, 2: 1, 10: 1, 11: 2, 12: 2}


def test_prospects_are_ranked_by_the_scores_of_the_seeds_that_name_them(graph):
    assert prospects(graph, "'customers'") == [(11, 1.4, 2), (10, 0.9, 1), (12, 0.5, 1)]


def test_the_seeds_that_led_there_are_named_best_first(graph):
    rows = graph.ask("SELECT name, best_score, seeds, is_held FROM prospects(customers, 1)")
    assert rows == [("company 11", 0.8, ["NL 00000001", "NL 00000002"], True)]


def test_known_companies_are_left_out_before_counting(graph):
    assert prospects(graph, "'customers', 1, 'contacted'") == [(10, 0.9, 1)]


def test_no_seeds_no_prospects(graph):
    assert prospects(graph, "'nobody'") == []
