'use strict'

// Measures how late timers of the event loop are beside 1,000 durable commits at a time, and beside 1,000 appends and
// flushes of a file through Node's own fs:
//
//     node benchmarks/loop.js [ROUNDS] [DIRECTORY]
//
// Both take turns in each round, and the one that begins changes. The table has the median of the rounds. "Without waits"
// leaves out the time for which the loop's thread was ready and waited for a processor, which other threads had.

const { mkdtempSync, rmSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const { TASKS, lateness, all, openControl } = require('../tests/lateness')
const pando = require('..')

const ROUNDS = Number(process.argv[2] ?? 3)
const ROOT = mkdtempSync(join(process.argv[3] ?? tmpdir(), 'pando-loop-'))

const median = numbers => numbers.toSorted((a, b) => a - b)[numbers.length >> 1]

async function main () {
  const db = await pando.open(join(ROOT, 'db'))
  const table = await db.table('t')
  const control = await openControl(join(ROOT, 'control'))
  const value = Buffer.alloc(100)
  const work = { Pando: i => table.put(`key${i}`, value), control: () => control.append() }
  const found = { Pando: [], control: [] }
  // The first round compiles the code of both, and is not counted.
  for (let round = -1; round < ROUNDS; round++) {
    const names = round % 2 === 0 ? ['Pando', 'control'] : ['control', 'Pando']
    for (const name of names) {
      const began = performance.now()
      const result = await lateness(() => all(work[name]))
      if (round >= 0) found[name].push({ ...result, perSecond: TASKS / ((performance.now() - began) / 1000) })
    }
  }
  console.log(`| ${TASKS} at a time | late at most | without waits | in the middle | per second |`)
  console.log('|---|---:|---:|---:|---:|')
  for (const [name, rounds] of Object.entries(found)) {
    const of = field => median(rounds.map(round => round[field]))
    const each = field => `${of(field).toFixed(1)} ms (${rounds.map(round => round[field].toFixed(1)).join(', ')})`
    console.log(`| ${name} | ${each('most')} | ${each('own')} | ${of('middle').toFixed(2)} ms | ${of('perSecond').toFixed(0)} |`)
  }
  await control.close()
  await db.close()
}

main().finally(() => rmSync(ROOT, { recursive: true, force: true }))
