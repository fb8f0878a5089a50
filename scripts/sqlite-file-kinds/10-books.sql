-- A bookkeeping: views that are written to, generated columns, partial indexes and indexes of expressions, rows older than checks.
CREATE TABLE account(code TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL, kind TEXT CHECK (kind IN ('asset', 'income', 'cost')) DEFAULT 'asset',
  level INT AS (length(code)) STORED, title TEXT GENERATED ALWAYS AS (code || ' ' || name) VIRTUAL UNIQUE) WITHOUT ROWID;
CREATE TABLE entry(id INTEGER PRIMARY KEY, at TEXT NOT NULL DEFAULT '2025-01-01', text, CONSTRAINT iso CHECK (at GLOB '????-??-??'));
CREATE TABLE posting(entry INTEGER NOT NULL REFERENCES entry ON DELETE RESTRICT, account TEXT NOT NULL REFERENCES account(code) ON UPDATE CASCADE,
  cents INTEGER NOT NULL, net AS (cents * 100 / 119), tax INT AS (cents - net), currency TEXT NOT NULL ON CONFLICT REPLACE DEFAULT 'EUR',
  UNIQUE (entry, account, currency) ON CONFLICT IGNORE);
CREATE INDEX posting_account ON posting(account, cents);
CREATE INDEX posting_large ON posting(cents DESC) WHERE abs(cents) > 50000 AND currency = 'EUR';
CREATE UNIQUE INDEX entry_text ON entry(at, trim(lower(text))) WHERE text IS NOT NULL;
CREATE INDEX entry_month ON entry(substr(at, 1, 7), id DESC);
CREATE INDEX posting_tax ON posting(tax);
CREATE TABLE history(at INTEGER PRIMARY KEY, what TEXT, was, now);
CREATE VIEW balance(account, cents, rank) AS SELECT account, sum(cents), rank() OVER (ORDER BY sum(cents) DESC) FROM posting GROUP BY account;
CREATE VIEW ledger AS SELECT e.id, e.at, e.text, p.account, p.cents, sum(p.cents) OVER (PARTITION BY p.account ORDER BY e.id) AS total
  FROM entry e JOIN posting p ON p.entry = e.id;
CREATE VIEW broken AS SELECT * FROM no_such_table;
CREATE TRIGGER ledger_insert INSTEAD OF INSERT ON ledger BEGIN
  INSERT OR IGNORE INTO entry(id, at, text) VALUES (new.id, new.at, new.text);
  INSERT INTO posting(entry, account, cents) VALUES (new.id, new.account, new.cents), (new.id, '1000', -new.cents); END;
CREATE TRIGGER ledger_delete INSTEAD OF DELETE ON ledger BEGIN DELETE FROM posting WHERE entry = old.id; DELETE FROM entry WHERE id = old.id; END;
CREATE TRIGGER ledger_update INSTEAD OF UPDATE OF cents ON ledger BEGIN
  UPDATE posting SET cents = new.cents WHERE entry = old.id AND account = old.account; END;
CREATE TRIGGER noted AFTER UPDATE ON posting FOR EACH ROW WHEN old.cents IS NOT new.cents BEGIN
  INSERT INTO history(what, was, now) VALUES ('posting ' || new.entry, old.cents, new.cents); END;
CREATE TRIGGER kept BEFORE DELETE ON account BEGIN SELECT RAISE(FAIL, 'accounts are kept'); END;
INSERT INTO account(code, name, kind) VALUES ('1000', 'Bank', 'asset'), ('4000', 'Erlöse', 'income'), ('60', 'Büro', 'cost'), ('6', 'Cost', 'cost');
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 800)
  INSERT INTO ledger(id, at, text, account, cents)
  SELECT i, printf('2024-%02d-%02d', i % 12 + 1, i % 28 + 1), CASE i % 5 WHEN 0 THEN NULL ELSE ' Beleg ' || i || ' ' END,
    CASE i % 3 WHEN 0 THEN '4000' WHEN 1 THEN '60' ELSE '6' END, i * 7919 % 100000 FROM n;
PRAGMA ignore_check_constraints = ON;
INSERT INTO entry VALUES (9000, 'yesterday', x'00ff');
INSERT INTO account(code, name, kind) VALUES ('9', 'Old', 'older than the check');
-- then
INSERT INTO ledger(id, at, text, account, cents) VALUES (5000, '2025-03-01', 'late', '60', 77777);
UPDATE ledger SET cents = cents + 1 WHERE id BETWEEN 10 AND 40 AND account <> '1000';
DELETE FROM ledger WHERE id = 7;
PRAGMA foreign_keys = ON;
UPDATE account SET code = '61' WHERE code = '60';
INSERT INTO posting(entry, account, cents, currency) VALUES (11, '61', 5, NULL);
CREATE TABLE found AS SELECT * FROM balance;
CREATE TABLE large AS SELECT entry, cents FROM posting INDEXED BY posting_large WHERE abs(cents) > 50000 AND currency = 'EUR';
CREATE TABLE months AS SELECT substr(at, 1, 7) AS month, count(*) AS n FROM entry GROUP BY 1;
