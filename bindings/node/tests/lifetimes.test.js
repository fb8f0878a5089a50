'use strict'

// What a close waits for, and what is closed with what.

const assert = require('node:assert/strict')
const { mkdtempSync, rmSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { dirname, join } = require('node:path')
const { test, after } = require('node:test')
const pando = require('pando-db')
const { PandoLevel } = require('pando-db/level')

const root = mkdtempSync(join(tmpdir(), 'pando-node-lifetimes-'))
after(() => rmSync(root, { recursive: true, force: true }))

test('a second close waits for the first, and has its result', async () => {
  const path = join(root, 'close')
  const db = await pando.open(path, { durability: 'lazy' })
  const table = await db.table('t')
  for (let i = 0; i < 20; i++) {
    await table.batch(Array.from({ length: 2000 }, (_, k) => ({ type: 'put', key: `${i}-${k}`, value: Buffer.alloc(200) })))
  }
  const connection = await db.connect()
  const order = []
  const note = (promise, name) => promise.then(() => order.push(name))
  await Promise.all([note(connection.close(), 'connection'), note(connection.close(), 'connection again')])
  const snapshot = db.snapshot()
  await Promise.all([note(snapshot.close(), 'snapshot'), note(snapshot.close(), 'snapshot again')])
  const first = note(db.close(), 'database')
  await note(db.close(), 'database again')
  assert.deepEqual(order,
    ['connection', 'connection again', 'snapshot', 'snapshot again', 'database', 'database again'])
  await first
  await (await pando.open(path)).close()
})

test('a close that fails does so for each call', async () => {
  const { NativeDatabase: { prototype } } = require(join(dirname(require.resolve('pando-db')), 'native.js'))
  const { close } = prototype
  const isClosed = Object.getOwnPropertyDescriptor(prototype, 'isClosed')
  const db = await pando.inMemory({ memoryBytes: 16 << 20 })
  const table = await db.table('t')
  await table.put('a', 'v')
  await table.put('b', 'v')
  const records = table.range()
  await records.next()
  let calls = 0
  prototype.close = async () => {
    calls++
    throw new Error('planned')
  }
  try {
    // One that closed nothing can be repeated, and iterators go on.
    for (const expected of [1, 2]) {
      const results = await Promise.allSettled([db.close(), db.close()])
      assert.deepEqual(results.map(({ reason }) => reason?.message), ['planned', 'planned'])
      assert.equal(calls, expected)
    }
    assert.equal(String((await records.next()).value[0]), 'b')
    // One that has closed the database cannot.
    Object.defineProperty(prototype, 'isClosed', { ...isClosed, get: () => true })
    for (let i = 0; i < 2; i++) await assert.rejects(db.close(), { message: 'planned' })
    assert.equal(calls, 3)
  } finally {
    prototype.close = close
    Object.defineProperty(prototype, 'isClosed', isClosed)
  }
})

test('leaving the loop over changes closes them', async () => {
  const db = await pando.inMemory({ memoryBytes: 16 << 20 })
  const table = await db.table('t')
  await table.put('a', 'v')
  const ways = [
    async changes => { for await (const change of changes) if (change) break },
    async changes => {
      await assert.rejects(async () => {
        for await (const change of changes) throw new Error(`planned ${change.commitNumber}`)
      }, { message: /planned/ })
    }
  ]
  for (const leave of ways) {
    const changes = await db.changes()
    await leave(changes)
    assert.equal(changes.isClosed, true)
    assert.equal(await changes.next(), undefined)
  }
  await db.close()
})

test('keys of abstract-level do not read values', async () => {
  const level = new PandoLevel(undefined, { valueEncoding: 'buffer', pando: { memoryBytes: 16 << 20 } })
  await level.batch(['a', 'b', 'c', 'd'].map(key => ({ type: 'put', key, value: Buffer.from(key) })))
  const { prototype } = Object.getPrototypeOf(pando.Table)
  const { cursor, getMany } = prototype
  const opened = []
  prototype.cursor = function (range, keysOnly) {
    opened.push(keysOnly)
    return cursor.call(this, range, keysOnly)
  }
  prototype.getMany = () => assert.fail('values are read')
  try {
    const snapshot = level.snapshot()
    assert.deepEqual(await level.keys({ gt: 'a' }).all(), ['b', 'c', 'd'])
    assert.deepEqual(await level.keys({ snapshot }).all(), ['a', 'b', 'c', 'd'])
    assert.deepEqual(await level.hasMany(['a', 'none', 'd'], { snapshot }), [true, false, true])
    assert.deepEqual(await level.hasMany([]), [])
    await snapshot.close()
    await level.clear({ limit: 1, reverse: true })
    await level.clear({ gte: 'a', lt: 'c', limit: 5 })
    assert.deepEqual(opened, [true, true, true, true])
    assert.deepEqual((await level.values().all()).map(String), ['c'])
    assert.equal(opened.at(-1), false)
  } finally {
    Object.assign(prototype, { cursor, getMany })
  }
  await level.close()
})
