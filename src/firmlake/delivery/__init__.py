"""Delivery: put the newest generation, or its changes since the last load, into the tables of another warehouse."""
