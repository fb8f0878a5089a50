'use strict'

const assert = require('node:assert/strict')
const { test } = require('node:test')
const pando = require('pando-db')

async function inMemory () {
  const db = await pando.inMemory({ memoryBytes: 64 << 20 })
  return [db, await db.table('t')]
}

const drain = async records => { for await (const record of records) assert.ok(record) }

test('a range that is wrong deletes nothing', async () => {
  const [db, table] = await inMemory()
  await table.put('a', 'v')
  const wrong = [{ prefx: 'a' }, { prefix: undefined }, { gte: undefined, lt: 'b' }, undefined, null, 'a', ['a'], { limit: 1 }]
  await db.transact(async tx => {
    for (const range of wrong) {
      await assert.rejects(table.deleteRange(range), TypeError)
      await assert.rejects(tx.table(table).deleteRange(range), TypeError)
    }
  })
  assert.ok(await table.has('a'))
  await table.deleteRange({})
  assert.equal(await table.has('a'), false)
  await db.close()
})

test('an error names the argument', async () => {
  const [db, table] = await inMemory()
  const cache = await db.table('cache', { ttlByKey: true })
  const [changes, consumer] = [await db.changes(), await db.consumer('c')]
  const work = async () => {}
  const calls = [
    [/there is no option prefx/, () => drain(table.range({ prefx: 'a' }))],
    [/there is no option reversed/, () => drain(table.keys({ reversed: true }))],
    [/reverse must be a boolean/, () => drain(table.values({ reverse: 'no' }))],
    [/limit must be a number/, () => drain(table.chunks({ limit: '1' }))],
    [/limit is 1.5/, () => drain(table.range({ limit: 1.5 })), RangeError],
    [/limit is -1/, () => drain(table.range({ limit: -1 })), RangeError],
    [/limit is NaN/, () => drain(table.keys({ limit: NaN })), RangeError],
    [/operations must be an array/, () => table.batch('x')],
    [/the type of operation 1 is foo/, () => table.batch([{ type: 'del', key: 'a' }, { type: 'foo', key: 'a', value: 'v' }])],
    [/the type of operation 0 is undefined/, () => table.batch([{ key: 'a', value: 'v' }])],
    [/there is no option durabilty/, () => table.batch([], { durabilty: 'lazy' })],
    [/there is no option durabilty/, () => table.put('a', 'v', { durabilty: 'lazy' })],
    [/durability must be a string/, () => table.del('a', { durability: 1 })],
    [/there is no option ttl /, () => cache.put('a', 'v', { ttl: 5 })],
    [/ttlMs must be a number/, () => cache.put('a', 'v', { ttlMs: '5' })],
    [/ttlMs must be a number/, () => cache.setExpiry('a', '5')],
    [/there is no option isolaton/, () => db.transact(work, { isolaton: 'snapshot' })],
    [/there is no option isolaton/, () => db.begin({ isolaton: 'snapshot' })],
    [/options must be an object, not a value of type string/, () => db.begin('lazy')],
    [/work must be a function/, () => db.transact({})],
    [/there is no option layuot/, () => db.table('u', { layuot: 'lsm' })],
    [/ttlMs must be a number/, () => db.table('u', { ttlMs: '5' })],
    [/the name of a table must be a string/, () => db.table(undefined)],
    [/the name of a table must be a string/, () => db.dropTable(null)],
    [/the name of a consumer must be a string/, () => db.consumer()],
    [/the folder must be a string/, () => db.backup()],
    [/there is no option increment/, () => db.backup('b', { increment: true })],
    [/the path must be a string/, () => pando.open(undefined)],
    [/readOnly must be a boolean/, () => pando.open('never', { readOnly: 'no' })],
    [/create must be a boolean/, () => pando.open('never', { create: 'no' })],
    [/there is no option memory/, () => pando.open('never', { memory: 1 })],
    [/the target must be a string/, () => pando.restore('a')],
    [/after must be a number/, () => db.changes({ after: '5' })],
    [/there is no option table /, () => db.changes({ table: 't' })],
    [/each of tables must be a string/, () => db.changes({ tables: [1] })],
    [/timeoutMs must be a number/, () => changes.next({ timeoutMs: '100' })],
    [/there is no option timeout /, () => changes.next({ timeout: 100 })],
    [/commit must be a number or a change/, () => consumer.acknowledge(undefined)],
    [/commit must be a number or a change/, () => consumer.acknowledge(null)],
    [/commit must be a number or a change/, () => consumer.acknowledge('1')],
    [/there is no option form /, () => table.readStream('a', { form: 1 })],
    [/a parameter is an array/, () => db.sql('SELECT ?', [1])],
    [/the statement must be a string/, () => db.sql(7)]
  ]
  for (const [message, call, kind = TypeError] of calls) {
    await assert.rejects(async () => call(), error => {
      assert.ok(error instanceof kind, `${error.stack}: ${call}`)
      assert.match(error.message + ' ', message)
      return true
    }, String(call))
  }
  await db.transact(async tx => {
    const inside = tx.table(cache)
    assert.throws(() => inside.put('a', 'v', { ttl: 5 }), TypeError)
    assert.throws(() => inside.put('a', 'v', { ttlMs: '5' }), TypeError)
    assert.throws(() => inside.writeStream('a', { ttl: 5 }), TypeError)
    await assert.rejects(inside.setExpiry('a', '5'), TypeError)
  })
  assert.deepEqual(await db.tables(), ['cache', 't'])
  await db.close()
})

test('keys are iterated without their values', async () => {
  const [db, table] = await inMemory()
  const [count, bytes] = [40, 1 << 20]
  for (let number = 0; number < count; number++) await table.put(`k${String(number).padStart(2, '0')}`, Buffer.alloc(bytes))
  await table.put('l', 'v')
  const seconds = async work => {
    const began = performance.now()
    await work()
    return performance.now() - began
  }
  const keys = async range => {
    const found = []
    for await (const key of table.keys(range)) found.push(key.toString())
    return found
  }
  const all = [...Array.from({ length: count }, (_, number) => `k${String(number).padStart(2, '0')}`), 'l']
  assert.deepEqual(await keys(), all)
  assert.deepEqual(await keys({ reverse: true }), all.toReversed())
  assert.deepEqual(await keys({ gt: 'k37', limit: 2 }), ['k38', 'k39'])
  assert.deepEqual(await keys({ lte: 'k01', reverse: true }), ['k01', 'k00'])
  // The least of several, because another program may take the processor from any one of them.
  const least = async work => {
    const all = []
    for (let round = 0; round < 5; round++) all.push(await seconds(work))
    return Math.min(...all)
  }
  const [alone, read] = [await least(() => keys()), await least(() => drain(table.range()))]
  assert.ok(alone < read / 3, `keys take ${alone} ms, records ${read} ms`)
  await db.transact(async tx => {
    const inside = tx.table(table)
    inside.put('m', 'v')
    const found = []
    for await (const key of inside.keys({ gte: 'l' })) found.push(key.toString())
    assert.deepEqual(found, ['l', 'm'])
  })
  await db.close()
})

test('bytes are those of the call, whatever the caller does with them later', async () => {
  const [db, table] = await inMemory()
  const cache = await db.table('cache', { ttlByKey: true })
  /** The result of `call` with bytes that change as soon as it has returned. */
  const changed = (call, given = 'original') => {
    const bytes = Buffer.from(given)
    const result = call(bytes)
    bytes.fill('X')
    return result
  }
  const fill = async () => {
    await table.deleteRange()
    await table.batch(['aa', 'original', 'zz'].map(key => ({ type: 'put', key, value: 'v' })))
    await cache.put('original', 'v')
  }
  await fill()
  const whole = () => drainKeys(table)

  await changed(bytes => table.put('k', bytes))
  assert.equal(String(await table.get('k')), 'original')
  await changed(bytes => table.batch([{ type: 'put', key: bytes, value: bytes }]))
  assert.equal(String(await table.get('original')), 'original')
  await changed(bytes => cache.put(bytes, bytes, { ttlMs: 60000 }))
  assert.equal(String(await cache.get('original')), 'original')
  assert.equal(await changed(bytes => cache.setExpiry(bytes, 50000)), true)
  assert.ok(await changed(bytes => cache.expiry(bytes)) <= 50000)
  await changed(bytes => table.deleteRange({ gte: bytes, lte: 'p' }), 'k')
  assert.equal(await whole(), 'aa zz')
  await fill()
  await changed(bytes => table.del(bytes))
  assert.equal(await whole(), 'aa zz')
  await fill()

  for (const view of ['range', 'keys', 'values', 'chunks']) {
    assert.equal((await changed(bytes => table[view]({ prefix: bytes })).next()).done, false, view)
  }
  const cursor = changed(bytes => table.cursor({ gte: bytes }))
  assert.equal((await cursor.next(false)).length, 2)

  const reads = async (t, name) => {
    const ttl = t(cache)
    const inside = t(table)
    assert.equal(String(await changed(bytes => inside.get(bytes))), 'v', name)
    assert.equal(String(await changed(bytes => inside.getMany([bytes]))), 'v', name)
    assert.deepEqual(await changed(bytes => inside.hasMany([bytes, 'none'])), [true, false], name)
    assert.equal(await changed(bytes => inside.has(bytes)), true, name)
    assert.equal(await changed(bytes => ttl.expiry(bytes)), Infinity, name)
    const stream = await changed(bytes => inside.readStream(bytes))
    assert.equal(stream.valueLength, 1, name)
    stream.destroy()
    assert.equal((await changed(bytes => inside.range({ prefix: bytes })).next()).done, false, name)
  }
  await cache.setExpiry('original', undefined)
  await reads(given => given, 'table')
  const snapshot = db.snapshot()
  await reads(given => snapshot.table(given), 'snapshot')
  await snapshot.close()
  await db.transact(tx => reads(given => tx.table(given), 'transaction'))

  await db.transact(async tx => {
    const [inside, ttl] = [tx.table(table), tx.table(cache)]
    changed(bytes => inside.put('put', bytes))
    await changed(bytes => inside.insert('insert', bytes))
    await changed(bytes => inside.insert(bytes, 'v'), 'inserted')
    await changed(bytes => ttl.put(bytes, bytes, { ttlMs: 60000 }))
    assert.equal(await changed(bytes => ttl.setExpiry(bytes, 50000)), true)
    const stream = changed(bytes => inside.writeStream(bytes), 'streamed')
    await new Promise((resolve, reject) => stream.on('finish', resolve).on('error', reject).end('v'))
    assert.equal(String(await changed(bytes => inside.remove(bytes))), 'v')
    await changed(bytes => inside.deleteRange({ prefix: bytes }), 'z')
    changed(bytes => inside.del(bytes), 'aa')
  })
  assert.equal(await whole(), 'insert inserted put streamed')
  for (const key of ['put', 'insert']) assert.equal(String(await table.get(key)), 'original')
  assert.equal(String(await cache.get('original')), 'original')

  const consumer = await db.consumer('c')
  await table.put('original', 'v')
  const changes = await changed(bytes => consumer.changes({ prefix: bytes }))
  assert.equal((await changes.next({ timeoutMs: 1000 })).operations.length, 1)
  await db.close()
})

async function drainKeys (table) {
  const found = []
  for await (const key of table.keys()) found.push(String(key))
  return found.join(' ')
}
