/* Runs an agent that is a WebAssembly program in Node, on its standard input and output: node run.cjs AGENT.
   The agent gets no arguments, no environment and no folder. */
'use strict';
const fs = require('node:fs');
const { WASI } = require('node:wasi');

const wasi = new WASI({ version: 'preview1', args: [], env: {}, preopens: {}, returnOnExit: true });
const agent = new WebAssembly.Module(fs.readFileSync(process.argv[2]));
const instance = new WebAssembly.Instance(agent, { wasi_snapshot_preview1: wasi.wasiImport });
process.exitCode = wasi.start(instance);
