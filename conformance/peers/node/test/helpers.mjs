// What tests share: stores in temporary folders, and the example stream of SPEC.md.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { FileStore } from '../src/store-file.mjs';
import { examples, hexBlock } from './spec.mjs';

/** @param {string} code */
export const code = (code) => (/** @type {any} */ error) => {
  if (error.code !== code) throw error;
  return true;
};

/** A folder that is removed after the test. @param {import('node:test').TestContext} t */
export async function folder(t) {
  const path = await mkdtemp(join(tmpdir(), 'deltawire-node-'));
  t.after(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** Writes an object past the store's checks. @param {string} root @param {string} key @param {Uint8Array} bytes */
export async function put(root, key, bytes) {
  const path = join(root, key);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, bytes);
}

/** The example stream: version 0 with a snapshot, version 1 with a delta. @param {import('node:test').TestContext} t */
export async function exampleStream(t) {
  const root = await folder(t);
  const [zero, one] = examples('version');
  const records = [zero, one].map((bytes) => JSON.parse(bytes.toString()));
  await put(root, 'stream.json', examples('stream')[0]);
  await put(root, 'versions/00000000000000000000.json', zero);
  await put(root, 'versions/00000000000000000001.json', one);
  await put(root, 'head.json', examples('head')[0]);
  await put(root, records[0].tensors.key, examples('tensor_table')[0]);
  await put(root, records[0].snapshot.shards[0].key, hexBlock('shard'));
  await put(root, records[0].files[0].key, Buffer.from('{}\n'));
  await put(root, records[1].delta.parts[0].key, hexBlock('part'));
  return { root, store: new FileStore(root), records };
}
