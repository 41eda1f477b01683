/* Runs an agent that is a WebAssembly program in Node, on its standard input and output: node run.cjs AGENT.
   The agent gets no arguments, no environment and no folder. */
'use strict';
const fs = require('node:fs');
const { WASI } = require('node:wasi');

/* f32x4.relaxed_madd of three vectors of zeros: versions of Node before 21 have relaxed vectors behind an option */
const zeros = [65, 0, 253, 15, 65, 0, 253, 15, 65, 0, 253, 15];
const code = [0, ...zeros, 253, 133, 2, 11];
const relaxed = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, code.length + 2, 1, code.length, ...code];
if (!WebAssembly.validate(Uint8Array.from(relaxed))) {
    require('node:v8').setFlagsFromString('--experimental-wasm-relaxed-simd');
}

const wasi = new WASI({ version: 'preview1', args: [], env: {}, preopens: {}, returnOnExit: true });
const agent = new WebAssembly.Module(fs.readFileSync(process.argv[2]));
const instance = new WebAssembly.Instance(agent, { wasi_snapshot_preview1: wasi.wasiImport });
process.exitCode = wasi.start(instance);
