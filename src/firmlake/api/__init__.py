"""Talking to the service: what it offers, one client, its allowance and its credits."""
