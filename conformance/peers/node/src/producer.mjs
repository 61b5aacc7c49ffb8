// A producer (CNF-3): sections 11.1 and 11.2.
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { createRecord } from './commit.mjs';
import { Consumer } from './consumer.mjs';
import { writeChanges, decodeChange } from './delta-step.mjs';
import { writeParts } from './encoder.mjs';
import { envelope } from './envelope.mjs';
import { DeltawireError, fail, isCode } from './errors.mjs';
import { dataFolder, isFileName, numberInKey, versionKey } from './keys.mjs';
import { jsonBytes } from './json.mjs';
import { WriterLease } from './lease.mjs';
import { makeLimits } from './limits.mjs';
import { isStoreFailure, readObject, sha256Of, StreamReader } from './reader.mjs';
import { digestAfter, parseRecord } from './records.mjs';
import { checkSignature, writerKeys } from './signatures.mjs';
import { storeFile, storeOnce, writeSnapshot } from './snapshot-writer.mjs';
import { together } from './store.mjs';
import { TensorTable } from './table.mjs';
import { formatHex } from './u64.mjs';

/** @typedef {import('./store.mjs').Store} Store */
/** @typedef {import('./state.mjs').Held} Held */

/**
 * A state to publish.
 * @typedef {object} State
 * @property {{name: string, dtype: string, shape: number[], bytes: Uint8Array}[]} tensors
 * @property {{name: string, target: string}[]} [aliases]
 * @property {Map<string, Uint8Array>} [files] all auxiliary files
 * @property {object} [metadata]
 * @property {{version: number, digest: string}} [rollbackOf] RBK-1
 */

/**
 * @typedef {object} ProducerOptions
 * @property {boolean} [singleWriter] STR-3
 * @property {boolean} [absolute] COD-2
 * @property {boolean} [ranked] COD-4
 * @property {import('./signatures.mjs').Signer | null} [signer]
 * @property {string[] | null} [publicKeys] of others who may have signed (SIG-9)
 * @property {boolean} [takeOver] LSE-4
 * @property {number} [ttlMs]
 * @property {number} [waitMs] how long another's lease may be observed (LSE-6)
 * @property {string} [holder]
 */

const KNOWN_WRITER_FEATURES = ['absolute', 'ranked', 'signed'];
/** After these a producer has to be opened anew (OPN-5). */
const FINAL = ['conflict', 'fenced', 'outcome_unknown', 'source_changed'];

/**
 * The bytes of a record, signed in a signed stream (SIG-2).
 * @param {any} record
 * @param {ProducerOptions['signer']} signer
 */
export const recordBytes = (record, signer) => (signer ? signer.sign(record) : jsonBytes(record));

/**
 * OPN-1 and OPN-6: whether the store is fit for several writers.
 * @param {Store} store
 * @param {boolean} [singleWriter]
 */
export async function probe(store, singleWriter = false) {
  if (singleWriter) return;
  if (store.lacks.create) fail('store_unfit', 'the store lacks conditional creation (OPN-1)');
  const key = `probe/${randomUUID()}`;
  await store.putCreate(key, Buffer.from('1'));
  const kept = await store.putCreate(key, Buffer.from('2')).then(
    () => false,
    (error) => {
      if (isCode(error, 'object_exists')) return true;
      throw error;
    },
  );
  await store.delete(key).catch((error) => {
    if (!isCode(error)) throw error;
  });
  if (!kept) fail('store_unfit', 'the store ignores conditions (OPN-6)');
}

/** Whether there are records of versions, whatever else is there (KEY-5). @param {Store} store */
export async function hasVersions(store) {
  return (await store.list('versions/')).some(({ key }) => numberInKey(key, 'versions/') !== null);
}

/** The record of the stream, or null. @param {Store} store @param {import('./limits.mjs').Limits} limits */
async function readStream(store, limits) {
  try {
    return await readObject(store, 'stream', 'stream.json', limits);
  } catch (error) {
    if (isCode(error, 'object_not_found')) return null;
    throw error;
  }
}

/**
 * The features of a stream that is made with options (COD-2, COD-4).
 * @param {ProducerOptions} options
 * @param {{reader_features: string[], writer_features: string[]}} [origin] of a fork, whose features it keeps but for
 *   `signed` (SIG-10)
 */
export function featuresOf({ absolute, ranked, signer }, origin = { reader_features: [], writer_features: [] }) {
  const asked = [...(absolute ? ['absolute'] : []), ...(ranked ? ['ranked'] : [])];
  const taken = origin.writer_features.filter((feature) => feature !== 'signed');
  return {
    reader_features: [...new Set([...origin.reader_features, ...(ranked ? ['ranked'] : [])])],
    writer_features: [...new Set([...taken, ...asked, ...(signer ? ['signed'] : [])])],
  };
}

/** OPN-3: `ranked` needs a base, which `absolute` rules out (COD-2). @param {ProducerOptions} options */
export function refuseBoth({ absolute, ranked }) {
  if (absolute && ranked) fail('invalid_argument', 'a stream cannot be made both absolute and ranked (OPN-3)');
}

/**
 * OPN-2: creates `stream.json`; whoever loses the race goes on with the winner's.
 * @param {Store} store
 * @param {ProducerOptions} options
 * @param {import('./limits.mjs').Limits} limits
 */
async function createStream(store, options, limits) {
  refuseBoth(options); // before anything is created
  await probe(store, options.singleWriter);
  const commitId = randomUUID();
  const record = {
    ...envelope('stream', { stream_id: randomUUID(), ...featuresOf(options) }, commitId, 0),
    writers: options.singleWriter ? 'single' : 'many',
    signing_keys: options.signer ? [options.signer.publicKey] : undefined,
  };
  const bytes = recordBytes(record, options.signer);
  parseRecord('stream', bytes, limits);
  await createRecord(store, 'stream.json', bytes, commitId, limits);
}

/** VER-3. @param {any} record */
export function refuseUnknownFeatures(record) {
  const unknown = record.writer_features.find((/** @type {string} */ f) => !KNOWN_WRITER_FEATURES.includes(f));
  if (unknown) fail('unsupported_feature', `writer feature ${unknown} (VER-3)`);
}

/**
 * SIG-9: whether what is written can be signed, if it has to be.
 * @param {any} record of the stream
 * @param {ProducerOptions['signer']} [signer]
 */
export function requireSigner({ signing_keys: keys = [] }, signer) {
  if (keys.length > 0 ? !signer || !keys.includes(signer.publicKey) : signer) {
    fail('invalid_argument', 'the stream and the signing key do not fit (SIG-9)');
  }
}

/**
 * Reads the record of an existing stream as whoever adds versions, anchors or spans to it: VER-3, SIG-9, SIG-5.
 * @param {Store} store
 * @param {ProducerOptions} options
 * @param {import('./limits.mjs').Limits} limits
 */
export async function openForWriting(store, options, limits) {
  const publicKeys = writerKeys(options);
  const { record, bytes } =
    (await readStream(store, limits)) ?? fail('stream_not_found', 'no stream.json');
  refuseUnknownFeatures(record);
  requireSigner(record, options.signer);
  if (publicKeys) checkSignature(record, bytes, [publicKeys, record.signing_keys ?? []]);
  return new StreamReader(store, limits, publicKeys, record);
}

/**
 * OPN-1 to OPN-3.
 * @param {Store} store
 * @param {ProducerOptions} options
 * @param {import('./limits.mjs').Limits} limits
 */
async function openStream(store, options, limits) {
  if (store.lacks.create && !options.singleWriter) fail('store_unfit', 'the store lacks conditional creation (OPN-1)');
  writerKeys(options);
  let found = await readStream(store, limits);
  if (!found && (await hasVersions(store))) {
    found = (await readStream(store, limits)) ?? fail('stream_not_found', 'stream.json was lost (OPN-2)');
  }
  if (!found) {
    await createStream(store, options, limits);
    found = await readObject(store, 'stream', 'stream.json', limits);
  }
  const { record } = found;
  refuseUnknownFeatures(record);
  if (record.writers === 'many' && store.lacks.create)
    fail('store_unfit', 'several writers and no conditional creation (STR-3)');
  refuseBoth(options);
  if (options.absolute && !record.writer_features.includes('absolute'))
    fail('invalid_argument', 'the stream is not absolute (OPN-3)');
  if (options.ranked && !record.reader_features.includes('ranked'))
    fail('invalid_argument', 'the stream is not ranked (OPN-3)');
  return openForWriting(store, options, limits);
}

export class Producer {
  /** @param {StreamReader} reader @param {ProducerOptions} options @param {WriterLease | null} lease */
  constructor(reader, options, lease) {
    this.reader = reader;
    this.store = reader.store;
    this.limits = reader.limits;
    this.options = options;
    this.lease = lease;
    /** @type {Held | null} the newest version, which is the base and the parent (OPN-4) */
    this.held = null;
    /** @type {number | undefined} the newest version known to have a snapshot */
    this.anchor = undefined;
    /** @type {DeltawireError | null} why nothing may be published any more (OPN-5) */
    this.stopped = null;
  }

  /**
   * Opens a stream for writing, and creates it if there is none (section 11.1).
   * @param {Store} store
   * @param {ProducerOptions} [options]
   */
  static async open(store, options = {}) {
    const limits = makeLimits();
    const reader = await openStream(store, options, limits);
    const lease = await Producer.takeLease(reader, options);
    const producer = new Producer(reader, options, lease);
    try {
      await producer.readBase();
      return producer;
    } catch (error) {
      await producer.close();
      throw error;
    }
  }

  /** LSE-1, OPN-7. @param {StreamReader} reader @param {ProducerOptions} options */
  static async takeLease(reader, options) {
    if (reader.stream.writers === 'single' || reader.store.lacks.replace) return null;
    const lease = new WriterLease(reader, {
      holder: options.holder ?? `${hostname()} pid ${process.pid}`,
      ttlMs: options.ttlMs ?? 30000,
      waitMs: options.waitMs ?? Infinity,
      takeOver: options.takeOver ?? false,
    });
    await lease.acquire();
    return lease;
  }

  /** LSE-7, for a holder that does not publish. @param {StreamReader} reader @param {WriterLease} lease */
  static async riseAboveLine(reader, lease) {
    try {
      const { version } = await reader.newest(null);
      await lease.riseAbove((await reader.version(version)).record.epoch);
    } catch (error) {
      if (!isCode(error, 'version_not_found')) throw error;
    }
  }

  /** OPN-4, LSE-7, FRK-8. */
  async readBase() {
    const consumer = new Consumer(this.store, { publicKeys: this.reader.publicKeys });
    try {
      await consumer.update('latest');
    } catch (error) {
      if (!isCode(error, 'version_not_found')) throw error;
      const { boundary } = await this.reader.retention();
      if (boundary > 0 || (await this.reader.numbers('versions/')).length > 0) throw error;
      if (this.reader.stream.origin) fail('version_not_found', 'a fork without its version 0 (FRK-8)');
    }
    this.held = consumer.held;
    if (this.held?.read.record.snapshot) this.anchor = this.held.read.record.version;
    if (this.held) await this.lease?.riseAbove(this.held.read.record.epoch);
  }

  /** The newest version, or null. */
  get version() {
    return this.held ? this.held.read.record.version : null;
  }

  /** REC-6. */
  get epoch() {
    return this.lease ? this.lease.epoch : (this.held?.read.record.epoch ?? 0);
  }

  /**
   * Publishes a state as the next version (section 11.2).
   * @param {State} state
   * @returns {Promise<{version: number, stateDigest: string}>}
   */
  async publish(state) {
    if (this.stopped) throw this.stopped;
    try {
      return await this.publishNext(state);
    } catch (error) {
      if (isCode(error, ...FINAL)) {
        this.stopped = /** @type {DeltawireError} */ (error);
        await this.lease?.release();
      }
      throw error;
    }
  }

  /** @param {State} state */
  async publishNext(state) {
    if (this.lease?.fenced) fail('fenced', 'another producer has taken the stream over (LSE-9)');
    const { table, tensors } = this.takeState(state);
    const version = (this.version ?? -1) + 1;
    const commitId = randomUUID();
    const folder = dataFolder(version, commitId);
    const files = this.takeFiles(state);
    const follows = this.held !== null && table === this.held.table;
    const body = follows
      ? await together(this.store, (to) => this.writeDelta(to, /** @type {Held} */ (this.held), tensors, folder, files))
      : await together(this.store, (to) => this.writeRebase(to, table, tensors, folder, files));
    await this.lease?.confirm();
    const { stream } = this.reader;
    const record = {
      ...envelope('version', stream, commitId, this.epoch, state.metadata ?? {}),
      version,
      parent: this.held ? { version: version - 1, digest: this.held.read.digest } : undefined,
      ...body.members,
      rollback_of: state.rollbackOf,
    };
    const bytes = recordBytes(record, this.options.signer);
    const read = { record: parseRecord('version', bytes, this.limits), bytes, digest: sha256Of(bytes) }; // LIM-4
    await this.commit(version, read);
    this.advance(read, table, body, state, tensors, files);
    await this.writeHead(version);
    return { version, stateDigest: read.record.state_digest };
  }

  /**
   * PUB-1: the table of a state and its tensors by ordinal. The table is the parent's, if it is the same as a set.
   * @param {State} state
   */
  takeState(state) {
    const entries = state.tensors.map(({ name, dtype, shape }) => ({ name, dtype, shape }));
    let table;
    try {
      table = TensorTable.parse(Buffer.from(JSON.stringify(tableRecord(entries, state.aliases ?? []))), this.limits);
    } catch (error) {
      if (!isCode(error)) throw error;
      fail('invalid_state', /** @type {Error} */ (error).message, error);
    }
    if (this.held && table.setIdentity() === this.held.table.setIdentity()) table = this.held.table;
    /** @type {Map<number, Uint8Array>} */
    const tensors = new Map();
    for (const { name, bytes } of state.tensors) {
      const ordinal = /** @type {number} */ (table.ordinals.get(name));
      if (bytes.length !== table.tensors[ordinal].bytes)
        fail('invalid_state', `${JSON.stringify(name)} has another number of bytes`);
      tensors.set(ordinal, aligned(bytes));
    }
    return { table, tensors };
  }

  /** @param {State} state @returns {Map<string, {bytes: Uint8Array, digest: string}>} */
  takeFiles(state) {
    const files = new Map();
    for (const [name, bytes] of state.files ?? []) {
      if (!isFileName(name))
        fail('invalid_argument', `not the name of an auxiliary file: ${JSON.stringify(name)} (FIL-2)`);
      if (bytes.length > this.limits.file_bytes) fail('limit_exceeded', `${name} is larger than file_bytes`);
      files.set(name, { bytes: Uint8Array.from(bytes), digest: sha256Of(bytes) });
    }
    return files;
  }

  /**
   * A version with a snapshot (VSN-5).
   * @param {import('./store.mjs').Writer} to
   * @param {TensorTable} table
   * @param {Map<number, Uint8Array>} tensors
   * @param {string} folder
   * @param {Map<string, {bytes: Uint8Array, digest: string}>} files
   */
  async writeRebase(to, table, tensors, folder, files) {
    const copies = new Map([...tensors].map(([ordinal, bytes]) => [ordinal, Uint8Array.from(bytes)]));
    const tableDescriptor = await storeOnce(to, `${folder}tensors/table.json`, 'application/json', table.toBytes());
    const { shards, index, digest } = await writeSnapshot(to, folder, table, copies);
    const list = [];
    for (const [name, { bytes }] of files) list.push(await storeFile(to, folder + name, name, bytes));
    const listed = list.length > 0 ? list : undefined;
    const members = {
      tensors: tableDescriptor,
      state_digest: formatHex(digest),
      snapshot: { shards, index, files: listed },
      files: listed,
    };
    return { members, digest, base: copies, rows: [] };
  }

  /**
   * PUB-2 to PUB-6.
   * @param {import('./store.mjs').Writer} to
   * @param {Held} held
   * @param {Map<number, Uint8Array>} tensors
   * @param {string} folder
   * @param {Map<string, {bytes: Uint8Array, digest: string}>} files
   */
  async writeDelta(to, held, tensors, folder, files) {
    const { stream } = this.reader;
    const { delta, rows } = await writeParts(to, folder, held.table, held.tensors, tensors, stream);
    const parent = held.read.record;
    const known = new Map((parent.files ?? []).map((/** @type {any} */ file) => [file.name, file]));
    const list = [];
    for (const [name, { bytes, digest }] of files) {
      const own = known.get(name);
      list.push(own?.digest === digest ? own : await storeFile(to, `${folder}files/${name}`, name, bytes));
    }
    const digest = digestAfter(parent.state_digest, delta);
    const members = {
      tensors: parent.tensors,
      state_digest: formatHex(digest),
      delta,
      files: list.length > 0 ? list : undefined,
    };
    return { members, digest, base: null, rows };
  }

  /** CMT-12: in a store that does not arbitrate, whether the parent still is the record that we took for it. */
  async confirmParent() {
    if (!this.store.lacks.create || !this.held) return;
    const { record, digest } = this.held.read;
    const key = versionKey(record.version);
    const found = await this.store.get(key, this.limits.record_bytes).catch((error) => {
      if (isCode(error, 'object_not_found', 'limit_exceeded')) return null;
      throw error;
    });
    if (!found || sha256Of(found.bytes) !== digest) fail('conflict', `${key} was replaced by another writer (CMT-12)`);
  }

  /** PUB-7, CMT-8, CMT-11. @param {number} version @param {import('./reader.mjs').Read} read */
  async commit(version, read) {
    const { record, bytes } = read;
    await this.confirmParent();
    const outcome = await createRecord(this.store, versionKey(version), bytes, record.commit_id, this.limits);
    let retention;
    try {
      retention = await this.reader.retention();
    } catch (error) {
      if (!isCode(error)) throw error;
      fail('outcome_unknown', 'retention.json cannot be read after the commit (CMT-11)', error);
    }
    if (!retention.has(version)) fail('fenced', `version ${version} is not retained any more (CMT-11)`);
    if (outcome.ours) return;
    const { epoch } = outcome.other;
    if (Number.isSafeInteger(epoch) && epoch > record.epoch)
      fail('fenced', `version ${version} is that of a later holder (CMT-8)`);
    fail('conflict', `version ${version} is another writer's (CMT-8)`);
  }

  /**
   * PUB-8.
   * @param {import('./reader.mjs').Read} read
   * @param {TensorTable} table
   * @param {{base: Map<number, Uint8Array> | null, rows: import('./part.mjs').Row[], digest: bigint}} body
   * @param {State} state
   * @param {Map<number, Uint8Array>} tensors
   * @param {Held['files']} files
   */
  advance(read, table, body, state, tensors, files) {
    const { digest } = body;
    if (body.base) this.held = { streamId: read.record.stream_id, read, table, tensors: body.base, files, digest };
    else {
      const held = /** @type {Held} */ (this.held);
      for (const row of body.rows) writeChanges([decodeChange(row, held)], held);
      this.held = { ...held, read, files, digest };
    }
    if (read.record.snapshot) this.anchor = read.record.version;
    for (const { name, bytes } of state.tensors) {
      const own = this.held.tensors.get(/** @type {number} */ (table.ordinals.get(name)));
      if (Buffer.compare(/** @type {Uint8Array} */ (own), bytes) !== 0) {
        fail('source_changed', `${JSON.stringify(name)} was changed while it was published (PUB-8)`);
      }
    }
  }

  /** HED-3; members that are not known stay (VER-5). @param {number} version */
  async writeHead(version) {
    const { stream } = this.reader;
    try {
      const old = await this.reader.read('head', 'head.json').catch((error) => {
        if (isStoreFailure(error)) throw error;
        return null;
      });
      const record = {
        ...old?.record,
        ...envelope('head', stream, randomUUID(), this.epoch),
        signature: undefined, // known, and of no use here (VER-5, SIG-2)
        version,
        anchor: this.anchor,
      };
      await this.store.putOverwrite('head.json', jsonBytes(record));
    } catch (error) {
      if (!isCode(error)) throw error;
    }
  }

  /** Ends writing; the lease is released (LSE-11). */
  async close() {
    await this.lease?.release();
  }
}

/**
 * @param {{name: string, dtype: string, shape: number[]}[]} tensors
 * @param {{name: string, target: string}[]} aliases
 */
const tableRecord = (tensors, aliases) => ({
  protocol: 'deltawire',
  protocol_version: '0.1',
  kind: 'tensor_table',
  tensors,
  aliases,
});

/** Bytes that begin at a multiple of 8; others are copied. @param {Uint8Array} bytes */
const aligned = (bytes) => (bytes.byteOffset % 8 === 0 ? bytes : Uint8Array.from(bytes));
