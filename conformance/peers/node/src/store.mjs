// Opening a store by its URL.
import { fileURLToPath } from 'node:url';
import { fail } from './errors.mjs';
import { FileStore } from './store-file.mjs';
import { S3Store } from './store-s3.mjs';

/** @typedef {FileStore | S3Store} Store */

/**
 * @param {string} place an absolute path, a `file://` URL, or `s3://bucket/prefix`
 * @returns {Store}
 */
export function openStore(place) {
  const url = /^([a-z0-9+.-]+):\/\//i.exec(place);
  if (!url) return new FileStore(place);
  if (url[1] === 'file') return new FileStore(fileURLToPath(place));
  const s3 = /^s3:\/\/([^/]+)(?:\/(.*))?$/.exec(place);
  if (!s3) fail('invalid_argument', `no store of this kind: ${url[1]}`);
  return new S3Store(s3[1], (s3[2] ?? '').replace(/\/+$/, ''));
}
