-- function bare_id(country, number)
-- Country and number of a company, in capital letters and digits only.
regexp_replace(upper(country || number::VARCHAR), '[^0-9A-Z]', '', 'g')
