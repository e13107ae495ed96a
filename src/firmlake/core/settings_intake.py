"""The settings of the section `intake`: how to read a company list."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from firmlake.core.settings_api import SettingsSection

__all__ = ["IntakeSettings"]


class IntakeSettings(SettingsSection, frozen=True):
    """How to read a company list, if firmlake cannot detect it from the file."""

    country_column: Annotated[
        str, Meta(description='column of the country, by name or position from 1; "" detects it')
    ] = ""
    number_column: Annotated[
        str, Meta(description='column of the company number, by name or position from 1; "" detects it')
    ] = ""
    contact_column: Annotated[
        str,
        Meta(description='column of the contact id in a list of contacts, by name or position from 1; "" detects it'),
    ] = ""
    default_country: Annotated[Literal["", "BE", "NL", "FR"], Meta(description="country for lines that state none")] = (
        ""
    )
    delimiter: Annotated[str, Meta(max_length=1, description='field separator of CSV; "" detects it')] = ""
    encoding: Annotated[str, Meta(description='encoding of text files; "" detects it')] = ""
    header: Annotated[
        Literal["auto", "yes", "no"],
        Meta(description="whether the list has a line with the names of the columns; auto detects it"),
    ] = "auto"
    header_row: Annotated[
        int, Meta(ge=0, description="number of the line with the names of the columns; 0 detects it")
    ] = 0
    sheet: Annotated[str, Meta(description='worksheet to read; "" uses the first that has company numbers')] = ""
    max_rows: Annotated[int, Meta(ge=1, description="most lines in a list; a longer list is refused")] = 50_000_000
    max_columns: Annotated[int, Meta(ge=1, description="most columns in a list; a wider list is refused")] = 16_384
    max_cells: Annotated[
        int, Meta(ge=1, description="most cells in a worksheet, empty ones included; each takes 50 bytes of memory")
    ] = 25_000_000
    max_inflated_megabytes: Annotated[
        int, Meta(ge=1, description="largest size of a compressed list after decompression, in megabytes")
    ] = 8192
    query_seconds_max: Annotated[
        int, Meta(ge=1, description="longest duration of a query whose result is the list, or of reading a database")
    ] = 120
    keep_columns: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            description='columns to keep and to return, also for refused lines: ["all"], ["none"], or names',
        ),
    ] = ("all",)

    @property
    def keeps_all(self) -> bool:
        """Whether every column of a list is kept."""
        return self.keep_columns == ("all",)

    @property
    def keeps_none(self) -> bool:
        """Whether no column of a list is kept."""
        return self.keep_columns == ("none",)

    def keeps(self, column: str) -> bool:
        """Tell whether a column of a list is kept; case is ignored."""
        named = {name.casefold() for name in self.keep_columns}
        return self.keeps_all or (not self.keeps_none and column.casefold() in named)
