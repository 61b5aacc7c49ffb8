// Opening a store by its URL.
import { fileURLToPath } from 'node:url';
import { fail } from './errors.mjs';
import { FileStore } from './store-file.mjs';
import { HubStore } from './store-hub.mjs';
import { S3Store } from './store-s3.mjs';

/** @typedef {FileStore | S3Store | HubStore} Store */

/**
 * @param {string} place an absolute path, a `file://` URL, `s3://bucket/prefix`, or
 *   `hf://buckets/namespace/name/prefix`
 * @returns {Store}
 */
export function openStore(place) {
  const url = /^([a-z0-9+.-]+):\/\//i.exec(place);
  if (!url) return new FileStore(place);
  if (url[1] === 'file') return new FileStore(fileURLToPath(place));
  const hub = /^hf:\/\/buckets\/([^/]+\/[^/]+)(?:\/(.*))?$/.exec(place);
  if (hub) return new HubStore(hub[1], (hub[2] ?? '').replace(/\/+$/, ''));
  const s3 = /^s3:\/\/([^/]+)(?:\/(.*))?$/.exec(place);
  if (!s3) fail('invalid_argument', `no store of this kind: ${url[1]}`);
  return new S3Store(s3[1], (s3[2] ?? '').replace(/\/+$/, ''));
}

/** @typedef {Pick<Store, 'putCreate' | 'putStream'>} Writer */

/**
 * Stores objects of keys that nothing names yet, together where the binding can (`write_batch`, section 5.1).
 * @template T
 * @param {Store} store
 * @param {(writer: Writer) => Promise<T>} work all that it has stored is there when this returns
 * @returns {Promise<T>}
 */
export async function together(store, work) {
  if (!('openBatch' in store)) return work(store);
  const batch = store.openBatch();
  const result = await work(batch);
  await batch.finish();
  return result;
}

/**
 * Reads ranges of one object, which is looked up once where the binding looks objects up.
 * @param {Store} store
 * @param {string} key
 * @returns {(start: number, length: number) => Promise<Uint8Array>}
 */
export const rangesOf = (store, key) =>
  'ranges' in store ? store.ranges(key) : (start, length) => store.getRange(key, start, length);
