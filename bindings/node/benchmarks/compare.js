'use strict'

// Compares Pando with lmdb-js and better-sqlite3 from Node:
//
//     npm install lmdb better-sqlite3
//     node benchmarks/compare.js [RECORDS] [REPETITIONS] [DIRECTORY]
//
// Each engine does the same work in a directory of its own, and the engines take turns in each repetition. Every answer is
// checked. The table has the median rate of each; an engine that is not installed is left out.

const { randomBytes } = require('node:crypto')
const { mkdirSync, mkdtempSync, rmSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const { performance } = require('node:perf_hooks')

const RECORDS = Number(process.argv[2] ?? 100_000)
const REPETITIONS = Number(process.argv[3] ?? 3)
const ROOT = mkdtempSync(join(process.argv[4] ?? tmpdir(), 'pando-compare-'))
const BATCH = 1000
const SINGLE = Math.max(100, RECORDS / 200)
const TOGETHER = 100
const CACHE_BYTES = 512 << 20

class Pando {
  static async open (path) {
    const pando = require('..')
    const made = new Pando()
    made.db = await pando.open(path, { memoryBytes: CACHE_BYTES })
    made.table = await made.db.table('t')
    return made
  }

  put (key, value) { return this.table.put(key, value) }
  batch (records) { return this.table.batch(records.map(([key, value]) => ({ type: 'put', key, value }))) }
  get (key) { return this.table.getSync(key) }
  getPromised (key) { return this.table.get(key) }
  many (keys) { return this.table.getMany(keys) }
  async scan (each) { for await (const chunk of this.table.chunks()) chunk.forEach(each) }
  close () { return this.db.close() }
}

// Its defaults flush each commit; writes that are made at the same time share one.
class Lmdb {
  static async open (path) {
    const made = new Lmdb()
    made.db = require('lmdb').open({ path, keyEncoding: 'binary', encoding: 'binary', mapSize: 4 * 2 ** 30 })
    return made
  }

  async put (key, value) {
    await this.db.put(key, value)
    await this.db.flushed
  }

  async batch (records) {
    await this.db.transaction(() => { for (const [key, value] of records) this.db.put(key, value) })
    await this.db.flushed
  }

  get (key) { return this.db.getBinary(key) }
  async getPromised (key) { return this.db.getBinary(key) }
  many (keys) { return this.db.getMany(keys) }
  async scan (each) { for (const { key, value } of this.db.getRange()) each([key, value]) }
  close () { return this.db.close() }
}

// A table without row ids, in WAL mode. Its calls block the event loop.
class Sqlite {
  static async open (path) {
    const Database = require('better-sqlite3')
    mkdirSync(path)
    const made = new Sqlite()
    made.db = new Database(join(path, 'data'))
    made.db.pragma('journal_mode = WAL')
    made.db.pragma('synchronous = FULL')
    made.db.pragma(`cache_size = -${CACHE_BYTES >> 10}`)
    made.db.exec('CREATE TABLE t(k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID')
    made.insert = made.db.prepare('INSERT OR REPLACE INTO t VALUES(?, ?)')
    made.select = made.db.prepare('SELECT v FROM t WHERE k = ?').pluck()
    made.all = made.db.prepare('SELECT k, v FROM t ORDER BY k').raw()
    made.together = made.db.transaction(records => { for (const [key, value] of records) made.insert.run(key, value) })
    return made
  }

  async put (key, value) { this.insert.run(key, value) }
  async batch (records) { this.together(records) }
  get (key) { return this.select.get(key) ?? undefined }
  async getPromised (key) { return this.get(key) }
  async many (keys) { return keys.map(key => this.get(key)) }
  async scan (each) { for (const row of this.all.iterate()) each(row) }
  async close () { this.db.close() }
}

const ENGINES = { Pando, 'lmdb-js': Lmdb, 'better-sqlite3': Sqlite }

const made = count => Array.from({ length: count }, () => [randomBytes(16), randomBytes(100)])

function expect (isTrue, what) {
  if (!isTrue) throw new Error(`wrong answer: ${what}`)
}

/** What is measured: each row has a name, a number of things done, and how. */
function work (engine, records) {
  const single = made(SINGLE)
  const concurrent = made(SINGLE * 10)
  const order = records.map((_, i) => i)
  for (let i = order.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [order[i], order[j]] = [order[j], order[i]]
  }
  return [
    ['puts, 1000 in each durable transaction', RECORDS, async () => {
      for (let at = 0; at < RECORDS; at += BATCH) await engine.batch(records.slice(at, at + BATCH))
    }],
    ['gets in random order', RECORDS, async () => {
      for (const i of order) expect(engine.get(records[i][0])?.equals(records[i][1]), 'get')
    }],
    ['gets, each a promise', RECORDS, async () => {
      for (const i of order) expect((await engine.getPromised(records[i][0]))?.equals(records[i][1]), 'promised get')
    }],
    ['gets of absent keys', SINGLE * 10, async () => {
      for (const [key] of concurrent) expect(engine.get(key) === undefined, 'absent')
    }],
    ['gets, 1000 in each call', RECORDS, async () => {
      for (let at = 0; at < RECORDS; at += BATCH) {
        const asked = order.slice(at, at + BATCH)
        const values = await engine.many(asked.map(i => records[i][0]))
        asked.forEach((i, place) => expect(Buffer.compare(values[place], records[i][1]) === 0, 'many'))
      }
    }],
    ['records of a scan', RECORDS, async () => {
      let count = 0
      let bytes = 0
      await engine.scan(([key, value]) => { count++; bytes += key.length + value.length })
      expect(count === RECORDS && bytes === RECORDS * 116, 'scan')
    }],
    ['puts, each a durable transaction, one after another', SINGLE, async () => {
      for (const [key, value] of single) await engine.put(key, value)
    }],
    [`puts, each a durable transaction, ${TOGETHER} at a time`, SINGLE * 10, async () => {
      for (let at = 0; at < concurrent.length; at += TOGETHER) {
        await Promise.all(concurrent.slice(at, at + TOGETHER).map(([key, value]) => engine.put(key, value)))
      }
      for (const [key, value] of concurrent) expect(engine.get(key)?.equals(value), 'put')
    }]
  ]
}

async function main () {
  const rates = new Map()
  const names = Object.keys(ENGINES)
  for (let repetition = 0; repetition < REPETITIONS; repetition++) {
    const records = made(RECORDS)
    for (const name of names) {
      const path = join(ROOT, `${name}-${repetition}`)
      let engine
      try {
        engine = await ENGINES[name].open(path)
      } catch (error) {
        if (error.code !== 'MODULE_NOT_FOUND') throw error
        continue
      }
      for (const [row, count, run] of work(engine, records)) {
        const began = performance.now()
        await run()
        const rate = count / (performance.now() - began) * 1000
        if (!rates.has(row)) rates.set(row, {})
        const of = rates.get(row);
        (of[name] ??= []).push(rate)
      }
      await engine.close()
      rmSync(path, { recursive: true, force: true })
    }
  }
  console.log(`| per second | ${names.join(' | ')} |\n|---|${'---:|'.repeat(names.length)}`)
  for (const [row, of] of rates) {
    const middle = names.map(name => of[name]?.sort((a, b) => a - b)[of[name].length >> 1])
    const best = Math.max(...middle.filter(Boolean))
    const shown = middle.map(rate => rate === undefined ? '' : `${rate === best ? '**' : ''}${Math.round(rate).toLocaleString('en')}${rate === best ? '**' : ''}`)
    console.log(`| ${row} | ${shown.join(' | ')} |`)
  }
}

main().finally(() => rmSync(ROOT, { recursive: true, force: true }))
