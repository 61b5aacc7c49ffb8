// From two states to the parts of a delta (section 11.2, PUB-2 to PUB-4).
import { BoxMap } from './boxes.mjs';
import { CODEC_STREAMS, digestCovered, encodeRow } from './codecs.mjs';
import { storageShape } from './dtypes.mjs';
import { newPatterns, patterns } from './patterns.mjs';
import { encodeRanked } from './ranked.mjs';
import { PART_TYPE } from './records.mjs';
import { sha256Of } from './reader.mjs';
import { writeArrowFile } from './arrow-writer.mjs';
import { formatHex, u64Add } from './u64.mjs';
import { compress } from './zstd.mjs';

/** @typedef {import('./table.mjs').TensorEntry} TensorEntry */
/** @typedef {import('./part.mjs').Row} Row */
/** @typedef {{reader_features: string[], writer_features: string[]}} Features of stream.json */

/** Boxes are small enough that no batch comes to more than 16 MiB, so that LIM-2 never refuses one (LIM-4). */
const BOX_BYTES = 4 * 1024 * 1024;
const BATCH_BYTES = 4 * 1024 * 1024;
const PART_BYTES = 64 * 1024 * 1024;
/** `dense` is tried where more than one element in this many changed. */
const DENSE_FROM = 8;

/**
 * Cuts a tensor into boxes that each lie in one run.
 * @param {number[]} shape storage shape
 * @param {number} most elements of a box
 * @returns {Generator<{start: number[], extent: number[]}>}
 */
export function* cutBoxes(shape, most) {
  const elements = shape.reduce((a, b) => a * b, 1);
  if (elements === 0) return;
  if (elements <= most) {
    yield { start: shape.map(() => 0), extent: shape };
    return;
  }
  const [first, ...rest] = shape;
  const slab = elements / first;
  const rows = Math.floor(most / slab);
  for (let at = 0; at < first; at += Math.max(1, rows)) {
    if (rows >= 1) yield { start: [at, ...rest.map(() => 0)], extent: [Math.min(rows, first - at), ...rest] };
    else for (const { start, extent } of cutBoxes(rest, most)) yield { start: [at, ...start], extent: [1, ...extent] };
  }
}

/** @param {Record<string, Uint8Array>} streams */
const storedSize = (streams) => Object.values(streams).reduce((sum, stream) => sum + compress(stream, 1).length, 0);

/**
 * The codec of a row, unless `dense` is smaller (PUB-3).
 * @param {Features} features
 * @param {import('./dtypes.mjs').Dtype} dtype
 */
function chooseCodec({ reader_features: reader, writer_features: writer }, dtype) {
  if (writer.includes('absolute')) return 'gap-set';
  return reader.includes('ranked') && dtype.float ? 'ranked' : 'gap';
}

/**
 * The rows of one tensor.
 * @param {number} ordinal
 * @param {TensorEntry} entry
 * @param {Uint8Array} oldBytes
 * @param {Uint8Array} newBytes
 * @param {Features} features COD-2, COD-4
 * @returns {Generator<Row>}
 */
export function* encodeTensor(ordinal, entry, oldBytes, newBytes, features) {
  const { dtype, seed } = entry;
  const shape = storageShape(dtype, entry.shape);
  const [olds, news] = [patterns(oldBytes, dtype.width), patterns(newBytes, dtype.width)];
  for (const { start, extent } of cutBoxes(shape, BOX_BYTES / dtype.width)) {
    const map = new BoxMap(start, extent, shape);
    const base = map.flat(0);
    const elements = extent.reduce((a, b) => a * b, 1);
    const [from, to] = [base * dtype.width, (base + elements) * dtype.width];
    if (Buffer.compare(oldBytes.subarray(from, to), newBytes.subarray(from, to)) === 0) continue; // DLT-2
    const all = news.slice(base, base + elements);
    const found = new Uint32Array(elements);
    let changed = 0;
    for (let i = 0; i < elements; i += 1) {
      if (olds[base + i] !== all[i]) {
        found[changed] = i;
        changed += 1;
      }
    }
    const positions = found.slice(0, changed);
    const [before, after] = [newPatterns(changed, dtype.width), newPatterns(changed, dtype.width)];
    for (let i = 0; i < changed; i += 1) {
      before[i] = olds[base + positions[i]];
      after[i] = all[positions[i]];
    }
    let codec = chooseCodec(features, dtype);
    let streams =
      codec === 'ranked'
        ? encodeRanked(positions, olds.subarray(base, base + elements), all)
        : encodeRow(codec, dtype, positions, before, after);
    if (changed * DENSE_FROM > elements) {
      const dense = encodeRow('dense', dtype, positions, before, all);
      if (storedSize(dense) < storedSize(streams)) [codec, streams] = ['dense', dense];
    }
    const whole = codec === 'dense';
    yield {
      tensor: ordinal,
      start,
      extent,
      elements,
      codec,
      changed,
      before: digestCovered(seed, map, whole ? null : positions, whole ? olds.slice(base, base + elements) : before),
      after: digestCovered(seed, map, whole ? null : positions, whole ? all : after),
      streams,
    };
  }
}

/** @param {Row} row */
const rowBytes = (row) => Object.values(row.streams).reduce((sum, stream) => sum + stream.length, 0);

/** Gathers rows into batches and parts (PRT-7). */
export class PartBuilder {
  constructor() {
    /** @type {Row[][]} */
    this.batches = [];
    this.batchBytes = 0;
    this.partBytes = 0;
  }

  /** @param {Row} row @returns {boolean} whether the part is full */
  add(row) {
    if (this.batches.length === 0 || this.batchBytes >= BATCH_BYTES) {
      this.batches.push([]);
      this.batchBytes = 0;
    }
    this.batches[this.batches.length - 1].push(row);
    this.batchBytes += rowBytes(row);
    this.partBytes += rowBytes(row);
    return this.partBytes >= PART_BYTES;
  }

  get empty() {
    return this.batches.length === 0;
  }

  /**
   * The part as a file, and its descriptor under a key. The builder is empty afterwards.
   * @param {string} key
   */
  finish(key) {
    const used = new Set(this.batches.flat().flatMap((row) => Object.keys(row.streams)));
    const order = Object.values(CODEC_STREAMS).flatMap((names) => names(8));
    const streams = [...new Set(order)].filter((name) => used.has(name));
    /** @type {import('./arrow-writer.mjs').Column[]} */
    const columns = [
      { name: 'tensor', type: 'uint32' },
      { name: 'box_start', type: 'list' },
      { name: 'box_shape', type: 'list' },
      { name: 'codec', type: 'utf8' },
      { name: 'changed', type: 'uint64' },
      { name: 'digest_before', type: 'uint64' },
      { name: 'digest_after', type: 'uint64' },
      ...streams.map((name) => /** @type {const} */ ({ name, type: 'largeBinary' })),
    ];
    const values = this.batches.map((rows) => [
      rows.map((row) => row.tensor),
      rows.map((row) => row.start),
      rows.map((row) => row.extent),
      rows.map((row) => row.codec),
      rows.map((row) => row.changed),
      rows.map((row) => row.before),
      rows.map((row) => row.after),
      ...streams.map((name) => rows.map((row) => row.streams[name] ?? new Uint8Array(0))),
    ]);
    const file = writeArrowFile(columns, values);
    const batches = file.batches.map(({ offset, bytes, decoded }, i) => ({
      offset,
      bytes,
      digest: sha256Of(file.bytes.subarray(offset, offset + bytes)),
      decoded_bytes: decoded,
      rows: this.batches[i].length,
      first_tensor: this.batches[i].reduce((low, row) => Math.min(low, row.tensor), Infinity),
      last_tensor: this.batches[i].reduce((high, row) => Math.max(high, row.tensor), 0),
    }));
    [this.batches, this.batchBytes, this.partBytes] = [[], 0, 0];
    const descriptor = {
      key,
      media_type: PART_TYPE,
      bytes: file.bytes.length,
      digest: sha256Of(file.bytes),
      streams,
      batches,
    };
    return { bytes: file.bytes, descriptor };
  }
}

/**
 * Encodes what differs between two states and stores it (PUB-2 to PUB-4).
 * @param {import('./store.mjs').Writer} store
 * @param {string} folder the data folder
 * @param {import('./table.mjs').TensorTable} table
 * @param {Map<number, Uint8Array>} olds
 * @param {Map<number, Uint8Array>} news
 * @param {Features} features
 * @returns {Promise<{delta: any, rows: Row[]}>}
 */
export async function writeParts(store, folder, table, olds, news, features) {
  const builder = new PartBuilder();
  const delta = {
    changed_elements: 0,
    changed_tensors: 0,
    digest_before: '',
    digest_after: '',
    parts: /** @type {any[]} */ ([]),
  };
  let [before, after] = [0n, 0n];
  /** @type {Row[]} */
  const rows = [];
  const flush = async () => {
    const { bytes, descriptor } = builder.finish(`${folder}part-${String(delta.parts.length).padStart(5, '0')}.arrow`);
    await store.putStream(descriptor.key, [bytes]);
    delta.parts.push(descriptor);
  };
  for (const [ordinal, entry] of table.tensors.entries()) {
    const [old, now] = [olds, news].map((tensors) => /** @type {Uint8Array} */ (tensors.get(ordinal)));
    const changes = [...encodeTensor(ordinal, entry, old, now, features)];
    if (changes.length > 0) delta.changed_tensors += 1;
    for (const row of changes) {
      rows.push(row);
      delta.changed_elements += row.changed;
      before = u64Add(before, row.before);
      after = u64Add(after, row.after);
      if (builder.add(row)) await flush();
    }
  }
  if (!builder.empty) await flush();
  delta.digest_before = formatHex(before);
  delta.digest_after = formatHex(after);
  return { delta, rows };
}
