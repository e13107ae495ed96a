-- title: Gates by generation
-- chapter: Data quality
-- What the gates of `paths.gates` measured in the last five generations. A generation whose gate failed was held back
-- until it was released or replaced.
SELECT generation::VARCHAR AS generation, says AS gate, list_name, value, publish_if, last_value, is_failed
FROM generation_quality WHERE kind = 'gate' AND generation > (SELECT max(generation) FROM loads) - 5
ORDER BY generation_quality.generation DESC, is_failed DESC, gate
