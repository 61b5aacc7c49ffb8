// The binding for Hugging Face Buckets by the Hub's API (section 5.9).
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { Consumer } from '../src/consumer.mjs';
import { storeContent } from '../src/hub-content.mjs';
import { Producer } from '../src/producer.mjs';
import { openStore } from '../src/store.mjs';
import { BUCKET, FakeHub, TOKEN } from './fake-hub.mjs';
import { code } from './helpers.mjs';

const bytes = (/** @type {string} */ text) => Buffer.from(text);
const text = (/** @type {Uint8Array} */ found) => Buffer.from(found).toString();

/** @param {import('node:test').TestContext} t @param {string} [prefix] */
async function open(t, prefix = '/some/p') {
  const hub = await new FakeHub().start(t);
  const store = /** @type {import('../src/store-hub.mjs').HubStore} */ (openStore(`hf://buckets/${BUCKET}${prefix}`));
  return { hub, store: hub.serve(store) };
}

/** Faults on one route, one after the other. @param {FakeHub} hub @param {string} route @param {...any} list */
const faults = (hub, route, ...list) => {
  hub.fault = (taken) => (taken === route ? list.shift() : undefined);
};

test('hub: the verbs', async (t) => {
  const { hub, store } = await open(t);
  await assert.rejects(store.get('a', 10), code('object_not_found'));
  await assert.rejects(store.head('a'), code('object_not_found'));
  await assert.rejects(store.getRange('a', 0, 1), code('object_not_found'));
  assert.deepEqual(await store.list('x/'), []);
  const first = await store.putCreate('x/a.json', bytes('12345'));
  await assert.rejects(store.putCreate('x/a.json', bytes('12345')), code('object_exists'));
  const { bytes: found, token } = await store.get('x/a.json', 5);
  assert.deepEqual([text(found), token], ['12345', first]);
  await assert.rejects(store.get('x/a.json', 4), code('limit_exceeded'));
  assert.equal(text(await store.getRange('x/a.json', 1, 3)), '234');
  assert.equal((await store.getRange('x/a.json', 5, 0)).length, 0);
  await assert.rejects(store.getRange('x/a.json', 3, 3), code('size_mismatch'));
  assert.equal(await store.head('x/a.json'), 5);
  await assert.rejects(store.putReplace('x/a.json'), code('store_unfit'));
  await store.putOverwrite('x/b', bytes(''));
  assert.equal((await store.get('x/b', 1)).bytes.length, 0);
  await store.putStream('x/c', [bytes('c'), bytes('d')]);
  for (const key of ['x/d', 'x2/e', 'y']) await store.putCreate(key, bytes(key));
  hub.objects.set('some/p2/x/f', hub.keep(bytes('f')));
  assert.deepEqual(
    (await store.list('')).map(({ key, size }) => [key, size]),
    [
      ['x/a.json', 5],
      ['x/b', 0],
      ['x/c', 2],
      ['x/d', 3],
      ['x2/e', 4],
      ['y', 1],
    ],
  );
  assert.equal((await store.list('x/')).length, 4);
  await store.delete('x/b');
  await store.delete('x/b');
  await assert.rejects(store.get('x/b', 1), code('object_not_found'));
  await assert.rejects(async () => store.get('a/../b', 1), code('invalid_key'));
});

test('hub: a stream needs a declared single writer, who finds a parent that was replaced', async (t) => {
  const { hub, store } = await open(t, '');
  await assert.rejects(Producer.open(store), code('store_unfit'));
  const producer = await Producer.open(store, { singleWriter: true });
  const tensors = [{ name: 'w', dtype: 'F32', shape: [100], bytes: new Uint8Array(400) }];
  await producer.publish({ tensors });
  tensors[0] = { ...tensors[0], bytes: new Uint8Array(400).map((_, i) => i % 7) };
  hub.routes = [];
  await producer.publish({ tensors, files: new Map([['a.txt', bytes('a')]]) });
  assert.deepEqual([hub.count('batch'), hub.count('paths-info')], [3, 1]); // section 5.9: four calls for a version
  const consumer = new Consumer(store);
  assert.equal(await consumer.update(), 1);
  assert.deepEqual(consumer.held.tensors.get(0), tensors[0].bytes);
  const key = 'versions/00000000000000000001.json';
  hub.objects.set(key, hub.keep(bytes(text((await store.get(key, 10000)).bytes).replace('a.txt', 'b.txt'))));
  await assert.rejects(producer.publish({ tensors }), code('conflict')); // CMT-12
  assert.equal(hub.objects.has('versions/00000000000000000002.json'), false);
  await assert.rejects(producer.publish({ tensors }), code('conflict')); // OPN-5
});

test('hub: naming, with answers that are lost or list failures', async (t) => {
  const { hub, store } = await open(t);
  faults(hub, 'batch', 'lose');
  await store.putCreate('a', bytes('1')); // STO-30: the first attempt arrived
  assert.equal(hub.count('batch'), 1);
  hub.fault = (route) => {
    if (route === 'batch') hub.objects.set('some/p/b', hub.keep(bytes('other')));
    return route === 'batch' ? 'drop' : undefined;
  };
  await assert.rejects(store.putCreate('b', bytes('1')), code('object_exists'));
  hub.fault = () => undefined;
  assert.equal(text((await store.get('b', 10)).bytes), 'other');
  const failed = { status: 200, body: JSON.stringify({ success: false, failed: [{ path: 'x', error: 'busy' }] }) };
  const lie = { status: 200, body: JSON.stringify({ success: true, failed: [] }) };
  faults(hub, 'batch', failed, lie, { status: 422, body: failed.body });
  await store.putStream('c', [bytes('1')]); // STO-29: what is not there is sent again, whatever was answered
  assert.equal(await store.head('c'), 1);
  faults(hub, 'batch', { status: 429, headers: { 'retry-after': '1' } }, 'lose');
  const since = performance.now();
  await store.putOverwrite('c', bytes('22'));
  assert.ok(performance.now() - since >= 1000);
  faults(hub, 'batch', 'lose', failed);
  await store.delete('c');
  faults(hub, 'batch', failed, failed, failed, failed);
  await assert.rejects(store.putStream('d', [bytes('1')]), code('store_unavailable'));
  faults(hub, 'batch', { status: 403 });
  await assert.rejects(store.putCreate('d', bytes('1')), code('store_denied'));
});

test('hub: ranges of one object are read after one look', async (t) => {
  const { hub, store } = await open(t);
  await store.putCreate('a', bytes('12345'));
  hub.routes = [];
  const read = store.ranges('a');
  assert.deepEqual([text(await read(0, 2)), text(await read(2, 3)), hub.count('resolve')], ['12', '345', 1]);
  faults(hub, 'bytes', { status: 403 }); // the address is out of date
  assert.deepEqual([text(await read(1, 2)), hub.count('resolve')], ['23', 2]);
});

test('hub: reading, with faults', async (t) => {
  const { hub, store } = await open(t);
  await store.putCreate('a', bytes('12345'));
  faults(hub, 'resolve', 'drop', { status: 503 }, { status: 200 });
  assert.equal(text((await store.get('a', 5)).bytes), '12345');
  faults(hub, 'bytes', { status: 403 }, { status: 200, body: '1234' }, { status: 200, body: '123456' });
  assert.equal(text((await store.get('a', 5)).bytes), '12345');
  faults(hub, 'bytes', { status: 200, body: '23' }, { status: 206, body: '23' });
  assert.equal(text(await store.getRange('a', 1, 2)), '23');
  faults(hub, 'resolve', { status: 429, headers: { ratelimit: '"resolvers";r=0;t=299' } });
  await assert.rejects(store.get('a', 5), code('store_unavailable')); // longer than a verb may take
  faults(hub, 'resolve', { status: 404, headers: { 'x-error-code': 'RepoNotFound' } });
  await assert.rejects(store.get('a', 5), code('store_unavailable'));
  faults(hub, 'tree', { status: 200, body: '<html>' });
  assert.equal((await store.list('')).length, 1);
  faults(hub, 'tree', { status: 200, body: '[]', headers: { link: '<http://localhost:1/>; rel="next"' } });
  await assert.rejects(store.list(''), code('store_unavailable')); // the token stays at home
  hub.fault = () => undefined;
  store.token = 'hf_other';
  await assert.rejects(store.get('a', 5), code('store_denied'));
});

test('hub: content is stored by the client, which gives it no name', async (t) => {
  /** @type {string[]} */
  const seen = [];
  /** @type {number[]} */
  const faulty = [];
  const server = createServer(async (request, response) => {
    for await (const chunk of request) void chunk;
    const { port } = /** @type {any} */ (server.address());
    const path = /** @type {string} */ (request.url).replace(/[0-9a-f]{64}/, '#');
    seen.push(`${request.method} ${path} ${request.headers.authorization}`);
    const status = path.includes('/chunks/') ? 404 : (faulty.shift() ?? 200);
    response.writeHead(status, { 'content-type': 'application/json' });
    const token = { accessToken: 'cas', casUrl: `http://127.0.0.1:${port}/cas`, exp: Date.now() / 1000 + 3600 };
    response.end(JSON.stringify(token));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(null)));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const hub = { hub: `http://127.0.0.1:${/** @type {any} */ (server.address()).port}`, token: TOKEN, bucket: BUCKET };
  assert.equal(
    await storeContent(hub, 'p/a', [bytes('he'), bytes('llo')]),
    '48a3213a086cad271381aafe47232eb5df291a963cebbfec071972eff45eb422',
  );
  assert.deepEqual(seen, [
    `GET /api/buckets/${BUCKET}/xet-write-token Bearer ${TOKEN}`,
    'GET /cas/v1/chunks/default/# Bearer cas',
    'POST /cas/v1/xorbs/default/# Bearer cas',
    'POST /cas/v1/shards Bearer cas',
  ]);
  faulty.push(503);
  await assert.rejects(storeContent(hub, 'p/b', [bytes('other')]), /status 503/);
  faulty.push(403);
  const fresh = { ...hub, bucket: 'ns/other' };
  await assert.rejects(storeContent(fresh, 'p/b', [bytes('other')]), code('store_denied'));
  await assert.rejects(storeContent({ ...hub, token: 'no' }, 'p/b', [bytes('other')]), code('store_denied'));
});
