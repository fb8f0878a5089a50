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
