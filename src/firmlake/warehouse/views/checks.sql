-- view checks
-- One row per check, with its meaning; findings has what the checks found.
--
-- check_name: Name of the check
-- severity: Severity of the problems that the check finds: error, warning or note
-- meaning: Problem that the check finds
FROM (VALUES each check) AS c(check_name, severity, meaning)
