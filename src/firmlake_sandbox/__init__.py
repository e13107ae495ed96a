"""A stand-in for the company-data service, for tests, demonstrations and the development of clients.

It serves all eight endpoints of the service on this machine, from a world that is made up as it is asked. Start it
with `python -m firmlake_sandbox`, or from Python:

    with firmlake_sandbox.start(requests_per_minute=0) as sandbox:
        fetch(sandbox.base_url, sandbox.token)
"""

from firmlake_sandbox.numbers import sample_numbers
from firmlake_sandbox.starter import Sandbox, start

__all__ = ["Sandbox", "sample_numbers", "start"]
