-- function amount(text)
-- The number in a cell, as people write amounts: with a decimal comma or point, spaces, dots, commas or apostrophes between
-- thousands, a currency, and a minus sign or brackets below zero. The last of different marks is the decimal mark; a mark
-- that stands several times, or once before exactly three digits and not after a lone zero (1.250), separates thousands.
-- Null if the cell is empty or has no such number.
try_cast(
    CASE
        WHEN regexp_full_match(bare_number(text), '-?(0|[0-9]+)[.,][0-9]+') AND NOT regexp_full_match(bare_number(text), '-?[1-9][0-9]{0,2}[.,][0-9]{3}')
            THEN replace(bare_number(text), ',', '.')
        WHEN regexp_full_match(bare_number(text), '-?[0-9]{1,3}([.][0-9]{3})*(,[0-9]+)?|-?[0-9]+(,[0-9]+)?')
            THEN replace(replace(bare_number(text), '.', ''), ',', CASE WHEN regexp_matches(bare_number(text), ',[0-9]{3}$') AND NOT contains(bare_number(text), '.') THEN '' ELSE '.' END)
        WHEN regexp_full_match(bare_number(text), '-?[0-9]{1,3}(,[0-9]{3})*([.][0-9]+)?|-?[0-9]+([.][0-9]+)?')
            THEN replace(bare_number(text), ',', '')
    END AS DECIMAL(24, 6)
)
