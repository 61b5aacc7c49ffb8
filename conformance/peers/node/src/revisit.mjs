// Rollbacks and forks (sections 11.10 and 11.11): both publish the state of an earlier version again.
import { randomUUID } from 'node:crypto';
import { createRecord } from './commit.mjs';
import { Consumer } from './consumer.mjs';
import { envelope } from './envelope.mjs';
import { fail, isCode } from './errors.mjs';
import { dataFolder, versionKey } from './keys.mjs';
import { makeLimits } from './limits.mjs';
import {
  featuresOf,
  hasVersions,
  openForWriting,
  probe,
  Producer,
  recordBytes,
  refuseBoth,
  refuseUnknownFeatures,
  requireSigner,
} from './producer.mjs';
import { readObject, sha256Of, StreamReader } from './reader.mjs';
import { parseRecord } from './records.mjs';
import { checkPublicKeys, checkSignature } from './signatures.mjs';
import { together } from './store.mjs';

/** @typedef {import('./store.mjs').Store} Store */
/** @typedef {import('./producer.mjs').ProducerOptions} ProducerOptions */
/** @typedef {import('./state.mjs').Held} Held */

/**
 * The whole state of a version, with all checks (RBK-2).
 * @param {Store} store
 * @param {number} version
 * @param {string[] | null} publicKeys
 */
async function stateOf(store, version, publicKeys) {
  const consumer = new Consumer(store, { publicKeys });
  await consumer.update(version);
  consumer.verify();
  return /** @type {Held} */ (consumer.held);
}

/** What `publish` takes, from what is held. @param {Held} held */
const stateFrom = ({ table, tensors, files, read }) => ({
  tensors: table.tensors.map(({ name, dtype, shape }, i) => ({
    name,
    dtype: dtype.name,
    shape,
    bytes: /** @type {Uint8Array} */ (tensors.get(i)),
  })),
  aliases: table.aliases,
  files: new Map([...files].map(([name, { bytes }]) => [name, bytes])),
  metadata: read.record.metadata,
});

/**
 * Publishes the state of an earlier version as the next one.
 * @param {Store} store
 * @param {number} version
 * @param {ProducerOptions} options
 */
export async function rollback(store, version, options) {
  const reader = await openForWriting(store, options, makeLimits()); // SIG-9 comes before SIG-5
  const held = await stateOf(store, version, reader.publicKeys);
  const producer = await Producer.open(store, options);
  try {
    return await producer.publish({ ...stateFrom(held), rollbackOf: { version, digest: held.read.digest } });
  } finally {
    await producer.close();
  }
}

/**
 * FRK-3: the record of a fork of this origin that was interrupted, or null if nothing is there.
 * @param {Store} store
 * @param {any} origin
 * @param {ProducerOptions['signer']} signer
 * @param {import('./limits.mjs').Limits} limits
 */
async function interrupted(store, origin, signer, limits) {
  const versions = await hasVersions(store);
  const found = await readObject(store, 'stream', 'stream.json', limits).catch((error) => {
    if (isCode(error, 'object_not_found')) return null;
    throw error;
  });
  const same = found?.record.origin?.stream_id === origin.stream_id && found?.record.origin?.digest === origin.digest;
  if (versions || (found && !same)) fail('invalid_argument', 'something else is at the destination (FRK-3)');
  if (!found) return null;
  refuseUnknownFeatures(found.record);
  requireSigner(found.record, signer);
  if (signer) checkSignature(found.record, found.bytes, [[signer.publicKey]]);
  return found.record;
}

/**
 * Makes a stream whose version 0 is a version of another one.
 * @param {Store} source
 * @param {number} version
 * @param {Store} store
 * @param {ProducerOptions} options public keys are those to believe of the source (SIG-10)
 * @returns {Promise<{stateDigest: string}>}
 */
export async function fork(source, version, store, options) {
  const limits = makeLimits();
  const { signer = null } = options;
  const from = await StreamReader.open(source, limits, checkPublicKeys(options.publicKeys ?? null));
  refuseUnknownFeatures(from.stream);
  refuseBoth(options);
  if (options.ranked && !from.stream.reader_features.includes('ranked'))
    fail('invalid_argument', 'the source is not ranked, and only `absolute` may be added (section 11.11, step 3)');
  const held = await stateOf(source, version, from.publicKeys);
  const origin = {
    stream_id: held.streamId,
    version,
    digest: held.read.digest,
    state_digest: held.read.record.state_digest,
  };
  const old = await interrupted(store, origin, signer, limits);
  if (!old) await probe(store, options.singleWriter);
  const streamCommit = randomUUID();
  const stream = old ?? {
    ...envelope('stream', { stream_id: randomUUID(), ...featuresOf(options, from.stream) }, streamCommit, 0),
    writers: options.singleWriter ? 'single' : 'many',
    origin,
    signing_keys: signer ? [signer.publicKey] : undefined,
  };
  const streamBytes = recordBytes(stream, signer);
  const reader = new StreamReader(store, limits, signer ? [signer.publicKey] : null, stream);
  const producer = new Producer(reader, options, null);
  const commitId = randomUUID();
  const body = await together(store, (to) =>
    producer.writeRebase(to, held.table, held.tensors, dataFolder(0, commitId), held.files),
  );
  const record = {
    ...envelope('version', stream, commitId, 0, held.read.record.metadata),
    version: 0,
    ...body.members,
  };
  const bytes = recordBytes(record, signer);
  const read = { record: parseRecord('version', bytes, limits), bytes, digest: sha256Of(bytes) };
  if (read.record.state_digest !== origin.state_digest) fail('state_mismatch', 'the fork is not its origin (FRK-1)');
  if (!old) {
    parseRecord('stream', streamBytes, limits);
    const { ours } = await createRecord(store, 'stream.json', streamBytes, streamCommit, limits);
    if (!ours) fail('conflict', 'another stream was created here (FRK-5)');
  }
  const { ours } = await createRecord(store, versionKey(0), bytes, commitId, limits);
  if (!ours) fail('conflict', 'another writer made version 0 (FRK-6)');
  producer.anchor = 0;
  await producer.writeHead(0);
  return { stateDigest: origin.state_digest };
}
