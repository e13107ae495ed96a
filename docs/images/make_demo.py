"""Make docs/images/demo.svg: the demo and its first query, as they really print.

Run it in a clone after a change of either:

python docs/images/make_demo.py
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[2]
FIRMLAKE = Path(sys.executable).with_name("firmlake")
QUERY = (
    "SELECT name, end_date, revenue, net_profit, employee_count FROM financials JOIN companies "
    "USING (country, company_number) WHERE position = 0 ORDER BY net_profit DESC LIMIT 5"
)


def main() -> None:
    """Run both and draw what they print."""
    console = Console(record=True, width=112, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as data:
        for shown, arguments in (
            ("firmlake demo", ["demo", "--data", data]),
            (f'firmlake query --data data/sandbox "{QUERY}"', ["query", QUERY, "--data", data]),
        ):
            done = subprocess.run(  # noqa: S603 - our own command
                [FIRMLAKE, *arguments], cwd=ROOT, capture_output=True, text=True, check=True, env={"COLUMNS": "110"}
            )
            console.print(Text(f"$ {shown}", style="bold green"))
            text = (done.stderr + done.stdout).split("Next: ")[0].replace(data, "data/sandbox")
            console.print(Text(text))
    picture = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="firmlake"), flags=re.S)  # no fonts from afar
    Path(__file__).with_name("demo.svg").write_text(picture.replace("Fira Code,", ""))


if __name__ == "__main__":
    main()
