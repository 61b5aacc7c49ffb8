// The binding for Hugging Face Buckets by the Hub's own API (section 5.9).
import { setTimeout as sleep } from 'node:timers/promises';
import { Again, insist, MOST_WAIT_MS, PAUSE_MS } from './again.mjs';
import { fail, isCode } from './errors.mjs';
import { exchange, follow, isNoAnswer, isRedirect, isSuccess, isTransient } from './http.mjs';
import { storeContent } from './hub-content.mjs';
import { requireKey } from './keys.mjs';

const LIST_BYTES = 16 * 1024 * 1024;
/** How often a batch is sent, for what is not there after it (STO-29). */
const BATCHES = 4;
/** Objects that one batch names. */
const BATCH_SIZE = 500;

/** @typedef {import('./http.mjs').Answer} Answer */
/** @typedef {{hash: string, size: number}} Found */

/**
 * What the Hub asks to wait for: `Retry-After`, or what is left of the window in `RateLimit`.
 * @param {Headers} headers
 */
function waitOf(headers) {
  const seconds =
    /^\s*([0-9]+)\s*$/.exec(headers.get('retry-after') ?? '') ?? /;\s*t=([0-9]+)/.exec(headers.get('ratelimit') ?? '');
  return seconds ? Number(seconds[1]) * 1000 : 0;
}

/** @param {Answer} answer */
function jsonOf({ body }) {
  try {
    return JSON.parse(Buffer.from(body).toString('utf8'));
  } catch (error) {
    throw new Again('an answer that is no JSON', { cause: error });
  }
}

/** @param {Headers} headers the address of the next page, or '' */
const nextOf = (headers) => /<([^>]*)>\s*;[^,]*\brel="?next"?/.exec(headers.get('link') ?? '')?.[1] ?? '';

/** A store in a bucket of the Hub. It does not arbitrate between writers. */
export class HubStore {
  /** STO-28. */
  lacks = { create: true, replace: true };

  /** @param {string} bucket namespace and name @param {string} prefix without a slash at its end */
  constructor(bucket, prefix) {
    const { HF_ENDPOINT, HF_TOKEN } = process.env;
    this.bucket = bucket;
    this.hub = (HF_ENDPOINT || 'https://huggingface.co').replace(/\/+$/, '');
    this.token = HF_TOKEN || '';
    this.api = `${this.hub}/api/buckets/${bucket}`;
    this.prefix = prefix === '' ? '' : `${prefix}/`;
  }

  /** @param {string} key */
  path(key) {
    requireKey(key);
    return this.prefix + key;
  }

  /**
   * One request to the Hub, and what its answer means (STO-33).
   * @param {string} url
   * @param {import('./http.mjs').Request & {passes?: number[]}} [request] `passes`: further answers to return
   * @returns {Promise<Answer>}
   */
  async ask(url, { headers, passes = [], ...request } = {}) {
    const authorization = this.token ? { authorization: `Bearer ${this.token}` } : {};
    const answer = await exchange(url, { ...request, headers: { ...headers, ...authorization } });
    if (isSuccess(answer) || passes.includes(answer.status)) return answer;
    const { status, headers: received } = answer;
    const code = received.get('x-error-code') ?? '';
    if (isTransient(answer)) throw new Again(`status ${status}`, { waitMs: waitOf(received) });
    if (status === 404 && code === 'EntryNotFound') fail('object_not_found', new URL(url).pathname);
    if (status === 404) fail('store_unavailable', `there is no such bucket, or it is hidden: ${this.bucket} ${code}`);
    if (status === 401 || status === 403) fail('store_denied', `status ${status} ${code}`);
    return fail('store_unavailable', `status ${status} ${code}`);
  }

  /**
   * What is under a key now, and where its bytes are (STO-31). One attempt.
   * @param {string} key
   * @returns {Promise<Found & {answer: Answer, url: string}>}
   */
  async lookUp(key) {
    const url = `${this.hub}/buckets/${this.bucket}/resolve/${encodeURIComponent(this.path(key))}`;
    const answer = await this.ask(url, { method: 'HEAD', passes: [302, 303, 307] });
    const hash = answer.headers.get('x-xet-hash') ?? '';
    const size = answer.headers.get('x-linked-size') ?? '';
    if (!isRedirect(answer) || hash === '' || !/^[0-9]{1,15}$/.test(size))
      throw new Again(`${key}: an answer without an address, a hash and a size`);
    return { hash, size: Number(size), answer, url };
  }

  /**
   * What is under keys now, as far as there is something; by the route that tells of paths.
   * @param {string[]} keys
   * @returns {Promise<Map<string, Found>>}
   */
  pathInfos(keys) {
    return insist(async () => {
      const paths = new Map(keys.map((key) => [this.path(key), key]));
      const answer = await this.ask(`${this.api}/paths-info`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ paths: [...paths.keys()] }),
        most: LIST_BYTES,
      });
      const list = jsonOf(answer);
      if (!Array.isArray(list)) throw new Again('an answer that is no list');
      /** @type {Map<string, Found>} */
      const out = new Map();
      for (const { type, path, xetHash, size } of list.filter((entry) => paths.has(entry?.path)))
        if (type === 'file') out.set(/** @type {string} */ (paths.get(path)), { hash: xetHash, size: Number(size) });
      return out;
    });
  }

  /**
   * The bytes that were looked up, or a range of them. One attempt.
   * @param {string} key
   * @param {{size: number, answer: Answer, url: string}} found
   * @param {number} start
   * @param {number} length
   */
  async bytesOf(key, { size, answer, url }, start, length) {
    if (length === 0) return new Uint8Array(0);
    const whole = length === size;
    /** @type {Record<string, string>} */
    const headers = whole ? {} : { range: `bytes=${start}-${start + length - 1}` };
    const read = await follow(answer, url, { headers, most: length }).catch((error) => {
      if (isCode(error, 'limit_exceeded')) throw new Again(`${key}: more bytes than asked for`, { cause: error });
      throw error;
    });
    if (!isSuccess(read)) {
      if (isTransient(read) || read.status === 416) throw new Again(`${key}: status ${read.status}`);
      fail('store_unavailable', `${key}: status ${read.status}`);
    }
    const range = `bytes ${start}-${start + length - 1}/${size}`;
    if (read.body.length !== length || (!whole && read.headers.get('content-range') !== range))
      throw new Again(`${key}: not the bytes asked for`);
    return read.body;
  }

  /** @param {string} key @param {number} maxBytes */
  get(key, maxBytes) {
    return insist(async () => {
      const found = await this.lookUp(key);
      if (found.size > maxBytes) fail('limit_exceeded', `${key} has ${found.size} bytes, above ${maxBytes}`);
      return { bytes: await this.bytesOf(key, found, 0, found.size), token: found.hash };
    });
  }

  /**
   * Reads ranges of one object, which is looked up once, and again only after a failure (STO-31).
   * @param {string} key
   * @returns {(start: number, length: number) => Promise<Uint8Array>}
   */
  ranges(key) {
    /** @type {Awaited<ReturnType<HubStore['lookUp']>> | null} */
    let known = null;
    return (start, length) =>
      insist(async () => {
        const found = known ?? (await this.lookUp(key));
        known = null;
        if (start + length > found.size)
          fail('size_mismatch', `${key} ends at ${found.size}, before ${start + length}`);
        const bytes = await this.bytesOf(key, found, start, length);
        known = found;
        return bytes;
      });
  }

  /** @param {string} key @param {number} start @param {number} length */
  getRange(key, start, length) {
    return this.ranges(key)(start, length);
  }

  /** @param {string} key */
  async head(key) {
    return (await insist(() => this.lookUp(key))).size;
  }

  /** STO-32. @param {string} prefix @returns {Promise<{key: string, size: number}[]>} */
  async list(prefix) {
    const full = this.prefix + prefix;
    const folder = full.split('/').slice(0, -1).map(encodeURIComponent).join('/');
    /** @type {Map<string, number>} */
    const sizes = new Map();
    const seen = new Set();
    for (let url = `${this.api}/tree${folder && `/${folder}`}?recursive=true`; url !== ''; ) {
      if (seen.has(url) || new URL(url).origin !== new URL(this.hub).origin)
        fail('store_unavailable', 'a listing that goes in circles, or elsewhere');
      seen.add(url);
      const { entries, next } = await this.page(url);
      for (const { type, path, size } of entries) {
        if (type === 'file' && path.startsWith(full)) sizes.set(path.slice(this.prefix.length), Number(size));
      }
      url = next && new URL(next, url).href;
    }
    return [...sizes].map(([key, size]) => ({ key, size })).sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  /** @param {string} url @returns {Promise<{entries: {type: string, path: string, size: number}[], next: string}>} */
  page(url) {
    return insist(async () => {
      try {
        const answer = await this.ask(url, { most: LIST_BYTES });
        const entries = jsonOf(answer);
        if (!Array.isArray(entries) || entries.some((entry) => typeof entry?.path !== 'string'))
          throw new Again('an answer that is no listing');
        return { entries, next: nextOf(answer.headers) };
      } catch (error) {
        if (isCode(error, 'object_not_found')) return { entries: [], next: '' };
        throw error;
      }
    });
  }

  /**
   * Sends a batch, once.
   * @param {Record<string, string>[]} operations
   * @returns {Promise<{done: boolean, waitMs: number}>} not done: some of it was refused, or nobody knows
   */
  async send(operations) {
    try {
      const answer = await this.ask(`${this.api}/batch`, {
        method: 'POST',
        headers: { 'content-type': 'application/x-ndjson' },
        body: operations.map((operation) => `${JSON.stringify(operation)}\n`).join(''),
        most: LIST_BYTES,
        passes: [422],
      });
      const { success, failed } = jsonOf(answer);
      return { done: success === true && Array.isArray(failed) && failed.length === 0, waitMs: 0 };
    } catch (error) {
      if (!(error instanceof Again) && !isNoAnswer(error)) throw error;
      return { done: false, waitMs: error instanceof Again ? error.waitMs : 0 };
    }
  }

  /**
   * Sends a batch until it is found done, looking before each repetition (STO-29, STO-30).
   * @param {Record<string, string>[]} operations
   * @param {(answered: boolean) => Promise<Record<string, string>[]>} left what is left to do; may refuse
   */
  async sendUntil(operations, left) {
    for (let attempt = 0; attempt < BATCHES; attempt += 1) {
      const { done, waitMs } = await this.send(operations);
      operations = await left(done);
      if (operations.length === 0) return;
      if (waitMs > MOST_WAIT_MS) break;
      await sleep(Math.max(waitMs, PAUSE_MS * 2 ** attempt));
    }
    fail('store_unavailable', `${operations[0].path}: it is not known to be done (STO-29)`);
  }

  /** @param {string} key @param {Uint8Array[]} chunks @returns {Promise<Found>} */
  store(key, chunks) {
    const size = chunks.reduce((sum, { length }) => sum + length, 0);
    return insist(async () => ({ hash: await storeContent(this, this.path(key), chunks), size }));
  }

  /** @param {string} key @param {Found} content */
  adding = (key, { hash }) => ({ type: 'addFile', path: this.path(key), xetHash: hash });

  /**
   * Gives names to contents, and sees that they are there (STO-29).
   * @param {[string, Found][]} contents
   */
  async name(contents) {
    await this.sendUntil(
      contents.map(([key, content]) => this.adding(key, content)),
      async () => {
        const found = await this.pathInfos(contents.map(([key]) => key));
        return contents
          .filter(([key, { hash, size }]) => found.get(key)?.hash !== hash || found.get(key)?.size !== size)
          .map(([key, content]) => this.adding(key, content));
      },
    );
  }

  /**
   * STO-28 and STO-30. What another writer does between the look and the write is not seen.
   * @param {string} key
   * @param {Uint8Array} bytes
   */
  async putCreate(key, bytes) {
    const look = () =>
      insist(() => this.lookUp(key)).catch((error) => {
        if (isCode(error, 'object_not_found')) return null;
        throw error;
      });
    const content = await this.store(key, [bytes]);
    if (await look()) fail('object_exists', key);
    const operations = [this.adding(key, content)];
    await this.sendUntil(operations, async () => {
      const found = await look();
      if (found && found.hash !== content.hash) fail('object_exists', key);
      return found ? [] : operations;
    });
    return content.hash;
  }

  /** @param {string} key @param {Uint8Array} bytes */
  async putOverwrite(key, bytes) {
    const content = await this.store(key, [bytes]);
    const operations = [this.adding(key, content)];
    await this.sendUntil(operations, async (answered) => {
      const isThere = answered || (await this.pathInfos([key])).get(key)?.hash === content.hash;
      return isThere ? [] : operations;
    });
    return content.hash;
  }

  /** STO-28. @param {string} key @returns {Promise<string>} */
  async putReplace(key) {
    return fail('store_unfit', `${key}: the Hub writes on no condition (STO-28)`);
  }

  /** @param {string} key @param {AsyncIterable<Uint8Array> | Iterable<Uint8Array>} chunks */
  async putStream(key, chunks) {
    const batch = this.openBatch();
    await batch.putStream(key, chunks);
    await batch.finish();
  }

  /** `write_batch` (section 5.1). */
  openBatch() {
    return new HubBatch(this);
  }

  /** STO-6. @param {string} key */
  async delete(key) {
    const operations = [{ type: 'deleteFile', path: this.path(key) }];
    await this.sendUntil(operations, async (answered) =>
      answered || !(await this.pathInfos([key])).has(key) ? [] : operations,
    ).catch((error) => {
      if (!isCode(error, 'object_not_found')) throw error;
    });
  }
}

/** Objects of keys that nothing names yet. Their contents are stored at once, and named together. */
class HubBatch {
  /** @param {HubStore} hub */
  constructor(hub) {
    this.hub = hub;
    /** @type {Map<string, Found>} */
    this.contents = new Map();
  }

  /** @param {string} key @param {AsyncIterable<Uint8Array> | Iterable<Uint8Array>} chunks */
  async putStream(key, chunks) {
    const held = [];
    for await (const chunk of chunks) held.push(Uint8Array.from(chunk));
    this.contents.set(key, await this.hub.store(key, held));
  }

  /** A key of one's own is free (KEY-4). @param {string} key @param {Uint8Array} bytes */
  async putCreate(key, bytes) {
    await this.putStream(key, [bytes]);
    return /** @type {Found} */ (this.contents.get(key)).hash;
  }

  async finish() {
    const all = [...this.contents];
    for (let i = 0; i < all.length; i += BATCH_SIZE) await this.hub.name(all.slice(i, i + BATCH_SIZE));
  }
}
