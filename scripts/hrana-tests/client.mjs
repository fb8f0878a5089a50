// Every call of libSQL's client against a served database.
import { createClient } from '@libsql/client';
import assert from 'node:assert/strict';
import { test } from 'node:test';

const url = process.env.URL;
const db = createClient({ url });
const code = (wanted) => (error) => {
  assert.equal(error.code, wanted, error.message);
  return true;
};

test('values come back as they were sent', async () => {
  await db.execute('CREATE TABLE v(id INTEGER PRIMARY KEY AUTOINCREMENT, v)');
  const values = [null, 0, -1.5, 2 ** 53 - 1, 1e300, '', 'ä"\\\u0001\u{1F333}', new Uint8Array([0, 1, 254, 255]), true];
  for (const value of values) {
    const { rows, lastInsertRowid } = await db.execute({ sql: 'INSERT INTO v(v) VALUES (?) RETURNING id, v', args: [value] });
    assert.equal(BigInt(rows[0].id), lastInsertRowid);
    const found = rows[0].v instanceof ArrayBuffer ? new Uint8Array(rows[0].v) : rows[0].v;
    assert.deepEqual(found, value === true ? 1 : value);
  }
  const exact = createClient({ url, intMode: 'bigint' });
  for (const value of [9007199254740993n, -(2n ** 63n)]) {
    assert.equal((await exact.execute({ sql: 'SELECT ? AS n', args: [value] })).rows[0].n, value);
  }
});

test('arguments, columns and counts', async () => {
  await db.execute('CREATE TABLE a(id INTEGER PRIMARY KEY, name VARCHAR(20) UNIQUE)');
  const inserted = await db.execute({ sql: 'INSERT INTO a VALUES (:id, @name)', args: { id: 7, name: 'x' } });
  assert.deepEqual([inserted.rowsAffected, inserted.lastInsertRowid], [1, 7n]);
  const found = await db.execute('SELECT id, name, 1 FROM a');
  assert.deepEqual([found.columns, found.columnTypes], [['id', 'name', '1'], ['INTEGER', 'VARCHAR(20)', '']]);
  assert.deepEqual([found.rows[0].name, found.rows[0][0]], ['x', 7]);
  await assert.rejects(db.execute({ sql: 'INSERT INTO a VALUES (8, ?)', args: ['x'] }), code('SQLITE_CONSTRAINT_UNIQUE'));
  await assert.rejects(db.execute('INSERT INTO a VALUES (7, NULL)'), code('SQLITE_CONSTRAINT_PRIMARYKEY'));
  await assert.rejects(db.execute('SELEC'), code('SQLITE_ERROR'));
  await assert.rejects(db.execute('SELECT 1; SELECT 2'), code('SQL_MANY_STATEMENTS'));
});

test('batches are all or none', async () => {
  await db.executeMultiple('CREATE TABLE b(a INT UNIQUE); INSERT INTO b VALUES (1);');
  const results = await db.batch([{ sql: 'INSERT INTO b VALUES (?)', args: [2] }, 'SELECT count(*) AS n FROM b'], 'write');
  assert.equal(results[1].rows[0].n, 2);
  await assert.rejects(db.batch(['INSERT INTO b VALUES (3)', 'INSERT INTO b VALUES (1)'], 'write'), code('SQLITE_CONSTRAINT_UNIQUE'));
  assert.equal((await db.execute('SELECT count(*) AS n FROM b')).rows[0].n, 2);
  await assert.rejects(db.batch(['DELETE FROM b'], 'read'), code('SQLITE_READONLY'));
  await db.migrate(['CREATE TABLE c(b INT REFERENCES b(a))', 'INSERT INTO c VALUES (9)']);
});

test('interactive transactions', async () => {
  await db.execute('CREATE TABLE t(a INT)');
  const tx = await db.transaction('write');
  await tx.execute('INSERT INTO t VALUES (1)');
  await tx.batch(['INSERT INTO t VALUES (2)', { sql: 'INSERT INTO t VALUES (?)', args: [3] }]);
  await tx.executeMultiple('INSERT INTO t VALUES (4); INSERT INTO t VALUES (5)');
  assert.equal((await db.execute('SELECT count(*) AS n FROM t')).rows[0].n, 0);
  assert.equal((await tx.execute('SELECT sum(a) AS n FROM t')).rows[0].n, 15);
  await tx.commit();
  const given = await db.transaction('write');
  await given.execute('DELETE FROM t');
  await given.rollback();
  const left = await db.transaction('write');
  await left.execute('DELETE FROM t');
  left.close();
  const reading = await db.transaction('read');
  assert.equal((await reading.execute('SELECT count(*) AS n FROM t')).rows[0].n, 5);
  await assert.rejects(reading.execute('DELETE FROM t'), code('SQLITE_READONLY'));
  await reading.rollback();
});

test('the second of two clients gets the conflict', async () => {
  await db.executeMultiple('CREATE TABLE stock(id INTEGER PRIMARY KEY, n INT); INSERT INTO stock VALUES (7, 1)');
  const [one, other] = [await createClient({ url }).transaction(), await createClient({ url }).transaction()];
  for (const tx of [one, other]) await tx.execute('UPDATE stock SET n = n + 1 WHERE id = 7');
  await one.commit();
  await assert.rejects(other.commit(), (error) => {
    assert.match(error.message, /table stock at rowid 7/);
    return code('SQLITE_BUSY')(error);
  });
});

test('a bank of eight clients keeps its sum', async () => {
  await db.executeMultiple('CREATE TABLE bank(id INTEGER PRIMARY KEY, money INT); ' +
    'INSERT INTO bank VALUES (0, 100), (1, 100), (2, 100), (3, 100), (4, 100);');
  let conflicts = 0;
  const transfer = async (client, from, to) => {
    for (;;) {
      const tx = await client.transaction('write');
      try {
        const { rows } = await tx.execute({ sql: 'SELECT money FROM bank WHERE id = ?', args: [from] });
        await tx.execute({ sql: 'UPDATE bank SET money = ? WHERE id = ?', args: [rows[0].money - 1, from] });
        await tx.execute({ sql: 'UPDATE bank SET money = money + 1 WHERE id = ?', args: [to] });
        return await tx.commit();
      } catch (error) {
        code('SQLITE_BUSY')(error);
        conflicts += 1;
      } finally {
        tx.close();
      }
    }
  };
  await Promise.all([...Array(8).keys()].map(async (place) => {
    const client = createClient({ url });
    for (let step = 0; step < 12; step += 1) await transfer(client, (place + step) % 5, (place * 2 + step + 1) % 5);
  }));
  const { rows } = await db.execute('SELECT sum(money) AS sum, count(*) AS n FROM bank');
  assert.deepEqual([rows[0].sum, rows[0].n], [500, 5]);
  assert.ok(conflicts > 0, 'there was no conflict');
});

test('what is not spoken is refused', async () => {
  await assert.rejects(createClient({ url: url.slice(0, -1) }).execute('SELECT 1'), (error) => {
    assert.match(error.message, /slash/);
    return code('NOT_FOUND')(error);
  });
  await assert.rejects(createClient({ url: url.replace('http:', 'ws:') }).execute('SELECT 1'), code('HRANA_WEBSOCKET_ERROR'));
  const libsql = createClient({ url: `${url.replace('http:', 'libsql:')}?tls=0` });
  assert.equal((await libsql.execute('SELECT 1 AS n')).rows[0].n, 1);
});
