'use strict'

const assert = require('node:assert/strict')
const { test } = require('node:test')
const pando = require('pando-db')

const inMemory = () => pando.inMemory({ memoryBytes: 16 << 20 })

test('tables change their names and options', async () => {
  const db = await inMemory()
  const table = await db.table('old', { ttlMs: 60_000 })
  await table.put('k', 'v')
  const wanted = { layout: 'lsm', compression: 'lz4', ttlMs: 3600_000 }
  await assert.rejects(db.table('old', wanted), error =>
    error.code === 'PANDO_MISMATCH' && /change the layout of the table/.test(error.message) && !/set_/.test(error.message))
  await db.setLayout('old', 'lsm')
  await db.setCompression('old', 'lz4')
  await db.setTtl('old', 3600_000)
  assert.equal((await db.table('old', wanted)).layout, 'lsm')
  await db.setTtl('old', undefined)
  await assert.rejects(db.table('old', wanted), { code: 'PANDO_MISMATCH', message: /change the TTL of the table/ })
  await db.setCompression('old', 'none')
  await assert.rejects(db.table('old', { layout: 'lsm', compression: 'lz4' }),
    { code: 'PANDO_MISMATCH', message: /change the compression of the table/ })
  await db.renameTable('old', 'new')
  await assert.rejects(table.put('k', 'v'), { code: 'PANDO_MISSING' })
  assert.equal(`${await (await db.table('new', { create: false })).get('k')}`, 'v')
  await db.table('taken')
  await assert.rejects(db.renameTable('new', 'taken'), { code: 'PANDO_EXISTS' })
  await assert.rejects(db.renameTable('none', 'x'), { code: 'PANDO_MISSING' })
  await assert.rejects(db.setLayout('new', 'heap'), { code: 'PANDO_INVALID' })
  await assert.rejects(db.setLayout('new'), TypeError)
  await assert.rejects(db.setTtl('new', '1'), TypeError)
  await assert.rejects(db.setTtl('none', 1000), { code: 'PANDO_MISSING' })
  await db.close()
  await assert.rejects(db.setTtl('new', 1000), { code: 'PANDO_CLOSED' })
})

test('a transaction creates and drops tables', async () => {
  const db = await inMemory()
  await db.table('old')
  assert.equal(db.isReadOnly, false)
  await db.transact(async tx => {
    const made = await tx.createTable('made', { layout: 'lsm' })
    made.put('k', 'v')
    assert.equal(`${await made.get('k')}`, 'v')
    await assert.rejects(tx.createTable('made'), { code: 'PANDO_EXISTS' })
    await assert.rejects(tx.createTable('other', { create: true }), TypeError)
    await tx.dropTable('old')
    await assert.rejects(tx.dropTable('old'), { code: 'PANDO_MISSING' })
    assert.deepEqual(await db.tables(), ['old'])
  })
  assert.deepEqual(await db.tables(), ['made'])
  const made = await db.table('made', { create: false })
  assert.deepEqual([made.layout, `${await made.get('k')}`], ['lsm', 'v'])
  await db.close()
})

test('the oldest change follows the checkpoints', async () => {
  const db = await inMemory()
  await db.table('t')
  assert.equal(await db.oldestChange(), 0)
  await db.checkpoint()
  assert.equal(await db.oldestChange(), 1)
  await db.close()
})

test('an error of an option has the name that JavaScript has', async () => {
  for (const memoryBytes of [64.5, -1, NaN]) {
    await assert.rejects(pando.inMemory({ memoryBytes }), { name: 'RangeError', message: /^memoryBytes is .*a whole number from 0 on/ })
  }
  await assert.rejects(pando.inMemory({ memoryBytes: '64' }), { name: 'TypeError', message: /memoryBytes must be a number/ })
  await assert.rejects(pando.inMemory({ durability: 1 }), { name: 'TypeError', message: /durability must be a string/ })
  await assert.rejects(pando.inMemory({ pageBytes: 5 }), error =>
    error.code === 'PANDO_INVALID' && error.message.includes('pageBytes') && !error.message.includes('page_bytes'))
})
