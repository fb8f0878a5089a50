'use strict'

// The examples of the README run as they are written.

const assert = require('node:assert/strict')
const { execFileSync } = require('node:child_process')
const { mkdtempSync, readFileSync, rmSync, writeFileSync } = require('node:fs')
const { join } = require('node:path')
const { test, after } = require('node:test')

// Within the project, whose packages the examples import.
const root = mkdtempSync(join(__dirname, 'readme-'))
after(() => rmSync(root, { recursive: true, force: true }))

const examples = [...readFileSync(join(__dirname, '..', 'README.md'), 'utf8').matchAll(/^```js\n(.*?)^```$/gms)].map(found => found[1])
const OPENED = "import { open } from 'pando-db'\nconst db = await open('example.pando')\n"

function run (text, ...options) {
  const path = join(root, 'example.mjs')
  writeFileSync(path, text.includes('import ') ? text : OPENED + text)
  return execFileSync(process.execPath, [...options, path], { cwd: root, encoding: 'utf8', timeout: 60_000 })
}

test('the first example prints what it has stored', () => {
  assert.equal(run(examples[0]), 'apple is red\nlemon is yellow\n')
})

test('all other examples run', () => {
  assert.ok(examples.length >= 5)
  for (const example of examples.slice(1)) {
    // One that waits for changes does not end.
    run(example, ...(example.includes('mails.changes') ? ['--check'] : []))
  }
})
