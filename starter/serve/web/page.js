'use strict';

// All of it comes from the API of the server that sent the page. Text of runs is only ever set as text, never as markup.

const main = document.getElementById('main');
const messageLine = document.getElementById('message');
const signOutButton = document.getElementById('sign-out');

// leave ends what the view that is shown has started: streams and timers.
let leave = [];

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

function svg(tag, attributes) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function show(...nodes) { main.replaceChildren(...nodes.flat().filter(Boolean)); }

function say(text) { messageLine.textContent = text || ''; }

class Problem extends Error {
  constructor(status, body) {
    super([body.detail || body.message || 'the server answered ' + status, body.remedy].filter(Boolean).join('; '));
    this.status = status;
    this.diagnostics = body.diagnostics || [];
  }
}

async function call(method, path, body) {
  const request = { method, headers: {} };
  if (body !== undefined) {
    request.headers['Content-Type'] = 'application/json';
    request.body = JSON.stringify(body);
  }
  const response = await fetch(path, request);
  const text = await response.text();
  let value = null;
  if ((response.headers.get('Content-Type') || '').includes('json') && text) value = JSON.parse(text);
  if (response.status === 401 && path !== 'sign-in') {
    signIn();
    throw Object.assign(new Problem(401, value || {}), { shown: true });
  }
  if (!response.ok) throw new Problem(response.status, value || {});
  return value === null ? text : value;
}

// attempt runs what a person has asked for, and shows why it could not be done.
async function attempt(work) {
  say('');
  try {
    return await work();
  } catch (problem) {
    if (!problem.shown) say(String(problem.message) + (problem.diagnostics && problem.diagnostics.length ? ': ' + problem.diagnostics.join('; ') : ''));
    return undefined;
  }
}

const runPath = (id, rest) => 'runs/' + encodeURIComponent(id) + (rest || '');
const runLink = (id) => '#/runs/' + encodeURIComponent(id);
const status = (name) => el('span', { class: 'status ' + name }, name);

function seconds(from, to) {
  const s = (to - from) / 1000;
  if (s < 60) return s.toFixed(1) + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min ' + Math.round(s % 60) + ' s';
  return Math.floor(s / 3600) + ' h ' + Math.round((s % 3600) / 60) + ' min';
}

function spent(usage) {
  if (!usage || !usage.calls) return '';
  const parts = [usage.calls + (usage.calls === 1 ? ' call' : ' calls'), (usage.input_tokens || 0) + ' in', (usage.output_tokens || 0) + ' out'];
  if (usage.cost_micros) parts.push('cost ' + (usage.cost_micros / 1e6).toFixed(4));
  return parts.join(', ');
}

function readJSON(text, what) {
  try { return JSON.parse(text); } catch (error) { throw new Error(what + ' is not JSON: ' + error.message); }
}

// Signing in.

function signIn() {
  stopView();
  const token = el('input', { type: 'password', autocomplete: 'current-password', required: true, id: 'token' });
  show(el('h1', {}, 'Sign in'), el('form', { class: 'panel', onsubmit: (event) => {
    event.preventDefault();
    attempt(async () => {
      await call('POST', 'sign-in', { token: token.value });
      route();
    });
  } }, el('label', {}, el('span', {}, 'Token of this server'), token), el('button', { class: 'main' }, 'Sign in')));
  signOutButton.hidden = true;
  token.focus();
}

signOutButton.addEventListener('click', () => attempt(async () => { await call('POST', 'sign-out'); signIn(); }));

// The list of runs.

async function listView() {
  const rows = el('tbody', {});
  const filter = el('select', { id: 'status', onchange: () => load() },
    ['', 'running', 'waiting', 'idle', 'completed', 'failed', 'cancelled', 'terminated', 'timed_out'].map((s) => el('option', { value: s }, s || 'every status')));
  const older = el('button', { type: 'button', hidden: true, onclick: () => load(older.dataset.token) }, 'Older runs');
  const known = new Map();
  show(el('h1', {}, 'Runs'), el('div', { class: 'row' }, el('label', {}, el('span', {}, 'Status'), filter)),
    el('div', { class: 'scroll' }, el('table', {}, el('thead', {}, el('tr', {},
      ['Flow', 'Run', 'Status', 'Started', 'Took'].map((t, i) => el('th', { class: i > 2 ? 'wide' : '' }, t)), el('th', {}, 'Spent, or waits for'))), rows)), older);

  function row(run) {
    const more = el('td', {}, known.get(run.run_id + run.status) || '');
    if (!known.has(run.run_id + run.status)) details(run, more);
    return el('tr', {}, el('td', {}, run.flow || ''), el('td', {}, el('a', { href: runLink(run.run_id) }, run.run_id)), el('td', {}, status(run.status)),
      el('td', { class: 'wide' }, new Date(run.created_at).toLocaleString()),
      el('td', { class: 'wide' }, seconds(new Date(run.created_at), run.completed_at ? new Date(run.completed_at) : new Date())), more);
  }

  async function details(run, cell) {
    let text = '';
    try {
      if (run.status === 'waiting') {
        const page = await call('GET', runPath(run.run_id, '/requests?limit=3'));
        text = page.requests.map((q) => q.kind + ': ' + (q.text || q.name || q.node || '')).join('; ').slice(0, 300);
      } else if (run.completed_at) {
        const view = await call('GET', runPath(run.run_id));
        text = view.error ? String(view.error.message || view.error.error).slice(0, 300) : spent(view.usage);
        known.set(run.run_id + run.status, text);
      }
    } catch (problem) { text = problem.message; }
    cell.textContent = text;
  }

  async function load(token) {
    const query = new URLSearchParams({ limit: '50' });
    if (filter.value) query.set('status', filter.value);
    if (token) query.set('page_token', token);
    const page = await call('GET', 'runs?' + query);
    const all = page.runs.map(row);
    if (token) rows.append(...all); else rows.replaceChildren(...all);
    if (!page.runs.length && !token) rows.replaceChildren(el('tr', {}, el('td', { colspan: '6', class: 'dim' }, 'There is no such run. Start a flow, here or with starter.')));
    older.hidden = !page.next_page_token;
    older.dataset.token = page.next_page_token || '';
    return token;
  }
  await load();
  every(4000, () => (older.dataset.token && rows.children.length > 50 ? null : load()));
}

// every repeats work while the view is shown and somebody looks.
function every(millis, work) {
  const timer = setInterval(() => { if (!document.hidden) Promise.resolve(work()).catch(() => {}); }, millis);
  leave.push(() => clearInterval(timer));
}

// One run.

const eventTypes = ['run_model', 'node_started', 'node_finished', 'text', 'message', 'model', 'tool', 'judge', 'call', 'attempt_failed', 'call_failed',
  'request_opened', 'request_answered', 'warning', 'note', 'result', 'run_failed'];

async function runView(id) {
  const head = el('div', {});
  const requests = el('div', {});
  const graph = el('div', { class: 'graph', id: 'graph' });
  const fall = el('div', { class: 'fall' });
  const texts = el('div', {});
  const log = el('ol', { class: 'dim' });
  const node = el('div', { class: 'panel', id: 'node' }, el('p', { class: 'dim' }, 'Choose a node of the graph, or an execution.'));
  const outcome = el('div', {});
  show(head, requests, el('div', { class: 'run' },
    el('section', { 'aria-label': 'Graph and time' }, el('h2', {}, 'Graph'), graph, el('h2', {}, 'Time'), fall, outcome),
    el('section', { 'aria-label': 'Node and events' }, el('h2', {}, 'Node'), node, el('h2', {}, 'Text'), texts, el('h2', {}, 'Events'), log)));

  const view = { id, executions: [], chosen: '' };
  let run = await call('GET', runPath(id));
  await Promise.all([loadGraph(), loadExecutions(), loadRequests()]);
  heading();
  ended();
  follow();

  function heading() {
    head.replaceChildren(el('h1', {}, (run.flow || 'Run') + ' · ' + run.run_id), el('div', { class: 'row' }, status(run.status),
      el('span', { class: 'dim', id: 'spent' }, spent(run.usage || view.usage)), run.model ? el('span', { class: 'dim' }, run.model) : null,
      run.completed_at ? null : el('button', { type: 'button', onclick: () => attempt(async () => { await call('POST', runPath(id, '/cancel')); await refresh(); }) }, 'Cancel'),
      compareForm(id)));
  }

  function ended() {
    if (run.result && (run.result.result_text !== null || run.result.result_data !== null)) {
      outcome.replaceChildren(el('h2', {}, 'Result'), run.result.result_text !== null ? el('p', { class: 'text', id: 'result' }, run.result.result_text)
        : el('pre', { id: 'result' }, JSON.stringify(run.result.result_data, null, 2)));
    }
    if (run.error) {
      outcome.replaceChildren(el('h2', {}, 'Failure'), el('div', { class: 'panel', id: 'failure' }, el('p', { class: 'text failed' }, (run.error.error || '') + ': ' + (run.error.message || '')),
        run.error.node ? el('p', {}, 'Node ' + run.error.node + (run.error.at ? ', ' + run.error.at : '')) : null, run.error.remedy ? el('p', { class: 'text' }, run.error.remedy) : null));
    }
  }

  async function refresh() {
    run = await call('GET', runPath(id));
    await Promise.all([loadExecutions(), loadRequests(), run.completed_at ? loadGraph() : null]);
    heading();
    ended();
  }

  async function loadGraph() {
    try {
      const text = await call('GET', runPath(id, '/graph'));
      const drawn = new DOMParser().parseFromString(text, 'image/svg+xml').documentElement;
      graph.replaceChildren(document.importNode(drawn, true));
      for (const g of graph.querySelectorAll('[data-node]')) {
        g.setAttribute('tabindex', '0');
        g.setAttribute('role', 'button');
        const open = () => choose(g.dataset.node);
        g.addEventListener('click', open);
        g.addEventListener('keydown', (event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); open(); } });
      }
    } catch (problem) {
      graph.replaceChildren(el('p', { class: 'dim' }, problem.message));
    }
  }

  function mark(nodeID, state) {
    for (const g of graph.querySelectorAll('[data-node]')) if (g.dataset.node === nodeID) g.dataset.state = state;
  }

  async function loadExecutions() {
    const all = await call('GET', runPath(id, '/executions'));
    view.executions = all.executions;
    view.usage = all.usage;
    const times = all.executions.flatMap((x) => [x.started_at, x.ended_at]).filter(Boolean).map((t) => new Date(t).getTime());
    const first = Math.min(...times), last = run.completed_at ? Math.max(...times) : Date.now();
    const span = Math.max(last - first, 1);
    fall.replaceChildren(...all.executions.slice(0, 2000).flatMap((x) => {
      const label = (x.place || '') + x.execution;
      const bar = svg('svg', { preserveAspectRatio: 'none', viewBox: '0 0 1000 10', role: 'img', 'aria-label': x.started_at ? seconds(new Date(x.started_at), x.ended_at ? new Date(x.ended_at) : new Date()) : 'no calls' });
      if (x.started_at) {
        const from = (new Date(x.started_at) - first) / span * 1000;
        const to = ((x.ended_at ? new Date(x.ended_at) : new Date(last)) - first) / span * 1000;
        bar.append(svg('rect', { x: from, y: 1, width: Math.max(to - from, 3), height: 8, class: x.status }));
      }
      return [el('button', { type: 'button', title: label, onclick: () => choose(x.node, label) }, label), bar];
    }));
    if (view.chosen) describe();
    const line = document.getElementById('spent');
    if (line && !run.usage) line.textContent = spent(view.usage);
  }

  function choose(nodeID, execution) {
    view.chosen = nodeID;
    view.execution = execution || '';
    for (const g of graph.querySelectorAll('[data-node]')) g.dataset.chosen = String(g.dataset.node === nodeID);
    describe();
  }

  function describe() {
    const found = view.executions.filter((x) => x.node === view.chosen && (!view.execution || (x.place || '') + x.execution === view.execution));
    if (node.dataset.of === view.chosen + '\n' + view.execution + '\n' + JSON.stringify(found)) return; // keep what somebody is writing
    node.dataset.of = view.chosen + '\n' + view.execution + '\n' + JSON.stringify(found);
    const prompt = (found.find((x) => x.prompt) || {}).prompt || '';
    node.replaceChildren(el('h3', {}, (found.find((x) => x.name) || {}).name || view.chosen),
      prompt ? el('details', {}, el('summary', {}, 'Prompt'), el('p', { class: 'text' }, prompt)) : null || '',
      ...found.map((x) => {
        const messages = el('div', {}), state = el('div', {});
        return el('article', {}, el('h4', {}, (x.place || '') + x.execution + ' ', status(x.status)),
          el('p', { class: 'dim' }, [x.started_at ? seconds(new Date(x.started_at), x.ended_at ? new Date(x.ended_at) : new Date()) : '', spent(x.usage), x.retries ? x.retries + (x.retries === 1 ? ' retry' : ' retries') : ''].filter(Boolean).join(' · ')),
          x.text ? el('p', { class: 'text' }, x.text) : null,
          el('button', { type: 'button', onclick: () => attempt(async () => messages.replaceChildren(...await conversation((x.place || '') + x.execution))) }, 'Messages and tool calls'), messages,
          x.status === 'stopped' ? null : el('button', { type: 'button', onclick: () => attempt(async () => state.replaceChildren(await stateTable((x.place || '') + x.execution))) }, 'State before and after'), state,
          x.place ? null : forkForm(x, prompt));
      }), found.length ? '' : el('p', { class: 'dim' }, 'It has not run.'));
  }

  async function conversation(thread) {
    const page = await call('GET', runPath(id, '/transcript?limit=200&thread=' + encodeURIComponent(thread)));
    return page.messages.map((line) => {
      const m = line.message;
      if (!m) return el('p', { class: 'dim' }, 'A message that is not in the history.');
      return el('div', { class: 'panel' }, el('b', {}, m.role + (m.name ? ' ' + m.name : '')), el('p', { class: 'text' }, m.text || ''),
        ...(m.calls || []).map((c) => el('pre', {}, c.name + ' ' + c.arguments)));
    });
  }

  async function stateTable(execution) {
    const change = await call('GET', runPath(id, '/executions/' + encodeURIComponent(execution) + '/state'));
    const keys = [...new Set([...change.before, ...(change.after || [])].map((v) => v.key))].sort();
    if (!keys.length) return el('p', { class: 'dim' }, 'The state is empty.');
    const cell = (values, key) => {
      const v = (values || []).find((one) => one.key === key);
      if (!v) return el('td', { class: 'dim' }, values ? 'absent' : 'not written yet');
      return el('td', {}, v.value === undefined ? v.bytes + ' bytes' : el('pre', {}, JSON.stringify(v.value, null, 2)), v.by ? el('p', { class: 'dim' }, v.by) : null);
    };
    return el('div', { class: 'scroll' }, el('table', { class: 'state' }, el('thead', {}, el('tr', {}, el('th', {}, 'Key'), el('th', {}, 'Before'), el('th', {}, 'After'))),
      el('tbody', {}, ...keys.map((key) => el('tr', {}, el('th', { scope: 'row' }, key), cell(change.before, key), cell(change.after, key))))));
  }

  function forkForm(x, prompt) {
    const text = prompt ? el('textarea', { 'aria-label': 'Prompt' }, prompt) : null;
    const values = el('textarea', { 'aria-label': 'State', placeholder: '{"key": "value"}' });
    return el('details', { class: 'fork' }, el('summary', {}, 'Run again from here'), el('form', { onsubmit: (event) => {
      event.preventDefault();
      attempt(async () => {
        const body = { from: x.execution };
        if (text && text.value !== prompt) body.prompt = text.value;
        if (values.value.trim()) body.state = readJSON(values.value, 'the state');
        const started = await call('POST', runPath(id, '/fork'), body);
        location.hash = '#/compare/' + encodeURIComponent(id) + '/' + encodeURIComponent(started.run_id);
      });
    } }, text ? el('label', {}, el('span', {}, 'Prompt'), text) : null, el('label', {}, el('span', {}, 'Values of the state to change, as a JSON object'), values),
    el('button', { class: 'main' }, 'Run again from here')));
  }

  async function loadRequests() {
    if (run.completed_at) { requests.replaceChildren(); return; }
    let page;
    try { page = await call('GET', runPath(id, '/requests?limit=50')); } catch (problem) { return; }
    const open = page.requests;
    for (const old of [...requests.children]) if (!open.some((q) => q.id === old.dataset.id)) old.remove();
    for (const q of open) if (![...requests.children].some((c) => c.dataset.id === q.id)) requests.append(requestForm(id, q, refresh));
    for (const q of open) if (q.node) mark(q.node, 'waiting');
  }

  function follow() {
    if (run.completed_at) return;
    const stream = new EventSource(runPath(id, '/events'));
    leave.push(() => stream.close());
    const lines = new Map();
    let due = null;
    const soon = () => {
      if (due) return;
      due = setTimeout(() => {
        due = null;
        loadExecutions().catch(() => {});
        if (graph.querySelectorAll('[data-node]').length <= 200) loadGraph(); // a large one is marked alone
      }, 400);
    };
    leave.push(() => clearTimeout(due));
    for (const type of eventTypes) {
      stream.addEventListener(type, (message) => {
        const e = JSON.parse(message.data);
        const nodeID = (e.node || '').replace(/#\d+(~\d+)?$/, '');
        if (type === 'text') {
          let p = lines.get(e.node);
          if (!p) {
            p = el('p', { class: 'text' });
            lines.set(e.node, p);
            texts.append(el('b', {}, e.node || ''), p);
          }
          p.textContent += (e.skipped ? ' … ' : '') + e.text;
          return;
        }
        if (type === 'node_started') mark(nodeID, 'running');
        if (type === 'node_finished') mark(nodeID, 'done');
        if (type === 'request_opened' || type === 'request_answered') loadRequests().catch(() => {});
        if (e.text) {
          log.append(el('li', {}, new Date(e.timestamp).toLocaleTimeString() + ' ' + e.text));
          while (log.children.length > 500) log.firstChild.remove();
        }
        soon();
        if (type === 'result' || type === 'run_failed') { stream.close(); refresh().catch(() => {}); }
      });
    }
  }
}

function compareForm(id) {
  const other = el('input', { type: 'text', 'aria-label': 'Id of another run', placeholder: 'id of another run' });
  return el('form', { class: 'row', onsubmit: (event) => {
    event.preventDefault();
    location.hash = '#/compare/' + encodeURIComponent(id) + '/' + encodeURIComponent(other.value.trim());
  } }, other, el('button', {}, 'Compare'));
}

// requestForm shows what a run waits for, with a way to answer it.
function requestForm(id, q, answered) {
  const send = (kind, body) => attempt(async () => { await call('POST', runPath(id, '/' + kind), body); await answered(); });
  const field = (label, attributes, text) => {
    const area = el('textarea', attributes || {}, text || '');
    return { area, label: el('label', {}, el('span', {}, label), area) };
  };
  const button = (text, work, first) => el('button', { type: 'button', class: first ? 'main' : '', onclick: work }, text);
  const form = el('div', { class: 'panel request', 'data-id': q.id }, el('h2', {}, 'Waits: ' + q.kind + (q.node ? ' · ' + q.node : '') + (q.name ? ' · ' + q.name : '')),
    q.text ? el('p', { class: 'text' }, q.text) : null, q.failure ? el('p', { class: 'text failed' }, (q.failure.text || '') + (q.failure.remedy ? '; ' + q.failure.remedy : '')) : null);
  if (q.kind === 'message') {
    const text = field('Answer');
    form.append(text.label, button('Send', () => send('message', { id: q.id, text: text.area.value }), true));
  } else if (q.kind === 'confirm') {
    const given = q.arguments === undefined ? '' : JSON.stringify(q.arguments, null, 2);
    const args = field('Arguments of the call', {}, given), reason = field('Reason, if it is refused');
    form.append(given ? args.label : '', reason.label, el('div', { class: 'row' }, button('Approve', () => {
      const body = { id: q.id, approve: true };
      if (given && args.area.value !== given) attempt(async () => { body.arguments = readJSON(args.area.value, 'the arguments'); await send('confirm', body); });
      else send('confirm', body);
    }, true), button('Refuse', () => send('confirm', { id: q.id, approve: false, reason: reason.area.value }))));
  } else if (q.kind === 'tool_result') {
    if (q.arguments !== undefined) form.append(el('pre', {}, JSON.stringify(q.arguments, null, 2)));
    const result = field('Result, as JSON');
    form.append(result.label, el('div', { class: 'row' }, button('Send the result', () => attempt(async () => send('tool_result', { id: q.id, result: readJSON(result.area.value, 'the result') })), true),
      button('Send as an error', () => send('tool_result', { id: q.id, error: result.area.value }))));
  } else if (q.kind === 'retry') {
    form.append(el('div', { class: 'row' }, button('Try again', () => send('retry', { id: q.id }), true), button('Give up', () => send('retry', { id: q.id, give_up: true }))));
  }
  return form;
}

// Two runs side by side.

async function compareView(a, b) {
  const body = el('div', {});
  show(el('h1', {}, 'Compare'), el('p', {}, el('a', { href: runLink(a) }, a), ' and ', el('a', { href: runLink(b) }, b)), body);
  const load = async () => {
    const table = await call('GET', runPath(a, '/compare?with=' + encodeURIComponent(b)));
    const side = (s) => (s ? el('td', {}, el('p', { class: 'text' }, s.text || ''), el('p', { class: 'dim' }, s.recorded ? 'recorded' : s.input_tokens + ' in, ' + s.output_tokens + ' out, ' + s.seconds.toFixed(1) + ' s')) : el('td', { class: 'dim' }, 'did not run'));
    const total = (t) => el('td', {}, status(t.status), el('p', { class: 'text' }, t.result_text !== undefined ? t.result_text : t.result_data !== undefined ? JSON.stringify(t.result_data, null, 2) : ''),
      el('p', { class: 'dim' }, t.calls + ' calls, ' + t.input_tokens + ' in, ' + t.output_tokens + ' out, ' + t.seconds.toFixed(1) + ' s'));
    body.replaceChildren(el('div', { class: 'scroll' }, el('table', {}, el('thead', {}, el('tr', {}, el('th', {}, 'Execution'), ...table.runs.map((r) => el('th', {}, r)))),
      el('tbody', {}, ...table.nodes.map((n) => el('tr', {}, el('td', {}, n.execution), ...n.sides.map(side))), el('tr', {}, el('td', {}, 'Run'), ...table.total.map(total))))));
    return table.total.every((t) => t.status !== 'running' && t.status !== 'waiting');
  };
  if (!await load()) {
    let ended = false;
    every(1000, async () => { if (!ended) ended = await load(); });
  }
}

// Starting a flow.

async function startView() {
  let agents = [];
  try { agents = (await call('GET', 'agents?limit=200')).agents; } catch (problem) { if (problem.shown) return; }
  const name = el('select', { id: 'flow' }, el('option', { value: '' }, 'a document of your own'), agents.map((a) => el('option', { value: a.name, disabled: a.status === 'invalid' }, a.name)));
  const documentText = el('textarea', { id: 'document' });
  const fileName = el('input', { type: 'text', value: 'flow.json', id: 'file-name' });
  const file = el('input', { type: 'file', accept: '.json,.yaml,.yml', onchange: () => attempt(async () => {
    documentText.value = await file.files[0].text();
    fileName.value = file.files[0].name;
  }) });
  const own = el('div', {}, el('label', {}, el('span', {}, 'File'), file), el('label', {}, el('span', {}, 'Document'), documentText), el('label', {}, el('span', {}, 'Name of the file, which says the dialect'), fileName));
  const fields = el('div', {});
  const input = el('textarea', { id: 'input' });
  const model = el('input', { type: 'text', id: 'model', placeholder: 'provider/model; empty: the flow\'s or the worker\'s' });
  const script = el('textarea', { id: 'script' });
  let params = () => undefined;
  const choose = () => {
    own.hidden = name.value !== '';
    const agent = agents.find((a) => a.name === name.value);
    params = schemaForm(fields, agent && agent.parameters_schema);
  };
  name.addEventListener('change', choose);
  choose();
  show(el('h1', {}, 'Start a flow'), el('form', { class: 'panel', onsubmit: (event) => {
    event.preventDefault();
    attempt(async () => {
      const body = { flow: name.value ? { name: name.value } : { text: documentText.value, name: fileName.value } };
      if (input.value) body.input = input.value;
      if (model.value.trim()) body.model = model.value.trim();
      if (script.value.trim()) body.script = script.value;
      const given = params();
      if (given !== undefined) body.params = given;
      location.hash = runLink((await call('POST', 'runs', body)).run_id);
    });
  } }, el('label', {}, el('span', {}, 'Flow'), name), own, fields, el('label', {}, el('span', {}, 'Input'), input), el('label', {}, el('span', {}, 'Model'), model),
  el('details', {}, el('summary', {}, 'Script of the model script'), script), el('button', { class: 'main' }, 'Start')));
}

// schemaForm makes fields of a JSON Schema of an object, and returns what reads them.
function schemaForm(place, schema) {
  if (!schema || !schema.properties) {
    const all = el('textarea', { id: 'params', placeholder: '{}' });
    place.replaceChildren(el('details', {}, el('summary', {}, 'Parameters, as a JSON object'), all));
    return () => (all.value.trim() ? readJSON(all.value, 'params') : undefined);
  }
  const required = schema.required || [];
  const readers = Object.entries(schema.properties).map(([key, rule]) => {
    const about = key + (required.includes(key) ? '' : ' (optional)') + (rule.description ? ': ' + rule.description : '');
    const start = rule.default === undefined ? '' : typeof rule.default === 'string' ? rule.default : JSON.stringify(rule.default);
    let control, read;
    if (Array.isArray(rule.enum)) {
      control = el('select', {}, el('option', { value: '' }, ''), rule.enum.map((v, i) => el('option', { value: String(i + 1), selected: v === rule.default }, String(v))));
      read = () => (control.value ? rule.enum[Number(control.value) - 1] : undefined);
    } else if (rule.type === 'boolean') {
      control = el('input', { type: 'checkbox', checked: rule.default === true });
      read = () => control.checked;
    } else if (rule.type === 'number' || rule.type === 'integer') {
      control = el('input', { type: 'number', step: rule.type === 'integer' ? '1' : 'any', value: start, required: required.includes(key) });
      read = () => (control.value === '' ? undefined : Number(control.value));
    } else if (rule.type === 'string') {
      control = el('textarea', { required: required.includes(key) }, start);
      read = () => (control.value === '' && !required.includes(key) ? undefined : control.value);
    } else {
      control = el('textarea', { placeholder: 'JSON', required: required.includes(key) }, start);
      read = () => (control.value.trim() === '' ? undefined : readJSON(control.value, key));
    }
    control.id = 'param-' + key;
    place.append(el('label', {}, el('span', {}, about), control));
    return [key, read, control.closest('label')];
  });
  place.replaceChildren(...readers.map(([, , label]) => label));
  return () => {
    const out = {};
    for (const [key, read] of readers) {
      const value = read();
      if (value !== undefined) out[key] = value;
    }
    return out;
  };
}

// Trying one prompt with several models.

async function promptView() {
  const prompt = el('textarea', { id: 'prompt', required: true });
  const input = el('textarea', { id: 'input' });
  const models = el('textarea', { id: 'models', placeholder: 'one provider/model in each line' });
  const results = el('div', { class: 'columns' });
  show(el('h1', {}, 'Try a prompt'), el('form', { class: 'panel', onsubmit: (event) => {
    event.preventDefault();
    results.replaceChildren();
    const names = models.value.split('\n').map((m) => m.trim()).filter(Boolean);
    for (const model of names.length ? names : ['']) tryPrompt(prompt.value, input.value, model, results);
  } }, el('label', {}, el('span', {}, 'Prompt'), prompt), el('label', {}, el('span', {}, 'Input'), input), el('label', {}, el('span', {}, 'Models'), models),
  el('button', { class: 'main' }, 'Try')), results);
}

async function tryPrompt(prompt, input, model, results) {
  const text = el('p', { class: 'text' }), line = el('p', { class: 'dim' }, 'starting');
  results.append(el('section', { class: 'panel' }, el('h2', {}, model || 'the worker\'s model'), text, line));
  const edge = (id, source, target) => ({ id, source, target, condition_prompt: null });
  const flow = { id: 'prompt', name: 'Prompt', description: '', nodes: [{ id: 'answer', name: 'Answer', prompt, tools: [], max_iterations: 1, is_exit_node: true }],
    edges: [edge('begin', 'START', 'answer'), edge('end', 'answer', 'END')] };
  try {
    const body = { flow: { text: JSON.stringify(flow), name: 'prompt.json', dialect: 'continuum' }, input: input || 'Begin.' };
    if (model) body.model = model;
    const started = await call('POST', 'runs', body);
    line.replaceChildren(el('a', { href: runLink(started.run_id) }, started.run_id));
    const stream = new EventSource(runPath(started.run_id, '/events'));
    leave.push(() => stream.close());
    stream.addEventListener('text', (message) => { text.textContent += JSON.parse(message.data).text; });
    const end = async () => {
      stream.close();
      const run = await call('GET', runPath(started.run_id));
      text.textContent = run.result ? run.result.result_text || JSON.stringify(run.result.result_data) : (run.error || {}).message || '';
      line.append(' · ' + spent(run.usage) + ' · ' + seconds(new Date(run.created_at), new Date(run.completed_at)));
    };
    stream.addEventListener('result', end);
    stream.addEventListener('run_failed', end);
  } catch (problem) {
    line.textContent = problem.message + (problem.diagnostics && problem.diagnostics.length ? ': ' + problem.diagnostics.join('; ') : '');
  }
}

// Addresses.

function stopView() {
  for (const end of leave) end();
  leave = [];
}

async function route() {
  stopView();
  signOutButton.hidden = false;
  const parts = location.hash.replace(/^#\/?/, '').split('/').map((part) => { try { return decodeURIComponent(part); } catch (error) { return part; } });
  await attempt(async () => {
    if (parts[0] === 'runs' && parts[1]) await runView(parts[1]);
    else if (parts[0] === 'compare' && parts[2]) await compareView(parts[1], parts[2]);
    else if (parts[0] === 'start') await startView();
    else if (parts[0] === 'prompt') await promptView();
    else await listView();
  });
  main.focus({ preventScroll: true });
}

window.addEventListener('hashchange', route);
route();

// With starter dev the page shows what becomes of each save. Other servers have no such events.
const saves = new EventSource('dev/events');
saves.addEventListener('saved', (message) => {
  const s = JSON.parse(message.data);
  say([s.file, ...(s.diagnostics || []), s.note].filter(Boolean).join('\n'));
  if (!s.run_id) return;
  if (!s.note && !(s.diagnostics || []).length) say('');
  location.hash = s.last_run_id ? '#/compare/' + encodeURIComponent(s.last_run_id) + '/' + encodeURIComponent(s.run_id) : runLink(s.run_id);
});
