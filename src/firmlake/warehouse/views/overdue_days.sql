-- function overdue_days(end_date, usual_days_to_file, on_date)
-- Days by which the next accounts of a company are overdue on a day. They are expected to end a year after the newest
-- accounts and to take as long to file as usual. Null if they are not overdue on that day.
CASE
    WHEN on_date > next_end(end_date) + ceil(usual_days_to_file)::INTEGER
        THEN on_date - next_end(end_date) - ceil(usual_days_to_file)::INTEGER
END
