-- macro beneficial_owners(of_list, threshold := 0.25)
-- example: beneficial_owners('customers')
-- One row for each company on a list and each presumed beneficial owner, by Regulation (EU) 2024/1624, art. 51 to 54, which
-- applies from 10 July 2027: who holds 25 % or more, multiplied along each chain and added over chains (art. 52); who holds
-- more than half at each link of a chain (control, art. 53); and who so controls an owner of 25 % or more (art. 54). Only
-- stakes of shareholders count; voting rights, agreements and other control are not known. Owners without a company number
-- may be persons or foreign companies. A company above which no owner is known is listed too. The same name at two companies
-- is an owner of its own each time; presumed_same tells where equal names stand, and nothing is merged. Chains end after 30
-- steps, or where less than a millionth is left.
--
-- country: Country of the company on the list
-- company_number: Number of the company on the list
-- name: Name of the company on the list
-- owner_id: Id of the owner, as id in parties
-- owner_name: Name of the owner, or (unidentified)
-- owner_kind: Kind of owner: company, named_party or anonymous
-- effective_fraction: Stake along all chains, 0 to 1
-- step_count: Steps on the shortest chain
-- basis: Why the owner is listed, the first of: ownership; control; control of an owner; ownership if equal names are one
-- person; no owner known above it (a company)
-- presumed_same: Number of further owners of this company with the same name
-- presumed_same_fraction: Stake of all owners of this company with this name together, at most 1
-- capital_explained: Stakes of all owners without a company number together, at most 1: the part of the capital whose last
-- owners are known
WITH RECURSIVE asked AS (
    SELECT of_list AS asked_list, share_asked(threshold) AS least_stake
),
start AS MATERIALIZED (
    SELECT DISTINCT p.no
    FROM asked
    JOIN list_members l ON lower(l.list_name) = lower(asked_list)
    JOIN parties p ON p.id = l.country || l.company_number
),
stakes AS MATERIALIZED (
    SELECT parent_no, child_no, stake FROM shareholdings WHERE parent_no <> child_no
),
walk(start_no, no, stake, step) AS (
    SELECT no, no, 1::DOUBLE, 0 FROM start
    UNION ALL
    SELECT w.start_no, s.parent_no, sum(w.stake * s.stake), w.step + 1
    FROM walk w JOIN stakes s ON s.child_no = w.no
    WHERE s.parent_no <> w.start_no AND w.step < 30
    GROUP BY w.start_no, s.parent_no, w.step
    HAVING sum(w.stake * s.stake) > 1e-6
),
interests AS MATERIALIZED (
    SELECT start_no, no, least(round(sum(stake), 6), 1) AS stake, min(step) AS step_count
    FROM walk WHERE step > 0
    GROUP BY start_no, no
),
-- Upwards through more than half at each link: from the company itself, or from an owner of at least the threshold.
controls(start_no, no, is_from_company, is_reached) AS (
    SELECT no, no, true, false FROM start
    UNION
    SELECT start_no, no, false, false FROM interests JOIN asked ON stake >= least_stake
    UNION
    SELECT c.start_no, s.parent_no, c.is_from_company, true
    FROM controls c JOIN stakes s ON s.child_no = c.no
    WHERE s.stake > 0.5 AND s.parent_no <> c.start_no
),
reached AS (
    SELECT start_no, no, bool_or(is_from_company) AS is_control
    FROM controls WHERE is_reached
    GROUP BY start_no, no
),
found AS (
    SELECT
        i.*, o.id AS owner_id, o.name AS owner_name, o.kind AS owner_kind, r.is_control,
        count(*) OVER same - 1 AS presumed_same,
        least(sum(i.stake) OVER same, 1) AS presumed_same_fraction,
        least(sum(i.stake) FILTER (o.kind <> 'company') OVER (PARTITION BY i.start_no), 1) AS capital_explained
    FROM interests i
    JOIN parties o ON o.no = i.no
    LEFT JOIN reached r ON r.start_no = i.start_no AND r.no = i.no
    -- Those that cannot be told apart have no name in common.
    WINDOW same AS (
        PARTITION BY i.start_no, o.kind, CASE WHEN o.kind = 'named_party' THEN lower(trim(o.name)) ELSE o.id END
    )
)
SELECT
    c.country, c.company_number, c.name,
    owner_id, owner_name, owner_kind,
    stake::DECIMAL(9, 6) AS effective_fraction,
    step_count,
    CASE
        WHEN owner_kind = 'company' THEN 'no owner known above it'
        WHEN stake >= least_stake THEN 'ownership'
        WHEN is_control THEN 'control'
        WHEN is_control IS NOT NULL THEN 'control of an owner'
        ELSE 'ownership if equal names are one person'
    END AS basis,
    presumed_same,
    round(presumed_same_fraction, 6)::DECIMAL(9, 6) AS presumed_same_fraction,
    round(coalesce(capital_explained, 0), 6)::DECIMAL(9, 6) AS capital_explained
FROM found f
CROSS JOIN asked
JOIN parties c ON c.no = f.start_no
WHERE CASE
        WHEN owner_kind = 'company'
            THEN (stake >= least_stake OR is_control IS NOT NULL) AND f.no NOT IN (SELECT child_no FROM stakes)
        ELSE stake >= least_stake OR is_control IS NOT NULL OR presumed_same_fraction >= least_stake
    END
