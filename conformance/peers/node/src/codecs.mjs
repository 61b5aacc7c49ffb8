// Codecs (section 9): streams of bytes from and to positions and bit patterns.
import { DigestSum } from './digest.mjs';
import { fail } from './errors.mjs';
import { newPatterns, patterns } from './patterns.mjs';
import { decodeRanked } from './ranked.mjs';

/** @typedef {import('./dtypes.mjs').Dtype} Dtype */
/** @typedef {import('./patterns.mjs').Patterns} Patterns */
/** @typedef {Record<string, Uint8Array>} Streams */

/** @param {string} kind @param {number} width */
const planes = (kind, width) => Array.from({ length: width }, (_, i) => `${kind}_${i}`);

/** Names of the streams of a codec for a width (section 16.1). @type {Record<string, (width: number) => string[]>} */
export const CODEC_STREAMS = {
  gap: (width) => ['positions', 'signs', ...planes('diff', width)],
  'gap-set': (width) => ['positions', ...planes('value', width)],
  dense: (width) => planes('value', width),
  ranked: () => ['classes', 'items'],
};

/** GAP-1. @param {ArrayLike<number>} positions @returns {Uint8Array} */
export function encodePositions(positions) {
  let length = 0;
  let next = 0;
  for (let i = 0; i < positions.length; i += 1) {
    length += Math.floor((positions[i] - next) / 255) + 1;
    next = positions[i] + 1;
  }
  const out = new Uint8Array(length);
  let at = 0;
  next = 0;
  for (let i = 0; i < positions.length; i += 1) {
    const gap = positions[i] - next;
    const escapes = Math.floor(gap / 255);
    out.fill(255, at, at + escapes);
    at += escapes;
    out[at] = gap - 255 * escapes;
    at += 1;
    next = positions[i] + 1;
  }
  return out;
}

/** GAP-2. @param {Uint8Array} stream @param {number} changed @param {number} elements @returns {Uint32Array} */
export function decodePositions(stream, changed, elements) {
  if (stream.length < changed || stream.length > changed + Math.floor(elements / 255)) {
    fail('malformed_row', 'positions of a length that cannot be (GAP-2)');
  }
  const out = new Uint32Array(changed);
  let count = 0;
  let next = 0;
  for (let i = 0; i < stream.length; i += 1) {
    const byte = stream[i];
    next += byte;
    if (byte === 255) continue;
    if (next >= elements || count === changed) fail('malformed_row', 'a position past the box, or too many (GAP-2)');
    out[count] = next;
    count += 1;
    next += 1;
  }
  if (count !== changed || stream[stream.length - 1] === 255) fail('malformed_row', 'positions end early (GAP-2)');
  return out;
}

/** Byte planes of patterns. @param {Patterns} values @param {number} width @param {string} kind @returns {Streams} */
function splitPlanes(values, width, kind) {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  /** @type {Streams} */
  const out = {};
  for (let plane = 0; plane < width; plane += 1) {
    const stream = new Uint8Array(values.length);
    for (let i = 0, at = plane; i < stream.length; i += 1, at += width) stream[i] = bytes[at];
    out[`${kind}_${plane}`] = stream;
  }
  return out;
}

/**
 * Patterns from their byte planes.
 * @param {Streams} streams
 * @param {string} kind
 * @param {number} count
 * @param {number} width
 */
function joinPlanes(streams, kind, count, width) {
  const bytes = new Uint8Array(count * width);
  for (let plane = 0; plane < width; plane += 1) {
    const stream = streams[`${kind}_${plane}`];
    for (let i = 0, at = plane; i < count; i += 1, at += width) bytes[at] = stream[i];
  }
  return patterns(bytes, width);
}

/**
 * Ordered values are handled as their two's complement: for the order `float` a pattern with the sign bit has its
 * other bits inverted, and so back (section 9.2).
 * @param {Dtype} dtype
 */
function narrowOrder(dtype) {
  const half = 2 ** (8 * dtype.width - 1);
  const rest = half - 1;
  return dtype.float
    ? (/** @type {number} */ bits) => (bits < half ? bits : (bits ^ rest) >>> 0)
    : (/** @type {number} */ bits) => bits;
}

/** @param {Dtype} dtype @param {bigint} bits */
const wideOrder = (dtype, bits) => (dtype.float && bits >> 63n ? bits ^ 0x7fffffffffffffffn : bits);

/** @param {Dtype} dtype @param {bigint | number} bits @returns {bigint} the ordered value of a pattern (section 9.2) */
export function orderedValue(dtype, bits) {
  if (dtype.width === 8) return BigInt.asIntN(64, wideOrder(dtype, BigInt(bits)));
  return BigInt.asIntN(8 * dtype.width, BigInt(narrowOrder(dtype)(Number(bits))));
}

/** VAL-1, VAL-2. @param {Dtype} dtype @param {Patterns} before @param {Patterns} after @returns {Streams} */
export function encodeDifferences(dtype, before, after) {
  const count = before.length;
  const signs = new Uint8Array((count + 7) >> 3);
  const magnitudes = newPatterns(count, dtype.width);
  if (dtype.width === 8) {
    for (let i = 0; i < count; i += 1) {
      const old = wideOrder(dtype, /** @type {bigint} */ (before[i]));
      const d = BigInt.asIntN(64, wideOrder(dtype, /** @type {bigint} */ (after[i])) - old);
      if (d < 0n) signs[i >> 3] |= 1 << (i & 7);
      magnitudes[i] = (d < 0n ? -d : d) - 1n;
    }
  } else {
    const order = narrowOrder(dtype);
    const modulus = 2 ** (8 * dtype.width);
    for (let i = 0; i < count; i += 1) {
      let d = order(Number(after[i])) - order(Number(before[i]));
      if (d < 0) d += modulus;
      if (d >= modulus / 2) {
        d = modulus - d;
        signs[i >> 3] |= 1 << (i & 7);
      }
      magnitudes[i] = d - 1;
    }
  }
  return { signs, ...splitPlanes(magnitudes, dtype.width, 'diff') };
}

/** VAL-1 to VAL-3. @param {Dtype} dtype @param {Streams} streams @param {Patterns} before @returns {Patterns} */
export function decodeDifferences(dtype, streams, before) {
  const count = before.length;
  const { signs } = streams;
  if (count % 8 !== 0 && signs[signs.length - 1] >> (count % 8) !== 0) {
    fail('malformed_row', 'sign bits left over are not 0 (VAL-1)');
  }
  const out = joinPlanes(streams, 'diff', count, dtype.width);
  const refuse = () => fail('malformed_row', 'a difference out of range (VAL-3)');
  if (dtype.width === 8) {
    const half = 1n << 63n;
    for (let i = 0; i < count; i += 1) {
      const negative = (signs[i >> 3] >> (i & 7)) & 1;
      const magnitude = /** @type {bigint} */ (out[i]) + 1n;
      if (negative ? magnitude > half : magnitude >= half) refuse();
      const old = wideOrder(dtype, /** @type {bigint} */ (before[i]));
      out[i] = wideOrder(dtype, BigInt.asUintN(64, negative ? old - magnitude : old + magnitude));
    }
    return out;
  }
  const order = narrowOrder(dtype);
  const modulus = 2 ** (8 * dtype.width);
  for (let i = 0; i < count; i += 1) {
    const negative = (signs[i >> 3] >> (i & 7)) & 1;
    const magnitude = Number(out[i]) + 1;
    if (negative ? magnitude > modulus / 2 : magnitude >= modulus / 2) refuse();
    let next = order(Number(before[i])) + (negative ? -magnitude : magnitude);
    if (next < 0) next += modulus;
    else if (next >= modulus) next -= modulus;
    out[i] = order(next);
  }
  return out;
}

/**
 * Streams of one row, but for `ranked`, which ranked.mjs has.
 * @param {string} codec
 * @param {Dtype} dtype
 * @param {ArrayLike<number>} positions of the elements that differ; not used by `dense`
 * @param {Patterns} before at these positions
 * @param {Patterns} after at these positions; for `dense` every element of the box
 * @returns {Streams}
 */
export function encodeRow(codec, dtype, positions, before, after) {
  if (codec === 'dense') return splitPlanes(after, dtype.width, 'value');
  const streams = { positions: encodePositions(positions) };
  if (codec === 'gap') return { ...streams, ...encodeDifferences(dtype, before, after) };
  return { ...streams, ...splitPlanes(after, dtype.width, 'value') };
}

/**
 * ROW-3 and the lengths of COD-3, VAL-1, VAL-2 and DEN-1, before room for anything is made (LIM-3). Those of the
 * streams of positions and of `ranked` show when they are read.
 * @param {string} codec
 * @param {Dtype} dtype
 * @param {number} changed
 * @param {number} elements
 * @param {Streams} streams those of the row that are not empty; a needed one that is empty is put there
 * @param {Set<string>} inPart names of all streams of the part
 */
export function checkStreams(codec, dtype, changed, elements, streams, inPart) {
  const needed = CODEC_STREAMS[codec](dtype.width);
  for (const name of needed) {
    if (!inPart.has(name)) fail('malformed_row', `stream ${name} is missing (ROW-3)`);
    streams[name] ??= new Uint8Array(0);
    if (name === 'positions' || codec === 'ranked') continue;
    const length = name === 'signs' ? Math.ceil(changed / 8) : codec === 'dense' ? elements : changed;
    if (streams[name].length !== length) fail('malformed_row', `stream ${name} has another length (COD-3)`);
  }
  for (const name of Object.keys(streams)) {
    if (!needed.includes(name) && streams[name].length !== 0)
      fail('malformed_row', `stream ${name} is not empty (ROW-3)`);
  }
}

/**
 * @typedef {object} Decoded
 * @property {Uint32Array | null} positions covered positions; null for all
 * @property {Patterns} before old bits of the covered elements
 * @property {Patterns} after new bits of the covered elements
 */

/**
 * Decodes a row whose streams passed checkStreams.
 * @param {string} codec
 * @param {Dtype} dtype
 * @param {number} changed
 * @param {number} elements
 * @param {Streams} streams
 * @param {import('./boxes.mjs').BoxMap} map
 * @param {Patterns} held the tensor's old bits
 * @returns {Decoded}
 */
export function decodeRow(codec, dtype, changed, elements, streams, map, held) {
  if (codec === 'ranked') return decodeRanked(streams, changed, elements, map, held);
  const positions = codec === 'dense' ? null : decodePositions(streams.positions, changed, elements);
  const count = positions ? changed : elements;
  const before = newPatterns(count, dtype.width);
  for (let i = 0; i < count; i += 1) before[i] = held[map.flat(positions ? positions[i] : i)];
  const after =
    codec === 'gap' ? decodeDifferences(dtype, streams, before) : joinPlanes(streams, 'value', count, dtype.width);
  return { positions, before, after };
}

/**
 * The sum of the contributions of covered elements (ROW-5).
 * @param {import('./digest.mjs').Seed} seed
 * @param {import('./boxes.mjs').BoxMap} map
 * @param {ArrayLike<number> | null} positions
 * @param {Patterns} values
 */
export function digestCovered(seed, map, positions, values) {
  const sum = new DigestSum();
  if (values instanceof BigUint64Array) {
    const halves = new Uint32Array(values.buffer, values.byteOffset, 2 * values.length);
    for (let i = 0; i < values.length; i += 1) {
      sum.add(seed, map.flat(positions ? positions[i] : i), halves[2 * i + 1], halves[2 * i]);
    }
  } else {
    for (let i = 0; i < values.length; i += 1) sum.add(seed, map.flat(positions ? positions[i] : i), 0, values[i]);
  }
  return sum.value();
}
