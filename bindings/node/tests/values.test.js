'use strict'

const assert = require('node:assert/strict')
const { once } = require('node:events')
const { dirname, join } = require('node:path')
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
  for (const [places, name] of [[{ start: -1 }, 'RangeError'], [{ start: 0.5 }, 'RangeError'], [{ start: Infinity }, 'RangeError'],
    [{ end: NaN }, 'RangeError'], [{ end: -1 }, 'RangeError'], [{ start: '1' }, 'TypeError'], [{ end: 5n }, 'TypeError']]) {
    await assert.rejects(table.readStream('a', places), { name })
  }
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
  assert.ok(late.destroyed)
  await assert.rejects(new Promise((resolve, reject) => late.write('y', error => error ? reject(error) : resolve())),
    { code: 'ERR_STREAM_DESTROYED' })
  await db.check()
  await db.close()
})

test('the end of a transaction destroys the streams of values that are not finished', async () => {
  const [db, table] = await inMemory()
  for (const end of ['commit', 'rollback']) {
    const tx = await db.begin()
    const inside = tx.table(table)
    const done = inside.writeStream('done')
    await pipeline(partsOf(long), done)
    const held = inside.writeStream('held')
    const never = pipeline(new Readable({ read () {} }), held)
    await new Promise(resolve => held.write(long, resolve))
    const fresh = inside.writeStream('fresh')
    await Promise.all([assert.rejects(never, { code: 'ERR_STREAM_PREMATURE_CLOSE' }), tx[end]()])
    assert.ok(held.destroyed && fresh.destroyed && done.writableFinished)
    const late = inside.writeStream('late')
    await assert.rejects(pipeline(partsOf(long), late), { code: 'PANDO_CLOSED' })
  }
  assert.deepEqual([await table.has('done'), await table.has('held'), await table.has('fresh')], [true, false, false])
  await db.check()
  await db.close()
})

test('a stream is closed though a call of it has failed', async () => {
  const { ValueReadable, ValueWritable } = require(join(dirname(require.resolve('pando-db')), 'values.js'))
  const fail = () => { throw new Error('a listener has failed') }
  const closed = []
  const readable = new ValueReadable({ length: 10, read: async () => Buffer.from('x'), close: () => closed.push('reader') }, 0, 10)
  readable.push = fail
  readable.read()
  readable.destroy()
  await once(readable, 'close')
  const writable = new ValueWritable(async () => ({ append: async () => {}, abandon: () => closed.push('writer') }), fail, new Set())
  await new Promise(resolve => writable.write('x', resolve))
  writable._write(Buffer.from('y'), 'buffer', fail)
  writable.destroy()
  await once(writable, 'close')
  assert.deepEqual(closed, ['reader', 'writer'])
})
