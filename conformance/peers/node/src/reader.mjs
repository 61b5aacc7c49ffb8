// Reading the records of a stream, and finding its newest version (sections 8, 11.4).
import { createHash } from 'node:crypto';
import { DeltawireError, fail, isCode } from './errors.mjs';
import { anchorKey, numberInKey, spanInKey, spanKey, versionKey } from './keys.mjs';
import { parseRecord } from './records.mjs';
import { checkSignature } from './signatures.mjs';

/** @typedef {import('./store.mjs').Store} Store */
/** @typedef {import('./limits.mjs').Limits} Limits */
/** @typedef {{record: any, bytes: Uint8Array, digest: string, token?: string}} Read */

/** Versions probed one by one before strides grow (LAT-4). */
const SINGLE_PROBES = 16;
/** Failures of the store itself, which say nothing about what is stored. */
const STORE_FAILURES = ['store_unavailable', 'store_denied', 'store_unfit', 'deadline_exceeded'];

/** @param {unknown} error */
export const isStoreFailure = (error) => !(error instanceof DeltawireError) || STORE_FAILURES.includes(error.code);

/** @param {Uint8Array} bytes */
export const sha256Of = (bytes) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

/** What is retained (RET-1). */
export class Retention {
  /** @param {any} record or null where there is none */
  constructor(record) {
    this.boundary = record ? record.boundary : 0;
    this.kept = new Set(record?.kept ?? []);
  }

  /** @param {number} version */
  has(version) {
    return version >= this.boundary || this.kept.has(version);
  }

  /** @param {Retention} other */
  equals(other) {
    return this.boundary === other.boundary && [...this.kept].join() === [...other.kept].join();
  }
}

/** A stream that was opened for reading. */
export class StreamReader {
  /**
   * @param {Store} store
   * @param {Limits} limits
   * @param {string[] | null} publicKeys keys to believe; null to believe whoever writes (SIG-8)
   * @param {any} stream the record of the stream
   */
  constructor(store, limits, publicKeys, stream) {
    this.store = store;
    this.limits = limits;
    this.publicKeys = publicKeys;
    this.stream = stream;
  }

  /**
   * LAT-1, SIG-5.
   * @param {Store} store
   * @param {Limits} limits
   * @param {string[] | null} [publicKeys]
   */
  static async open(store, limits, publicKeys = null) {
    const stream = await readObject(store, 'stream', 'stream.json', limits).catch((error) => {
      if (isCode(error, 'object_not_found')) fail('stream_not_found', 'no stream.json');
      throw error;
    });
    if (publicKeys) {
      checkSignature(stream.record, stream.bytes, [publicKeys, stream.record.signing_keys ?? []]);
    }
    return new StreamReader(store, limits, publicKeys, stream.record);
  }

  /**
   * Reads a record of this stream. Its signature comes before what is made of it (SIG-6).
   * @param {'version' | 'anchor' | 'span' | 'head' | 'lease' | 'retention'} kind
   * @param {string} key
   * @returns {Promise<Read>}
   */
  async read(kind, key) {
    const read = await readObject(this.store, kind, key, this.limits);
    this.vouch(kind, read);
    if (read.record.stream_id !== this.stream.stream_id) fail('wrong_stream', `${key} is of another stream`);
    return read;
  }

  /** SIG-6. @param {string} kind @param {{record: any, bytes: Uint8Array}} read */
  vouch(kind, read) {
    if (this.publicKeys && ['version', 'anchor', 'span'].includes(kind)) {
      checkSignature(read.record, read.bytes, [this.stream.signing_keys ?? []]);
    }
  }

  /** VSN-2, FRK-7. @param {number} version */
  async version(version) {
    const read = await this.read('version', versionKey(version));
    if (read.record.version !== version) fail('broken_chain', `the record of version ${version} is of another (VSN-2)`);
    const { origin } = this.stream;
    if (version === 0 && origin && origin.state_digest !== read.record.state_digest) {
      fail('broken_chain', 'version 0 is not the origin (FRK-7)');
    }
    return read;
  }

  /** ANC-2. @param {number} version @param {Read} of the version's record */
  async anchor(version, of) {
    const { record } = await this.read('anchor', anchorKey(version));
    if (
      record.version !== version ||
      record.version_digest !== of.digest ||
      record.state_digest !== of.record.state_digest ||
      record.tensors.digest !== of.record.tensors.digest
    ) {
      fail('broken_chain', `the anchor of version ${version} is not of its record (ANC-2)`);
    }
    return record;
  }

  /**
   * SPN-1, and SPN-4 as far as the target goes.
   * @param {number} base
   * @param {number} target
   * @param {Read} of its record
   */
  async span(base, target, of) {
    const { record } = await this.read('span', spanKey(base, target));
    if (
      record.base !== base ||
      record.version !== target ||
      record.version_digest !== of.digest ||
      record.state_digest !== of.record.state_digest ||
      record.tensors.digest !== of.record.tensors.digest
    ) {
      fail('broken_chain', `the span from ${base} to ${target} is not of its target (SPN-1, SPN-4)`);
    }
    return record;
  }

  /** RET-3, RET-4. */
  async retention() {
    try {
      return new Retention((await this.read('retention', 'retention.json')).record);
    } catch (error) {
      if (isCode(error, 'object_not_found')) return new Retention(null);
      throw error;
    }
  }

  /** Numbers of the records below a prefix. @param {'versions/' | 'anchors/'} prefix */
  async numbers(prefix) {
    const keys = await this.store.list(prefix);
    const found = keys.map(({ key }) => numberInKey(key, prefix)).filter((n) => n !== null);
    return this.bounded(found);
  }

  /** Bases of the spans that lead to each target. */
  async spans() {
    const found = this.bounded(
      (await this.store.list('spans/')).map(({ key }) => spanInKey(key)).filter((s) => s !== null),
    );
    /** @type {Map<number, number[]>} */
    const bases = new Map();
    for (const { base, target } of found) bases.set(target, [...(bases.get(target) ?? []), base]);
    return bases;
  }

  /** @template T @param {T[]} found @returns {T[]} */
  bounded(found) {
    if (found.length > this.limits.path_records) fail('limit_exceeded', 'more records in a listing than path_records');
    return found;
  }

  /** @param {number} version */
  async exists(version) {
    if (!Number.isSafeInteger(version)) return false;
    try {
      await this.store.head(versionKey(version));
      return true;
    } catch (error) {
      if (isCode(error, 'object_not_found')) return false;
      throw error;
    }
  }

  /** HED-2. @returns {Promise<number | null>} */
  async hint() {
    try {
      const { version } = (await this.read('head', 'head.json')).record;
      return (await this.exists(version)) ? version : null;
    } catch (error) {
      if (isStoreFailure(error)) throw error;
      return null;
    }
  }

  /** LAT-4: the newest version from one that is there. @param {number} begin */
  async probe(begin) {
    let found = begin;
    let stride = 1;
    for (let probes = 1; await this.exists(found + stride); probes += 1) {
      found += stride;
      if (probes >= SINGLE_PROBES) stride *= 2;
    }
    while (stride > 1) {
      stride /= 2;
      if (await this.exists(found + stride)) found += stride;
    }
    return found;
  }

  /**
   * Section 11.4.
   * @param {number | null} held
   * @returns {Promise<{version: number, retention: Retention}>}
   */
  async newest(held) {
    let begin = held ?? (await this.hint());
    for (let boundary = NaN; ;) {
      if (begin === null) {
        // LAT-3, LAT-5: nothing says where to begin, or what followed the version found was collected.
        begin = (await this.numbers('versions/')).reduce((a, b) => Math.max(a, b), held ?? -1);
        if (begin === -1) fail('version_not_found', 'the stream has no version');
      }
      const version = await this.probe(begin);
      const retention = await this.retention();
      if (version >= retention.boundary) return { version, retention };
      if (retention.boundary === boundary) fail('version_not_found', `nothing is there from ${boundary} on (LAT-5)`);
      boundary = retention.boundary;
      begin = null;
    }
  }
}

/**
 * @param {Store} store
 * @param {string} kind
 * @param {string} key
 * @param {Limits} limits
 * @returns {Promise<Read>}
 */
export async function readObject(store, kind, key, limits) {
  const { bytes, token } = await store.get(key, limits.record_bytes);
  return { record: parseRecord(kind, bytes, limits), bytes, digest: sha256Of(bytes), token };
}
