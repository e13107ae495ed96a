-- title: Findings
-- chapter: Data quality
-- Problems that checks of the data found. Nothing is corrected; the view `findings` has the evidence.
SELECT severity, check_name AS check, found, what FROM found
WHERE found IS DISTINCT FROM 0
ORDER BY list_position(['error', 'warning', 'note'], severity), found DESC NULLS FIRST, check_name
