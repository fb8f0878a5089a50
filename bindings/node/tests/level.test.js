'use strict'

// abstract-level's own suite, whole, on databases in memory and on disk.

const { mkdtempSync, rmSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const test = require('tape')
const suite = require('abstract-level/test')
const { PandoLevel } = require('pando-db/level')

const root = mkdtempSync(join(tmpdir(), 'pando-level-'))
let count = 0
test.onFinish(() => rmSync(root, { recursive: true, force: true }))

// The suite makes hundreds of databases: each with little memory, and without waiting for the disk.
const pando = { memoryBytes: 8 << 20, durability: 'buffered' }

suite({ test, factory: options => new PandoLevel(join(root, String(count++)), { pando, ...options }) })
suite({ test, factory: options => new PandoLevel(undefined, { pando, ...options }) })
