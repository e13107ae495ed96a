"""The main job: a company list is planned, fetched, staged and published."""
