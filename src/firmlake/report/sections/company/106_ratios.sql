-- title: Ratios and their place among the peers
-- chapter: Accounts
-- Newest accounts. The middle half of the peers lies between p25 and p75; rank 1 is the highest value.
SELECT label AS measure, value, p25, p50 AS median, p75,
    format('{:,} of {:,}', value_rank, value_count) AS rank, shown_as,
    'Peers: ' || peer_group || if(is_widened, '. Narrower groups have fewer than ten companies.', '.') AS remark
FROM standing ORDER BY place
