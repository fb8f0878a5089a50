CREATE TABLE t(a, b, c TEXT COLLATE RTRIM, PRIMARY KEY(b DESC, a)) WITHOUT ROWID
CREATE INDEX t_c ON t(c DESC, a COLLATE NOCASE)
INSERT INTO t VALUES (1, 1.0, 'a '), ('1', 1, 'a'), (NULL, 2, 'b'), (x'00', 'x', NULL), ('A', x'', 'a  ')
INSERT INTO t SELECT a || char(0), b || 'x', c FROM t WHERE c IS NOT NULL
INSERT OR IGNORE INTO t VALUES (9007199254740993, 9007199254740992.0, printf('%.900c', 'k')), (-0.0, 9e999, printf('%.900c', 'k') || 'x')
SELECT * FROM t ORDER BY b, a
SELECT a, c FROM t INDEXED BY t_c WHERE c >= 'a' ORDER BY c DESC, a COLLATE NOCASE
SELECT a FROM t WHERE c = 'a    ' ORDER BY a
UPDATE t SET b = -b WHERE typeof(b) = 'real'
REINDEX t_c
SELECT count(*), min(b), max(b) FROM t
