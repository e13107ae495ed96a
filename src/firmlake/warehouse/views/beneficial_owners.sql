-- macro beneficial_owners(of_list, threshold := 0.25)
-- example: beneficial_owners('customers')
-- One row per company on a list (or the one company whose id is given, such as BE0403227515) and each presumed
-- beneficial owner, by Regulation (EU) 2024/1624, art. 51 to 54, which applies from 10 July 2027. Listed is who holds
-- 25 % or more, multiplied along each chain and added over chains (art. 52); who holds more than half at each link of a
-- chain (control, art. 53); who so controls companies that directly hold 25 % or more together (art. 54, a); and who
-- holds 25 % or more of a company that so controls this one (art. 54, b). Only stakes of shareholders count; voting
-- rights, agreements and other control are not known. Owners without a company number may be persons or foreign
-- companies; equal names are counted (presumed_same) and never merged. A company above which no owner is known is
-- listed too. A chain may go round a ring of owners, but never returns to the company that it starts from; it ends
-- after 200 steps, or where less than a billionth is left.
--
-- country: Country of the company: BE, NL or FR
-- company_number: Company number in normal form, digits only: 10 for BE, 8 for NL (KVK), 9 for FR (SIREN). Personal data if
-- the company is a sole trader
-- name: Name of the company on the list
-- owner_id: Id of the owner, as id in parties
-- owner_name: Name of the owner, or (unidentified)
-- owner_kind: Kind of owner: company, named_party or anonymous
-- effective_fraction: Stake along all chains, 0 to 1
-- step_count: Steps on the shortest chain
-- basis: Why the owner is listed, the first of: ownership; control; control of owners; ownership of a controller; ownership if
-- equal names are one person. For a company it is always: no owner known above it
-- presumed_same: Number of further owners of this company with the same name
-- presumed_same_fraction: Stake of all owners of this company with this name together, at most 1
-- capital_explained: Stakes of all owners without a company number together, at most 1: the part of the capital whose last
-- owners are known
WITH RECURSIVE asked AS (
    SELECT of_list AS asked_list, share_asked(threshold) AS least_stake
),
start AS MATERIALIZED (
    SELECT DISTINCT p.no
    FROM (
        SELECT country || company_number AS id FROM asked JOIN list_members ON lower(list_name) = lower(asked_list)
        UNION ALL
        SELECT asked_list FROM asked
    )
    JOIN parties p USING (id)
),
links AS MATERIALIZED (
    SELECT * FROM shareholdings WHERE parent_no <> child_no
),
-- A company's stake in itself makes those of its owners larger. One that nobody else owns is the last owner all the same.
stakes AS MATERIALIZED (
    FROM links
    UNION ALL
    SELECT s.* FROM shareholdings s SEMI JOIN links l ON l.child_no = s.child_no WHERE s.parent_no = s.child_no
),
direct AS MATERIALIZED (
    SELECT l.* FROM links l SEMI JOIN start ON start.no = l.child_no
),
-- Who holds more than half at each link, of the companies asked for and of their owners.
controls(no, controller_no) AS (
    SELECT child_no, parent_no
    FROM links SEMI JOIN (FROM start UNION ALL SELECT parent_no FROM direct) based ON based.no = child_no
    WHERE stake > 0.5
    UNION
    SELECT c.no, l.parent_no
    FROM controls c JOIN links l ON l.child_no = c.controller_no
    WHERE l.stake > 0.5 AND l.parent_no <> c.no
),
controllers AS MATERIALIZED (
    SELECT no, controller_no FROM controls SEMI JOIN start USING (no)
),
walk(start_no, no, stake, step) AS (
    SELECT DISTINCT no, no, 1::DOUBLE, 0 FROM (FROM start UNION ALL SELECT controller_no FROM controllers)
    UNION ALL
    SELECT w.start_no, s.parent_no, sum(w.stake * s.stake), w.step + 1
    FROM walk w JOIN stakes s ON s.child_no = w.no
    WHERE s.parent_no <> w.start_no AND w.step < 200
    GROUP BY w.start_no, s.parent_no, w.step
    HAVING sum(w.stake * s.stake) > 1e-9
),
interests AS MATERIALIZED (
    SELECT start_no, no, least(round(sum(stake), 6), 1) AS stake, min(step) AS step_count
    FROM walk WHERE step > 0
    GROUP BY start_no, no
),
grounds AS (
    SELECT start_no, no, min(ground) AS ground
    FROM (
        SELECT start_no, no, 1 AS ground FROM interests JOIN asked ON stake >= least_stake
        UNION ALL
        SELECT no, controller_no, 2 FROM controllers
        UNION ALL
        SELECT child_no, no, 3
        FROM (
            SELECT child_no, controller_no AS no, stake FROM direct JOIN controls ON controls.no = parent_no
            UNION ALL
            SELECT child_no, parent_no, stake FROM direct
        )
        GROUP BY child_no, no
        HAVING round(sum(stake), 6) >= (SELECT least_stake FROM asked)
        UNION ALL
        SELECT c.no, i.no, 4
        FROM controllers c JOIN interests i ON i.start_no = c.controller_no JOIN asked ON i.stake >= least_stake
    )
    GROUP BY start_no, no
),
found AS MATERIALIZED (
    SELECT i.*, o.id AS owner_id, o.name AS owner_name, o.kind AS owner_kind, lower(trim(o.name)) AS same_name, g.ground
    FROM interests i
    SEMI JOIN start ON start.no = i.start_no
    JOIN parties o ON o.no = i.no
    LEFT JOIN grounds g ON g.start_no = i.start_no AND g.no = i.no
    WHERE o.kind <> 'company' OR g.ground IS NOT NULL
),
-- Those that cannot be told apart have no name in common.
namesakes AS (
    SELECT start_no, same_name, count(*) AS name_count, sum(stake) AS stake
    FROM found
    WHERE owner_kind = 'named_party'
    GROUP BY ALL
    HAVING count(*) > 1
),
explained AS (
    SELECT start_no, sum(stake) AS stake FROM found WHERE owner_kind <> 'company' GROUP BY start_no
)
SELECT
    c.country, c.company_number, c.name,
    owner_id, owner_name, owner_kind,
    f.stake::DECIMAL(9, 6) AS effective_fraction,
    step_count,
    CASE
        WHEN owner_kind = 'company' THEN 'no owner known above it'
        ELSE coalesce(
            ['ownership', 'control', 'control of owners', 'ownership of a controller'][ground],
            'ownership if equal names are one person'
        )
    END AS basis,
    coalesce(s.name_count - 1, 0) AS presumed_same,
    round(least(coalesce(s.stake, f.stake), 1), 6)::DECIMAL(9, 6) AS presumed_same_fraction,
    round(least(coalesce(e.stake, 0), 1), 6)::DECIMAL(9, 6) AS capital_explained
FROM found f
CROSS JOIN asked
JOIN parties c ON c.no = f.start_no
LEFT JOIN namesakes s ON s.start_no = f.start_no AND s.same_name = f.same_name AND owner_kind = 'named_party'
LEFT JOIN explained e ON e.start_no = f.start_no
WHERE CASE
        WHEN owner_kind = 'company' THEN f.no NOT IN (SELECT child_no FROM links)
        ELSE ground IS NOT NULL OR s.stake >= least_stake
    END
