'use strict'

// Compiles the native half: `node build.js [CARGO OPTION...]`, by default with `--release`.

const { execFileSync } = require('node:child_process')
const { copyFileSync, renameSync } = require('node:fs')
const { join } = require('node:path')

const given = process.argv.slice(2)
const options = given.length > 0 ? given : ['--release']
const target = process.env.CARGO_TARGET_DIR ?? join(__dirname, '..', 'target')
const messages = execFileSync('cargo', ['build', '--message-format=json-render-diagnostics', ...options], {
  cwd: __dirname,
  env: { ...process.env, CARGO_TARGET_DIR: target },
  maxBuffer: 1 << 28,
  stdio: ['ignore', 'pipe', 'inherit']
})
const built = messages.toString().match(/"[^"]*libpando_node\.(so|dylib)"/)
// A program that has it open keeps the old file.
copyFileSync(JSON.parse(built[0]), join(__dirname, 'pando.node.new'))
renameSync(join(__dirname, 'pando.node.new'), join(__dirname, 'pando.node'))
