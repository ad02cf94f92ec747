// Starts a run with a tool that this program runs itself, says yes to its calls, and prints
// the result: node answer.mjs FLOW.json|NAME [INPUT]; NAME is a flow in the worker's folder
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';

const [file, input = ''] = process.argv.slice(2);
const connection = await Connection.connect({ address: process.env.TEMPORAL_ADDRESS ?? '127.0.0.1:7233' });
const tools = { send_mail: async ({ to }) => ({ sent: true, to }) };
try {
  const client = new Client({ connection, namespace: process.env.TEMPORAL_NAMESPACE ?? 'default' });
  const handle = await client.workflow.start('Flow', {
    workflowId: `${basename(file, '.json')}-${crypto.randomUUID()}`,
    taskQueue: 'weft',
    args: [{
      v: 1,
      flow: file.endsWith('.json') ? { text: readFileSync(file, 'utf8'), name: basename(file) } : { name: file },
      input,
      data_connections: [{ id: 'web', kind: 'client', tools: Object.keys(tools).map((name) => ({ name })) }],
    }],
  });
  let ended = false;
  const result = handle.result().finally(() => { ended = true; });
  result.catch(() => {}); // it is looked at below
  while (!ended) {
    const { requests = [] } = await handle.query('status');
    for (const { id, kind, text, name, arguments: args } of requests) {
      console.error(`${kind}: ${text}`);
      if (kind === 'confirm') {
        await handle.signal('confirm', { id, approve: true, by: 'answer.mjs' });
      } else if (kind === 'tool_result') {
        await handle.executeUpdate('tool_result', { args: [{ id, result: await tools[name](args) }] });
      }
    }
    await sleep(200);
  }
  console.log((await result).result_text);
} finally {
  await connection.close();
}
