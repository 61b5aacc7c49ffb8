// HTTP as the bindings for S3 and for the Hub need it: one request at a time, bounded in time and in bytes.
import { fail, isCode } from './errors.mjs';

/** The time of one attempt without an answer (STO-9): a base, and more for large bodies. */
const ATTEMPT_MS = 30000;
const SLOWEST_BYTES_PER_MS = 256;
/** Of what is expected at most, only so much makes an attempt longer. */
const MOST_AWAITED_BYTES = 64 * 1024 * 1024;
/** Bytes of an error answer that are looked at. */
export const ERROR_BYTES = 65536;
const MOST_HOPS = 5;
const REDIRECTS = [301, 302, 303, 307, 308];
/** What a place that a store has sent us to says of itself and not of the object: an address that is out of date. */
const GONE_ELSEWHERE = [401, 403, 404, 410];

/**
 * @typedef {object} Answer
 * @property {number} status
 * @property {Headers} headers
 * @property {Uint8Array} body
 * @property {boolean} [elsewhere] whether it is of a place that the store has sent us to
 */

/**
 * @typedef {object} Request
 * @property {string} [method]
 * @property {Headers | Record<string, string>} [headers]
 * @property {Uint8Array | string} [body]
 * @property {number} [most] bytes of the answer at most
 */

/** @param {Answer} answer */
export const isSuccess = ({ status }) => status >= 200 && status < 300;

/** @param {Answer} answer */
export const isRedirect = ({ status, headers }) => REDIRECTS.includes(status) && headers.has('location');

/** Whether an answer says nothing about the object, and the request is made again. @param {Answer} answer */
export const isTransient = ({ status, elsewhere = false }) =>
  [408, 429].includes(status) ||
  (status >= 500 && status !== 501) ||
  (elsewhere && GONE_ELSEWHERE.includes(status));

/** Whether a request failed without an answer, or with a part of one. @param {any} error */
export const isNoAnswer = (error) =>
  error?.name === 'TimeoutError' || (error instanceof TypeError && error.cause !== undefined);

/**
 * The body of an answer, up to a bound (STO-12).
 * @param {Response} response
 * @param {number} most
 */
async function bodyOf(response, most) {
  const chunks = [];
  let length = 0;
  for await (const chunk of /** @type {any} */ (response.body ?? [])) {
    length += chunk.length;
    if (length > most) fail('limit_exceeded', `an answer of more than ${most} bytes`);
    chunks.push(chunk);
  }
  return new Uint8Array(Buffer.concat(chunks));
}

/**
 * One request, without following where an answer points to.
 * @param {string} url
 * @param {Request} [request]
 * @returns {Promise<Answer>}
 */
export async function exchange(url, { method = 'GET', headers = {}, body, most = ERROR_BYTES } = {}) {
  const sent = new Headers(headers);
  sent.set('accept-encoding', 'identity');
  const bytes = (body?.length ?? 0) + Math.min(most, MOST_AWAITED_BYTES);
  const response = await fetch(url, {
    method,
    headers: sent,
    body: /** @type {any} */ (body),
    redirect: 'manual',
    signal: AbortSignal.timeout(ATTEMPT_MS + Math.ceil(bytes / SLOWEST_BYTES_PER_MS)),
  });
  const { status, headers: received, ok } = response;
  try {
    return { status, headers: received, body: await bodyOf(response, ok ? most : ERROR_BYTES) };
  } catch (error) {
    if (!ok && isCode(error, 'limit_exceeded')) return { status, headers: received, body: new Uint8Array(0) };
    throw error;
  }
}

/**
 * Where an answer points to. It is no less protected than where it came from.
 * @param {Answer} answer
 * @param {string} from
 */
export function placeOf({ headers }, from) {
  const text = headers.get('location') ?? '';
  if (!URL.canParse(text, from)) fail('store_unavailable', 'a redirect to no address');
  const to = new URL(text, from);
  const schemes = new URL(from).protocol === 'https:' ? ['https:'] : ['https:', 'http:'];
  if (!schemes.includes(to.protocol) || to.username !== '' || to.password !== '')
    fail('store_unavailable', `a redirect that is not followed, to ${to.protocol}//${to.host}`);
  return to.href;
}

/**
 * Reads what a store has pointed to, without credentials, and follows further, a bounded number of times.
 * @param {Answer} answer a redirect
 * @param {string} from
 * @param {{headers?: Record<string, string>, most?: number}} request no credentials among the headers
 * @returns {Promise<Answer>}
 */
export async function follow(answer, from, request) {
  for (let hops = 0; isRedirect(answer); hops += 1) {
    if (hops === MOST_HOPS) fail('store_unavailable', `more than ${MOST_HOPS} redirects`);
    from = placeOf(answer, from);
    answer = await exchange(from, request);
  }
  return { ...answer, elsewhere: true };
}
