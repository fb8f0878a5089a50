'use strict'

const assert = require('node:assert/strict')
const { mkdtempSync, rmSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const { test, after } = require('node:test')
const pando = require('pando-db')

const root = mkdtempSync(join(tmpdir(), 'pando-node-sql-'))
after(() => rmSync(root, { recursive: true, force: true }))

const inMemory = () => pando.inMemory({ memoryBytes: 64 << 20 })
const ENDLESS = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)'

test('a text that is not UTF-8 is refused, and never changed', async () => {
  const db = await inMemory()
  const refused = { code: 'PANDO_INVALID', message: /column v .* CAST\(… AS BLOB\)/ }
  await assert.rejects(db.sql("SELECT CAST(x'e9' AS TEXT) AS v"), refused)
  await assert.rejects(db.iterate("SELECT CAST(x'c3' AS TEXT) AS v").next(), refused)
  const connection = await db.connect()
  await assert.rejects(connection.sql("SELECT CAST(x'eda080' AS TEXT) AS v"), refused)
  assert.deepEqual(await connection.sql("SELECT CAST(CAST(x'e9' AS TEXT) AS BLOB) AS v"), [{ v: Buffer.of(0xe9) }])
  assert.deepEqual(await db.sql('SELECT ? AS v', '\ufffd ä'), [{ v: '\ufffd ä' }])
  await connection.close()
  await db.close()
})

test('each kind of value returns as it was', async () => {
  const db = await inMemory()
  await db.sql('CREATE TABLE v(id INTEGER PRIMARY KEY, a, b, c, d, e)')
  const big = -(2n ** 63n)
  const done = await db.sql('INSERT INTO v(a, b, c, d, e) VALUES (?, ?, ?, ?, ?)', big, 0.5, 'h\0ä', Buffer.of(0, 255), null)
  assert.deepEqual([done.length, done.changes, done.lastRowId], [0, 1, 1])
  const rows = await db.sql('SELECT * FROM v')
  assert.deepEqual(rows, [{ id: 1, a: big, b: 0.5, c: 'h\0ä', d: Buffer.of(0, 255), e: null }])
  assert.deepEqual(rows.columns, ['id', 'a', 'b', 'c', 'd', 'e'])
  for (const [given, wanted, type] of [
    [2 ** 53, 2 ** 53, 'real'], [2 ** 53 - 1, 2 ** 53 - 1, 'integer'], [2n ** 53n, 2n ** 53n, 'integer'],
    [7n, 7, 'integer'], [true, 1, 'integer'], [undefined, null, 'null'], [NaN, null, 'null'], ['', '', 'text'],
    [new Uint8Array(0), Buffer.alloc(0), 'blob'], [new Date(1500), '1970-01-01 00:00:01.500', 'text']
  ]) {
    assert.deepEqual(await db.sql('SELECT ?1 AS v, typeof(?1) AS t', given), [{ v: wanted, t: type }])
  }
  assert.deepEqual(await db.sql('SELECT :a + @b AS n, $c AS c', { a: 1, b: 2, c: 'x' }), [{ n: 3, c: 'x' }])
  assert.deepEqual(Object.entries((await db.sql('SELECT 1 AS "__proto__"'))[0]), [['__proto__', 1]])
  await db.close()
})

test('what is wrong gives a code', async () => {
  const db = await inMemory()
  await db.sql('CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT UNIQUE)')
  await db.sql('INSERT INTO t VALUES (1, ?)', 'a')
  await assert.rejects(db.sql('INSERT INTO t VALUES (2, ?)', 'a'), { code: 'PANDO_CONSTRAINT', name: 'PandoError' })
  for (const [text, ...parameters] of [
    ['SELEC 1'], ['SELECT 1; SELECT 2'], ['SELECT ?'], ['SELECT ?', 1, 2], ['SELECT :a', { b: 1 }],
    ['SELECT :a, :b', { a: 1 }], ['BEGIN'], ['SAVEPOINT s']
  ]) {
    await assert.rejects(db.sql(text, ...parameters), { code: 'PANDO_INVALID' }, text)
  }
  await assert.rejects(db.sql('SELECT ?', Symbol('s')), TypeError)
  await assert.rejects(db.sql('SELECT ?', 2n ** 63n), RangeError)
  assert.deepEqual(await db.sql('SELECT count(*) AS n FROM t'), [{ n: 1 }])
  const connection = await db.connect()
  const statement = await connection.prepare('SELECT 1')
  await connection.close()
  await connection.close()
  await assert.rejects(connection.sql('SELECT 1'), { code: 'PANDO_CLOSED' })
  await assert.rejects(statement.all(), { code: 'PANDO_CLOSED' })
  await db.close()
  await assert.rejects(db.sql('SELECT 1'), { code: 'PANDO_CLOSED' })
  await assert.rejects(db.connect(), { code: 'PANDO_CLOSED' })
})

test('an iterator fetches in batches, and can be left', async () => {
  const db = await inMemory()
  let sum = 0
  for await (const { i } of db.iterate(`${ENDLESS} SELECT i FROM n LIMIT ?`, 50000)) sum += i
  assert.equal(sum, 50000 * 50001 / 2)
  const found = []
  for await (const { i } of db.iterate(`${ENDLESS} SELECT i FROM n`)) if (found.push(i) === 20000) break
  assert.equal(found.at(-1), 20000)
  assert.deepEqual(await db.sql('SELECT 1 AS one'), [{ one: 1 }])
  await assert.rejects(db.iterate('SELECT * FROM none').next(), { code: 'PANDO_INVALID' })
  const connection = await db.connect()
  const statement = await connection.prepare('SELECT ? AS a')
  const [first, second] = [statement.iterate(1), await statement.all(2)]
  assert.deepEqual([(await first.next()).value, second[0]], [{ a: 1 }, { a: 2 }])
  await db.close()
})

test('transactions of two connections conflict, and one fails', async () => {
  const db = await pando.open(join(root, 'conflict'), { durability: 'buffered' })
  await db.sql('CREATE TABLE t(k INTEGER PRIMARY KEY, v INT)')
  await db.sql('INSERT INTO t VALUES (1, 0)')
  const [a, b] = [await db.connect(), await db.connect()]
  await a.script('BEGIN; UPDATE t SET v = v + 1')
  assert.equal(a.inTransaction, true)
  await b.sql('UPDATE t SET v = v + 10')
  const conflict = await a.sql('COMMIT').catch(error => error)
  assert.deepEqual([conflict.code, conflict.isRetryable, conflict.table, conflict.key.at(-1)], ['PANDO_CONFLICT', true, 't', 1])
  if (a.inTransaction) await a.sql('ROLLBACK')
  await b.sql('BEGIN')
  await b.sql('UPDATE t SET v = 99')
  await b.close()
  assert.deepEqual(await db.sql('SELECT v FROM t'), [{ v: 10 }])
  const reader = await pando.open(join(root, 'conflict'), { readOnly: true })
  assert.deepEqual(await reader.sql('SELECT v FROM t'), [{ v: 10 }])
  await assert.rejects(reader.sql('DELETE FROM t'), { code: 'PANDO_READ_ONLY' })
  await reader.close()
  await db.close()
})

test('a long statement leaves the event loop free, and is stopped', async () => {
  const db = await inMemory()
  const connection = await db.connect()
  let ticks = 0
  const timer = setInterval(() => {
    if (++ticks > 10) connection.interrupt()
  }, 2)
  await assert.rejects(connection.sql(`${ENDLESS} SELECT sum(i) FROM n`), { code: 'PANDO_INTERRUPTED' })
  clearInterval(timer)
  assert.ok(ticks > 10)
  assert.deepEqual(await Promise.all(Array.from({ length: 40 }, (_, i) => db.sql('SELECT ? AS i', i))),
    Array.from({ length: 40 }, (_, i) => [{ i }]))
  await db.close()
})

test('rows of a statement that runs again have ended', async () => {
  const db = await inMemory()
  const connection = await db.connect()
  await connection.script('CREATE TABLE t(id INTEGER PRIMARY KEY, s TEXT); CREATE TABLE log(n INT)')
  await connection.sql(`INSERT INTO t(s) ${ENDLESS} SELECT printf('%100d', i) FROM n LIMIT 2000`)
  const ended = { code: 'PANDO_INVALID', message: /runs again/ }
  const query = await connection.prepare('SELECT id, s FROM t WHERE id > ? ORDER BY id')
  const seen = []
  await assert.rejects((async () => {
    for await (const { id } of query.iterate(0)) if (seen.push(id) === 10) await query.all(1990)
  })(), ended)
  assert.equal(seen.length, 10)
  // Also if all of the older rows were fetched before, so that it does not depend on how many there are.
  const few = query.iterate(1990)
  await few.next()
  await query.all(1990)
  await assert.rejects(few.next(), ended)

  // The end of older rows leaves the newer ones alone.
  const [older, newer] = [query.iterate(0), query.iterate(0)]
  await older.next()
  assert.equal((await newer.next()).value.id, 1)
  await older.return()
  let last = 0
  for await (const { id } of newer) {
    assert.equal(id, ++last + 1)
  }
  assert.equal(last, 1999)

  const insert = await connection.prepare("INSERT INTO log(n) SELECT ? FROM t RETURNING n, printf('%100d', 1) AS pad")
  const rows = insert.iterate(1)
  await rows.next()
  assert.equal((await insert.all(2)).length, 2000)
  await assert.rejects(rows.next(), ended)
  assert.deepEqual(await connection.sql('SELECT n, count(*) AS c FROM log GROUP BY n'), [{ n: 1, c: 2000 }, { n: 2, c: 2000 }])
  await db.close()
})

test('parameters are those of the call', async () => {
  const db = await inMemory()
  const connection = await db.connect()
  const statement = await connection.prepare('SELECT ? AS v')
  for (const iterate of [v => statement.iterate(v), v => connection.iterate('SELECT ? AS v', v), v => db.iterate('SELECT ? AS v', v)]) {
    const bytes = Buffer.from('original')
    const rows = iterate(bytes)
    bytes.fill('X')
    assert.equal(String((await rows.next()).value.v), 'original')
    await assert.rejects(iterate(Symbol('s')).next(), TypeError)
  }
  await db.close()
})

test('a transaction of SQL ends while any number of others wait for it', { timeout: 20000 }, async () => {
  const db = await inMemory()
  const table = await db.table('kv')
  const [writer, other] = [await db.connect(), await db.connect()]
  await writer.script('CREATE TABLE t(id INTEGER PRIMARY KEY, s TEXT); CREATE TABLE u(id INTEGER PRIMARY KEY)')
  await writer.sql(`INSERT INTO t(s) ${ENDLESS} SELECT printf('%100d', i) FROM n LIMIT 5000`)
  await other.sql('BEGIN')
  await other.sql('SELECT * FROM u')
  for (const end of ['COMMIT', 'ROLLBACK']) {
    const rows = writer.iterate('SELECT * FROM t')
    await rows.next()
    await writer.script('BEGIN')
    await writer.sql("UPDATE t SET s = 'y' WHERE id = 1")
    const puts = Array.from({ length: 40 }, (_, i) => table.put(`k${i}`, end))
    await new Promise(resolve => setTimeout(resolve, 100))
    // Another open transaction is not in the way either, and reads of SQL go on within it.
    assert.deepEqual(await other.sql('SELECT count(*) AS n FROM u'), [{ n: 0 }])
    await writer.sql(end)
    await Promise.all(puts)
    await rows.return()
  }
  // Rows of an insert hold others up, too, until they are left.
  const inserted = db.iterate(`INSERT INTO u ${ENDLESS} SELECT i FROM n LIMIT 20000 RETURNING id, printf('%100d', 1) AS pad`)
  await inserted.next()
  const puts = Array.from({ length: 40 }, (_, i) => table.put(`k${i}`, 'v'))
  await new Promise(resolve => setTimeout(resolve, 100))
  await inserted.return()
  await Promise.all(puts)
  await db.close()
})

test('the end of a connection ends the wait of many for its transaction', { timeout: 20000 }, async () => {
  const db = await inMemory()
  const table = await db.table('kv')
  const connection = await db.connect()
  await connection.script('CREATE TABLE t(id INTEGER PRIMARY KEY, s TEXT)')
  await connection.sql(`INSERT INTO t(s) ${ENDLESS} SELECT printf('%100d', i) FROM n LIMIT 5000`)
  const rows = connection.iterate('SELECT * FROM t')
  await rows.next()
  await connection.script('BEGIN')
  await connection.sql("UPDATE t SET s = 'y' WHERE id = 1")
  const puts = Promise.allSettled(Array.from({ length: 40 }, (_, i) => table.put(`k${i}`, 'v')))
  await new Promise(resolve => setTimeout(resolve, 100))
  await connection.close()
  assert.ok((await puts).every(put => put.status === 'fulfilled'))
  await db.close()
})

test('an error of SQL has its code of SQLite', async () => {
  const db = await inMemory()
  await db.sql('CREATE TABLE t(a UNIQUE NOT NULL)')
  await db.sql('INSERT INTO t VALUES (1)')
  const codeOf = (...given) => db.sql(...given).then(() => 'none', error => error.sqliteCode)
  assert.equal(await codeOf('INSERT INTO t VALUES (1)'), 2067) // SQLITE_CONSTRAINT_UNIQUE
  assert.equal(await codeOf('INSERT INTO t VALUES (NULL)'), 1299) // SQLITE_CONSTRAINT_NOTNULL
  assert.equal(await codeOf('SELEC 1'), 1) // SQLITE_ERROR
  const error = await db.table('none', { create: false }).catch(error => error)
  assert.deepEqual([error.code, 'sqliteCode' in error, error.message], ['PANDO_MISSING', false, 'there is no table "none"'])
  await db.close()
})

test('a setting and a TEMP table need a connection', async () => {
  const db = await inMemory()
  await db.sql('CREATE TABLE t(a)')
  const refused = [
    'PRAGMA foreign_keys = OFF', '  pragma Foreign_Keys(0);', '/* a */ PRAGMA main.synchronous = OFF -- b', '-- a\nPRAGMA cache_size=1',
    'PRAGMA "case_sensitive_like" = 1', 'CREATE TEMP TABLE s(a)', 'create temporary view s AS SELECT 1',
    'CREATE TEMP TRIGGER s AFTER INSERT ON t BEGIN SELECT 1; END', 'CREATE TABLE temp.s(a)',
    'CREATE TABLE IF NOT EXISTS "temp" . s(a)', 'CREATE VIRTUAL TABLE temp.s USING fts5(a)', "ATTACH ':memory:' AS other"
  ]
  for (const text of refused) {
    const wanted = { code: 'PANDO_INVALID', message: /db\.connect\(\)/ }
    await assert.rejects(db.sql(text), wanted, text)
    await assert.rejects(db.iterate(text).next(), wanted, text)
  }
  await db.sql('PRAGMA user_version = 7')
  assert.deepEqual(await db.sql('PRAGMA user_version'), [{ user_version: 7 }])
  assert.deepEqual(await db.sql('PRAGMA foreign_keys'), [{ foreign_keys: 1 }])
  assert.deepEqual((await db.sql('PRAGMA main.table_info(t)')).map(({ name }) => name), ['a'])
  assert.deepEqual(await db.sql('PRAGMA integrity_check(10)'), [{ integrity_check: 'ok' }])
  await db.sql('CREATE TABLE "temp s" (temp)')
  await db.sql("INSERT INTO t VALUES ('CREATE TEMP TABLE')")
  const connection = await db.connect()
  await connection.script('PRAGMA foreign_keys = OFF; CREATE TEMP TABLE s(a)')
  assert.deepEqual(await connection.sql('SELECT * FROM s'), [])
  await connection.close()
  await db.close()
})
