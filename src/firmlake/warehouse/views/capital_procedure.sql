-- view capital_procedure
-- One row per company with accounts: its equity beside its capital, as laws on lost capital compare them.
-- Belgium: the board convenes the general meeting if net assets fall below half, and again below a quarter, of the
-- capital of an NV (Code of Companies and Associations, art. 7:228), or in a BV are negative or threaten to become so
-- (art. 5:153; the threat is not shown). France: if equity falls below half of the capital of a company by shares
-- (Code de commerce, art. L225-248) or of an SARL (L223-42). Netherlands: for information only. The service does not
-- state the legal form, so a row says what holds if the company has the form. Net assets in Belgium are equity less
-- the costs of formation, expansion, research and development not yet written off, which are not known either.
--
-- equity_to_capital: Equity divided by capital. Null: one is missing, or capital is not above zero
-- is_below_half: Whether equity is below half of the capital. Null: one of them is missing, or capital is not above zero
-- is_below_quarter: Whether equity is below a quarter of the capital. Null: as in is_below_half
-- is_equity_negative: Whether equity is below zero. Null: it is missing
-- procedure: Procedure that the figures call for, if the company has the legal form named. Null: none
SELECT
    country, company_number, p.name, end_date, p.incomparable_because, p.equity, l.capital,
    ratio(p.equity, l.capital) AS equity_to_capital,
    CASE WHEN l.capital > 0 THEN p.equity::DECIMAL(19, 2) * 2 < l.capital END AS is_below_half,
    CASE WHEN l.capital > 0 THEN p.equity::DECIMAL(19, 2) * 4 < l.capital END AS is_below_quarter,
    p.equity < 0 AS is_equity_negative,
    CASE
        WHEN country = 'BE' AND is_below_quarter AND is_equity_negative THEN 'art. 7:228 (a quarter) if NV; art. 5:153 if BV'
        WHEN country = 'BE' AND is_below_quarter THEN 'art. 7:228 (a quarter) if NV'
        WHEN country = 'BE' AND is_below_half THEN 'art. 7:228 (half) if NV'
        WHEN country = 'BE' AND is_equity_negative THEN 'art. 5:153 if BV'
        WHEN country = 'FR' AND is_below_half THEN 'art. L225-248 if a company by shares; art. L223-42 if SARL'
    END AS procedure
FROM portfolio p
JOIN (SELECT country, company_number, start_date, end_date, capital FROM accounts) l
    USING (country, company_number, start_date, end_date)
