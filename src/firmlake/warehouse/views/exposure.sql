-- macro exposure(of_list, of_column)
-- example: exposure('customers', 'limit')
-- One row per group of companies on a list, the largest first: the sum of a numeric column of the list over the
-- lines of the group's members, and its share of the total. A group has the ultimate parent of ultimate_owners as its head
-- (stakes of at least a half); a company without one is its own head. A company with several heads counts once, under the
-- first by name. Lines without a company are one row without a head; totals (Totaal) do not count.
-- Cells are read as in amount.
--
-- exposure_rank: 1 for the largest sum
-- head: Name of the head. Null: the lines name no company, or its name is not known
-- head_company: Country and company number of the head. Null: it has none, or the lines name no company
-- line_count: Number of lines of the list in the group
-- company_count: Number of companies of the list in the group
-- exposure: Sum of the column
-- exposure_fraction: Share of the sum over all lines, 0.1 is 10 %. Null: that sum is not above zero
-- unread_count: Number of these lines whose cell amount cannot read; empty cells do not count
SELECT
    row_number() OVER (ORDER BY exposure DESC, head, head_company) AS exposure_rank,
    head, head_company, line_count, company_count, exposure,
    ratio(exposure, sum(exposure) OVER ()) AS exposure_fraction,
    unread_count
FROM (
    SELECT
        coalesce(any_value(p.name), any_value(c.name)) AS head,
        coalesce(any_value(p.country || ' ' || p.company_number), any_value(c.country || ' ' || c.company_number),
            CASE WHEN any_value(u.head_id) IS NULL THEN any_value(m.country || ' ' || m.company_number) END) AS head_company,
        count(*) AS line_count,
        count(DISTINCT m.country || m.company_number) AS company_count,
        coalesce(sum(amount(cell)), 0)::DECIMAL(38, 2) AS exposure,
        count(*) FILTER (amount(cell) IS NULL AND trim(cell) <> '') AS unread_count
    FROM (
        SELECT
            l.country, l.company_number,
            CASE
                WHEN k.list_name IS NULL THEN error('There is no list ' || asked_list || '; company_lists has the names')
                WHEN NOT list_contains(from_json(k.column_names, '["VARCHAR"]'), asked_column)
                THEN error('The list ' || k.list_name || ' has no column ' || asked_column || '; it has ' || k.column_names)
                ELSE l.columns->>asked_column
            END AS cell
        FROM (SELECT of_list AS asked_list, of_column AS asked_column) asked
        LEFT JOIN company_lists k ON lower(k.list_name) = lower(asked_list)
        LEFT JOIN list_members l ON l.list_name = k.list_name
        WHERE l.status IS DISTINCT FROM 'blank' AND NOT coalesce(l.company_number IS NULL AND regexp_matches(
            l.columns::VARCHAR, '": ?"\s*(sub|grand|sous|eind|algemeen)?[ -]?tot(aal|al|als|aux)\b', 'i'), false)
    ) m
    LEFT JOIN (
        SELECT b.id, f.head_id
        FROM branches_at_half b
        JOIN (
            SELECT branch_no, any_value(head_id) AS a_head_id, first(head_id ORDER BY h.name, head_id) AS head_id
            FROM branches_at_half
            JOIN parties h ON h.id = head_id
            GROUP BY branch_no
        ) f USING (branch_no)
        WHERE b.id <> f.a_head_id
    ) u ON u.id = m.country || m.company_number
    LEFT JOIN parties p ON p.id = coalesce(u.head_id, m.country || m.company_number)
    LEFT JOIN companies c ON u.head_id IS NULL AND c.country = m.country AND c.company_number = m.company_number
    GROUP BY coalesce(u.head_id, m.country || m.company_number)
)
ORDER BY exposure_rank
