-- title: Presumed beneficial owners
-- chapter: Owners and group
-- By Regulation (EU) 2024/1624, art. 51 to 54, from stakes of shareholders alone; other control is not known. Owners
-- without a number may be persons or foreign companies.
SELECT owner_name AS owner, replace(owner_kind, '_', ' ') AS kind, effective_fraction, step_count AS steps,
    basis, presumed_same AS further_of_the_name, capital_explained AS capital_explained_fraction,
    count(*) OVER () AS total
FROM beneficial_owners(getvariable('country') || getvariable('number'))
ORDER BY effective_fraction DESC, owner_id LIMIT 15
