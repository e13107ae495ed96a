-- function company_asked(country, number)
-- The id of a company from its country and number, as in parent_id of ownership. The number may have dots and spaces,
-- lack its leading zero or repeat the country; a SIRET or French VAT number is shortened. A number that no company can
-- have is an error.
coalesce(
    'BE' || lpad(nullif(regexp_extract(bare_id(country, number), '^(?:BE)+(0?[0-9]{9}|1[0-9]{9})$', 1), ''), 10, '0'),
    'NL' || lpad(nullif(regexp_extract(bare_id(country, number), '^(?:NL)+([0-9]{7,8})$', 1), ''), 8, '0'),
    'FR' || lpad(nullif(regexp_extract(bare_id(country, number), '^(?:FR)+([0-9]{8,9})(?:[0-9]{5})?$', 1), ''), 9, '0'),
    'FR' || nullif(regexp_extract(bare_id(country, number), '^(?:FR)+[0-9A-Z]{2}([0-9]{9})$', 1), ''),
    error('No company number: ' || country || ' ' || number || '. Give BE, NL or FR, then a number of that country')
)
