// The binding for S3 (section 5.4).
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { AwsV4Signer } from 'aws4fetch';
import { DeltawireError, fail, isCode } from './errors.mjs';
import { ERROR_BYTES, exchange, follow, isNoAnswer, isRedirect, isSuccess, isTransient } from './http.mjs';
import { requireKey } from './keys.mjs';
import { decodeXml, xmlValues } from './xml.mjs';

const ATTEMPTS = 6;
const PAUSE_MS = 100;
const UPLOAD_PART_BYTES = 16 * 1024 * 1024;
const LIST_BYTES = 16 * 1024 * 1024;

/** @typedef {import('./http.mjs').Answer} Answer */

/** An answer that is no success and is not tried again. */
class Refused extends Error {
  /** @param {Answer} answer @param {boolean} mayHaveArrived whether an earlier attempt at a put may have arrived */
  constructor(answer, mayHaveArrived) {
    super(`status ${answer.status}`);
    this.status = answer.status;
    this.code = xmlValues(Buffer.from(answer.body).toString('utf8'), 'Code')[0] ?? '';
    this.mayHaveArrived = mayHaveArrived;
  }
}

/** A store in a bucket. Keys are addressed by path. */
export class S3Store {
  lacks = { create: false, replace: false };

  /** @param {string} bucket @param {string} prefix without a slash at its end */
  constructor(bucket, prefix) {
    const { AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION } = process.env;
    if (!AWS_ACCESS_KEY_ID || !AWS_SECRET_ACCESS_KEY) fail('store_denied', 'no credentials for S3');
    this.region = AWS_REGION || 'us-east-1';
    const endpoint = AWS_ENDPOINT_URL || `https://s3.${this.region}.amazonaws.com`;
    this.base = `${endpoint.replace(/\/+$/, '')}/${bucket}`;
    this.prefix = prefix === '' ? '' : `${prefix}/`;
    this.credentials = {
      accessKeyId: AWS_ACCESS_KEY_ID,
      secretAccessKey: AWS_SECRET_ACCESS_KEY,
      sessionToken: AWS_SESSION_TOKEN,
      region: this.region,
      service: 's3',
    };
  }

  /** @param {string} key */
  url(key) {
    requireKey(key);
    return `${this.base}/${(this.prefix + key).split('/').map(encodeURIComponent).join('/')}`;
  }

  /**
   * One attempt.
   * @param {string} method
   * @param {string} url
   * @param {{headers: Record<string, string>, body?: Uint8Array, most: number, isObject: boolean}} request
   * @returns {Promise<Answer>}
   */
  async once(method, url, { headers, body, most, isObject }) {
    const contentHash = createHash('sha256')
      .update(body ?? '')
      .digest('hex');
    const signer = new AwsV4Signer({
      method,
      url,
      headers: { ...headers, 'x-amz-content-sha256': contentHash },
      ...this.credentials,
    });
    const signed = await signer.sign();
    const from = signed.url.href;
    const answer = await exchange(from, { method, headers: signed.headers, body, most });
    if (!isObject || !isRedirect(answer)) return answer;
    // Section 5.9: a gateway may point to where the bytes are. Of the two it knows the version token.
    const found = await follow(answer, from, { headers, most });
    const token = answer.headers.get('etag');
    if (!token) return found;
    const received = new Headers(found.headers);
    received.set('etag', token);
    return { ...found, headers: received };
  }

  /**
   * A request, repeated while nothing definite is known (STO-20).
   * @param {string} method
   * @param {string} url
   * @param {{headers?: Record<string, string>, body?: Uint8Array, most?: number, isObject?: boolean}} [options]
   *   `isObject` where an object is read, whose bytes may be elsewhere
   * @returns {Promise<Answer>}
   */
  async request(method, url, { headers = {}, body, most = ERROR_BYTES, isObject = false } = {}) {
    const isPut = method === 'PUT';
    let mayHaveArrived = false;
    /** @type {unknown} */
    let last = null;
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      if (attempt > 0) await sleep(PAUSE_MS * 2 ** (attempt - 1));
      try {
        const answer = await this.once(method, url, { headers, body, most, isObject });
        if (isSuccess(answer)) return answer;
        last = new Refused(answer, mayHaveArrived);
        if (answer.status !== 409 && !isTransient(answer)) throw last; // STO-18
        // 409 and 429 were refused before anything was done; after the others nobody knows.
        if (answer.status !== 409 && answer.status !== 429) mayHaveArrived = isPut;
      } catch (error) {
        if (error instanceof Refused || isCode(error) || !isNoAnswer(error)) throw error;
        last = error;
        mayHaveArrived = isPut;
      }
    }
    throw new DeltawireError('store_unavailable', `${method} ${url}: ${/** @type {Error} */ (last)?.message}`, {
      cause: last,
    });
  }

  /**
   * Maps what was refused to codes (STO-21).
   * @template T
   * @param {string} key
   * @param {Promise<T>} work
   * @returns {Promise<T>}
   */
  async mapped(key, work) {
    try {
      return await work;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const { status, code, mayHaveArrived } = error;
      if (mayHaveArrived) fail('store_unavailable', `${key}: the outcome is not known (STO-20)`, error);
      if (status === 404 && code === 'NoSuchBucket') fail('store_unavailable', 'there is no such bucket', error);
      if (status === 404) fail('object_not_found', key, error);
      if (status === 401 || status === 403) fail('store_denied', `${key}: ${code || status}`, error);
      if (status === 416) fail('size_mismatch', key, error);
      if (status === 501) fail('store_unfit', `${key}: the store does not implement this`, error);
      return fail('store_unavailable', `${key}: status ${status} ${code}`, error);
    }
  }

  /** The bytes of an object. @param {string} key @param {number} most @param {Record<string, string>} [headers] */
  read(key, most, headers) {
    return this.mapped(key, this.request('GET', this.url(key), { headers, most, isObject: true }));
  }

  /** @param {string} key @param {number} maxBytes */
  async get(key, maxBytes) {
    const { headers, body } = await this.read(key, maxBytes);
    return { bytes: body, token: tokenOf(headers, key) };
  }

  /** @param {string} key @param {number} start @param {number} length */
  async getRange(key, start, length) {
    if (length === 0) {
      if ((await this.head(key)) < start) fail('size_mismatch', `${key} ends before ${start}`);
      return new Uint8Array(0);
    }
    const range = { range: `bytes=${start}-${start + length - 1}` };
    let answer;
    try {
      answer = await this.read(key, length, range);
    } catch (error) {
      if (isCode(error, 'limit_exceeded')) fail('store_unfit', 'the store ignores ranges', error);
      throw error;
    }
    const place = /^bytes ([0-9]+)-/.exec(answer.headers.get('content-range') ?? '');
    if (answer.status !== 206 || !place || Number(place[1]) !== start) fail('store_unfit', 'the store ignores ranges');
    if (answer.body.length !== length) fail('size_mismatch', `${key} ends before ${start + length}`);
    return answer.body;
  }

  /** @param {string} key */
  async head(key) {
    const { headers } = await this.mapped(key, this.request('HEAD', this.url(key)));
    const size = Number(headers.get('content-length') ?? NaN);
    if (!Number.isSafeInteger(size)) fail('store_unfit', 'the store names no size');
    return size;
  }

  /** @param {string} prefix @returns {Promise<{key: string, size: number}[]>} */
  async list(prefix) {
    /** @type {{key: string, size: number}[]} */
    const out = [];
    let token = '';
    do {
      const query = {
        'list-type': '2',
        'encoding-type': 'url',
        prefix: this.prefix + prefix,
        ...(token ? { 'continuation-token': token } : {}),
      };
      const text = Object.entries(query)
        .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
        .join('&');
      const { body } = await this.mapped(prefix, this.request('GET', `${this.base}?${text}`, { most: LIST_BYTES }));
      const xml = Buffer.from(body).toString('utf8');
      for (const contents of xmlValues(xml, 'Contents')) {
        const key = decodeURIComponent(decodeXml(xmlValues(contents, 'Key')[0] ?? '').replace(/\+/g, ' '));
        if (key.startsWith(this.prefix))
          out.push({ key: key.slice(this.prefix.length), size: Number(xmlValues(contents, 'Size')[0]) });
      }
      token =
        xmlValues(xml, 'IsTruncated')[0] === 'true' ? decodeXml(xmlValues(xml, 'NextContinuationToken')[0] ?? '') : '';
    } while (token !== '');
    return out;
  }

  /**
   * A conditional put. A refusal is read back where an earlier attempt may have arrived (STO-19).
   * @param {string} key
   * @param {Uint8Array} bytes
   * @param {Record<string, string>} condition
   * @param {'object_exists' | 'precondition_failed'} refusal
   */
  async putIf(key, bytes, condition, refusal) {
    try {
      const { headers } = await this.request('PUT', this.url(key), { headers: condition, body: bytes });
      return tokenOf(headers, key);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (error.status === 404 && refusal === 'precondition_failed' && error.code !== 'NoSuchBucket')
        fail(refusal, key, error);
      if (error.status !== 412) return this.mapped(key, Promise.reject(error));
      if (error.mayHaveArrived) {
        const found = await this.get(key, bytes.length).catch((failure) => {
          if (!isCode(failure)) throw failure;
          if (isCode(failure, 'limit_exceeded', 'object_not_found')) return null;
          return fail('store_unavailable', `${key}: the outcome is not known (STO-20)`, failure);
        });
        if (found && Buffer.compare(found.bytes, bytes) === 0) return found.token;
      }
      return fail(refusal, key, error);
    }
  }

  /** STO-17. @param {string} key @param {Uint8Array} bytes */
  putCreate(key, bytes) {
    return this.putIf(key, bytes, { 'if-none-match': '*' }, 'object_exists');
  }

  /** @param {string} key @param {Uint8Array} bytes @param {string} token */
  putReplace(key, bytes, token) {
    return this.putIf(key, bytes, { 'if-match': token }, 'precondition_failed');
  }

  /** @param {string} key @param {Uint8Array} bytes */
  async putOverwrite(key, bytes) {
    const { headers } = await this.mapped(key, this.request('PUT', this.url(key), { body: bytes }));
    return tokenOf(headers, key);
  }

  /**
   * STO-22: small objects by one request, large ones in parts.
   * @param {string} key
   * @param {AsyncIterable<Uint8Array> | Iterable<Uint8Array>} chunks
   */
  async putStream(key, chunks) {
    const url = this.url(key);
    let uploadId = '';
    /** @type {string[]} */
    const tags = [];
    /** @type {Uint8Array[]} */
    let waiting = [];
    let bytes = 0;
    const sendPart = async () => {
      if (uploadId === '') {
        const { body } = await this.request('POST', `${url}?uploads=`);
        uploadId = decodeXml(xmlValues(Buffer.from(body).toString('utf8'), 'UploadId')[0] ?? '');
        if (uploadId === '') fail('store_unfit', 'the store gives no upload id');
      }
      const part = `${url}?partNumber=${tags.length + 1}&uploadId=${encodeURIComponent(uploadId)}`;
      const { headers } = await this.request('PUT', part, { body: new Uint8Array(Buffer.concat(waiting)) });
      tags.push(tokenOf(headers, key));
      [waiting, bytes] = [[], 0];
    };
    const send = async () => {
      try {
        for await (const chunk of chunks) {
          waiting.push(Uint8Array.from(chunk));
          bytes += chunk.length;
          if (bytes >= UPLOAD_PART_BYTES) await sendPart();
        }
        if (uploadId === '') {
          await this.request('PUT', url, { body: new Uint8Array(Buffer.concat(waiting)) });
          return;
        }
        if (bytes > 0) await sendPart();
        const list = tags.map((tag, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${tag}</ETag></Part>`).join('');
        const body = Buffer.from(`<CompleteMultipartUpload>${list}</CompleteMultipartUpload>`);
        const answer = await this.request('POST', `${url}?uploadId=${encodeURIComponent(uploadId)}`, {
          body: new Uint8Array(body),
        });
        if (xmlValues(Buffer.from(answer.body).toString('utf8'), 'Code').length > 0)
          fail('store_unavailable', `${key}: the upload was not completed`);
      } catch (error) {
        if (uploadId !== '')
          await this.request('DELETE', `${url}?uploadId=${encodeURIComponent(uploadId)}`).catch(() => {});
        throw error;
      }
    };
    await this.mapped(key, send());
  }

  /** STO-6. @param {string} key */
  async delete(key) {
    await this.mapped(key, this.request('DELETE', this.url(key))).catch((error) => {
      if (!isCode(error, 'object_not_found')) throw error;
    });
  }
}

/** The version token (section 5.4). @param {Headers} headers @param {string} key */
function tokenOf(headers, key) {
  return headers.get('etag') ?? fail('store_unfit', `no ETag for ${key}`);
}
