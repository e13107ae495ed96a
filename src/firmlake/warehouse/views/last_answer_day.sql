-- function last_answer_day()
-- Day (UTC) on which the last run in the warehouse got its last answer. Null if there is no run.
(SELECT max(finished_at)::DATE FROM runs)
