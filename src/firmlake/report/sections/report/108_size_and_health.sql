-- title: Size and health
-- chapter: The portfolio
-- chart: size_by_health
-- One point for each company, newest accounts; doubtful figures are left out.
SELECT total_assets::DOUBLE AS assets, health_indicator::DOUBLE AS health, coalesce(zone, 'no score') AS part,
    name || ' (' || country || ' ' || company_number || ')' ||
        format(': total assets {:.0f}, health {:.2f}', total_assets::DOUBLE,
            health_indicator::DOUBLE) AS about,
    count(*) OVER () AS total
FROM portfolio WHERE total_assets > 0 AND health_indicator IS NOT NULL AND is_comparable
ORDER BY hash(country, company_number), country, company_number LIMIT 1500
