"""Benchmarks of firmlake against a service that costs next to nothing: see README.md in this folder."""

import firmlake as firmlake  # before Polars, which reads these settings when it is imported
