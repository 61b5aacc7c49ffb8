// Deltawire for Node.js.
export { Consumer } from './consumer.mjs';
export { DeltawireError, isCode } from './errors.mjs';
export { openStore } from './store.mjs';
export { ReaderPin } from './pin.mjs';
export { Producer } from './producer.mjs';
export { Signer } from './signatures.mjs';
