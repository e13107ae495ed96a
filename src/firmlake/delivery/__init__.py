"""Delivery: load the newest generation, or its changes since the last load, into another database."""
