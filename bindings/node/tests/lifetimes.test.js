'use strict'

// What a close waits for, and what is closed with what.

const assert = require('node:assert/strict')
const { mkdtempSync, rmSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { dirname, join } = require('node:path')
const { test, after } = require('node:test')
const pando = require('pando-db')

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
