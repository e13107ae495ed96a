"""Intake: read company lists of any usual format and spelling into companies in normal form."""
