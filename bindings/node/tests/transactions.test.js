'use strict'

const assert = require('node:assert/strict')
const { test } = require('node:test')
const pando = require('pando-db')

const tooLong = 'x'.repeat(9999)

async function inMemory () {
  const db = await pando.inMemory({ memoryBytes: 16 << 20 })
  return [db, await db.table('t')]
}

async function keys (table) {
  const found = []
  for await (const key of table.keys()) found.push(key.toString())
  return found.join(' ')
}

test('a write after the end of its transaction throws', async () => {
  const [db, table] = await inMemory()
  for (const end of ['commit', 'rollback']) {
    const tx = await db.begin()
    const inside = tx.table(table)
    inside.put('before', end)
    const ended = tx[end]()
    const late = { put: () => inside.put('late', 'v'), del: () => inside.del('before') }
    for (const [name, write] of Object.entries(late)) assert.throws(write, { code: 'PANDO_CLOSED' }, `${name} during ${end}`)
    await ended
    for (const [name, write] of Object.entries(late)) assert.throws(write, { code: 'PANDO_CLOSED' }, `${name} after ${end}`)
  }
  const tx = await db.begin()
  await db.close()
  assert.throws(() => tx.table(table).put('late', 'v'), { code: 'PANDO_CLOSED' })
})

test('a transaction with a write that failed cannot commit', async () => {
  const [db, table] = await inMemory()
  const refused = { code: 'PANDO_INVALID', message: /9999/ }
  await assert.rejects(db.transact(async tx => {
    const inside = tx.table(table)
    inside.put('good1', 'v')
    inside.put(tooLong, 'v')
    inside.put('good2', 'v')
    await assert.rejects(inside.get('zz'), refused)
    await assert.rejects(inside.get('zz'), refused)
    await assert.rejects(inside.insert('good3', 'v'), refused)
    await assert.rejects(tx.savepoint(async () => {}), refused)
    assert.throws(() => inside.put('good4', 'v'), refused)
  }), refused)
  const tx = await db.begin()
  tx.table(table).put('good1', 'v')
  tx.table(table).put(tooLong, 'v')
  await assert.rejects(tx.commit(), refused)
  await assert.rejects(tx.commit(), { code: 'PANDO_CLOSED' })
  assert.equal(await keys(table), '')
  await db.close()
})

test('undoing a savepoint undoes the failure of its writes', async () => {
  const [db, table] = await inMemory()
  await db.transact(async tx => {
    const inside = tx.table(table)
    inside.put('before', 'v')
    const works = [
      async () => { await inside.get('k') },
      async () => { await inside.get('k').catch(() => {}) },
      async () => {},
      async () => { throw new pando.PandoError('PANDO_INVALID', 'planned') }
    ]
    for (const work of works) {
      await assert.rejects(tx.savepoint(async () => {
        inside.put('within', 'v')
        inside.put(tooLong, 'v')
        await work()
      }), { code: 'PANDO_INVALID' })
    }
    inside.put('then', 'v')
  })
  assert.equal(await keys(table), 'before then')
  await db.close()
})

test('savepoints nest, and others do not overlap', async () => {
  const [db, table] = await inMemory()
  const pause = () => new Promise(resolve => setTimeout(resolve, 2))
  await db.transact(async tx => {
    const inside = tx.table(table)
    const [failed, refused] = await Promise.allSettled([
      tx.savepoint(async () => {
        inside.put('failed', 'v')
        await pause()
        throw new Error('planned')
      }),
      tx.savepoint(async () => { inside.put('refused', 'v') })
    ])
    assert.equal(failed.reason.message, 'planned')
    assert.equal(refused.reason.code, 'PANDO_IN_USE')
    await tx.savepoint(async () => {
      inside.put('outer', 'v')
      await pause()
      await tx.savepoint(async () => {
        inside.put('inner', 'v')
        await tx.savepoint(pause)
      })
      await assert.rejects(tx.savepoint(async () => {
        inside.put('undone', 'v')
        await pause()
        throw new Error('planned')
      }), { message: 'planned' })
      // Those within one savepoint do not overlap either.
      const both = [tx.savepoint(pause), tx.savepoint(pause)]
      await assert.rejects(both[1], { code: 'PANDO_IN_USE' })
      await both[0]
    })
    // One that outlives the one around it is undone with it.
    let inner
    await assert.rejects(tx.savepoint(async () => {
      inside.put('left', 'v')
      inner = tx.savepoint(async () => {
        inside.put('leaving', 'v')
        await pause()
        await pause()
      })
      inner.catch(() => {})
    }), { code: 'PANDO_IN_USE' })
    await assert.rejects(inner, { code: 'PANDO_CLOSED' })
    await tx.savepoint(async () => { inside.put('last', 'v') })
  })
  assert.equal(await keys(table), 'inner last outer')

  // Savepoints of two transactions have nothing to do with each other.
  await db.transact(tx => tx.savepoint(() => db.transact(other => other.savepoint(async () => {
    await tx.savepoint(async () => { other.table(table).put('two', 'v') })
  }))))
  assert.ok(await table.has('two'))
  await db.close()
})

test('transact gives each of many tasks its turn', { timeout: 60000 }, async () => {
  const [db, table] = await inMemory()
  const increment = async tx => {
    const inside = tx.table(table)
    inside.put('n', String(Number(await inside.get('n') ?? 0) + 1))
  }
  const tasks = 200
  const done = await Promise.allSettled(Array.from({ length: tasks }, () => db.transact(increment)))
  assert.deepEqual(done.filter(one => one.status === 'rejected').map(one => one.reason.message), [])
  assert.equal(String(await table.get('n')), String(tasks))

  // A turn is not for ever: its work may wait for a commit that waits for its end.
  let attempts = 0
  await db.transact(async tx => {
    const inside = tx.table(table)
    const number = Number(await inside.get('n'))
    if (++attempts < 11) await table.put('n', String(number + 1))
    inside.put('n', String(number + 1))
  })
  assert.equal(attempts, 11)
  await db.close()
})

test('a read without a promise is refused within a transaction', async () => {
  const [db, table] = await inMemory()
  await table.put('k', 'old')
  await db.transact(async tx => {
    const inside = tx.table(table)
    inside.put('k', 'new')
    assert.throws(() => inside.getSync('k'), { code: 'PANDO_INVALID', message: /await table\.get/ })
    assert.equal(String(await inside.get('k')), 'new')
  })
  assert.equal(String(table.getSync('k')), 'new')
  await db.close()
})

test('a range is deleted after conflicts, as other writes are made', async () => {
  for (const isolation of ['serializable', 'snapshot']) {
    const [db, table] = await inMemory()
    let isGoing = true
    const writer = (async () => {
      for (let n = 0; isGoing; n++) await Promise.all(Array.from({ length: 8 }, (_, i) => table.put(`k${i}`, `${n}`)))
    })()
    const errors = []
    for (let i = 0; i < 300; i++) await table.deleteRange({ prefix: 'k' }, { isolation }).catch(error => errors.push(error.code))
    isGoing = false
    await writer
    assert.deepEqual(errors, [], isolation)
    await table.deleteRange({ prefix: 'k' }, { isolation, durability: 'buffered' })
    assert.equal(await keys(table), '')
    await assert.rejects(table.deleteRange({}, { isolation: 'none' }), { code: 'PANDO_INVALID' })
    await db.close()
  }
})

test('writes that alternate between tables keep their order', async () => {
  const [db, table] = await inMemory()
  const [other, same] = [await db.table('other'), await db.table('t')]
  await db.transact(async tx => {
    const [a, b, c] = [tx.table(table), tx.table(other), tx.table(same)]
    for (let i = 0; i < 1000; i++) {
      a.put(`k${i % 10}`, `a${i}`)
      b.put(`k${i % 10}`, `b${i}`)
      c.put(`k${i % 10}`, `c${i}`)
      if (i % 2) a.del(`k${i % 10}`)
    }
    c.del('k0')
    a.put('k0', 'last')
  })
  assert.equal(await keys(table), 'k0 k2 k4 k6 k8')
  assert.equal(String(await table.get('k0')), 'last')
  assert.equal(String(await table.get('k8')), 'c998')
  assert.equal(String(await other.get('k9')), 'b999')
  await db.close()
})
