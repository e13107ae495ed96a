-- macro group_rollup(of_country, of_number, threshold := 0.5)
-- example: group_rollup('BE', '0403227515', 0.5)
-- The group of a company in one row for each head: sums over the members whose accounts we hold, whole and weighted by
-- the head's effective stake (the rest belongs to minorities). Plain sums of single accounts, no consolidation: what
-- members owe and hold of each other is counted on both sides, and their years may end on different days. Amounts that do
-- not compare, such as accounts filed in thousands, are left out.
--
-- head_name: Its name. Null: the company itself, whose name was not fetched yet
-- member_count: Members, the head included
-- held_count: Members whose accounts we hold; the sums are over these
-- doubtful_count: Of these, members whose amounts are left out, since they do not compare, see quality
-- employee_count: Employees. Null: no member states them
-- employee_count_weighted: Employees, each member's times the head's stake in it. Null: no member states them
-- total_assets: Total assets. Null: no member states them comparably
-- total_assets_weighted: Total assets, each member's times the head's stake in it. Null: as total_assets
-- debt: Debt. Null: no member states it comparably
-- debt_weighted: Debt, each member's times the head's stake in it. Null: as debt
-- worst_health_indicator: Lowest health indicator; its range is not specified. Null: no member has one
-- worst_health_name: Member that has it. Null: no member has one
-- oldest_end_date: Earliest end of the accounts that were added. Null: we hold no accounts
SELECT
    head_id, head_name, is_ring,
    count(*) AS member_count,
    count(*) FILTER (is_held) AS held_count,
    count(*) FILTER (NOT is_comparable) AS doubtful_count,
    try_cast(sum(employee_count) AS BIGINT) AS employee_count,
    sum(employee_count * effective_fraction)::DECIMAL(38, 2) AS employee_count_weighted,
    sum(total_assets) FILTER (is_comparable) AS total_assets,
    (sum(total_assets::DECIMAL(28, 2) * effective_fraction) FILTER (is_comparable))::DECIMAL(38, 2)
        AS total_assets_weighted,
    sum(debt) FILTER (is_comparable) AS debt,
    (sum(debt::DECIMAL(28, 2) * effective_fraction) FILTER (is_comparable))::DECIMAL(38, 2) AS debt_weighted,
    min(health_indicator) AS worst_health_indicator,
    arg_min(name, health_indicator) AS worst_health_name,
    min(end_date) AS oldest_end_date
FROM group_of(of_country, of_number, threshold)
GROUP BY head_id, head_name, is_ring
