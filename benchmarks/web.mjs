// web_pair.mjs in Node, by the processor time of this process. Arguments: the package, the model, the folder with
// node_modules, blocks, runs of a block, dims as JSON. Prints JSON.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { pair } from './web_pair.mjs';

const [folder, file, modules, blocks, runs, dims] = process.argv.slice(2);
const { load, model: told } = await import(pathToFileURL(`${folder}/model/node.js`));
const clock = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};
const found = await pair({
  load, told, ort: createRequire(`${modules}/`)('onnxruntime-web'), network: readFileSync(file), dims: JSON.parse(dims),
  relaxed: false, blocks: Number(blocks), runs: Number(runs), clock,
});
console.log(JSON.stringify({ ...found, engine: `Node ${process.version}` }));
