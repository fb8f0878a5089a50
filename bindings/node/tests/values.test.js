'use strict'

const assert = require('node:assert/strict')
const { Readable } = require('node:stream')
const { buffer } = require('node:stream/consumers')
const { pipeline } = require('node:stream/promises')
const { test } = require('node:test')
const pando = require('pando-db')

// 3 MiB are written to the data file as they arrive.
const long = Buffer.alloc(3 << 20)
for (let i = 0; i < long.length; i++) long[i] = i / 997 * 7

const partsOf = bytes => Readable.from((function * () {
  for (let at = 0; at < bytes.length; at += 100_000) yield bytes.subarray(at, at + 100_000)
})())

async function inMemory () {
  const db = await pando.inMemory({ memoryBytes: 64 << 20 })
  return [db, await db.table('t')]
}

test('values are written and read as streams', async () => {
  const [db, table] = await inMemory()
  assert.equal(await table.readStream('a'), undefined)
  await db.transact(async tx => {
    const inside = tx.table(table)
    inside.put('a', 'older')
    await Promise.all([
      pipeline(partsOf(long), inside.writeStream('a')),
      pipeline(partsOf(long.subarray(7)), inside.writeStream('b'))
    ])
    assert.equal((await inside.get('b')).length, long.length - 7)
  })
  const stream = await table.readStream('a')
  assert.equal(stream.valueLength, long.length)
  assert.deepEqual(await buffer(stream), long)
  // What the stream reads stays as it was.
  const before = await table.readStream('b')
  await table.put('b', 'short')
  await db.checkpoint()
  assert.deepEqual(await buffer(before), long.subarray(7))
  for (const [start, end] of [[0, 0], [5, 5], [9, 3], [(256 << 10) - 3, (256 << 10) + 300_000], [long.length - 2, undefined],
    [long.length + 9, undefined]]) {
    assert.deepEqual(await buffer(await table.readStream('a', { start, end })), long.subarray(start, Math.max(start, end ?? long.length)))
  }
  await assert.rejects(table.readStream('a', { start: -1 }), { code: 'PANDO_INVALID' })
  const snapshot = db.snapshot()
  const left = await snapshot.table(table).readStream('a')
  await snapshot.close()
  for await (const part of left) {
    assert.ok(part.length > 0)
    break
  }
  assert.ok(left.destroyed)
  await db.close()
})

test('a stream that fails has no effect', async () => {
  const [db, table] = await inMemory()
  const broken = Readable.from((function * () {
    yield long
    throw new Error('the line was cut')
  })())
  await db.transact(async tx => {
    const inside = tx.table(table)
    await assert.rejects(pipeline(broken, inside.writeStream('a')), { message: 'the line was cut' })
    await assert.rejects(pipeline(partsOf(long), inside.writeStream('k', { ttlMs: 1000 })), { code: 'PANDO_INVALID' })
    inside.put('b', 'x')
  })
  assert.equal(await table.get('a'), undefined)
  assert.equal(await table.has('b'), true)
  const tx = await db.begin()
  const late = tx.table(table).writeStream('c')
  await new Promise(resolve => late.write('x', resolve))
  await tx.rollback()
  late.on('error', () => {})
  await assert.rejects(new Promise((resolve, reject) => late.end(error => error ? reject(error) : resolve())), { code: 'PANDO_CLOSED' })
  await db.check()
  await db.close()
})
