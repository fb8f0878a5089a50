'use strict'

// How late timers are while other work runs. The tests and benchmarks/loop.js use it.

const { existsSync, readFileSync } = require('node:fs')
const { open: openFile } = require('node:fs/promises')
const { performance } = require('node:perf_hooks')

const TASKS = 1000

/** How many milliseconds this thread was ready to run and waited for a processor, on Linux; 0 elsewhere. */
function waitedMs () {
  try {
    return Number(readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[1]) / 1e6
  } catch {
    return 0
  }
}

/** Shows `scripts/loop-calls` where a part begins, and which thread is the loop's; an empty name ends the part. */
const phase = name => existsSync(`/phase:${name}`)

/**
 * How late a timer of one millisecond is at most while `work` runs, how late the middle one is, and how late one is at most
 * without the time for which the thread waited for a processor: `own` is what the loop itself has done meanwhile.
 */
async function lateness (work, name = '') {
  const late = []
  let own = 0
  let isRunning = true
  let due = performance.now() + 1
  let waited = waitedMs()
  const tick = () => {
    const now = performance.now()
    late.push(now - due)
    own = Math.max(own, now - due - (waitedMs() - waited))
    waited = waitedMs()
    due = performance.now() + 1
    if (isRunning) setTimeout(tick, 1)
  }
  setTimeout(tick, 1)
  phase(name)
  await work()
  phase('')
  isRunning = false
  late.sort((a, b) => a - b)
  // Node rounds to whole milliseconds: a timer may be one late and on time.
  const over = ms => Math.max(0, ms - 1)
  return { most: over(late.at(-1)), own: over(own), middle: over(late[late.length >> 1]), ticks: late.length }
}

/** Runs the task for each number below TASKS. */
const all = task => Promise.all(Array.from({ length: TASKS }, async (_, i) => {
  // The tasks begin in the order in which an application gets its requests, not all in one turn of the loop.
  await new Promise(resolve => setTimeout(resolve, i % 50))
  return task(i)
}))

/** Opens the control, which uses no database: appends and flushes of a file through Node's own fs. */
async function openControl (path) {
  const file = await openFile(path, 'a')
  const value = Buffer.alloc(100)
  return {
    async append () {
      await file.write(value)
      await file.datasync()
    },
    close: () => file.close()
  }
}

module.exports = { TASKS, lateness, all, openControl }
