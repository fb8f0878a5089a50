// Keyv's own suite, whole, on databases in memory and on disk.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import keyvTestSuite, { keyvIteratorTests } from '@keyv/test-suite'
import Keyv from 'keyv'
import { inMemory, open } from 'pando-db'
import { KeyvPando } from 'pando-db/keyv'
import * as test from 'vitest'

const root = mkdtempSync(join(tmpdir(), 'pando-keyv-'))
test.afterAll(() => rmSync(root, { recursive: true, force: true }))
const options = { memoryBytes: 8 << 20, durability: 'buffered' }

// The stores of a suite have the same records.
for (const [place, db] of [['memory', await inMemory(options)], ['disk', await open(join(root, 'store'), options)]]) {
  test.describe(place, () => {
    const store = () => new KeyvPando(db)
    keyvTestSuite(test, Keyv, store)
    keyvIteratorTests(test, Keyv, store)
  })
}
