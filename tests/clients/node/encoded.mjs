// Starts a run where payloads are encoded, and prints its result: node encoded.mjs FLOW.json [INPUT]
// WEFT_CODEC_ENDPOINT is the address of worker codec, WEFT_CODEC_TOKEN a token for it.
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { remoteCodec } from './codec.mjs';

const [file, input = ''] = process.argv.slice(2);
const connection = await Connection.connect({ address: process.env.TEMPORAL_ADDRESS ?? '127.0.0.1:7233' });
try {
  const codec = remoteCodec(process.env.WEFT_CODEC_ENDPOINT ?? 'http://127.0.0.1:8766', process.env.WEFT_CODEC_TOKEN);
  const client = new Client({
    connection,
    namespace: process.env.TEMPORAL_NAMESPACE ?? 'default',
    dataConverter: { payloadCodecs: [codec] },
  });
  const handle = await client.workflow.start('Flow', {
    workflowId: `${basename(file, '.json')}-${crypto.randomUUID()}`,
    taskQueue: 'weft',
    args: [{ v: 1, flow: { text: readFileSync(file, 'utf8'), name: basename(file) }, input }],
  });
  console.error(`run: ${handle.workflowId}`);
  console.log((await handle.result()).result_text);
  const { status } = await handle.query('status');
  console.error(`status: ${status}`);
} finally {
  await connection.close();
}
