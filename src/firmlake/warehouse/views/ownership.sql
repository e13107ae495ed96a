-- table ownership
-- One row for each owner, owned company and kind of relationship, merged from what either of them says of it. Made at
-- load, since every question about groups needs it. An owner without an identifier (a person, or nobody named) is an owner
-- of its own in each company: equal names need not be one person.
--
-- parent_id: Owner: country and company number in one, or the owned company's and a place where it has no identifier
-- child_id: Owned company, likewise
-- parent_country: Country of the owner. Null: it has no identifier
-- parent_company_number: Company number of the owner. Null: it has no identifier
-- parent_name: Name of the owner, (unidentified) where nobody is named
-- parent_kind: company, named_party or anonymous, as in relationships
-- child_country: Country of the owned company. Null: it has no identifier
-- child_company_number: Company number of the owned company. Null: it has no identifier
-- child_name: Name of the owned company, (unidentified) where there is none
-- stake_fraction: Share of the child that is held: as the child says, or else the parent; raw, also where above 1. Null:
-- nobody says
-- stake_by_child: Share as the owned company's list of parents has it; the greatest where it names it more than once
-- stake_by_parent: Share as the owner's list of children has it, likewise
-- seen_from: child, parent or both: whose answer names it
-- conflict: Null: none. Else: stakes differ; the child does not name it, or the parent does not, though it was asked
WITH claims AS (
    SELECT
        'child' AS side,
        country || company_number AS child_id,
        coalesce(related_country || related_company_number, country || company_number || '/p' || position) AS parent_id,
        country AS child_country, company_number AS child_company_number,
        related_country AS parent_country, related_company_number AS parent_company_number,
        coalesce(related_name, related_identifier_name) AS parent_name, NULL AS child_name, related_kind AS parent_kind,
        "function", stake_fraction
    FROM relationships WHERE direction = 'parent'
    UNION ALL
    SELECT
        'parent',
        coalesce(related_country || related_company_number, country || company_number || '/c' || position),
        country || company_number,
        related_country, related_company_number,
        country, company_number,
        NULL, coalesce(related_name, related_identifier_name), 'company',
        "function", stake_fraction
    FROM relationships WHERE direction = 'child'
),
merged AS (
    SELECT
        parent_id, child_id,
        any_value(parent_country) AS parent_country, any_value(parent_company_number) AS parent_company_number,
        max(parent_name) AS parent_name, min(parent_kind) AS parent_kind,
        any_value(child_country) AS child_country, any_value(child_company_number) AS child_company_number,
        max(child_name) AS child_name,
        "function",
        max(stake_fraction) FILTER (side = 'child') AS stake_by_child,
        max(stake_fraction) FILTER (side = 'parent') AS stake_by_parent,
        CASE WHEN min(side) = max(side) THEN min(side) ELSE 'both' END AS seen_from
    FROM claims
    GROUP BY parent_id, child_id, "function"
),
known AS (
    SELECT c.country || c.company_number AS id, c.name, s.country IS NOT NULL AS was_asked
    FROM companies c
    LEFT JOIN company_state s ON
        s.country = c.country AND s.company_number = c.company_number
        AND s.dataset = 'relationships' AND s.status IN ('reported', 'empty')
)
SELECT
    m.parent_id, m.child_id,
    m.parent_country, m.parent_company_number,
    coalesce(p.name, m.parent_name, '(unidentified)') AS parent_name,
    m.parent_kind,
    m.child_country, m.child_company_number,
    coalesce(c.name, m.child_name, '(unidentified)') AS child_name,
    m."function",
    coalesce(m.stake_by_child, m.stake_by_parent) AS stake_fraction,
    m.stake_by_child,
    m.stake_by_parent,
    m.seen_from,
    CASE
        WHEN m.stake_by_child <> m.stake_by_parent THEN 'stakes differ'
        WHEN m.seen_from = 'parent' AND c.was_asked THEN 'the child does not name it'
        WHEN m.seen_from = 'child' AND p.was_asked THEN 'the parent does not name it'
    END AS conflict
FROM merged m
LEFT JOIN known p ON p.id = m.parent_id
LEFT JOIN known c ON c.id = m.child_id
