-- view list_lines
-- One row per line of each company list, in the newest version of the list, with its status.
--
-- line: Line number in the file (row number in a worksheet), from 1; titles and header count. The texts in reason use
-- the same numbers
-- status: Status of the line: enriched, not found, failed, waiting or not asked, as in company_status; repeated (an
-- earlier line names the same company), refused (the line names no usable company) or blank
-- reason: Reason for the status, or how the company number was repaired. Null: neither applies
-- company: Country and company number in normal form. Null: the line names no company
-- country: Country of the company: BE, NL or FR. Null: the line names no company
-- company_number: Company number in normal form. Null: the line names no company. Personal data if the company is a
-- sole trader
SELECT
    m.list_name, m.line,
    CASE m.status WHEN 'accepted' THEN coalesce(s.status, 'not asked') ELSE m.status END AS status,
    CASE m.status
        WHEN 'repeated' THEN 'line ' || r.first_line || ' names the same company'
        WHEN 'accepted' THEN nullif(concat_ws('; ', m.reason, s.reason, CASE s.status WHEN 'not found' THEN 'the service does not know it' END), '')
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
