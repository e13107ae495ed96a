"""Intake: a company list in any usual spelling becomes companies in normal form, and a plan what to fetch."""
