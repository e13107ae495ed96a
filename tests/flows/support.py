"""`python flows/enrich.py` as a process, and deployments with their workers."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx

from lake import Lake

ROOT = Path(__file__).parents[2]
FLOWS = ROOT / "flows"


class ByHand(Lake):
    """A lake whose flows are started by hand in a home of its own."""

    def __init__(self, folder, service=None, companies=(), **settings):
        super().__init__(folder, service, companies, **settings)
        (folder / "home").mkdir()
        self.environment |= {"HOME": str(folder / "home"), "COLUMNS": "200"}

    def flow(self, *arguments, name="enrich"):
        return self.start(*arguments, code=[str(FLOWS / f"{name}.py")])

    def run_flow(self, *arguments, name="enrich", seconds=180):
        return self.ended(self.flow(*arguments, name=name), seconds)

    def processes(self):
        """The command lines of all processes that came of this lake, by their ids."""
        found, mark = {}, f"HOME={self.folder / 'home'}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue  # it has ended, or is somebody else's
        return found


class Pool:
    """The deployments as they are shipped, on a server, and workers for them."""

    def __init__(self, by_hand, api, **variables):
        self._by_hand, self._api = by_hand, api
        by_hand.environment |= {
            "PREFECT_API_URL": api,
            "PREFECT_HOME": str(by_hand.folder / "worker"),
            "PREFECT_WORKER_QUERY_SECONDS": "2",
            "LAKE_HOME": str(by_hand.folder),
            "LAKE_LIST": str(by_hand.list),
            **variables,
        }
        self.deploy()

    def deploy(self):
        done = self._by_hand.ended(self._by_hand.start(code=["-m", "firmlake.flows.deploy"]), 180)
        assert done.code == 0, done

    @contextmanager
    def worker(self, name="one"):
        command = [str(Path(sys.executable).with_name("prefect")), "worker", "start", "--pool", "firmlake"]
        lake = self._by_hand
        with (lake.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "--name", name],
                cwd=lake.folder, env=lake.variables(), stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(60)

    def start_run(self):
        weekly = self.ask("GET", "deployments/name/enrich/weekly")
        return self.ask("POST", f"deployments/{weekly['id']}/create_flow_run", {"state": {"type": "SCHEDULED"}})["id"]

    def ask(self, method, path, content=None):
        answer = httpx.request(method, f"{self._api}/{path}", json=content, trust_env=False, timeout=60)
        return answer.raise_for_status().json()
