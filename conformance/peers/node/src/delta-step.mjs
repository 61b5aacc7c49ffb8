// A step over a delta or a span (section 11.6).
import { BoxMap } from './boxes.mjs';
import { decodeRow, digestCovered } from './codecs.mjs';
import { storageShape } from './dtypes.mjs';
import { DeltawireError, fail, isCode, ofCodec } from './errors.mjs';
import { fetchRanges } from './fetch.mjs';
import { readBatch } from './part.mjs';
import { patterns } from './patterns.mjs';
import { sha256Of } from './reader.mjs';
import { sumOf } from './state.mjs';
import { parseHex, u64Add, u64Sub } from './u64.mjs';

/** @typedef {import('./state.mjs').Held} Held */
/** @typedef {import('./part.mjs').Row} Row */
/** @typedef {import('./patterns.mjs').Patterns} Patterns */
/** @typedef {{row: Row, map: BoxMap, positions: Uint32Array | null, after: Patterns}} Change */

/** Bytes that one request for batches brings, if they are several. */
const FETCH_BYTES = 32 * 1024 * 1024;

/** The first number of an ascending list that is at least `low`. @param {number[]} list @param {number} low */
function firstFrom(list, low) {
  let [begin, end] = [0, list.length];
  while (begin < end) {
    const middle = (begin + end) >> 1;
    if (list[middle] < low) begin = middle + 1;
    else end = middle;
  }
  return list[begin] ?? Infinity;
}

/**
 * Batches that hold wanted tensors (FOL-5), each with all its checks (PRT-5).
 * @param {import('./store.mjs').Store} store
 * @param {any} delta
 * @param {Held} held
 * @param {boolean} whole
 * @param {import('./limits.mjs').Limits} limits
 * @returns {AsyncGenerator<Iterable<Row>>}
 */
async function* readRows(store, delta, held, whole, limits) {
  const wanted = [...held.tensors.keys()].sort((a, b) => a - b);
  const holds = (/** @type {any} */ batch) => whole || firstFrom(wanted, batch.first_tensor) <= batch.last_tensor;
  for (const part of delta.parts) {
    const batches = part.batches.filter(holds);
    let i = 0;
    for await (const bytes of fetchRanges(store, part.key, batches, FETCH_BYTES)) {
      const batch = batches[i];
      i += 1;
      if (sha256Of(bytes) !== batch.digest) fail('digest_mismatch', `a batch of ${part.key}`);
      yield readBatch(bytes, batch, part.streams, held.table, limits);
    }
  }
}

/**
 * Decodes a row against the bits held and checks its digests and count (DIG-4, DIG-5, ROW-2).
 * @param {Row} row
 * @param {Held} held
 * @returns {Change}
 */
export function decodeChange(row, held) {
  const { dtype, shape, seed, name } = held.table.tensors[row.tensor];
  const map = new BoxMap(row.start, row.extent, storageShape(dtype, shape));
  const old = patterns(/** @type {Uint8Array} */ (held.tensors.get(row.tensor)), dtype.width);
  const { positions, before, after } = decodeRow(row.codec, dtype, row.changed, row.elements, row.streams, map, old);
  if (digestCovered(seed, map, positions, before) !== row.before) {
    fail('wrong_base', `${JSON.stringify(name)} is not what the delta was made against (DIG-4)`);
  }
  if (digestCovered(seed, map, positions, after) !== row.after) {
    fail('state_mismatch', `the new bits of ${JSON.stringify(name)} have another digest (DIG-5)`);
  }
  let changed = 0;
  for (let i = 0; i < after.length; i += 1) if (after[i] !== before[i]) changed += 1;
  if (changed !== row.changed) fail('malformed_row', `${changed} elements change, not ${row.changed} (ROW-2)`);
  return { row, map, positions, after };
}

/** @param {Change} change @param {(flat: number, i: number) => void} visit */
function forEachCovered({ map, positions, after }, visit) {
  for (let i = 0; i < after.length; i += 1) visit(map.flat(positions ? positions[i] : i), i);
}

/** Either of two rows that overlap may be the wrong one (RNK-6). @param {number} wanted @param {Change[]} changes */
function overlapAt(wanted, changes) {
  const error = new DeltawireError('malformed_row', 'an element is covered twice (ROW-4)');
  for (const change of changes) {
    forEachCovered(change, (flat) => {
      if (flat === wanted) error.codecs.add(change.row.codec);
    });
  }
  return error;
}

/** ROW-4. @param {Change[]} changes @param {Held} held */
function refuseOverlaps(changes, held) {
  /** @type {Map<number, Change[]>} */
  const byTensor = new Map();
  for (const change of changes) {
    const own = byTensor.get(change.row.tensor);
    if (own) own.push(change);
    else byTensor.set(change.row.tensor, [change]);
  }
  for (const [ordinal, own] of byTensor) {
    if (own.length === 1) continue;
    const { bytes, dtype } = held.table.tensors[ordinal];
    const covered = new Uint8Array(Math.ceil(bytes / dtype.width / 8));
    for (const change of own) {
      forEachCovered(change, (flat) => {
        const at = Math.floor(flat / 8);
        const bit = 1 << (flat % 8);
        if (covered[at] & bit) throw overlapAt(flat, own);
        covered[at] |= bit;
      });
    }
  }
}

/** RNK-5: what rows of the codec `ranked` look at. */
class Looks {
  constructor() {
    /** @type {Map<number, number>} elements by ordinal */
    this.elements = new Map();
  }

  /** @param {Row} row that is about to be decoded @param {Held} held */
  add(row, held) {
    if (row.codec !== 'ranked') return;
    const { bytes, dtype } = held.table.tensors[row.tensor];
    const elements = (this.elements.get(row.tensor) ?? 0) + row.elements;
    if (elements * dtype.width > bytes) fail('malformed_row', 'boxes of more elements than the tensor (RNK-5)');
    this.elements.set(row.tensor, elements);
  }
}

/**
 * Fetches and checks a delta; nothing is written yet (APL-1). A row of `ranked` is `malformed_row` only where what is
 * held is what it should be (RNK-6).
 * @param {import('./store.mjs').Store} store
 * @param {any} delta
 * @param {string} stateDigest of the version that it leads to
 * @param {Held} held
 * @param {import('./limits.mjs').Limits} limits
 * @returns {Promise<{changes: Change[], digest: bigint}>} and the digest of what will be held
 */
export async function prepareDelta(store, delta, stateDigest, held, limits) {
  try {
    return await readDelta(store, delta, stateDigest, held, limits);
  } catch (error) {
    if (isCode(error, 'malformed_row') && /** @type {DeltawireError} */ (error).codecs.has('ranked')) {
      if (sumOf(held) !== held.digest)
        fail('wrong_base', 'the bits held are not those that they should be (RNK-6)', error);
    }
    throw error;
  }
}

/**
 * prepareDelta without RNK-6: `malformed_row` may also come of bits held that are not those of the base.
 * @param {import('./store.mjs').Store} store
 * @param {any} delta
 * @param {string} stateDigest
 * @param {Held} held
 * @param {import('./limits.mjs').Limits} limits
 */
async function readDelta(store, delta, stateDigest, held, limits) {
  const whole = held.tensors.size === held.table.tensors.length;
  /** @type {Change[]} */
  const changes = [];
  const looks = new Looks();
  const sums = { changed: 0, before: 0n, after: 0n };
  for await (const rows of readRows(store, delta, held, whole, limits)) {
    for (const row of rows) {
      if (!held.tensors.has(row.tensor)) continue;
      changes.push(
        ofCodec(row.codec, () => {
          looks.add(row, held);
          return decodeChange(row, held);
        }),
      );
      sums.changed += row.changed;
      sums.before = u64Add(sums.before, row.before);
      sums.after = u64Add(sums.after, row.after);
    }
  }
  refuseOverlaps(changes, held);
  const digest = u64Sub(u64Add(held.digest, sums.after), sums.before);
  if (whole) {
    const { changed_elements: changed, digest_before: before, digest_after: after } = delta;
    if (sums.changed !== changed || sums.before !== parseHex(before) || sums.after !== parseHex(after)) {
      fail('state_mismatch', 'the rows have other sums than the record says (DLT-3)');
    }
    if (digest !== parseHex(stateDigest)) fail('state_mismatch', 'the state has another digest (DIG-5)');
  }
  return { changes, digest };
}

/** APL-2: absolute bits. @param {Change[]} changes @param {Held} held */
export function writeChanges(changes, held) {
  for (const change of changes) {
    const { dtype } = held.table.tensors[change.row.tensor];
    const target = patterns(/** @type {Uint8Array} */ (held.tensors.get(change.row.tensor)), dtype.width);
    forEachCovered(change, (flat, i) => {
      target[flat] = change.after[i];
    });
  }
}
