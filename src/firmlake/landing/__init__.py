"""Answers land on disk byte for byte before anything else is done with them: the system of record."""
