// Times a package of sdk new web beside onnxruntime-web, one thread each, in a page or in Node: blocks of runs alternate.

/**
 * Loads and runs both. `load` and `told` are the package's, `ort` is onnxruntime-web, `network` the bytes of the model,
 * `dims` the sizes of a run, `relaxed` whether both may use relaxed vectors, `clock` gives milliseconds. Gives medians in milliseconds by engine, the median of the
 * blocks' ratios, and how far the results are apart, relative to the largest.
 */
export async function pair({ load, told, ort, network, dims, relaxed, blocks, runs, clock }) {
  ort.env.wasm.simd = relaxed ? 'relaxed' : 'fixed';
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'error';
  const [entry] = told.entries;
  const inputs = Object.fromEntries(entry.inputs.map((port) => [port.key, numbers(port, dims)]));
  const ours = await load({ worker: false, relaxed });
  const session = await ort.InferenceSession.create(network, { executionProviders: ['wasm'] });
  const feeds = Object.fromEntries(session.inputNames.map((name, k) => {
    const port = entry.inputs[k];
    return [name, new ort.Tensor('float32', inputs[port.key], port.shape(dims))];
  }));
  const engines = {
    ours: async () => Object.values(await ours.run(inputs, { dims })).map(({ data }) => data),
    'onnxruntime-web': async () => Object.values(await session.run(feeds)).map(({ data }) => data),
  };
  const apart = distance(await engines.ours(), await engines['onnxruntime-web']());
  const times = Object.fromEntries(Object.keys(engines).map((name) => [name, []]));
  for (const run of Object.values(engines)) {
    for (let k = 0; k < 20; k++) {
      await run(); // engines make better code of what ran often
    }
  }
  for (let block = 0; block < blocks; block++) {
    for (const [name, run] of Object.entries(engines)) {
      await run();
      const start = clock();
      for (let k = 0; k < runs; k++) {
        await run();
      }
      times[name].push((clock() - start) / runs);
    }
  }
  const milliseconds = Object.fromEntries(Object.entries(times).map(([name, list]) => [name, median(list)]));
  const ratio = median(times.ours.map((time, k) => time / times['onnxruntime-web'][k]));
  const { common: onnxruntimeWeb } = ort.env.versions;
  return { schema: 1, model: told.source, vectors: ours.engine, milliseconds, ratio, apart, onnxruntimeWeb };
}

function numbers(port, dims) {
  if (port.type !== 'f32') {
    throw new Error(`input ${port.name} is ${port.type}: this script makes f32 only`);
  }
  const count = port.shape(dims).reduce((a, b) => a * b, 1);
  return Float32Array.from({ length: count }, () => 2 * Math.random() - 1);
}

function distance(ours, theirs) {
  const largest = Math.max(1, ...theirs.map((one) => one.reduce((most, x) => Math.max(most, Math.abs(x)), 0)));
  const off = (one, other) => one.reduce((most, x, i) => Math.max(most, Math.abs(x - other[i])), 0);
  return Math.max(...ours.map((one, k) => off(one, theirs[k]))) / largest;
}

const median = (list) => [...list].sort((x, y) => x - y)[Math.floor(list.length / 2)];
