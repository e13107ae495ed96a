-- macro group_rollup(of_country, of_number, threshold := 0.5)
-- example: group_rollup('BE', '0403227515', 0.5)
-- The group of a company, with one row for each head: sums over the members whose accounts are held, in full and
-- weighted by the head's effective stake. These are plain sums of single accounts, not a consolidation: what members
-- owe and hold of each other is counted on both sides, and their years may end on different days. Amounts that are not
-- comparable are left out.
--
-- head_name: Name of the head. Null: the head is the company itself, and its name was not fetched yet
-- member_count: Number of members, the head included
-- held_count: Number of members whose accounts are held; the sums are over these
-- doubtful_count: Number of these members whose amounts are left out because they are not comparable, see quality
-- employee_count: Employees of all members. Null: no member states them
-- employee_count_weighted: Employees, each member's multiplied by the head's stake in it. Null: no member states them
-- total_assets: Sum of total assets. Null: no member has comparable total assets
-- total_assets_weighted: Sum of total assets, each member's multiplied by the head's stake in it. Null: no member has
-- comparable total assets
-- debt: Sum of debt. Null: no member has comparable debt
-- debt_weighted: Sum of debt, each member's multiplied by the head's stake in it. Null: no member has comparable debt
-- worst_health_indicator: Lowest health indicator of a member; its range is not specified. Null: no member has one
-- worst_health_name: Name of the member with the lowest health indicator. Null: no member has one
-- oldest_end_date: Earliest last day among the accounts in the sums. Null: no accounts are held
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
