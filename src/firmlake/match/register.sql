-- Statements of firmlake.match.register: normal forms of what identifies companies, and the tables of a register.

-- name: prepare
-- Legal forms as people write them beside names: ISO 20275, lower case, without accents and dots; and joining words.
SET VARIABLE forms = (SELECT '\b(?:' || string_agg(form, '|' ORDER BY length(form) DESC) || ')\b' FROM (SELECT unnest([
    -- Belgium: ISO 20275 (ELF codes), in Dutch and French, short and in full
    'nv', 'sa', 'bv', 'bvba', 'ebvba', 'sprl', 'sprlu', 'srl', 'vof', 'snc', 'cv', 'cvba', 'cvoa', 'sc', 'scrl',
    'scris', 'gcv', 'commv', 'comm v', 'comm va', 'sca', 'scs', 'vzw', 'asbl', 'ivzw', 'aisbl', 'maatschap',
    'societe simple',
    'naamloze vennootschap', 'besloten vennootschap', 'met beperkte aansprakelijkheid', 'a responsabilite limitee',
    'vennootschap onder firma', 'commanditaire vennootschap', 'op aandelen', 'vereniging zonder winstoogmerk',
    'association sans but lucratif', 'vereniging van mede eigenaars', 'vme', 'acp', 'stichting van openbaar nut',
    'private stichting', 'fondation privee', 'fondation d utilite publique',
    -- the Netherlands
    'stichting', 'vereniging', 'cooperatie', 'cooperatief', 'cooperatieve vennootschap', 'coperatieve vennootschap',
    'vve', 'vereniging van eigenaars', 'vereniging van eigenaren', 'eenmanszaak', 'in oprichting',
    'onderlinge waarborgmaatschappij', 'owm', 'kerkgenootschap', 'fonds voor gemene rekening',
    -- France
    'sarl', 'sas', 'sasu', 'eurl', 'ei', 'eirl', 'sci', 'scp', 'scm', 'sccv', 'scpi', 'scea', 'earl', 'gaec', 'gfa',
    'selarl', 'selarlu', 'selas', 'selasu', 'selafa', 'selca', 'spfpl', 'scop', 'scic', 'sem', 'seml', 'spl', 'gie',
    'sep', 'sica', 'cuma', 'societe anonyme', 'societe par actions simplifiee', 'unipersonnelle',
    'societe en nom collectif', 'societe civile', 'societe civile immobiliere', 'societe civile professionnelle',
    'societe en commandite simple', 'societe en commandite par actions', 'societe cooperative', 'a associe unique',
    'entreprise unipersonnelle a responsabilite limitee', 'entreprise individuelle', 'auto entrepreneur',
    'exploitation agricole a responsabilite limitee', 'groupement agricole d exploitation en commun',
    'groupement d interet economique', 'societe d exercice liberal', 'societe a responsabilite limitee',
    'association', 'fondation',
    -- Europe and elsewhere
    'se', 'sce', 'eesv', 'geie', 'eeig', 'ltd', 'limited', 'gmbh', 'ag', 'kg', 'inc', 'plc', 'llc', 'spa',
    -- joining words
    'and', 'en', 'et', 'und'
]) AS form));

-- Lower-case letters and digits with single spaces between words; dots and apostrophes are deleted.
CREATE MACRO plain(text) AS trim(regexp_replace(regexp_replace(
    replace(replace(replace(replace(replace(lower(strip_accents(text)), 'œ', 'oe'), 'æ', 'ae'), 'ß', 'ss'), 'ø', 'o'), 'ł', 'l'),
    '[.''’`´]', '', 'g'), '[^a-z0-9]+', ' ', 'g'));

-- How the members of a Dutch cooperative are liable follows the name: Coöperatie De Kroon U.A.
CREATE MACRO without_liability(plain) AS
    CASE WHEN regexp_matches(plain, '\bcooperati') THEN regexp_replace(plain, '\b[buw] ?a$', '') ELSE plain END;

-- A company name without legal forms and joining words; a name made of these alone keeps them.
CREATE MACRO normal_name(text) AS coalesce(nullif(trim(regexp_replace(regexp_replace(
    without_liability(plain(text)), getvariable('forms'), ' ', 'g'), ' +', ' ', 'g')), ''), plain(text));

-- A place without case, accents, punctuation and suffix (PARIS 8, Paris Cedex 08).
CREATE MACRO normal_place(text) AS trim(regexp_replace(
    regexp_replace(regexp_replace(plain(text), '^ste? ', 'saint '), '^sint ', 'saint '),
    '( cedex)?( \d+(e|er|eme)?( arrondissement)?)?$', ''));

-- The digits of a postcode, null unless there are 4 or 5; the letters of a Dutch postcode are dropped.
CREATE MACRO postcode_of(text) AS
    nullif(regexp_extract(text, '\b(\d{4,5})(?:\.0)?\s?(?:[A-Za-z]{2})?\b', 1), '');

-- The RSIN of a Dutch VAT number (NL, its RSIN, and B01 or another suffix), or a bare RSIN; null for anything else.
CREATE MACRO vat_key(text) AS nullif(regexp_extract(
    regexp_replace(upper(text), '[^0-9A-Z]', '', 'g'), '^(?:NL)?(\d{9})(?:B\d{2})?$', 1), '');

-- normal is the normal name, tight is the normal name without spaces, whole has the legal form.
CREATE TABLE names (country VARCHAR, number VARCHAR, name VARCHAR, normal VARCHAR, tight VARCHAR, whole VARCHAR);
CREATE TABLE places (country VARCHAR, number VARCHAR, place VARCHAR, normal VARCHAR, postcode VARCHAR);
CREATE TABLE vats (country VARCHAR, number VARCHAR, vat VARCHAR);

-- name: names
-- Undisclosed values ([ND]) are left out.
INSERT INTO names
SELECT country, number, name, normal_name(name) AS normal, replace(normal, ' ', '') AS tight,
       replace(plain(name), ' ', '')
FROM (SELECT country, number, unnest(names) AS name FROM given)
WHERE trim(name) NOT IN ('', '[ND]') AND tight <> ''

-- name: places
INSERT INTO places
SELECT DISTINCT country, number, place, normal_place(place), postcode_of(postcode)
FROM (SELECT country, number, unnest(places) AS place, postcode FROM given)
WHERE trim(place) NOT IN ('', '[ND]') OR postcode IS NOT NULL

-- name: vats
INSERT INTO vats SELECT country, number, vat_key(vat) AS key FROM given WHERE key IS NOT NULL
