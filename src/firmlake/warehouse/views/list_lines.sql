-- view list_lines
-- One row for each line of each company list, in its newest version, with its status.
--
-- line: Line in the file that was read (row of a sheet), titles counted; 1 first. Reasons name lines by it
-- status: enriched, not found, failed, waiting or not asked, as in company_status; repeated: an earlier line names the same
-- company; refused: the line names no company; blank
-- reason: Reason of the status, or what was repaired. Null: neither applies
-- company: Country and company number in normal form. Null: the line names no company
-- country: Country of the company: BE, NL or FR. Null: the line names no company
-- company_number: Company number in normal form. Null: the line names no company. Personal data if one person is the
-- company
SELECT
    m.list_name, m.line,
    CASE m.status WHEN 'accepted' THEN coalesce(s.status, 'not asked') ELSE m.status END AS status,
    CASE m.status
        WHEN 'repeated' THEN 'line ' || r.first_line || ' names the same company'
        WHEN 'accepted' THEN nullif(concat_ws('; ', m.reason, s.reason), '')
        ELSE m.reason
    END AS reason,
    m.country || ' ' || m.company_number AS company,
    m.country, m.company_number, m.given, m.columns
FROM list_members m
LEFT JOIN (
    SELECT list_name, country, company_number, min(line) AS first_line FROM list_members
    GROUP BY ALL HAVING count(*) > 1
) r USING (list_name, country, company_number)
LEFT JOIN company_status s USING (country, company_number)
