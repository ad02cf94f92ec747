// Starts a run of a flow and prints its result: node start.mjs FLOW.json [INPUT]
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { Client, Connection, WorkflowFailedError } from '@temporalio/client';

const [file, input = ''] = process.argv.slice(2);
const connection = await Connection.connect({ address: process.env.TEMPORAL_ADDRESS ?? '127.0.0.1:7233' });
try {
  const client = new Client({ connection, namespace: process.env.TEMPORAL_NAMESPACE ?? 'default' });
  const handle = await client.workflow.start('Flow', {
    workflowId: `${basename(file, '.json')}-${crypto.randomUUID()}`,
    taskQueue: 'weft',
    memo: { flow: basename(file, '.json') },
    args: [{
      v: 1,
      flow: { text: readFileSync(file, 'utf8'), name: basename(file) },
      input,
    }],
  });
  console.error(`run: ${handle.workflowId}`);
  const result = await handle.result();
  console.log(result.result_text ?? JSON.stringify(result.result_data));
  const status = await handle.query('status');
  console.error(`${status.status}: ${status.executions.map((e) => `${e.node}#${e.step}`).join(', ')}`);
} catch (err) {
  if (!(err instanceof WorkflowFailedError)) throw err;
  // The cause's type is the failure's class; its first detail has the text, place and remedy.
  const failure = err.cause?.details?.[0] ?? { class: err.cause?.type ?? 'cancelled', text: err.cause?.message };
  console.error(`${failure.class}: ${failure.text}\nat ${failure.node ?? '-'} (${failure.at ?? '-'})\n${failure.remedy ?? ''}`);
  process.exitCode = 1;
} finally {
  await connection.close();
}
