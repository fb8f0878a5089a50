CREATE VIRTUAL TABLE w USING fts5(a, b, tokenize = 'porter', prefix = '2 3')
INSERT INTO w VALUES ('running over', 'the lazy dogs'), ('one', 'two three'), ('äöü', 'x')
BEGIN
INSERT INTO w(w) VALUES ('optimize')
DELETE FROM w WHERE rowid = 2
SELECT rowid, highlight(w, 0, '[', ']') FROM w WHERE w MATCH 'run OR dog*' ORDER BY rank
COMMIT
UPDATE w SET a = a || ' again'
INSERT INTO w(w) VALUES ('integrity-check')
CREATE VIRTUAL TABLE r USING rtree(id, x0, x1, y0, y1, +note)
INSERT INTO r VALUES (1, 0, 5, 0, 5, 'n'), (2, 3, 9, -4, 4, NULL)
SELECT id, note FROM r WHERE x0 < 4 AND y1 > 3
DELETE FROM r WHERE id = 1
CREATE VIRTUAL TABLE o USING fts4(body)
INSERT INTO o VALUES ('a b c'), ('b c d')
SELECT docid, offsets(o) FROM o WHERE o MATCH 'b NEAR c'
