"""Who stands beside a list of companies, and who comes first."""

import polars as pl
import pytest

from firmlake.core.company import Company
from firmlake.enrich.expand import neighbours
from firmlake.warehouse.generations import open_warehouse
from support import ACME, BOLT, CIRC, answer, found, land, lookalike, make_run, party, publish_landed

DELI, ELMO = Company("BE", "0770493071"), Company("FR", "443061841")


def frame(*companies: Company) -> pl.DataFrame:
    return pl.DataFrame(companies, schema=["country", "company_number"], orient="row")


@pytest.fixture
def beside(folders):
    run = make_run(folders, [ACME, BOLT], ["lookalikes", "relationships"])
    similar = [
        found(ACME, "lookalikes", lookalike(CIRC, 0.5), lookalike(DELI, 0.75)),
        found(BOLT, "lookalikes", lookalike(CIRC, 0.5), lookalike(ACME, 0.25)),
    ]
    related = [
        found(
            ACME,
            "relationships",
            party(DELI, percentage=0.1),
            party(ELMO, percentage=0.6),
            party(None),
            party(Company("LU", "B123456")),
            party(Company("NL", "RSIN 8100")),
        ),
        found(BOLT, "relationships", party(DELI, percentage=0.7)),
    ]
    land(run, answer("lookalikes", *similar), answer("relationships", *related))
    publish_landed(run)

    def find(direction, inner=(ACME, BOLT), known=(ACME, BOLT)):
        with open_warehouse(folders) as connection:
            rows = neighbours(connection, frame(*inner), frame(*known), direction).rows()
        return [Company(*row) for row in rows]

    return find


def test_who_is_similar_to_most_comes_first_and_who_is_known_not_at_all(beside):
    assert beside("lookalikes") == [CIRC, DELI], "1.0 from both together, 0.75 from one"
    assert beside("lookalikes", inner=(ACME,)) == [DELI, CIRC]
    assert beside("lookalikes", known=(BOLT,)) == [CIRC, DELI, ACME]


def test_the_largest_stake_comes_first_and_who_has_no_number_of_ours_cannot_be_asked_for(beside):
    assert beside("parents") == [DELI, ELMO]
    assert beside("parents", inner=(ACME,)) == [ELMO, DELI]
    assert beside("children") == []
