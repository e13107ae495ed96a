"""Feed a reader by coverage: `python -m fuzz.guided READER FOLDER SECONDS BEGIN`, from the folder `tests`.

READER is one of `readers.GUIDED`. FOLDER gets the input that fails; BEGIN holds files to begin with. Needs Atheris.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["firmlake"]):
    from fuzz.readers import feed

_INPUT_SECONDS_MAX, _MEMORY_MEGABYTES, _LENGTH_MAX = 20, 3000, 4096


def main(reader: str, folder: str, seconds: str, begin: str) -> None:
    """Change inputs for some seconds, and end with an error where one fails."""

    def run(content: bytes) -> None:
        feed(reader, content, Path(folder))

    atheris.Setup(
        [
            sys.argv[0], f"-max_total_time={seconds}", f"-timeout={_INPUT_SECONDS_MAX}",
            f"-rss_limit_mb={_MEMORY_MEGABYTES}", f"-max_len={_LENGTH_MAX}", f"-artifact_prefix={folder}/", begin,
        ],
        run,
    )  # fmt: skip
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
