// Records that this software writes (section 8.1).
import { readFileSync } from 'node:fs';
import { PROTOCOL, PROTOCOL_VERSION } from './records.mjs';

const { name, version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));

export const timestamp = () => new Date().toISOString();

/**
 * @param {string} kind
 * @param {string} streamId
 * @param {string} commitId
 * @param {number} epoch
 * @param {string[]} writerFeatures those of stream.json (STR-4)
 * @param {object} [metadata]
 */
export function envelope(kind, streamId, commitId, epoch, writerFeatures, metadata = {}) {
  return {
    protocol: PROTOCOL,
    protocol_version: PROTOCOL_VERSION,
    kind,
    stream_id: streamId,
    commit_id: commitId,
    epoch,
    created_at: timestamp(),
    producer: { name, version },
    reader_features: [],
    writer_features: writerFeatures,
    metadata,
  };
}
