-- view shareholdings
-- One row for each stake that groups follow: relationships called SHAREHOLDER with a known stake above zero. Other kinds
-- are in ownership, but what they mean is not specified. A stake above 1 counts as 1; findings names it.
--
-- stake: Share of the child that the parent holds, above 0, at most 1
SELECT parent_id, child_id, least(stake_fraction, 1)::DOUBLE AS stake
FROM ownership
WHERE "function" = 'SHAREHOLDER' AND stake_fraction > 0
