'use strict'

// `npm run build` compiles the native half and puts it here.
module.exports = require('../pando.node')
