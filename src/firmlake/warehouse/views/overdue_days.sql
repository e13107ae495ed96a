-- function overdue_days(end_date, usual_days_to_file, on_date)
-- Days by which the next accounts of a company are overdue on a day. They are expected to end a year after the newest
-- accounts and to take as long to file as usual. Null if they are not overdue on that day.
CASE
    WHEN on_date > (end_date + INTERVAL 1 YEAR)::DATE + ceil(usual_days_to_file)::INTEGER
        THEN on_date - (end_date + INTERVAL 1 YEAR)::DATE - ceil(usual_days_to_file)::INTEGER
END
