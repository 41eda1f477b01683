// Times a package of sdk new web beside onnxruntime-web in Node, one thread each: blocks of runs alternate, and what counts
// is the processor time of this process. Arguments: the package, the model, the folder with node_modules, blocks, runs of
// a block, dims as JSON. Prints JSON: medians in milliseconds, their ratio, and how far the results are apart.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, file, modules, blocks, runs, dimsText] = process.argv.slice(2);
const dims = JSON.parse(dimsText);
const { load, model: told } = await import(pathToFileURL(`${folder}/model/node.js`));
const ort = createRequire(`${modules}/`)('onnxruntime-web');
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

const [entry] = told.entries;
const inputs = Object.fromEntries(entry.inputs.map((port) => {
  const count = port.shape(dims).reduce((a, b) => a * b, 1);
  if (port.type !== 'f32') {
    throw new Error(`input ${port.name} is ${port.type}: this script makes f32 only`);
  }
  return [port.key, Float32Array.from({ length: count }, () => 2 * Math.random() - 1)];
}));

const ours = await load({ worker: false });
const session = await ort.InferenceSession.create(readFileSync(file), { executionProviders: ['wasm'] });
const feeds = Object.fromEntries(session.inputNames.map((name, k) => {
  const port = entry.inputs[k];
  return [name, new ort.Tensor('float32', inputs[port.key], port.shape(dims))];
}));
const engines = {
  ours: async () => Object.values(await ours.run(inputs, { dims })).map(({ data }) => data),
  'onnxruntime-web': async () => Object.values(await session.run(feeds)).map(({ data }) => data),
};

const [a, b] = [await engines.ours(), await engines['onnxruntime-web']()];
const largest = Math.max(1, ...b.flatMap((one) => [one.reduce((m, x) => Math.max(m, Math.abs(x)), 0)]));
const apart = Math.max(...a.map((one, k) => one.reduce((m, x, i) => Math.max(m, Math.abs(x - b[k][i])), 0))) / largest;

const milliseconds = ({ user, system }) => (user + system) / 1000;
const times = Object.fromEntries(Object.keys(engines).map((name) => [name, []]));
for (const run of Object.values(engines)) {
  for (let k = 0; k < 20; k++) {
    await run(); // engines make better code of what ran often
  }
}
for (let block = 0; block < Number(blocks); block++) {
  for (const [name, run] of Object.entries(engines)) {
    await run();
    const start = process.cpuUsage();
    for (let k = 0; k < Number(runs); k++) {
      await run();
    }
    times[name].push(milliseconds(process.cpuUsage(start)) / Number(runs));
  }
}
const median = (list) => list.toSorted((x, y) => x - y)[Math.floor(list.length / 2)];
const found = Object.fromEntries(Object.entries(times).map(([name, list]) => [name, median(list)]));
const ratio = median(times.ours.map((time, k) => time / times['onnxruntime-web'][k]));
console.log(JSON.stringify({ schema: 1, model: told.source, milliseconds: found, ratio, apart, node: process.version, onnxruntimeWeb: ort.env.versions.common }));
