import { ModelError } from './errors.js';
import { half } from './golden.js';
import { gpu, parts } from './gpu_plans.js';
import { arrayOf, asked } from './instance.js';

const [ARENA, STATE, SCRATCH] = [0, 1, 2]; // regions by number; those before SCRATCH are the host's too
const PAGE = 65536;
const ALIGN = 64;
const SLOT = 256; // what every device allows as the start of a part of a uniform buffer
const GROUPS = 65535; // of a launch on an axis; kernels go on to the rest themselves
const RECORDS = 8; // kept, one for each value of the dims
const CLOSE = { f32: 1e-4, f16: 2e-3 }; // how far floats may be from those of WebAssembly, of the largest or 1
const LIMITS = ['maxStorageBufferBindingSize', 'maxBufferSize'];

const up = (size, to = ALIGN) => Math.ceil(size / to) * to;
const now = (instance) => new Uint8Array(instance.exports.memory.buffer);

/**
 * The model on a WebGPU device, or null where it cannot be; and notes: why not, or which kernels run as WebAssembly.
 */
export async function onGpu(model, options, fetched, onProgress) {
  const adapter = await globalThis.navigator?.gpu?.requestAdapter({ powerPreference: 'high-performance' });
  if (!adapter) {
    return { instance: null, notes: ['there is no adapter for WebGPU'] };
  }
  const { weightsUrl, ...others } = options; // those are the weights of the other module
  const [module, weights] = await fetched(parts, others, onProgress);
  let device;
  try {
    const requiredLimits = Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]]));
    device = await adapter.requestDevice({ requiredLimits });
    const instance = new GpuInstance(model, await WebAssembly.instantiate(module, {}), weights, device);
    await instance.prove();
    return { instance, notes: instance.notes };
  } catch (cause) {
    device?.destroy();
    return { instance: null, notes: [`WebGPU: ${cause.message}`] };
  }
}

/** One instance. Calls are done one after the other. */
export class GpuInstance {
  #model;
  #instance;
  #device;
  #at = {};
  #arena;
  #regions = []; // buffers by region
  #kernels = []; // pipelines and layouts
  #verdicts; // by kernel: why it does not run on the device, or ''
  #records = new Map();
  #fresh = true; // the host has the state that is to be
  #lost = null;
  #last = Promise.resolve();

  constructor(model, { instance }, weights, device) {
    this.#model = model;
    this.#instance = instance;
    this.#device = device;
    this.#verdicts = gpu.kernels.map(() => '');
    device.lost.then(({ message }) => (this.#lost = message || 'the device is gone'));
    let from = 0;
    for (const [place, bytes] of parts.weights.segments) {
      now(instance).set(weights.subarray(from, from + bytes), place);
      from += bytes;
    }
    instance.exports._initialize();
    this.#place();
    const { name } = model;
    const state = [this.#at.state, parts.stateBytes];
    const bound = model.init.length > 0 ? [this.#at.init] : [];
    new Int32Array(this.#memory, this.#at.init, model.init.length).set(model.init);
    if (this.#call(`${name}_init`, this.#at.context, this.#arena, parts.arenaBytes, ...state, ...bound) !== 0) {
      throw new ModelError('E_GPU', 'the module for WebGPU does not begin');
    }
    this.#regions = gpu.regions.map((bytes, region) => this.#buffer(region === STATE ? parts.stateBytes : bytes));
    gpu.uploads.forEach(([region, offset, bytes], k) => {
      const at = this.#call(`${name}_gpu_constant`, k) >>> 0;
      const data = new Uint8Array(up(bytes, 4));
      data.set(new Uint8Array(this.#memory, at, bytes));
      device.queue.writeBuffer(this.#regions[region], offset, data);
    });
  }

  /** What runs as WebAssembly, and why. */
  get notes() {
    const kernels = gpu.kernels.map(
      ({ name }, k) => this.#verdicts[k] && `${name} runs as WebAssembly: ${this.#verdicts[k]}`,
    );
    const steps = gpu.entries.flatMap((entry) => entry.steps(this.#sizes(entry, entry.proof)));
    const without = steps.filter(({ launches }) => launches.length === 0);
    return [...new Set([...kernels, ...without.map(({ what, why }) => `${what} runs as WebAssembly: ${why}`)])].filter(
      Boolean,
    );
  }

  /** Bytes of memory that the instance has, of the host and of the device. */
  get memoryBytes() {
    return this.#memory.byteLength + this.#regions.reduce((sum, { size }) => sum + size, 0);
  }

  /** Puts the state back to what it was at first. */
  reset() {
    return this.#then(() => this.#reset());
  }

  /** Runs an entry: as Instance does. */
  async run(inputs, options) {
    this.#alive();
    const [entry, sizes, given] = asked(this.#model, inputs, options);
    const held = given.map(([, data]) => data.slice());
    return this.#then(() => this.#run(this.#model.entries.indexOf(entry), sizes, held));
  }

  /** Ends it. */
  dispose() {
    this.#device.destroy();
  }

  #then(what) {
    const next = this.#last.then(() => (this.#alive(), what()));
    this.#last = next.catch(() => {});
    return next.catch((cause) => {
      throw cause instanceof ModelError ? cause : new ModelError('E_GPU', this.#lost ?? cause.message, { cause });
    });
  }

  #alive() {
    if (this.#lost !== null) {
      throw new ModelError('E_GPU', `${this.#lost}: load the model again`);
    }
  }

  // --- memory

  get #memory() {
    return this.#instance.exports.memory.buffer;
  }

  #place() {
    let end = this.#instance.exports.__heap_base.value >>> 0;
    const place = (bytes, align = ALIGN) => {
      const at = up(end, Math.max(align, ALIGN));
      end = at + bytes;
      return at;
    };
    this.#at = {
      context: place(parts.contextBytes),
      dims: place(4 * Math.max(1, ...this.#model.entries.map(({ dims }) => dims.length))),
      init: place(4 * Math.max(1, this.#model.init.length)),
      state: place(up(parts.stateBytes, 4), parts.stateAlign),
    };
    this.#arena = place(0, parts.arenaAlign);
    this.#grow(this.#arena);
  }

  #grow(end) {
    const missing = end - this.#memory.byteLength;
    if (missing > 0) {
      this.#instance.exports.memory.grow(Math.ceil(missing / PAGE));
    }
  }

  #buffer(bytes) {
    const size = up(Math.max(bytes, 16), 4);
    if (size > Math.min(...LIMITS.map((name) => this.#device.limits[name]))) {
      throw new ModelError('E_GPU', `the device allows no buffer of ${size} bytes`);
    }
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    return this.#device.createBuffer({ size, usage });
  }

  /** Where in the host's memory a place of a region is. */
  #host(region, offset) {
    return (region === STATE ? this.#at.state : this.#arena) + offset;
  }

  #call(symbol, ...args) {
    try {
      return this.#instance.exports[symbol](...args);
    } catch (cause) {
      this.#lost = `${symbol} ended in a trap: ${cause.message}`;
      throw new ModelError('E_TRAP', this.#lost, { cause });
    }
  }

  /** Host to device: whole words. */
  #up({ region, offset, bytes }) {
    const from = Math.floor(offset / 4) * 4;
    const size = up(offset + bytes, 4) - from;
    if (bytes > 0) {
      this.#device.queue.writeBuffer(this.#regions[region], from, this.#memory, this.#host(region, from), size);
    }
  }

  /** What the device has at some places: whole words around each. */
  async #read(places) {
    const spans = places.map(({ region, offset, bytes }) => {
      const from = Math.floor(offset / 4) * 4;
      return { region, from, size: bytes > 0 ? up(offset + bytes, 4) - from : 0 };
    });
    const total = spans.reduce((sum, { size }) => sum + size, 0);
    if (total === 0) {
      return spans.map((span) => ({ ...span, data: new Uint8Array(0) }));
    }
    const staging = this.#device.createBuffer({
      size: total,
      usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ,
    });
    const encoder = this.#device.createCommandEncoder();
    let at = 0;
    for (const { region, from, size } of spans) {
      if (size > 0) {
        encoder.copyBufferToBuffer(this.#regions[region], from, staging, at, size);
      }
      at += size;
    }
    this.#device.queue.submit([encoder.finish()]);
    try {
      await staging.mapAsync(GPUMapMode.READ);
      const all = new Uint8Array(staging.getMappedRange().slice(0));
      at = 0;
      return spans.map((span) => ({ ...span, data: all.subarray(at, (at += span.size)) }));
    } finally {
      staging.destroy();
    }
  }

  /** Device to host. */
  async #down(places) {
    for (const { region, from, data } of await this.#read(places)) {
      new Uint8Array(this.#memory, this.#host(region, from), data.length).set(data);
    }
  }

  // --- work for the values of the dims

  /** The dims of an entry with those bound at the start, and the places that follow from them. */
  #sizes(entry, dims) {
    const bound = Object.fromEntries(gpu.init.map(({ name }, k) => [name, this.#model.init[k]]));
    return entry.placed({ ...bound, ...dims });
  }

  /** What a run with these dims does; the host's memory and the device's arena are large enough then. */
  #record(index, dims) {
    const key = JSON.stringify([index, dims]);
    const own = gpu.entries[index];
    const kept = this.#records.get(key);
    const words = this.#model.entries[index].dims.map(({ name }) => dims[name]);
    new Int32Array(this.#memory, this.#at.dims, words.length).set(words);
    if (kept) {
      this.#records.delete(key);
      this.#records.set(key, kept);
      return kept;
    }
    const args = [
      ...(this.#model.init.length > 0 ? [this.#at.init] : []),
      ...(words.length > 0 ? [this.#at.dims] : []),
    ];
    const bytes = this.#call(`${own.symbol}_arena_bytes`, ...args) >>> 0;
    this.#grow(this.#arena + up(bytes, 4) + ALIGN);
    if (bytes > this.#regions[ARENA].size) {
      this.#regions[ARENA].destroy();
      this.#regions[ARENA] = this.#buffer(bytes);
      this.#records.clear(); // they name the buffer before
    }
    const d = this.#sizes(own, dims);
    const steps = own.steps(d);
    const record = {
      symbol: own.symbol,
      inputs: own.inputs(d),
      outputs: own.outputs(d),
      steps,
      work: this.#work(steps),
    };
    this.#records.set(key, record);
    if (this.#records.size > RECORDS) {
      this.#records.delete(this.#records.keys().next().value);
    }
    return record;
  }

  /** Of each step its launches: pipeline, what is bound, groups. The numbers of all are in one buffer. */
  #work(steps) {
    const launches = steps.flatMap(({ operands, numbers, launches: own }) =>
      own.map(({ uses, ...launch }) => ({ ...launch, words: [...uses.map((k) => operands[k].offset), ...numbers, 0] })),
    );
    let size = 0;
    const places = launches.map(({ words }) => {
      const at = size;
      size += up(words.length * 4, SLOT);
      return at;
    });
    const data = new Uint32Array(Math.max(size, SLOT) / 4);
    launches.forEach(({ words }, k) => data.set(words, places[k] / 4));
    const numbers = this.#device.createBuffer({
      size: data.byteLength,
      usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST,
    });
    this.#device.queue.writeBuffer(numbers, 0, data);
    let next = 0;
    return steps.map(({ launches: own }) =>
      own.map(({ kernel, bound, groups }) => {
        const k = next++;
        const { layout } = this.#kernels[kernel];
        const uniform = { buffer: numbers, offset: places[k], size: up(launches[k].words.length * 4, 16) };
        const resources = [...bound.map((region) => ({ buffer: this.#regions[region] })), uniform];
        const entries = resources.map((resource, binding) => ({ binding, resource }));
        const counts = groups.map((count) => Math.min(count, GROUPS));
        return { kernel, counts, group: this.#device.createBindGroup({ layout, entries }) };
      }),
    );
  }

  #onDevice({ launches }) {
    return launches.length > 0 && launches.every(({ kernel }) => this.#verdicts[kernel] === '');
  }

  #submit(record, first, end) {
    const encoder = this.#device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    for (const { kernel, counts, group } of record.work.slice(first, end).flat()) {
      pass.setPipeline(this.#kernels[kernel].pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(...counts);
    }
    pass.end();
    this.#device.queue.submit([encoder.finish()]);
  }

  #step(record, k) {
    this.#call(`${record.symbol}_gpu_step`, this.#at.context, this.#at.dims, k);
  }

  #reset() {
    this.#fresh = true;
    if (this.#call(`${this.#model.name}_reset`, this.#at.context) !== 0) {
      throw new ModelError('E_GPU', 'the state cannot be put back');
    }
  }

  async #run(index, sizes, held) {
    const record = this.#record(index, sizes);
    if (this.#fresh && parts.stateBytes > 0) {
      this.#up({ region: STATE, offset: 0, bytes: parts.stateBytes });
    }
    this.#fresh = false;
    record.inputs.forEach((port, k) => {
      const bytes = new Uint8Array(held[k].buffer, held[k].byteOffset, held[k].byteLength);
      new Uint8Array(this.#memory, this.#host(port.region, port.offset), bytes.length).set(bytes);
      this.#up(port);
    });
    for (let k = 0; k < record.steps.length;) {
      let end = k;
      while (end < record.steps.length && this.#onDevice(record.steps[end])) {
        end++;
      }
      if (end > k) {
        this.#submit(record, k, end);
        k = end;
        continue;
      }
      const places = record.steps[k].operands.filter(({ region }) => region < SCRATCH);
      await this.#down(places);
      this.#step(record, k);
      places.filter(({ writes }) => writes).forEach((place) => this.#up(place));
      k++;
    }
    await this.#down(record.outputs);
    this.#alive();
    const outputs = this.#model.entries[index].outputs.map((port, k) => {
      const at = this.#host(record.outputs[k].region, record.outputs[k].offset);
      const data = new (arrayOf(port.type))(this.#memory.slice(at, at + record.outputs[k].bytes));
      return [port.key, { data, shape: port.shape(sizes) }];
    });
    return { outputs: Object.fromEntries(outputs), computed: {} };
  }

  // --- the proof

  /** Compiles the kernels, and runs each step on the device and as WebAssembly: a kernel that differs is not used. */
  async prove() {
    await this.#compile();
    for (const [index, { proof }] of gpu.entries.entries()) {
      this.#reset();
      const record = this.#record(index, proof);
      draw(record.inputs, (port) => new Uint8Array(this.#memory, this.#host(port.region, port.offset), port.bytes));
      for (const [k, step] of record.steps.entries()) {
        await this.#proveStep(record, k, step);
      }
    }
    this.#reset();
    this.#alive();
    if (
      !gpu.entries.some((entry) => entry.steps(this.#sizes(entry, entry.proof)).some((step) => this.#onDevice(step)))
    ) {
      throw new ModelError('E_GPU', this.notes[0] ?? 'nothing of the model has a kernel');
    }
  }

  async #proveStep(record, k, step) {
    if (!this.#onDevice(step)) {
      this.#step(record, k);
      return;
    }
    const places = step.operands.filter(({ region }) => region < SCRATCH);
    const written = places.filter(({ writes }) => writes);
    places.forEach((place) => this.#up(place));
    this.#device.pushErrorScope('validation');
    this.#submit(record, k, k + 1);
    const error = await this.#device.popErrorScope();
    const found = error ? [] : await this.#read(written);
    this.#step(record, k);
    const same = written.every(({ region, offset, bytes, element }, j) => {
      const want = this.#memory.slice(this.#host(region, offset), this.#host(region, offset) + bytes);
      const from = offset - (found[j]?.from ?? 0);
      return found[j] && agrees(found[j].data.slice(from, from + bytes).buffer, want, element);
    });
    if (!same) {
      const why = error?.message ?? 'its results on the device are not those of WebAssembly';
      step.launches.forEach(({ kernel }) => (this.#verdicts[kernel] ||= why));
    }
  }

  async #compile() {
    const device = this.#device;
    const made = gpu.kernels.map(async ({ code, written }) => {
      const kinds = [...written.map((writes) => (writes ? 'storage' : 'read-only-storage')), 'uniform'];
      const entries = kinds.map((type, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } }));
      const layout = device.createBindGroupLayout({ entries });
      const compute = { module: device.createShaderModule({ code }), entryPoint: 'main' };
      const whole = device.createPipelineLayout({ bindGroupLayouts: [layout] });
      try {
        return { layout, pipeline: await device.createComputePipelineAsync({ layout: whole, compute }) };
      } catch (error) {
        return { layout, pipeline: null, error: error.message };
      }
    });
    this.#kernels = await Promise.all(made);
    this.#kernels.forEach(
      ({ pipeline, error }, k) => (this.#verdicts[k] = pipeline ? '' : error || 'it does not compile'),
    );
  }
}

/** Numbers for inputs, always the same: floats in -1..1, bytes of any value, wider integers 0 or 1, for they may be places. */
function draw(ports, bytesOf) {
  let seed = 1;
  const next = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0);
  for (const port of ports) {
    const bytes = bytesOf(port);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let at = 0; at < bytes.length; at += port.size) {
      const word = next();
      if (port.kind === 'f' && port.size === 4) {
        view.setFloat32(at, (word | 0) / 2 ** 31, true);
      } else if (port.kind === 'f' && port.size === 8) {
        view.setFloat64(at, (word | 0) / 2 ** 31, true);
      } else if (port.kind === 'f') {
        view.setUint16(at, 0x3000 + ((word >>> 20) & 0x8bff), true); // 2**-3 to 1/2, and their negatives
      } else if (port.size === 1 && port.kind !== 'b') {
        bytes[at] = word >>> 24;
      } else {
        bytes.fill(0, at, at + port.size);
        bytes[at] = word >>> 31;
      }
    }
  }
}

/** Whether what the device wrote is what WebAssembly wrote: integers to the bit, floats within a part of the largest. */
function agrees(got, want, element) {
  if (!CLOSE[element]) {
    const [a, b] = [new Uint8Array(got), new Uint8Array(want)];
    return a.every((byte, k) => byte === b[k]);
  }
  const [a, b] = [got, want].map((data) =>
    element === 'f32' ? new Float32Array(data) : Array.from(new Uint16Array(data), half),
  );
  const room = CLOSE[element] * b.reduce((top, x) => (Number.isFinite(x) ? Math.max(top, Math.abs(x)) : top), 1);
  return a.every((x, k) => (Number.isFinite(b[k]) ? Math.abs(x - b[k]) <= room : Object.is(x, b[k]) || x === b[k]));
}
