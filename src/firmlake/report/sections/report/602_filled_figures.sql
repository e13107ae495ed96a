-- title: Filled figures by generation
-- chapter: Data quality
-- chart: lines
-- Share of all held periods with a value, in the last 20 generations; `generation_quality` has every figure.
SELECT generation::VARCHAR AS generation, name AS series, value / 100 AS share FROM generation_quality
WHERE kind = 'fill' AND name IN ('revenue', 'total_assets', 'employee_count')
    AND generation > (SELECT max(generation) FROM loads) - 20
ORDER BY generation_quality.generation, list_position(['revenue', 'total_assets', 'employee_count'], name)
