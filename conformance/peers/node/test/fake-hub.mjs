// A small Hub for tests: one bucket, its routes for reading and naming, bytes at another host, and faults on demand.
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';

const PAGE = 3;
export const TOKEN = 'hf_test';
export const BUCKET = 'ns/name';

/** @typedef {{status: number, headers?: Record<string, string>, body?: string | Buffer}} Answer */

export class FakeHub {
  /** @type {Map<string, string>} hashes by path */
  objects = new Map();
  /** @type {Map<string, Buffer>} bytes by hash */
  contents = new Map();
  /**
   * What to do instead of answering, or instead of letting the answer through.
   * @type {(route: string, body: string) => 'drop' | 'lose' | Answer | undefined}
   */
  fault = () => undefined;
  /** @type {string[]} */
  routes = [];

  /** Starts it and points the environment at it. @param {import('node:test').TestContext} t */
  async start(t) {
    this.server = createServer((request, response) => this.handle(request, response));
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', () => resolve(null)));
    t.after(() => {
      this.server.closeAllConnections();
      this.server.close();
    });
    this.port = /** @type {any} */ (this.server.address()).port;
    Object.assign(process.env, { HF_ENDPOINT: `http://127.0.0.1:${this.port}`, HF_TOKEN: TOKEN });
    return this;
  }

  /** Keeps content under a hash, which here is its sha256. @param {Uint8Array} bytes */
  keep(bytes) {
    const hash = createHash('sha256').update(bytes).digest('hex');
    this.contents.set(hash, Buffer.from(bytes));
    return hash;
  }

  /** @param {import('../src/store-hub.mjs').HubStore} store its content is kept without the client of the Hub */
  serve(store) {
    store.store = async (_key, chunks) => {
      const bytes = Buffer.concat(chunks);
      return { hash: this.keep(bytes), size: bytes.length };
    };
    return store;
  }

  /** How many requests a route has had. @param {string} route */
  count = (route) => this.routes.filter((taken) => taken === route).length;

  /** @param {import('node:http').IncomingMessage} request @param {import('node:http').ServerResponse} response */
  async handle(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString();
    const url = new URL(/** @type {string} */ (request.url), 'http://hub');
    const routes = `/api/buckets/${BUCKET}/[a-z-]+|/buckets/${BUCKET}/resolve`;
    const hub = new RegExp(`^(${routes})(?:/(.*))?$`).exec(url.pathname);
    const route = url.pathname.startsWith('/bytes/') ? 'bytes' : (hub?.[1].split('/').at(-1) ?? url.pathname);
    this.routes.push(route);
    const fault = this.fault(route, body);
    if (fault === 'drop') return request.socket.destroy();
    const answer = typeof fault === 'object' ? fault : this.answer(route, hub?.[2] ?? '', url, request.headers, body);
    if (fault === 'lose') return request.socket.destroy();
    const bytes = answer.body ?? '';
    response.writeHead(answer.status, { 'content-length': Buffer.byteLength(bytes), ...answer.headers });
    return response.end(request.method === 'HEAD' ? undefined : bytes);
  }

  /**
   * @param {string} route
   * @param {string} rest
   * @param {URL} url
   * @param {import('node:http').IncomingHttpHeaders} headers
   * @param {string} body
   * @returns {Answer}
   */
  answer(route, rest, url, headers, body) {
    if (route === 'bytes') return this.bytes(url, headers);
    if (headers.authorization !== `Bearer ${TOKEN}`) return { status: 401 };
    if (route === 'resolve') {
      const hash = this.objects.get(decodeURIComponent(rest));
      if (!hash) return { status: 404, headers: { 'x-error-code': 'EntryNotFound' } };
      return {
        status: 302,
        headers: {
          location: `http://localhost:${this.port}/bytes/${hash}`,
          'x-xet-hash': hash,
          'x-linked-size': String(this.contents.get(hash)?.length),
        },
      };
    }
    const entry = (/** @type {string} */ path) => {
      const hash = /** @type {string} */ (this.objects.get(path));
      return { type: 'file', path, xetHash: hash, size: this.contents.get(hash)?.length };
    };
    if (route === 'paths-info') {
      const paths = JSON.parse(body).paths.filter((/** @type {string} */ path) => this.objects.has(path));
      return { status: 200, body: JSON.stringify(paths.map(entry)) };
    }
    if (route === 'tree') {
      const from = Number(url.searchParams.get('from') ?? 0);
      const paths = [...this.objects.keys()].filter((path) => path.startsWith(decodeURIComponent(rest))).sort();
      const next = `<http://127.0.0.1:${this.port}${url.pathname}?recursive=true&from=${from + PAGE}>; rel="next"`;
      return {
        status: 200,
        headers: from + PAGE < paths.length ? { link: next } : {},
        body: JSON.stringify(paths.slice(from, from + PAGE).map(entry)),
      };
    }
    if (route === 'batch') {
      for (const line of body.trim().split('\n')) {
        const { type, path, xetHash } = JSON.parse(line);
        if (type === 'addFile') this.objects.set(path, xetHash);
        else this.objects.delete(path);
      }
      return { status: 200, body: JSON.stringify({ success: true, failed: [] }) };
    }
    return { status: 404, headers: { 'x-error-code': 'RepoNotFound' } };
  }

  /** @param {URL} url @param {import('node:http').IncomingHttpHeaders} headers @returns {Answer} */
  bytes(url, headers) {
    if (headers.authorization || !headers.host?.startsWith('localhost')) return { status: 400 }; // no credentials here
    const bytes = this.contents.get(url.pathname.slice('/bytes/'.length));
    if (!bytes) return { status: 404 };
    const range = /^bytes=([0-9]+)-([0-9]+)$/.exec(headers.range ?? '');
    if (!range) return { status: 200, body: bytes };
    const part = bytes.subarray(Number(range[1]), Number(range[2]) + 1);
    const place = `bytes ${range[1]}-${Number(range[1]) + part.length - 1}/${bytes.length}`;
    return { status: 206, body: part, headers: { 'content-range': place } };
  }
}
