-- view shareholdings
-- One row for each stake that connects companies to a group: relationships called SHAREHOLDER with a known stake above
-- zero. Other kinds of relationships are in ownership, but their meaning is not specified. A stake above 1 counts as 1,
-- and findings reports it.
--
-- stake: Stake of the owner in the owned company, above 0 and at most 1
SELECT parent_id, child_id, least(stake_fraction, 1)::DOUBLE AS stake
FROM ownership
WHERE "function" = 'SHAREHOLDER' AND stake_fraction > 0
