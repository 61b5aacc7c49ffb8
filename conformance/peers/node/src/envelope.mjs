// Records that this software writes (section 8.1).
import { readFileSync } from 'node:fs';
import { PROTOCOL, PROTOCOL_VERSION } from './records.mjs';

const { name, version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));

export const timestamp = () => new Date().toISOString();

/**
 * @param {string} kind
 * @param {{stream_id: string, reader_features: string[], writer_features: string[]}} stream whose features are copied
 *   (STR-4)
 * @param {string} commitId
 * @param {number} epoch
 * @param {object} [metadata]
 */
export function envelope(kind, stream, commitId, epoch, metadata = {}) {
  return {
    protocol: PROTOCOL,
    protocol_version: PROTOCOL_VERSION,
    kind,
    stream_id: stream.stream_id,
    commit_id: commitId,
    epoch,
    created_at: timestamp(),
    producer: { name, version },
    reader_features: stream.reader_features,
    writer_features: stream.writer_features,
    metadata,
  };
}
