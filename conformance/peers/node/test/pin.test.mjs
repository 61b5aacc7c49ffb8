// Pins of a reader (section 11.13).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Consumer } from '../src/consumer.mjs';
import { ReaderPin } from '../src/pin.mjs';
import { Producer } from '../src/producer.mjs';
import { FileStore } from '../src/store-file.mjs';
import { folder } from './helpers.mjs';

test('a pin is written, raised, renewed and removed', async (t) => {
  const store = new FileStore(await folder(t));
  const producer = await Producer.open(store, { singleWriter: true });
  const tensors = [{ name: 'a', dtype: 'U8', shape: [4], bytes: new Uint8Array(4) }];
  await producer.publish({ tensors });
  const pin = new ReaderPin(store, { holder: 'me', ttlMs: 60000 });
  const consumer = new Consumer(store, { pin });
  const held = async () => JSON.parse(Buffer.from((await store.get(pin.key, 1e6)).bytes).toString());
  await consumer.update();
  const first = await held();
  assert.deepEqual([first.kind, first.first, first.released, pin.confirmed], ['pin', 0, false, true]);
  await pin.write();
  assert.notEqual((await held()).commit_id, first.commit_id);
  await producer.publish({ tensors });
  await consumer.update();
  const later = await held();
  assert.deepEqual([later.first, later.acquired_at], [1, first.acquired_at]);
  await pin.release();
  assert.deepEqual(await store.list('leases/'), []);
  consumer.verify();
});
