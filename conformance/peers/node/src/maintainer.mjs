// Adding anchors and spans to a stream (sections 11.3 and 11.12). The whole state is held in memory.
import { randomUUID } from 'node:crypto';
import { createRecord } from './commit.mjs';
import { Consumer } from './consumer.mjs';
import { writeParts } from './encoder.mjs';
import { envelope } from './envelope.mjs';
import { isCode } from './errors.mjs';
import { jsonBytes } from './json.mjs';
import { anchorKey, dataFolder, spanKey } from './keys.mjs';
import { parseRecord, partsBytes } from './records.mjs';
import { storeFile, writeSnapshot } from './snapshot-writer.mjs';
import { together } from './store.mjs';

/** @typedef {import('./reader.mjs').StreamReader} StreamReader */
/** @typedef {import('./signatures.mjs').Signer} Signer */
/** @typedef {import('./state.mjs').Held} Held */

/** @param {StreamReader} reader @param {number} version @returns {Promise<Held>} */
async function stateOf(reader, version) {
  const consumer = new Consumer(reader.store, { publicKeys: reader.publicKeys });
  await consumer.update(version);
  return /** @type {Held} */ (consumer.held);
}

/** @param {StreamReader} reader @param {string[]} keys */
async function remove(reader, keys) {
  for (const key of keys) await reader.store.delete(key);
}

/**
 * Creates the record of an anchor or a span, and looks after what it names (section 11.12, steps 6 and 7).
 * @param {StreamReader} reader
 * @param {string} key
 * @param {any} record
 * @param {string[]} stored keys of what was written for it
 * @param {number[]} versions that must be retained
 * @param {Signer | null} signer
 * @returns {Promise<boolean>} whether it is there now
 */
async function create(reader, key, record, stored, versions, signer) {
  const bytes = signer ? signer.sign(record) : jsonBytes(record);
  parseRecord(record.kind, bytes, reader.limits);
  const { ours } = await createRecord(reader.store, key, bytes, record.commit_id, reader.limits);
  if (!ours) {
    await remove(reader, stored);
    return false;
  }
  const retention = await reader.retention();
  const there = await Promise.all(
    [...stored, record.tensors.key].map((one) =>
      reader.store.head(one).then(
        () => true,
        (error) => {
          if (isCode(error, 'object_not_found')) return false;
          throw error;
        },
      ),
    ),
  );
  if (there.every(Boolean) && versions.every((version) => retention.has(version))) return true;
  await remove(reader, [key, ...stored]); // MNT-3
  return false;
}

/**
 * Adds an anchor of a version.
 * @param {StreamReader} reader
 * @param {number} version
 * @param {Signer | null} [signer]
 * @returns {Promise<boolean>}
 */
export async function addAnchor(reader, version, signer = null) {
  const { store, stream } = reader;
  const held = await stateOf(reader, version);
  const { record } = held.read;
  const commitId = randomUUID();
  const folder = dataFolder(version, commitId);
  const { shards, index, files } = await together(store, async (to) => {
    const written = await writeSnapshot(to, folder, held.table, held.tensors);
    const list = [];
    for (const [name, { bytes }] of held.files) list.push(await storeFile(to, folder + name, name, bytes));
    return { ...written, files: list };
  });
  const anchor = {
    ...envelope('anchor', stream, commitId, record.epoch),
    version,
    version_digest: held.read.digest,
    tensors: record.tensors,
    state_digest: record.state_digest,
    snapshot: { shards, index, files: files.length > 0 ? files : undefined },
  };
  const stored = [...shards, index, ...files].map(({ key }) => key);
  return create(reader, anchorKey(version), anchor, stored, [version], signer);
}

/**
 * Adds a span, unless it leads over a rebase (SPN-2) or would be larger than what it replaces (SPN-3, MNT-2).
 * @param {StreamReader} reader
 * @param {number} base
 * @param {number} target
 * @param {Signer | null} [signer]
 * @returns {Promise<boolean>}
 */
export async function addSpan(reader, base, target, signer = null) {
  const { store, stream } = reader;
  let replaces = 0;
  for (let version = base + 1; version <= target; version += 1) {
    const { record } = await reader.version(version);
    if (!record.delta) return false;
    replaces += partsBytes(record.delta);
  }
  const from = await stateOf(reader, base);
  const to = await stateOf(reader, target);
  const commitId = randomUUID();
  const folder = dataFolder(target, commitId);
  const { delta } = await together(store, (writer) =>
    writeParts(writer, folder, from.table, from.tensors, to.tensors, stream),
  );
  const stored = delta.parts.map((/** @type {any} */ part) => part.key);
  if (partsBytes(delta) > replaces) {
    await remove(reader, stored);
    return false;
  }
  const { record } = to.read;
  const span = {
    ...envelope('span', stream, commitId, record.epoch),
    base,
    base_digest: from.read.digest,
    version: target,
    version_digest: to.read.digest,
    tensors: record.tensors,
    state_digest: record.state_digest,
    delta,
    replaces_bytes: replaces,
  };
  return create(reader, spanKey(base, target), span, stored, [base, target], signer);
}

/**
 * One pass: an anchor of the newest version if it has no snapshot, and a ladder of spans of 2, 4, 8 … versions.
 * @param {StreamReader} reader
 * @param {Signer | null} [signer]
 * @returns {Promise<{anchors: number[], spans: [number, number][]}>} what it added
 */
export async function build(reader, signer = null) {
  const { version: newest, retention } = await reader.newest(null);
  /** @type {{anchors: number[], spans: [number, number][]}} */
  const added = { anchors: [], spans: [] };
  const anchors = new Set(await reader.numbers('anchors/'));
  const { record } = await reader.version(newest);
  if (!record.snapshot && !anchors.has(newest) && (await addAnchor(reader, newest, signer))) added.anchors.push(newest);
  const spans = await reader.spans();
  for (let stride = 2; stride <= newest; stride *= 2) {
    for (let base = 0; base + stride <= newest; base += stride) {
      const target = base + stride;
      if (!retention.has(base) || base < retention.boundary || (spans.get(target) ?? []).includes(base)) continue;
      if (await addSpan(reader, base, target, signer)) added.spans.push([base, target]);
    }
  }
  return added;
}
