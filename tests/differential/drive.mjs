// Runs the requests of standard input, packed as started.py says, on a module: node drive.mjs IMAGE. Each result is
// written as soon as it is there, so that those before a fault count.
import fs from 'node:fs';

const [image] = process.argv.slice(2);
const { instance } = await WebAssembly.instantiate(fs.readFileSync(image));
const { memory, drive, __heap_base } = instance.exports;
const base = Math.ceil(__heap_base.value / 64) * 64;
const packed = fs.readFileSync(0);

let at = 4;
for (let left = packed.readInt32LE(0); left > 0; --left) {
    const [words, given, wanted] = [0, 4, 8].map((k) => packed.readInt32LE(at + k));
    at += 12;
    const inputs = Math.ceil((base + words) / 64) * 64;
    const outputs = Math.ceil((inputs + given) / 64) * 64;
    const missing = outputs + wanted - memory.buffer.byteLength;
    if (missing > 0) {
        memory.grow(Math.ceil(missing / 65536));
    }
    const bytes = new Uint8Array(memory.buffer);
    bytes.set(packed.subarray(at, at + words), base);
    bytes.set(packed.subarray(at + words, at + words + given), inputs);
    at += words + given;
    const status = Buffer.alloc(4);
    status.writeInt32LE(drive(base, inputs, outputs));
    fs.writeSync(1, Buffer.concat([status, bytes.subarray(outputs, outputs + wanted)]));
}
