-- table shareholdings
-- One row per stake that connects companies to a group: relationships called SHAREHOLDER with a known stake above
-- zero. Other kinds of relationships are in ownership, but their meaning is not specified. A stake above 1 counts as 1,
-- and findings reports it.
--
-- parent_no: Number of the owner, as no in parties
-- child_no: Number of the owned company, as no in parties
-- stake: Stake of the owner in the owned company, above 0 and at most 1
SELECT p.no AS parent_no, c.no AS child_no, least(stake_fraction, 1)::DOUBLE AS stake
FROM ownership
JOIN parties p ON p.id = parent_id
JOIN parties c ON c.id = child_id
WHERE "function" = 'SHAREHOLDER' AND stake_fraction > 0
