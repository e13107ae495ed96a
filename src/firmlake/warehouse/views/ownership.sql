-- table ownership, pair
-- One row per owner, owned company and kind of relationship, merged from the answers about both. An owner without
-- an identifier is identified by its name within the owned company, because equal names in two companies need not be
-- the same person. If an answer names the same party in the same function several times, equal entries count once, and
-- different stakes are added up as separate parcels. Entries without a name cannot be told apart, so all of them are
-- added up. The order of an answer has no effect.
--
-- parent_id: Id of the owner: country and company number in one text. Without an identifier: the id of the owned
-- company, /p/ and the owner's name, if any
-- child_id: Id of the owned company in the same form. Without an identifier: the id of the owner, /c/ and the name of
-- the owned company
-- parent_country: Country of the owner. Null: it has no identifier
-- parent_company_number: Company number of the owner. Null: it has no identifier
-- parent_name: Name of the owner, or (unidentified)
-- parent_kind: Kind of owner: company, named_party or anonymous, as in relationships
-- child_country: Country of the owned company. Null: it has no identifier
-- child_company_number: Company number of the owned company. Null: it has no identifier
-- child_name: Name of the owned company, or (unidentified)
-- stake_fraction: Stake of the owner in the owned company, according to the owned company or, if it states none, to the
-- owner; a stake above 1 is kept. Null: neither states it
-- stake_by_child: Stake according to the owned company's list of parents, all entries of the owner added up. Null: the
-- answer about the owned company states none
-- stake_by_parent: Stake according to the owner's list of children, all entries of the owned company added
-- up. Null: the answer about the owner states none
-- seen_from: Side whose answer names the relationship: child, parent or both
-- conflict: How the two sides differ: they state different stakes, or one side was fetched and does not name the
-- other. Null: they do not differ
WITH claims AS (
    SELECT
        'child' AS side,
        country || company_number AS child_id,
        coalesce(related_country || related_company_number, country || company_number || '/p/' || coalesce(related_name, '')) AS parent_id,
        country AS child_country, company_number AS child_company_number,
        related_country AS parent_country, related_company_number AS parent_company_number,
        coalesce(related_name, related_identifier_name) AS parent_name, NULL AS child_name, related_kind AS parent_kind,
        "function", stake_fraction, related_kind = 'anonymous' AS is_anonymous
    FROM relationships WHERE direction = 'parent'
    UNION ALL
    SELECT
        'parent',
        coalesce(related_country || related_company_number, country || company_number || '/c/' || coalesce(related_name, '')),
        country || company_number,
        related_country, related_company_number,
        country, company_number,
        NULL, coalesce(related_name, related_identifier_name), 'company',
        "function", stake_fraction, related_kind = 'anonymous'
    FROM relationships WHERE direction = 'child'
),
-- Most claims stand alone and need no merging, which takes long.
numbered AS (
    SELECT *, hash(parent_id, child_id, "function") AS claim FROM claims
),
repeated AS MATERIALIZED (
    SELECT claim FROM numbered GROUP BY claim HAVING count(*) > 1
),
merged AS (
    SELECT
        parent_id, child_id, parent_country, parent_company_number, parent_name, parent_kind,
        child_country, child_company_number, child_name, "function",
        CASE side WHEN 'child' THEN stake_fraction::DECIMAL(18, 6) END AS stake_by_child,
        CASE side WHEN 'parent' THEN stake_fraction::DECIMAL(18, 6) END AS stake_by_parent,
        side AS seen_from
    FROM numbered ANTI JOIN repeated USING (claim)
    UNION ALL
    SELECT
        parent_id, child_id,
        any_value(parent_country), any_value(parent_company_number), max(parent_name), min(parent_kind),
        any_value(child_country), any_value(child_company_number), max(child_name),
        "function",
        CASE
            WHEN bool_or(is_anonymous) THEN sum(stake_fraction) FILTER (side = 'child')
            ELSE list_sum(list_distinct(list(stake_fraction) FILTER (side = 'child')))
        END::DECIMAL(18, 6),
        CASE
            WHEN bool_or(is_anonymous) THEN sum(stake_fraction) FILTER (side = 'parent')
            ELSE list_sum(list_distinct(list(stake_fraction) FILTER (side = 'parent')))
        END::DECIMAL(18, 6),
        CASE WHEN min(side) = max(side) THEN min(side) ELSE 'both' END
    FROM numbered SEMI JOIN repeated USING (claim)
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
