"""The shapes of the service's answers, field by field in its own names and order.

msgspec writes structs as JSON at native speed, which is what keeps a hundred companies within a few milliseconds. None
of them can be part of a cycle, so the garbage collector need not look at them.
"""

from msgspec import UNSET, Struct, UnsetType


class CompanyId(Struct, gc=False, rename="camel"):
    """A company by country and number."""

    country: str
    company_number: str


class Identifier(Struct, gc=False, rename="camel", omit_defaults=True):
    """A company; name and place are there where it was found."""

    country: str
    company_number: str
    name: str | UnsetType = UNSET
    place: str | UnsetType = UNSET


class Pagination(Struct, gc=False, rename="camel"):
    """Which part of how much."""

    limit: int
    offset: int
    total: int


class Profitability(Struct, gc=False, rename="camel"):
    """Amounts of the income statement; revenue is null where it need not be published."""

    revenue: float | None
    gross_margin: float
    ebitda: float
    ebit: float
    net_profit: float


class Liquidity(Struct, gc=False, rename="camel"):
    """Amounts, and two ratios of four decimals."""

    cash: float
    cash_flow: float
    net_working_capital: float
    net_working_capital_requirement: float
    current_ratio: float
    quick_ratio: float


class Solvency(Struct, gc=False, rename="camel"):
    """Amounts of the balance sheet; capital may be null."""

    total_assets: float
    equity: float
    capital: float | None
    retained_earnings: float
    debt: float
    long_term_debt: float
    long_term_debt_financial: float
    long_term_debt_accounts_payable: float
    short_term_debt: float
    short_term_debt_financial: float
    short_term_debt_accounts_payable: float


class People(Struct, gc=False, rename="camel"):
    """Heads, and the share of men and women among them."""

    employees: int
    new_hires: int
    employee_male_ratio: float
    employee_female_ratio: float


class FinancialRecord(Struct, gc=False, rename="camel"):
    """The accounts of one period."""

    start_date: str
    end_date: str
    date_received: str
    health_indicator: int
    joint_committee_codes: tuple[str, ...]
    profitability: Profitability
    liquidity: Liquidity
    solvency: Solvency
    people: People


class Lookalike(Struct, gc=False, rename="camel"):
    """A company like another, and how much."""

    company_id: CompanyId
    score: float


class Relation(Struct, gc=False, rename="camel", omit_defaults=True):
    """A parent or a child; an anonymous one has nothing but its identifier, null."""

    identifier: Identifier | None
    function: str | UnsetType = UNSET
    percentage: float | UnsetType = UNSET
    name: str | UnsetType = UNSET


class Relationships(Struct, gc=False, rename="camel"):
    """Both directions of ownership."""

    parents: list[Relation]
    children: list[Relation]


class Notifications(Struct, gc=False, rename="camel"):
    """Whether the list's owner is told of changes."""

    enabled: bool


class ServiceList(Struct, gc=False, rename="camel"):
    """One list in the overview."""

    id: int
    name: str
    type: str
    columns: tuple[str, ...]
    shared: bool
    notifications: Notifications
    amount_of_companies: int
    new_results: int | None
    updated_at: str
    created_at: str
    created_by: str


class ContactId(Struct, gc=False, rename="camel"):
    """A contact."""

    contact_id: str


class FailedContact(Struct, gc=False, rename="camel"):
    """A contact that was not added, and why."""

    contact_identifier: ContactId
    message: str


class FailedCompany(Struct, gc=False, rename="camel"):
    """A company that was not added (message), or some of whose contacts were not (contacts)."""

    company_identifier: CompanyId
    contacts: list[FailedContact] | None
    message: str | None


class ContactsAnswer(Struct, gc=False, rename="camel"):
    """The outcome of adding contacts."""

    success: bool
    message: str
    failed: list[FailedCompany]
