-- view newest_measures
-- The rows of measures about the newest periods of all companies, as newest_measures_in.
FROM newest_measures_in('all')
