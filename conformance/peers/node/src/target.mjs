// What a consumer holds, kept in a folder from run to run: written anew and whole, and shown by one rename.
import { randomUUID } from 'node:crypto';
import * as fs from 'node:fs/promises';
import { join } from 'node:path';
import { DEFAULT_LIMITS } from './limits.mjs';
import { sha256Of } from './reader.mjs';
import { parseRecord } from './records.mjs';
import { TensorTable } from './table.mjs';
import { formatHex, parseHex } from './u64.mjs';

/** @typedef {import('./state.mjs').Held} Held */

const CURRENT = 'current';

/** @param {string} folder @returns {Promise<Held | null>} */
export async function loadHeld(folder) {
  let name;
  try {
    name = await fs.readFile(join(folder, CURRENT), 'utf8');
  } catch (error) {
    if (/** @type {any} */ (error).code === 'ENOENT') return null;
    throw error;
  }
  const at = join(folder, name);
  const { streamId, digest, tensors, files } = JSON.parse(await fs.readFile(join(at, 'held.json'), 'utf8'));
  const bytes = await fs.readFile(join(at, 'record.json'));
  const read = { record: parseRecord('version', bytes, DEFAULT_LIMITS), bytes, digest: sha256Of(bytes) };
  /** @type {Held} */
  const held = {
    streamId,
    read,
    table: TensorTable.parse(await fs.readFile(join(at, 'table.json')), DEFAULT_LIMITS),
    tensors: new Map(),
    files: new Map(),
    digest: parseHex(digest),
  };
  for (const ordinal of tensors)
    held.tensors.set(ordinal, Uint8Array.from(await fs.readFile(join(at, `tensor-${ordinal}`))));
  for (const name of files) {
    const file = await fs.readFile(join(at, `file-${name}`));
    held.files.set(name, { bytes: file, digest: sha256Of(file) });
  }
  return held;
}

/** @param {string} folder @param {Held} held */
export async function saveHeld(folder, held) {
  await fs.mkdir(folder, { recursive: true });
  const name = randomUUID();
  const at = join(folder, name);
  await fs.mkdir(at);
  await fs.writeFile(join(at, 'record.json'), held.read.bytes);
  await fs.writeFile(join(at, 'table.json'), held.table.toBytes());
  for (const [ordinal, bytes] of held.tensors) await fs.writeFile(join(at, `tensor-${ordinal}`), bytes);
  for (const [name, { bytes }] of held.files) await fs.writeFile(join(at, `file-${name}`), bytes);
  const { streamId, digest, tensors, files } = held;
  await fs.writeFile(
    join(at, 'held.json'),
    JSON.stringify({ streamId, digest: formatHex(digest), tensors: [...tensors.keys()], files: [...files.keys()] }),
  );
  const next = join(folder, `${name}.next`);
  await fs.writeFile(next, name);
  await fs.rename(next, join(folder, CURRENT));
  for (const entry of await fs.readdir(folder)) {
    if (entry !== CURRENT && entry !== name) await fs.rm(join(folder, entry), { recursive: true, force: true });
  }
}
