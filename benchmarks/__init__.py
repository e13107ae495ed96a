"""Benchmarks of firmlake against a service that costs next to nothing: see README.md in this folder."""
