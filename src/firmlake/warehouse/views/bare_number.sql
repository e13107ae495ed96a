-- function bare_number(text)
-- A cell with an amount: its digits, points and commas, with a minus sign in front if the amount is below zero. Null if the
-- cell has other characters than digits, marks, signs, brackets and a currency.
CASE
    WHEN regexp_full_match(text, '\s*[(]?[-+]?\s*(€|[$£]|[A-Za-z]{3})?\s*[-+]?[0-9][0-9.,''’\s\x{00A0}\x{202F}]*(€|[$£]|[A-Za-z]{3})?\s*-?[)]?\s*')
        THEN CASE WHEN regexp_matches(text, '[-(]') THEN '-' ELSE '' END || regexp_replace(text, '[^0-9.,]', '', 'g')
END
