// Writing snapshots and auxiliary files (sections 8.7, 8.8 and 11.3).
import { createHash } from 'node:crypto';
import { digestOf } from './digest.mjs';
import { isCode } from './errors.mjs';
import { jsonBytes } from './json.mjs';
import { sha256Of } from './reader.mjs';
import { SHARD_TYPE } from './records.mjs';
import { layoutOrder, writeShardHeader } from './shard.mjs';
import { formatHex, u64Add } from './u64.mjs';

/** @typedef {import('./store.mjs').Writer} Writer */
/** @typedef {import('./table.mjs').TensorTable} TensorTable */

/** A shard is closed when it has come to this size. */
const SHARD_BYTES = 1024 ** 3;
const CHUNK_BYTES = 16 * 1024 ** 2;

/**
 * Stores a small object under a key of its own; one that is there is ours (KEY-4).
 * @param {Writer} store
 * @param {string} key
 * @param {string} mediaType
 * @param {Uint8Array} bytes
 */
export async function storeOnce(store, key, mediaType, bytes) {
  await store.putCreate(key, bytes).catch((error) => {
    if (!isCode(error, 'object_exists')) throw error;
  });
  return { key, media_type: mediaType, bytes: bytes.length, digest: sha256Of(bytes) };
}

/** FIL-1. @param {string} name */
const fileType = (name) => (name.endsWith('.json') ? 'application/json' : 'application/octet-stream');

/** @param {Writer} store @param {string} key @param {string} name @param {Uint8Array} bytes */
export async function storeFile(store, key, name, bytes) {
  return { ...(await storeOnce(store, key, fileType(name), bytes)), name };
}

/** Runs of consecutive tensors of about the size of a shard. @param {TensorTable} table */
function* runs(table) {
  let first = 0;
  let bytes = 0;
  for (const [ordinal, tensor] of table.tensors.entries()) {
    bytes += tensor.bytes;
    if (bytes >= SHARD_BYTES || ordinal === table.tensors.length - 1) {
      yield { first, last: ordinal };
      first = ordinal + 1;
      bytes = 0;
    }
  }
}

/**
 * Writes the shards and the index of a snapshot.
 * @param {Writer} store
 * @param {string} folder the data folder
 * @param {TensorTable} table
 * @param {Map<number, Uint8Array>} tensors
 * @returns {Promise<{shards: any[], index: any, digest: bigint}>}
 */
export async function writeSnapshot(store, folder, table, tensors) {
  const all = [...runs(table)];
  const shards = [];
  /** @type {Record<string, string>} */
  const weightMap = Object.create(null);
  let digest = 0n;
  for (const [i, { first, last }] of all.entries()) {
    const five = (/** @type {number} */ n) => String(n).padStart(5, '0');
    const name = `model-${five(i + 1)}-of-${five(all.length)}.safetensors`;
    const order = layoutOrder(table, first, last);
    const digests = order.map((ordinal) => {
      const { seed, dtype } = table.tensors[ordinal];
      return digestOf(seed, /** @type {Uint8Array} */ (tensors.get(ordinal)), dtype.width);
    });
    for (const one of digests) digest = u64Add(digest, one);
    const header = writeShardHeader(table, order, digests.map(formatHex));
    const hash = createHash('sha256');
    let bytes = 0;
    const chunks = function* () {
      for (const whole of [header, ...order.map((ordinal) => /** @type {Uint8Array} */ (tensors.get(ordinal)))]) {
        for (let at = 0; at < whole.length; at += CHUNK_BYTES) {
          const chunk = whole.subarray(at, at + CHUNK_BYTES);
          hash.update(chunk);
          bytes += chunk.length;
          yield chunk;
        }
      }
    };
    await store.putStream(folder + name, chunks());
    shards.push({
      key: folder + name,
      media_type: SHARD_TYPE,
      bytes,
      digest: `sha256:${hash.digest('hex')}`,
      header_bytes: header.length,
      header_digest: sha256Of(header),
      first_tensor: first,
      last_tensor: last,
    });
    for (let ordinal = first; ordinal <= last; ordinal += 1) weightMap[table.tensors[ordinal].name] = name;
  }
  const index = jsonBytes({ metadata: { total_size: table.stateBytes }, weight_map: weightMap });
  const indexDescriptor = await storeOnce(store, `${folder}model.safetensors.index.json`, 'application/json', index);
  return { shards, index: indexDescriptor, digest };
}
