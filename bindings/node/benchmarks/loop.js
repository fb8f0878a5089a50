'use strict'

// Measures how late timers of the event loop are beside 1,000 durable commits at a time, and beside 1,000 appends and
// flushes of a file through Node's own fs, and while another process makes the 1,000 durable commits:
//
//     node benchmarks/loop.js [ROUNDS] [DIRECTORY]
//
// All take turns in each round, in an order that changes. The table has the median of the rounds. "Without waits" leaves out
// the time for which the loop's thread was ready and waited for a processor, which other threads had. `scripts/loop-calls`
// counts what the loop's thread asks of the system meanwhile.

const { fork } = require('node:child_process')
const { once } = require('node:events')
const { mkdtempSync, rmSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const { TASKS, lateness, all, openControl } = require('../tests/lateness')
const pando = require('..')

const ROUNDS = Number(process.argv[2] ?? 3)
const ROOT = mkdtempSync(join(process.argv[3] ?? tmpdir(), 'pando-loop-'))
const VALUE = Buffer.alloc(100)

const median = numbers => numbers.toSorted((a, b) => a - b)[numbers.length >> 1]

/** Makes the commits each time that the other process asks for them. */
async function workForAnother () {
  const db = await pando.open(join(ROOT, 'db'))
  const table = await db.table('t')
  process.on('message', async () => {
    await all(i => table.put(`key${i}`, VALUE))
    process.send('done')
  })
  process.send('ready')
  await once(process, 'disconnect')
  await db.close()
}

async function main () {
  const db = await pando.open(join(ROOT, 'db'))
  const table = await db.table('t')
  const control = await openControl(join(ROOT, 'control'))
  const other = fork(__filename, [], { env: { ...process.env, LOOP_WORKER: 'yes' } })
  await once(other, 'message')
  const works = {
    Pando: () => all(i => table.put(`key${i}`, VALUE)),
    'control: fs': () => all(() => control.append()),
    'control: idle, another process works': () => {
      other.send('work')
      return once(other, 'message')
    }
  }
  const found = Object.fromEntries(Object.keys(works).map(name => [name, []]))
  // The first round compiles the code of all, and is not counted.
  for (let round = -1; round < ROUNDS; round++) {
    const names = Object.keys(works)
    for (const name of round % 2 === 0 ? names : names.reverse()) {
      const began = performance.now()
      const result = await lateness(works[name], round >= 0 ? name : '')
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
  other.disconnect()
  await once(other, 'exit')
  await control.close()
  await db.close()
}

(process.env.LOOP_WORKER ? workForAnother() : main()).finally(() => rmSync(ROOT, { recursive: true, force: true }))
