// A step over a snapshot (sections 8.7 and 11.6).
import { createHash } from 'node:crypto';
import { digestOf } from './digest.mjs';
import { fail } from './errors.mjs';
import { named } from './fetch.mjs';
import { sha256Of } from './reader.mjs';
import { readShardHeader } from './shard.mjs';
import { allocate } from './state.mjs';
import { rangesOf } from './store.mjs';
import { parseHex, u64Add } from './u64.mjs';

/** @typedef {import('./table.mjs').TensorTable} TensorTable */
/** @typedef {import('./store.mjs').Store} Store */

/** Bytes that one request for a shard brings. */
const FETCH_BYTES = 32 * 1024 * 1024;

/**
 * Each shard is found in the store with its size before room is made (LIM-1).
 * @param {Store} store
 * @param {any[]} shards
 * @param {TensorTable} table
 */
async function findShards(store, shards, table) {
  for (const shard of shards) {
    const size = await named(shard.key, store.head(shard.key));
    if (size !== shard.bytes) fail('size_mismatch', `${shard.key} has ${size} bytes, not ${shard.bytes}`);
    let least = 0;
    for (let i = shard.first_tensor; i <= shard.last_tensor; i += 1) least += table.tensors[i].bytes;
    if (shard.bytes < least) fail('malformed_shard', `${shard.key} is smaller than its tensors`);
  }
}

/**
 * Reads a range of a shard in pieces.
 * @param {(start: number, length: number) => Promise<Uint8Array>} read
 * @param {string} key
 * @param {number} begin
 * @param {number} end
 */
async function* pieces(read, key, begin, end) {
  for (let at = begin; at < end; at += FETCH_BYTES) {
    const length = Math.min(FETCH_BYTES, end - at);
    yield { at, bytes: await named(key, read(at, length)) };
  }
}

/**
 * Reads the wanted tensors of one shard into `tensors` (SNP-5). A shard that is read whole is held to its sha256 too.
 * @param {Store} store
 * @param {any} shard
 * @param {TensorTable} table
 * @param {Set<number>} wanted
 * @param {boolean} signed whether SIG-7 demands the whole shard
 * @param {import('./limits.mjs').Limits} limits
 * @param {Map<number, Uint8Array>} tensors
 */
async function readShard(store, shard, table, wanted, signed, limits, tensors) {
  const read = rangesOf(store, shard.key);
  const header = await named(shard.key, read(0, shard.header_bytes));
  if (sha256Of(header) !== shard.header_digest) fail('digest_mismatch', `the header of ${shard.key}`);
  const entries = readShardHeader(header, shard, table, limits.json_depth);
  const whole = signed || entries.every(({ ordinal }) => wanted.has(ordinal));
  for (const { ordinal } of entries)
    if (wanted.has(ordinal)) tensors.set(ordinal, allocate(table.tensors[ordinal].bytes));
  if (whole) {
    const hash = createHash('sha256').update(header);
    let first = 0;
    for await (const { at, bytes } of pieces(read, shard.key, shard.header_bytes, shard.bytes)) {
      hash.update(bytes);
      while (first < entries.length && entries[first].end <= at) first += 1;
      for (let i = first; i < entries.length && entries[i].begin < at + bytes.length; i += 1) {
        const { ordinal, begin, end } = entries[i];
        const from = Math.max(begin, at);
        const to = Math.min(end, at + bytes.length);
        if (to > from) tensors.get(ordinal)?.set(bytes.subarray(from - at, to - at), from - begin);
      }
    }
    if (`sha256:${hash.digest('hex')}` !== shard.digest) fail('digest_mismatch', shard.key);
  } else {
    for (const { ordinal, begin, end } of entries) {
      for await (const { at, bytes } of pieces(read, shard.key, begin, wanted.has(ordinal) ? end : begin)) {
        tensors.get(ordinal)?.set(bytes, at - begin);
      }
    }
  }
  let sum = 0n;
  for (const { ordinal, digest } of entries) {
    const bytes = tensors.get(ordinal);
    if (!bytes) continue;
    const { seed, dtype, name } = table.tensors[ordinal];
    const found = digestOf(seed, bytes, dtype.width);
    if (found !== parseHex(digest)) fail('state_mismatch', `${JSON.stringify(name)} has another digest (SNP-5)`);
    sum = u64Add(sum, found);
  }
  return sum;
}

/**
 * Loads the wanted tensors of a snapshot apart from what is held.
 * @param {Store} store
 * @param {any} snapshot
 * @param {string} stateDigest
 * @param {TensorTable} table
 * @param {Set<number>} wanted
 * @param {boolean} signed
 * @param {import('./limits.mjs').Limits} limits
 * @returns {Promise<{tensors: Map<number, Uint8Array>, digest: bigint}>}
 */
export async function loadSnapshot(store, snapshot, stateDigest, table, wanted, signed, limits) {
  const last = snapshot.shards[snapshot.shards.length - 1].last_tensor;
  if (last !== table.tensors.length - 1)
    fail('state_mismatch', 'the snapshot does not hold the tensors of the table (SNP-3)');
  const shards = snapshot.shards.filter((/** @type {any} */ shard) => {
    for (let i = shard.first_tensor; i <= shard.last_tensor; i += 1) if (wanted.has(i)) return true;
    return false;
  });
  await findShards(store, shards, table);
  /** @type {Map<number, Uint8Array>} */
  const tensors = new Map();
  let digest = 0n;
  for (const shard of shards) {
    digest = u64Add(digest, await readShard(store, shard, table, wanted, signed, limits, tensors));
  }
  if (wanted.size === table.tensors.length && digest !== parseHex(stateDigest)) {
    fail('state_mismatch', 'the snapshot has another state digest (ANC-3)');
  }
  return { tensors, digest };
}
