'use strict'

const assert = require('node:assert/strict')
const { spawnSync } = require('node:child_process')
const { randomBytes } = require('node:crypto')
const { mkdtempSync, rmSync } = require('node:fs')
const { mkdir, readdir } = require('node:fs/promises')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const { test, after } = require('node:test')
const pando = require('pando-db')

const root = mkdtempSync(join(tmpdir(), 'pando-node-'))
after(() => rmSync(root, { recursive: true, force: true }))

const text = bytes => bytes?.toString()

async function list (records) {
  const found = []
  for await (const [key, value] of records) found.push(`${key}=${value}`)
  return found.join(' ')
}

async function inMemory () {
  const db = await pando.inMemory({ memoryBytes: 16 << 20 })
  return [db, await db.table('t')]
}

test('a database is there after reopening', async () => {
  const path = join(root, 'reopened')
  await assert.rejects(pando.open(path, { create: false }), { code: 'PANDO_MISSING', name: 'PandoError' })
  const db = await pando.open(path, { memoryBytes: 16 << 20, durability: 'buffered' })
  const table = await db.table('t', { layout: 'lsm', compression: 'lz4', ttlMs: 60000 })
  assert.equal(table.name, 't')
  assert.equal(table.layout, 'lsm')
  await table.put('k', 'v')
  await table.put(Buffer.from('large'), Buffer.alloc(3 << 20, 'L'))
  await assert.rejects(pando.open(path), { code: 'PANDO_LOCKED' })
  const beside = await pando.open(path, { readOnly: true, memoryBytes: 16 << 20 })
  await beside.catchUp()
  const other = await beside.table('t', { create: false })
  assert.equal(text(await other.get('k')), 'v')
  await assert.rejects(other.put('k', 'w'), { code: 'PANDO_READ_ONLY' })
  await beside.close()
  await db.backup(join(root, 'backups'))
  await db.checkpoint()
  await db.sync()
  await db.check()
  assert.ok((await db.stats()).last_commit > 0)
  await db.close()
  await db.close()
  assert.ok(db.isClosed)
  await assert.rejects(table.get('k'), { code: 'PANDO_CLOSED' })
  assert.throws(() => table.getSync('k'), { code: 'PANDO_CLOSED' })
  await pando.restore(join(root, 'backups'), join(root, 'restored'))
  for (const place of [path, join(root, 'restored')]) {
    const again = await pando.open(place, { create: false, memoryBytes: 16 << 20 })
    const table = await again.table('t')
    await assert.rejects(again.table('t', { layout: 'btree' }), { code: 'PANDO_MISMATCH' })
    assert.equal(text(await table.get('k')), 'v')
    assert.equal((await table.get('large')).length, 3 << 20)
    assert.equal(table.getSync('large')[0], 'L'.charCodeAt(0))
    await again.close()
  }
})

test('long work reports its progress, and an exception ends it', async t => {
  const db = await pando.open(join(root, 'watched'), { memoryBytes: 16 << 20, durability: 'lazy' })
  const table = await db.table('t')
  // Of records with other values: they take longer than the shortened interval below.
  for (let part = 0; part < 32; part++) {
    const records = Array.from({ length: 1000 }, (_, number) => [`k${part}-${number}`, randomBytes(1000)])
    await table.batch(records.map(([key, value]) => ({ type: 'put', key, value })))
  }
  await db.checkpoint()
  const [folder, copies] = [join(root, 'watched-backups'), join(root, 'watched-copies')]
  const [whole] = await Promise.all([db.backup(folder), mkdir(copies)])
  const target = () => join(copies, String(Math.random()))
  const works = {
    check: progress => db.check({ progress }),
    compact: progress => db.compact({ progress }),
    backup: progress => db.backup(folder, { progress }),
    restore: progress => pando.restore(folder, target(), { progress })
  }
  const fail = () => { throw new RangeError('enough') }
  for (const [name, work] of Object.entries(works)) {
    const seen = []
    await work((done, expected) => seen.push([done, expected]))
    assert.ok(seen.length > 0 && seen.at(-1)[0] > 0, `${name}: ${seen}`)
    await assert.rejects(work(7), TypeError)
  }

  // The function fails while the work runs, which leaves nothing.
  const [backups, restored] = [await readdir(folder), await readdir(copies)]
  const { setInterval } = globalThis
  t.mock.method(globalThis, 'setInterval', call => setInterval(call, 1))
  for (const [name, work] of Object.entries(works)) await assert.rejects(work(fail), RangeError, name)
  t.mock.restoreAll()
  assert.ok(backups.includes(whole))
  assert.deepEqual(await readdir(folder), backups)
  for (const name of await readdir(copies)) {
    const opened = pando.open(join(copies, name), { create: false, memoryBytes: 16 << 20 })
    if (restored.includes(name)) await (await opened).close()
    else await assert.rejects(opened, pando.PandoError)
  }

  // The function fails when the work has finished: the result counts.
  t.mock.method(globalThis, 'setInterval', call => setInterval(call, 1 << 30))
  await works.check(fail)
  const compacted = await works.compact(fail)
  assert.ok(compacted.bytes > 0 && compacted.bytes <= compacted.bytesBefore)
  const finished = await works.backup(fail)
  assert.deepEqual(await readdir(folder), [...backups, finished].sort())
  assert.ok(await works.restore(fail) > 0)
  await db.close()
})

test('what an iterator has read ahead ends with its source', async () => {
  const [db, table] = await inMemory()
  await table.batch(Array.from({ length: 10 }, (_, number) => ({ type: 'put', key: String(number), value: 'old' })))
  for (const end of ['rollback', 'commit', 'close', 'exhausted']) {
    const source = end === 'close' ? db.snapshot() : await db.begin()
    if (end !== 'close') source.table(table).put('0', 'new')
    const iterators = ['range', 'keys', 'values', 'chunks'].map(name => source.table(table)[name]())
    for (const iterator of iterators) {
      assert.equal((await iterator.next()).done, false)
      if (end === 'exhausted') for (let left = 9; left > 0; left--) await iterator.next()
    }
    await (end === 'exhausted' ? source.rollback() : source[end]())
    for (const iterator of iterators.slice(0, end === 'exhausted' ? 3 : 4)) {
      await assert.rejects(iterator.next(), { code: 'PANDO_CLOSED' }, end)
      assert.equal((await iterator.next()).done, true)
    }
  }
  const [own, then] = [table.keys(), db.snapshot().table(table).keys()]
  await Promise.all([own.next(), then.next()])
  await table.deleteRange()
  assert.equal(text((await own.next()).value), '1')
  await db.close()
  for (const iterator of [own, then]) await assert.rejects(iterator.next(), { code: 'PANDO_CLOSED' })
})

test('a table has keys of text and bytes', async () => {
  const [db, table] = await inMemory()
  await table.put('text', new Uint8Array([1, 2, 3]))
  await table.put(new Uint8Array([255]), 'bytes')
  await table.put('', '')
  assert.deepEqual([...await table.get('text')], [1, 2, 3])
  assert.equal(text(table.getSync(Buffer.from([255]))), 'bytes')
  assert.equal(text(await table.get('')), '')
  assert.equal(await table.get('none'), undefined)
  assert.equal(table.getSync('none'), undefined)
  assert.deepEqual((await table.getMany(['text', 'none', ''])).map(text), ['\x01\x02\x03', undefined, ''])
  assert.equal(await table.has('text'), true)
  assert.equal(await table.has('none'), false)
  await table.batch([{ type: 'put', key: 'a', value: '1' }, { type: 'del', key: 'text' }, { type: 'del', key: 'a' }])
  assert.equal(await list(table.range({ lt: 'z' })), '=')
  await table.deleteRange()
  assert.equal(await list(table.range()), '')
  for (const wrong of [undefined, null, 1, {}]) {
    await assert.rejects(table.get(wrong), TypeError)
    await assert.rejects(table.put('k', wrong), TypeError)
  }
  await assert.rejects(table.put('k'.repeat(1 << 16), 'v'), { code: 'PANDO_INVALID' })
  await assert.rejects(pando.open({}), TypeError)
  await assert.rejects(pando.inMemory({ noSuchOption: 1 }), TypeError)
  await assert.rejects(pando.inMemory({ pageBytes: 5000 }), { code: 'PANDO_INVALID' })
  await db.dropTable('t')
  await assert.rejects(db.dropTable('t'), { code: 'PANDO_MISSING' })
  assert.deepEqual(await db.tables(), [])
  await db.close()
})

test('ranges have ends, directions and limits', async () => {
  const [db, table] = await inMemory()
  await table.batch(['a', 'ab', 'b', 'ba', 'c'].map(key => ({ type: 'put', key, value: key })))
  const keys = async range => (await list(table.range(range))).replace(/=\w+/g, '')
  assert.equal(await keys(), 'a ab b ba c')
  assert.equal(await keys({ reverse: true }), 'c ba b ab a')
  assert.equal(await keys({ gte: 'ab', lt: 'c' }), 'ab b ba')
  assert.equal(await keys({ gt: 'ab', lte: 'c', reverse: true }), 'c ba b')
  assert.equal(await keys({ prefix: 'b' }), 'b ba')
  assert.equal(await keys({ limit: 2, reverse: true }), 'c ba')
  assert.equal(await keys({ limit: 0 }), '')
  assert.equal(await keys({ gt: 'b', lt: 'a' }), '')
  const many = 5000
  const key = number => String(number).padStart(6, '0')
  await table.deleteRange()
  await table.batch(Array.from({ length: many }, (_, i) => ({ type: 'put', key: key(i), value: String(i) })))
  for (const reverse of [false, true]) {
    let count = 0
    for await (const [found, value] of table.range({ reverse })) {
      const number = reverse ? many - 1 - count : count
      assert.equal(text(found), key(number))
      assert.equal(text(value), String(number))
      count++
    }
    assert.equal(count, many)
  }
  for await (const found of table.keys({ limit: 1 })) assert.equal(text(found), key(0))
  for await (const found of table.values({ limit: 1, reverse: true })) assert.equal(text(found), String(many - 1))
  await db.close()
})

test('a snapshot is one moment', async () => {
  const [db, table] = await inMemory()
  await table.put('k', '1')
  const snapshot = db.snapshot()
  await table.put('k', '2')
  const then = snapshot.table(table)
  const [one, many, has] = await Promise.all([then.get('k'), then.getMany(['k', 'l']), then.has('l')])
  assert.equal(text(one), '1')
  assert.deepEqual(many.map(text), ['1', undefined])
  assert.equal(has, false)
  assert.equal(await list(then.range()), 'k=1')
  // Reads at the same time wait for each other.
  const keys = Array.from({ length: 200 }, (_, i) => String(i))
  await Promise.all(Array.from({ length: 50 }, () => then.getMany(keys)))
  await db.transact(tx => Promise.all(Array.from({ length: 50 }, () => tx.table(table).getMany(keys))))
  assert.equal(text(await table.get('k')), '2')
  await snapshot.close()
  await snapshot.close()
  await assert.rejects(then.get('k'), { code: 'PANDO_CLOSED' })
  assert.throws(() => snapshot.table(table), { code: 'PANDO_CLOSED' })
  await db.close()
})

test('a transaction is all or nothing', async () => {
  const [db, table] = await inMemory()
  const other = await db.table('other')
  const result = await db.transact(async tx => {
    const [t, o] = [tx.table(table), tx.table(other)]
    const value = Buffer.from('1')
    t.put('a', value)
    value[0] = 0 // The transaction has its own copy.
    o.put('x', 'y')
    t.put('b', '2')
    t.del('b')
    assert.equal(text(await t.get('a')), '1')
    assert.equal(await list(t.range()), 'a=1')
    await t.insert('c', '3')
    await assert.rejects(t.insert('c', '4'), { code: 'PANDO_EXISTS' })
    assert.equal(text(await t.remove('c')), '3')
    assert.equal(await t.remove('c'), undefined)
    await assert.rejects(tx.savepoint(async () => {
      t.put('d', '5')
      await t.deleteRange({ lt: 'b' })
      assert.equal(await list(t.range()), 'd=5')
      throw new Error('planned')
    }), { message: 'planned' })
    await tx.savepoint(async () => { t.put('e', '6') })
    assert.equal(await table.get('a'), undefined)
    return 'result'
  }, { durability: 'buffered' })
  assert.equal(result, 'result')
  assert.equal(await list(table.range()), 'a=1 e=6')
  assert.equal(await list(other.range()), 'x=y')
  let kept
  await assert.rejects(db.transact(async tx => {
    kept = tx
    await tx.table(table).deleteRange()
    throw new Error('planned')
  }), { message: 'planned' })
  assert.equal(await list(table.range()), 'a=1 e=6')
  await assert.rejects(kept.commit(), { code: 'PANDO_CLOSED' })
  await db.close()
})

test('a transaction of many writes hands them over on the way', async () => {
  const [db, table] = await inMemory()
  const count = 3000
  await db.transact(async tx => {
    const t = tx.table(table)
    for (let i = 0; i < count; i++) await t.put(`k${i}`, Buffer.alloc(500))
  })
  let found = 0
  for await (const chunk of table.chunks()) found += chunk.length
  assert.equal(found, count)
  await db.close()
})

test('a conflict names table and key, and transact runs again', async () => {
  const [db, table] = await inMemory()
  await table.put('k', '0')
  let attempts = 0
  await db.transact(async tx => {
    const t = tx.table(table)
    const number = Number(await t.get('k'))
    if (++attempts === 1) await table.put('k', '10')
    t.put('k', String(number + 1))
  })
  assert.equal(attempts, 2)
  assert.equal(text(await table.get('k')), '11')
  const tx = await db.begin()
  await tx.table(table).get('k')
  await table.put('k', '12')
  tx.table(table).put('l', '')
  await assert.rejects(tx.commit(), error => {
    assert.equal(error.code, 'PANDO_CONFLICT')
    assert.equal(error.table, 't')
    assert.equal(text(error.key), 'k')
    assert.ok(error.isRetryable && error instanceof pando.PandoError)
    return true
  })
  // Counters that many tasks count up lose nothing.
  await Promise.all(Array.from({ length: 20 }, () => db.transact(async tx => {
    const t = tx.table(table)
    t.put('n', String(Number(await t.get('n') ?? 0) + 1))
  }, { durability: 'buffered' })))
  assert.equal(text(await table.get('n')), '20')
  await db.close()
})

test('entries expire at times of their own', async () => {
  const [db, plain] = await inMemory()
  const cache = await db.table('cache', { ttlByKey: true })
  await assert.rejects(db.table('cache', { ttlMs: 1000 }), { code: 'PANDO_MISMATCH' })
  await cache.put('k', 'v', { ttlMs: 60000 })
  await cache.put('n', 'v')
  const within = (ms, low, high) => assert.ok(ms > low && ms <= high, `${ms}`)
  within(await cache.expiry('k'), 30000, 60000)
  assert.equal(await cache.expiry('n'), Infinity)
  assert.equal(await cache.expiry('absent'), undefined)
  const before = db.snapshot()
  await db.transact(async tx => {
    const inside = tx.table(cache)
    inside.put('n', 'w')
    await inside.put('short', 'v', { ttlMs: 1 })
    assert.equal(await inside.setExpiry('k', undefined), true)
    assert.equal(await inside.setExpiry('absent', 5), false)
    assert.equal(await inside.expiry('k'), Infinity)
  })
  within(await before.table(cache).expiry('k'), 30000, 60000)
  await before.close()
  await new Promise(resolve => setTimeout(resolve, 50))
  assert.equal(await cache.get('short'), undefined)
  assert.equal(text(await cache.get('n')), 'w')
  assert.equal(await cache.setExpiry('n', 60000), true)
  within(await cache.expiry('n'), 30000, 60000)
  assert.equal(await cache.setExpiry('absent', 5000), false)
  await assert.rejects(plain.put('k', 'v', { ttlMs: 5 }), { code: 'PANDO_INVALID' })
  await assert.rejects(plain.setExpiry('k', 5), { code: 'PANDO_INVALID' })
  await assert.rejects(plain.expiry('k'), { code: 'PANDO_INVALID' })
  for (const ttlMs of [0, -1, NaN, Infinity]) {
    await assert.rejects(cache.put('k', 'v', { ttlMs }), { code: 'PANDO_INVALID' })
  }
  await db.close()
})

test('changes come in order, and wait without a thread', async () => {
  const [db, table] = await inMemory()
  const other = await db.table('other')
  const feeds = await Promise.all(Array.from({ length: 40 }, () => db.changes({ after: 2, tables: table, prefix: 'k' })))
  const seen = feeds.map(() => [])
  // More of them wait than there are threads.
  const following = feeds.map(async (feed, at) => {
    for await (const change of feed) seen[at].push(...change.operations.map(one => `${one.kind} ${text(one.key)}`))
  })
  await new Promise(resolve => setTimeout(resolve, 20))
  await other.put('k0', 'x')
  for (let number = 1; number < 4; number++) await table.put(`k${number}`, 'v')
  await table.put('x', 'v')
  await table.del('k1')
  while (seen.some(operations => operations.length < 4)) await new Promise(resolve => setTimeout(resolve, 5))
  for (const operations of seen) assert.deepEqual(operations, ['put k1', 'put k2', 'put k3', 'del k1'])
  for (const feed of feeds.slice(1)) await feed.close()

  const all = await db.changes()
  const kinds = []
  await table.deleteRange({ gte: 'a', lt: 'b' })
  await db.dropTable('other')
  for (let change; (change = await all.next({ timeoutMs: 0 })) !== undefined;) {
    kinds.push(...change.operations.map(one => [one.kind, one.table, text(one.key), text(one.value), text(one.end)].join(' ').trim()))
  }
  assert.deepEqual(kinds.slice(0, 3), ['createTable t', 'createTable other', 'put other k0 x'])
  assert.deepEqual(kinds.slice(-2), ['deleteRange t a  b', 'dropTable other'])
  const began = performance.now()
  assert.equal(await all.next({ timeoutMs: 30 }), undefined)
  assert.ok(performance.now() - began >= 25)
  for (const after of [1000, -1, 0.5, NaN]) await assert.rejects(db.changes({ after }), { code: 'PANDO_INVALID' })
  for (const timeoutMs of [-1, NaN]) await assert.rejects(all.next({ timeoutMs }), RangeError)
  for (const timeoutMs of ['100', null]) await assert.rejects(all.next({ timeoutMs }), TypeError)
  const waiting = all.next()
  await db.close()
  assert.equal(await waiting, undefined)
  await Promise.all(following)
  assert.ok(feeds.every(feed => feed.isClosed))
})

test('a wait that was too long keeps no process alive', { timeout: 60000 }, () => {
  const code = `
    const pando = require('pando-db')
    const main = async () => {
      const db = await pando.inMemory({ memoryBytes: 16 << 20 })
      const changes = await db.changes()
      console.log(await changes.next({ timeoutMs: 20 }))
    }
    main()`
  const done = spawnSync(process.execPath, ['-e', code], { cwd: __dirname, encoding: 'utf8', timeout: 30000 })
  assert.deepEqual([done.status, done.stdout], [0, 'undefined\n'], done.stderr)
})

test('a timeout may be longer than that of a timer', async () => {
  const [db, table] = await inMemory()
  const changes = await db.changes({ after: 1 })
  let ready = 0
  const { setTimeout: original } = globalThis
  globalThis.setTimeout = (call, ms) => {
    ready = Math.max(ready, ms)
    return original(call, ms)
  }
  try {
    const waiting = changes.next({ timeoutMs: 2 ** 40 })
    while (ready === 0) await new Promise(resolve => original(resolve, 1))
    await table.put('k', 'v')
    assert.equal((await waiting).commitNumber, 2)
  } finally {
    globalThis.setTimeout = original
  }
  assert.equal(ready, 2 ** 31 - 1)
  await db.close()
})

test('a consumer keeps its place', async () => {
  const path = join(root, 'consumers')
  let db = await pando.open(path, { memoryBytes: 16 << 20, durability: 'buffered', maxChangesBytes: 64 << 20 })
  const table = await db.table('t')
  const mails = await db.consumer('mails')
  assert.equal(mails.position, 1)
  await assert.rejects(db.consumer('mails'), { code: 'PANDO_LOCKED' })
  for (const key of ['a', 'b', 'c']) await table.put(key, key)
  const changes = await mails.changes({ tables: 't' })
  const first = await changes.next()
  assert.equal(text(first.operations[0].value), 'a')
  assert.ok(first.timeMs > 1.5e12)
  await mails.acknowledge(first)
  for (const commit of [1000, -1, NaN]) await assert.rejects(mails.acknowledge(commit), { code: 'PANDO_INVALID' })
  await mails.close()
  assert.throws(() => mails.position, { code: 'PANDO_CLOSED' })
  await db.close()
  db = await pando.open(path, { memoryBytes: 16 << 20 })
  assert.deepEqual(await db.consumers(), [{ name: 'mails', position: 2, isLost: false }])
  const again = await db.consumer('mails')
  for await (const change of await again.changes()) {
    await again.acknowledge(change.commitNumber)
    if (change.commitNumber === 4) break
  }
  assert.equal(again.position, 4)
  await again.close()
  await db.dropConsumer('mails')
  await assert.rejects(db.dropConsumer('mails'), { code: 'PANDO_MISSING' })
  await db.close()
})
