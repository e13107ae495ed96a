"""The main job: plan, fetch, stage and publish a company list."""
