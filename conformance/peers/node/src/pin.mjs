// Reader pins (sections 8.11 and 11.13).
import { randomUUID } from 'node:crypto';
import { envelope, timestamp } from './envelope.mjs';
import { isCode } from './errors.mjs';
import { jsonBytes } from './json.mjs';

/** The pin is written this many times within its ttl (PIN-5). */
const PER_TTL = 4;

/** Keeps what a reader needs from being collected; a failure to write it stops nobody (PIN-7). */
export class ReaderPin {
  /**
   * @param {import('./store.mjs').Store} store
   * @param {{holder: string, ttlMs: number, note?: (text: string) => void}} options
   */
  constructor(store, { holder, ttlMs, note }) {
    this.store = store;
    this.holder = holder;
    this.ttlMs = ttlMs;
    this.note = note ?? (() => {});
    /** Whether the pin may be relied on (PIN-4). */
    this.confirmed = false;
    /** @type {any} what the stream's records begin with */
    this.stream = null;
    /** @type {NodeJS.Timeout | undefined} */
    this.timer = undefined;
    this.first = -1;
    /** When the last write was sent, or NaN before the first (PIN-6). */
    this.sentAt = NaN;
    this.renewId();
  }

  renewId() {
    this.id = randomUUID();
    this.acquiredAt = timestamp();
    this.first = -1;
    this.sentAt = NaN;
    this.confirmed = false;
  }

  get key() {
    return `leases/readers/${this.id}.json`;
  }

  /** @param {boolean} released */
  bytes(released) {
    return jsonBytes({
      ...envelope('pin', this.stream, randomUUID(), 0),
      holder: this.holder,
      acquired_at: this.acquiredAt,
      ttl_ms: this.ttlMs,
      released,
      first: this.first,
    });
  }

  /**
   * PIN-3: before the reader relies on a way from `first` on.
   * @param {any} stream record of the stream
   * @param {number} first
   */
  async set(stream, first) {
    this.stream = stream;
    if (first < this.first) await this.release(); // PIN-5: it does not fall
    if (first === this.first && !Number.isNaN(this.sentAt)) return;
    this.first = first;
    await this.write();
    clearTimeout(this.timer);
    this.schedule();
  }

  /** PIN-4. @param {import('./reader.mjs').Retention} retention @param {number | null} held */
  look(retention, held) {
    this.confirmed =
      !Number.isNaN(this.sentAt) &&
      (retention.has(this.first) || (held === this.first && retention.has(this.first + 1)));
  }

  async write() {
    const sentAt = performance.now();
    try {
      await this.store.putOverwrite(this.key, this.bytes(false));
    } catch (error) {
      if (!isCode(error)) throw error;
      this.note(`the pin was not written: ${/** @type {Error} */ (error).message}`);
      return;
    }
    const since = Number.isNaN(this.sentAt) ? sentAt : this.sentAt;
    if (performance.now() - since >= this.ttlMs) {
      const { first } = this;
      await this.release(); // PIN-6
      this.first = first;
      return;
    }
    this.sentAt = sentAt;
  }

  schedule() {
    this.timer = setTimeout(async () => {
      await this.write();
      this.schedule();
    }, this.ttlMs / PER_TTL);
    this.timer.unref();
  }

  /** PIN-7; another pin that is set has another id. */
  async release() {
    clearTimeout(this.timer);
    const { key } = this;
    const released = Number.isNaN(this.sentAt) ? null : this.bytes(true);
    this.renewId();
    if (!released) return;
    try {
      await this.store.delete(key);
    } catch (error) {
      if (!isCode(error)) throw error;
      await this.store.putOverwrite(key, released).catch(() => {});
    }
  }
}
