-- view working_capital
-- One row per financial period of a company: how it pays for its operations. Net working capital (fonds de
-- roulement, FR) less its stated requirement (besoin en fonds de roulement, BFR) is net cash (tresorerie nette, TN).
-- By the signs of the three there are six types. TN should equal cash less short-term financial debt.
--
-- net_cash: Net working capital less its requirement (TN). Null: one is missing
-- requirement_days: Requirement as days of annualised revenue. Null: one is missing, revenue is not above zero, or the
-- period is under 90 days
-- type_no: 1: FR pays for BFR and leaves cash; 2: FR pays for part of BFR, banks for the rest; 3: FR and operations
-- (BFR below zero) both leave cash; 4: operations pay for fixed assets and leave cash; 5: operations and banks pay for
-- fixed assets; 6: banks pay for fixed assets and operations. Zero counts as above zero. Null: an amount is missing
-- net_cash_stated: Cash less short-term financial debt. Null: one is missing
-- identity_difference: net_cash less net_cash_stated; 0 if the identity holds. Null: one is missing
-- accounts_payable: Long-term plus short-term accounts payable. Null: one is missing
-- payable_days: Short-term accounts payable as days of annualised revenue; purchases are not stated. Null: as in
-- requirement_days
SELECT
    country, company_number, start_date, end_date, net_working_capital, net_working_capital_requirement,
    (net_working_capital::DECIMAL(19, 2) - net_working_capital_requirement)::DECIMAL(20, 2) AS net_cash,
    CASE WHEN revenue_annual > 0 THEN round(365 * (net_working_capital_requirement / revenue_annual), 1) END
        AS requirement_days,
    CASE
        WHEN net_cash IS NULL THEN NULL
        WHEN net_working_capital >= 0 AND net_working_capital_requirement < 0 THEN 3
        WHEN net_working_capital >= 0 THEN CASE WHEN net_cash >= 0 THEN 1 ELSE 2 END
        WHEN net_working_capital_requirement < 0 THEN CASE WHEN net_cash >= 0 THEN 4 ELSE 5 END
        ELSE 6
    END AS type_no,
    (cash::DECIMAL(19, 2) - short_term_debt_financial)::DECIMAL(20, 2) AS net_cash_stated,
    (net_cash - net_cash_stated)::DECIMAL(21, 2) AS identity_difference,
    long_term_debt_accounts_payable, short_term_debt_accounts_payable,
    (long_term_debt_accounts_payable::DECIMAL(19, 2) + short_term_debt_accounts_payable)::DECIMAL(20, 2)
        AS accounts_payable,
    CASE WHEN revenue_annual > 0 THEN round(365 * (short_term_debt_accounts_payable / revenue_annual), 1) END
        AS payable_days
FROM (SELECT * EXCLUDE (recency), annualised(revenue, period_days) AS revenue_annual FROM accounts)
