-- view newest_measures
-- The measures of the newest periods of all companies, as in newest_measures_in.
FROM newest_measures_in('all')
