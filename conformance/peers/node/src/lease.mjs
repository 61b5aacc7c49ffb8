// The writer lease (sections 8.10 and 11.9).
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { envelope, timestamp } from './envelope.mjs';
import { DeltawireError, fail, isCode } from './errors.mjs';
import { jsonBytes } from './json.mjs';
import { isStoreFailure } from './reader.mjs';
import { parseRecord } from './records.mjs';

/** @typedef {import('./reader.mjs').StreamReader} StreamReader */

const KEY = 'leases/writer.json';
const WRITES = 4;
const PAUSE_MS = 50;
/** The lease is written again this many times within its ttl (LSE-8), and read when it is another's (LSE-6). */
const PER_TTL = 4;

/** Another writer was faster, or the lease is gone (LSE-3). */
class Lost extends Error {}

export class WriterLease {
  /**
   * @param {StreamReader} reader
   * @param {{holder: string, ttlMs: number, waitMs: number, takeOver: boolean}} options
   */
  constructor(reader, options) {
    const { ttlMs, holder } = options;
    if (!Number.isSafeInteger(ttlMs) || ttlMs < 1 || ttlMs > 86400000)
      fail('invalid_argument', 'a ttl of 1 to 86400000 ms');
    if (holder.length < 1 || [...holder].length > 200) fail('invalid_argument', 'a holder of 1 to 200 characters');
    this.reader = reader;
    this.store = reader.store;
    this.options = options;
    this.epoch = 0;
    this.acquiredAt = '';
    /** Whether it was found that another holds the lease (LSE-9). */
    this.fenced = false;
    this.held = false;
    /** @type {any} the record as it was last read or written */
    this.record = null;
    /** @type {string | null} */
    this.token = null;
    this.sentAt = -Infinity;
    /** @type {Map<string, number>} writes of ours whose outcome is not known: when each was sent, by commit id */
    this.pending = new Map();
    /** @type {NodeJS.Timeout | undefined} */
    this.timer = undefined;
    /** @type {Promise<unknown>} writes of the lease follow one another */
    this.queue = Promise.resolve();
    /** @type {() => void} is called once it is fenced */
    this.onFenced = () => {};
  }

  /** The lease as it is, or null; what cannot be read stops the producer (LSE-2). */
  async look() {
    try {
      return await this.reader.read('lease', KEY);
    } catch (error) {
      if (isCode(error, 'object_not_found')) return null;
      throw error;
    }
  }

  /**
   * Writes the lease over what was read (LSE-3). Members that are not known stay (VER-5).
   * @param {boolean} released
   */
  async write(released) {
    const { stream, limits } = this.reader;
    const commitId = randomUUID();
    const record = {
      ...this.record,
      signature: undefined, // known, and of no use here (VER-5, SIG-2)
      ...envelope('lease', stream, commitId, this.epoch),
      holder: this.options.holder,
      acquired_at: this.acquiredAt,
      ttl_ms: this.options.ttlMs,
      released,
    };
    const bytes = jsonBytes(record);
    /** @type {unknown} */
    let failure = null;
    for (let attempt = 0; attempt < WRITES; attempt += 1) {
      if (attempt > 0) await sleep(PAUSE_MS * 2 ** attempt);
      const sentAt = performance.now();
      try {
        this.pending.set(commitId, this.pending.get(commitId) ?? sentAt);
        const token = await (this.token === null
          ? this.store.putCreate(KEY, bytes)
          : this.store.putReplace(KEY, bytes, this.token));
        this.took({ record: parseRecord('lease', bytes, limits), token }, sentAt);
        return;
      } catch (error) {
        if (!isCode(error) || isCode(error, 'store_denied', 'store_unfit')) throw error;
        failure = error;
      }
      const found = await this.readBack();
      if (!found) continue;
      const { commit_id: id } = found.record;
      const ours = this.pending.get(id);
      if (ours !== undefined) {
        this.took(found, ours);
        if (id === commitId) return;
      } else if (found.token !== this.token) throw new Lost();
    }
    throw failure;
  }

  /**
   * The lease after a write whose outcome is not known (LSE-3), or null if the store does not say, or there is none
   * and was none. A lease that cannot be read is another's (LSE-9).
   * @returns {Promise<{record: any, token: string} | null>}
   */
  async readBack() {
    try {
      const { bytes, token } = await this.store.get(KEY, this.reader.limits.record_bytes);
      return { record: parseRecord('lease', bytes, this.reader.limits), token };
    } catch (error) {
      if (isCode(error, 'store_unavailable')) return null;
      if (isStoreFailure(error)) throw error;
      if (isCode(error, 'object_not_found') && this.token === null) return null;
      throw new Lost();
    }
  }

  /** What a write of ours has left there. @param {{record: any, token: string}} found @param {number} sentAt */
  took({ record, token }, sentAt) {
    this.pending.clear();
    Object.assign(this, { record, token, sentAt });
  }

  /** @param {any} found */
  heldBy({ record }) {
    const { holder, epoch, acquired_at: since } = record;
    return new DeltawireError(
      'lease_held',
      `${JSON.stringify(holder)} holds the stream in epoch ${epoch} since ${since}`,
    );
  }

  /** LSE-4 to LSE-6. */
  async acquire() {
    const until = performance.now() + this.options.waitMs;
    for (;;) {
      const found = await this.look();
      if (found && !found.record.released && !this.options.takeOver && !(await this.isGone(found, until))) continue;
      this.record = found?.record ?? null;
      this.token = found?.token ?? null;
      this.epoch = found ? found.record.epoch + 1 : 0;
      if (!Number.isSafeInteger(this.epoch)) fail('limit_exceeded', 'the epoch of the lease is at its end');
      this.acquiredAt = timestamp();
      try {
        await this.write(false);
      } catch (error) {
        if (error instanceof Lost) continue;
        throw error;
      }
      this.held = true;
      this.schedule(this.options.ttlMs / PER_TTL);
      return;
    }
  }

  /**
   * LSE-6. False if the lease should be looked at anew.
   * @param {any} found
   * @param {number} until
   */
  async isGone(found, until) {
    const seenAt = performance.now();
    const ttl = found.record.ttl_ms;
    if (seenAt + ttl > until) throw this.heldBy(found);
    for (;;) {
      await sleep(Math.max(1, Math.min(ttl / PER_TTL, seenAt + ttl - performance.now() + 1)));
      const askedAt = performance.now();
      const now = await this.look();
      if (!now || now.record.released) return false;
      if (now.token !== found.token) throw this.heldBy(now);
      if (askedAt - seenAt >= ttl) return true;
    }
  }

  /** LSE-7. @param {number} epoch that of the newest version */
  async riseAbove(epoch) {
    if (this.epoch > epoch) return;
    await this.exclusively(async () => {
      this.epoch = epoch + 1;
      if (!Number.isSafeInteger(this.epoch)) fail('limit_exceeded', 'the epoch of the line is at its end');
      await this.renew();
    });
  }

  /** @template T @param {() => Promise<T>} work @returns {Promise<T>} */
  exclusively(work) {
    const result = this.queue.then(work);
    this.queue = result.catch(() => {});
    return result;
  }

  /** Writes the lease once more; LSE-9 if it is another's. */
  async renew() {
    if (this.fenced) fail('fenced', 'another producer has taken the stream over (LSE-9)');
    try {
      await this.write(false);
    } catch (error) {
      if (!(error instanceof Lost)) throw error;
      this.fenced = true;
      clearTimeout(this.timer);
      this.onFenced();
      fail('fenced', 'another producer has taken the stream over (LSE-9)');
    }
  }

  /** LSE-8. @param {number} pause */
  schedule(pause) {
    this.timer = setTimeout(async () => {
      let next = this.options.ttlMs / PER_TTL;
      try {
        await this.exclusively(async () => {
          if (this.held) await this.renew();
        });
      } catch (error) {
        if (!isCode(error)) throw error;
        next /= 2; // A store that fails says nothing (LSE-9).
      }
      if (this.held && !this.fenced) this.schedule(next);
    }, pause);
    this.timer.unref();
  }

  /** LSE-10, before a version record is created. */
  async confirm() {
    if (this.fenced) fail('fenced', 'another producer has taken the stream over (LSE-9)');
    await this.exclusively(async () => {
      if (this.fenced || performance.now() - this.sentAt >= this.options.ttlMs) await this.renew();
    });
  }

  /** LSE-11. */
  async release() {
    clearTimeout(this.timer);
    await this.exclusively(async () => {
      if (!this.held || this.fenced) return;
      this.held = false;
      await this.write(true).catch((error) => {
        if (!(error instanceof Lost) && !isCode(error)) throw error;
      });
    });
  }
}
