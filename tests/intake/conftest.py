"""Lists written to a file and read back."""

import shutil
import subprocess
from collections.abc import Callable

import pytest

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.lines import CompanyList, read_company_list

Read = Callable[..., CompanyList]


@pytest.fixture
def write(tmp_path):
    """Write content to a file whose name says nothing about its format."""

    def write(content: str | bytes):
        path = tmp_path / "list"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def read(write) -> Read:
    """Read a list with this content."""
    return lambda content, **options: read_company_list(write(content), IntakeSettings(**options))


@pytest.fixture
def refusal(write):
    """Give the error by which a list with this content is refused."""

    def refusal(content: str | bytes, **options) -> CompanyListError:
        path = write(content)
        with pytest.raises(CompanyListError) as caught:
            read_company_list(path, IntakeSettings(**options))
        assert str(path) in caught.value.message, "the file is named"
        assert caught.value.next_step, "the next step is named"
        return caught.value

    return refusal


@pytest.fixture
def converted(tmp_path) -> Callable[..., bytes]:
    """Convert a file to another format with a spreadsheet program."""

    def convert(name: str, content: bytes, ending: str, *options: str) -> bytes:
        program = shutil.which("soffice")
        if program is None:
            pytest.skip("apt-get install libreoffice-calc-nogui")
        (tmp_path / name).write_bytes(content)
        command = [program, f"-env:UserInstallation={tmp_path.as_uri()}/office", "--headless", "--convert-to", ending]
        subprocess.run([*command, *options, "--outdir", ending, name], cwd=tmp_path, check=True, timeout=90)
        (made,) = (tmp_path / ending).iterdir()
        content = made.read_bytes()
        made.unlink()
        return content

    return convert
