"""Benchmarks of firmlake against a service that costs next to nothing: see README.md in this folder."""

import firmlake as firmlake  # first, as for the command line: Polars reads what it sets when it is imported
